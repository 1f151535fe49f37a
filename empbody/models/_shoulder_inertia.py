"""Inertias of the arm's segments, turned from their own frames into the model's.

The figures stand in the bones' anatomical frames: x right, y up, z backward when a bone is
not turned against the thorax. The model's bodies are aligned with the thorax in the zero
pose, where clavicle and scapula are turned: their anatomical axes there are those of the
model's joints. So a vector v of the segment's frame is R B v in the body: B takes x right,
y up, z backward to x forward, y up, z right, and R holds the bone's axes.
"""

from typing import Any

import numpy as np

from ._shoulder_axes import bone_frame
from ._shoulder_figures import figures

_TO_FORWARD_UP_RIGHT = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def inertia(body: str) -> dict[str, Any]:
    """Mass (kg), centre of mass (m) and inertia about it (kg m²) in the body's frame."""
    given = figures()["inertia"].get(body)
    if given is None:
        return {}
    turn = bone_frame(body) @ _TO_FORWARD_UP_RIGHT
    xx, yy, zz, xy, xz, yz = given["inertia"]
    moments = turn @ np.array([[xx, -xy, -xz], [-xy, yy, -yz], [-xz, -yz, zz]]) @ turn.T
    com = turn @ np.asarray(given["com"])
    if "glenohumeral" in given:
        # The frames start at different points: both know the joint of the humerus.
        (here,) = [j["translation"] for j in figures()["joints"] if j["body"] == "scapphant"]
        com = np.asarray(here) + com - turn @ np.asarray(given["glenohumeral"])
    return {"mass": given["mass"], "com": com, "inertia": 0.5 * (moments + moments.T)}
