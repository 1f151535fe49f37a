"""The figures of the shoulder, read from the data file beside this module."""

import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")
"""Plane of elevation (0 abduction, π/2 forward flexion), elevation, axial rotation (rad)."""
SLIDES = ("tx", "ty", "tz")


@functools.cache
def figures() -> Mapping[str, Any]:
    """The file's content; its head names the sources and the units.

    Joints are rotations in turn about axes fixed in the turned frame; a coupler is
    (coordinate, knots, values) of a SimmSpline; carriers are the bodies that slide, with
    the bodies they slide on; surfaces are as in an OpenSim file.
    """
    file = importlib.resources.files("empbody.models") / "_shoulder.json"
    return json.loads(file.read_text(encoding="utf-8"))
