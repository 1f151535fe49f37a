"""Poses of links and bodies in the ground frame (Ehsani 2016, Eq. 40)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ._joints import homogeneous, joint_matrices, joint_transforms


class Links(NamedTuple):
    """What the derivatives of all poses are made of, for every link at one q."""

    joint: Float[Array, "nj 4 4"]
    """pr(i)→i A₄, link in its parent link."""
    joint_matrix: Float[Array, "nj 4 4"]
    """Â_i"""
    pose: Float[Array, "nj 4 4"]
    """0→i A₄, link in the ground frame."""


@eqx.filter_jit
def links(model: Model, q: Float[Array, " nq"]) -> Links:
    """Joint transforms, joint matrices and poses; the product of Eq. 40 runs root to leaf."""
    joint = joint_transforms(model, q)
    poses: dict[int, Array] = {}
    for i in model.topology.order:
        parent = model.topology.parents[i]
        poses[i] = poses[parent] @ joint[i] if parent >= 0 else joint[i]
    pose = jnp.stack([poses[i] for i in range(model.topology.n_links)])
    return Links(joint, joint_matrices(model), pose)


def body_placements(model: Model) -> Float[Array, "nb 4 4"]:
    """Body frame in its link's frame: the identity unless the body is welded on."""
    return jax.vmap(homogeneous)(model.body_rotation, model.body_translation)


def body_poses(model: Model, links: Links) -> Float[Array, "nb 4 4"]:
    """Body frames in the ground frame, from the poses of the links."""
    fixed = body_placements(model)
    poses = [
        links.pose[link] @ fixed[b] if link >= 0 else fixed[b]
        for b, link in enumerate(model.topology.body_links)
    ]
    return jnp.stack(poses)


@eqx.filter_jit
def body_transforms(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nb 4 4"]:
    """0→b A₄ for every body b: ground to body, metres (Ehsani 2016, Eq. 40, corrected)."""
    return body_poses(model, links(model, q))


def inverse(A: Float[Array, "4 4"]) -> Float[Array, "4 4"]:
    """Inverse of a homogeneous transform: i→j A₄ from j→i A₄."""
    rotation = A[:3, :3].T
    return homogeneous(rotation, -rotation @ A[:3, 3])
