"""The human shoulder: three coordinates, a rhythm for the girdle, fourteen muscles."""

import os
from collections.abc import Sequence
from typing import Any, Literal

from ..model import Model
from ..rhythms import AbstractRhythm
from ._shoulder_axes import variables
from ._shoulder_figures import COORDINATES, figures
from ._shoulder_paths import muscle, surfaces
from ._shoulder_rhythms import shoulder_rhythm
from ._shoulder_tree import bones, forearm_and_hand

MUSCLES = (
    "DELT1", "DELT2", "DELT3", "SUPSP", "INFSP", "SUBSC", "TMIN", "TMAJ",
    "PECM1", "PECM2", "PECM3", "LAT1", "LAT2", "LAT3",
)  # fmt: skip


def shoulder(
    rhythm: str | os.PathLike[str] | AbstractRhythm = "de_groot",
    *,
    wrapping: bool = True,
    muscles: bool | Sequence[str] = True,
    load: bool | str = False,
    tendon: Literal["elastic", "rigid"] = "rigid",
    gravity: Any = (0.0, -9.80665, 0.0),
    align: bool | Sequence[float] = False,
) -> Model:
    """The right shoulder: thorax (fixed), clavicle, scapula, humerus.

    Coordinates (rad): `elv_angle`, the plane of elevation (0 abduction, π/2 forward flexion;
    -90 to 130°), `shoulder_elv`, the elevation (0 to 180°), and `shoulder_rot`, the axial
    rotation of the humerus (-90 to 20°). Thorax axes: x forward, y up, z right. In the zero
    pose the arm hangs and all bodies are aligned with the thorax.

    **Arguments:**

    - `rhythm`: how clavicle and scapula follow. "de_groot" (de Groot & Brand 2001: plane and
      elevation), "de_groot_elevation" (the same without the plane), "holzbaur" (Holzbaur et
      al. 2005: elevation only, their couplers), a `Named` rhythm that gives any of the six
      anatomical angles (the others by "de_groot"), the path of a rhythm file, or any rhythm
      that gives all 16 joint variables.
    - `wrapping`: whether muscles slide over the published surfaces.
    - `muscles`: the fourteen shoulder muscles, none, or those of these names (CORB is there
      too).
    - `load`: True or "forearm_hand" welds ulna, radius and hand to the humerus, with the
      elbow straight and forearm and wrist neutral.
    - `tendon`: of all muscles, "rigid" or "elastic".
    - `gravity`: in thorax axes (m/s²).
    - `align`: a pose (plane, elevation, in rad) in which the bones stand as by "de_groot",
      whatever landmarks a fitted rhythm was measured between; its turns from there are kept.
      True takes the pose from a rhythm file: middle plane and least elevation of its data.

    Geometry, ranges and muscles are Holzbaur et al.'s (2005), inertias those of DAS3
    (Chadwick et al. 2014); the data file names all sources. Joint variables beyond the
    published chain: the clavicle's axial rotation, and what cancels it.
    """
    given = figures()
    if load not in (False, True, "forearm_hand"):
        raise ValueError(f"load is {load!r}; choose True (or 'forearm_hand') or False")
    names = _muscle_names(muscles)
    return Model.build(
        coordinates=COORDINATES,
        bodies=bones(exact=rhythm == "holzbaur") + (forearm_and_hand() if load else []),
        rhythm=shoulder_rhythm(rhythm, variables(), align),
        ranges={name: tuple(ends) for name, ends in given["coordinates"].items()},
        muscles=[muscle(name, wrapping, tendon) for name in names],
        surfaces=surfaces(wrapping, names),
        gravity=gravity,
    )


def _muscle_names(muscles: bool | Sequence[str]) -> tuple[str, ...]:
    if isinstance(muscles, bool):
        return MUSCLES if muscles else ()
    known = tuple(figures()["muscles"])
    names = (muscles,) if isinstance(muscles, str) else tuple(muscles)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"no shoulder muscle {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
        )
    return names
