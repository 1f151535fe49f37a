"""Axes of the shoulder's joints, and the frames of the bones that they make."""

from typing import Any

import numpy as np
from jaxtyping import Float

from ._shoulder_figures import figures

Axes = list[tuple[str, Any]]
"""Names of joint variables with their axes, in the order of turning."""


def published_axes() -> dict[str, Axes]:
    """Joint variables of each body with their axes (thorax axes in the zero pose)."""
    return {
        joint["body"]: [(name, axis) for name, axis in joint["axes"]]
        for joint in figures()["joints"]
    }


def joint_basis(bone: str) -> Float[np.ndarray, "3 3"]:
    """The three axes that clavicle or scapula turns about, in that order, as rows.

    r2 points up, r3 backward, r1 laterally along the bone. The clavicle's r1, which the
    published model lacks, is the cross product of its other two. Published axes are
    orthogonal to 1e-4; these are the nearest that are so exactly.
    """
    axes = np.array([axis for _, axis in published_axes()[bone]])
    if len(axes) == 2:
        axes = np.vstack([axes, np.cross(*axes)])
    left, _, right = np.linalg.svd(axes / np.linalg.norm(axes, axis=1, keepdims=True))
    return left @ right


def chain_axes(exact: bool = False) -> dict[str, Axes]:
    """Joint variables of each body with their axes, the clavicle's axial rotation included.

    Axes are those of `joint_basis`; with `exact` the published ones to the last digit.
    """
    axes = published_axes()
    axes["clavicle"].append(("sternoclavicular_r1", joint_basis("clavicle")[2]))
    axes["clavphant"].insert(0, ("unrotscap_r1", joint_basis("clavicle")[2]))
    if exact:
        return axes
    for bone, after in (("clavicle", "clavphant"), ("scapula", "scapphant")):
        basis = list(joint_basis(bone))
        axes[bone] = [(name, axis) for (name, _), axis in zip(axes[bone], basis, strict=True)]
        back = zip(axes[after], basis[::-1], strict=True)
        axes[after] = [(name, axis) for (name, _), axis in back]
    return axes


def variables() -> tuple[str, ...]:
    """Names of all joint variables, in the model's order."""
    return tuple(name for axes in chain_axes().values() for name, _ in axes)


def bone_frame(body: str) -> Float[np.ndarray, "3 3"]:
    """A bone's anatomical frame in its body's frame: columns forward, up, lateral.

    Clavicle and scapula turn about their own anatomical axes; other bones are aligned with
    their body.
    """
    if body not in ("clavicle", "scapula"):
        return np.eye(3)
    up, back, lateral = joint_basis(body)
    return np.column_stack([-back, up, lateral])
