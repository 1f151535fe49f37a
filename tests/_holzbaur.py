"""The shoulder of Holzbaur et al. (2005), and the folder of its reference tables."""

import pathlib

from empbody.models._holzbaur import (
    COORDINATES as COORDINATES,
    figures,
    holzbaur as holzbaur,
)

FOLDER = pathlib.Path(__file__).parent / "reference" / "holzbaur"
MUSCLES = tuple(figures()["muscles"])
