"""Moment-arm matrix R in closed form (Ehsani 2016, Eq. 161-195).

Three things go beyond the paper. A point that moves in its body does work by that motion: R
has (∂r/∂q)ᵀ (e + ē) in addition, where r is the point's place in the body frame and
e + ē = -∂L/∂r is taken along all segments, those within one body too. A surface that gives
way to the string (an end inside, a side that lets go) does work by that: its forces are added
to E and Ê. And the sums over joints run over links, of which a body may have several, or none
of its own.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..paths import ShrinkingForces, effective_points_and_forces
from ._joints import joint_jacobian, skew
from ._lines_of_action import (
    LinesOfAction,
    PathRows,
    all_points,
    gmlav,
    lines_of_action,
    touched_bodies,
    with_ground,
)
from ._transforms import Links, body_poses, links

MomentArmForm = Literal["block", "sparse"]
"""Products of block matrices over all bodies, or sums over the bodies that a path touches."""


@eqx.filter_jit
def moment_arms(
    model: Model, q: Float[Array, " nq"], form: MomentArmForm = "block"
) -> Float[Array, "nq nm"]:
    """R = -∂L/∂q: generalised forces per unit tension (m, or 1 for a translation).

    `form` is "block" (Ehsani 2016, Eq. 193-194) or "sparse" (Eq. 195); both give the same
    numbers. Both hold for revolute and prismatic joints: a prismatic joint moves origins,
    in γ, and turns nothing, so that ϑ strikes it from β.
    """
    if form not in ("block", "sparse"):
        raise ValueError(f"form is {form!r}; use 'block' or 'sparse'")
    if model.nm == 0:
        return jnp.zeros((q.shape[0], 0), dtype=model.axis.dtype)
    tree, J = links(model, q), joint_jacobian(model, q)
    poses = body_poses(model, tree)
    effective, shrinking = effective_points_and_forces(model, q)
    points = all_points(effective)
    lines = lines_of_action(with_ground(poses), points)
    g, b = gammas(model, tree, poses, J), betas(model, tree, poses)
    assemble = _block if form == "block" else _sparse
    R = assemble(model, J, g, b, points, lines, shrinking)
    return R + _own_motion(model, q, points, lines, shrinking)


def gammas(
    model: Model, tree: Links, poses: Float[Array, "nb 4 4"], J: Float[Array, "nj nq"]
) -> Float[Array, "nb nq 3"]:
    """γ_i: virtual displacement of body i's origin, in its axes, is δqᵀ γ_i (Eq. 175-176)."""
    revolute = np.array(model.topology.revolute)

    def term(j: Array, pose: Array) -> Array:
        A, r = _seen_from(tree.pose[j], pose)
        turned = r[None, :] @ skew(model.axis[j]).T @ A
        slid = model.axis[j][None, :] @ A
        return jnp.kron(jnp.where(jnp.asarray(revolute)[j], turned, slid), J[j][:, None])

    return jnp.einsum("ij,ijqx->iqx", _carriers(model), _over_pairs(term, model, poses))


def betas(model: Model, tree: Links, poses: Float[Array, "nb 4 4"]) -> Float[Array, "nb nj 3"]:
    """β_i: row j is the axis of joint j in axes of body i, if j carries i (Eq. 179, 182).

    The axis of a revolute joint is the same in the joint frame and in its link's.
    """

    def term(j: Array, pose: Array) -> Array:
        return _seen_from(tree.pose[j], pose)[0].T @ model.axis[j]

    return _carriers(model)[:, :, None] * _over_pairs(term, model, poses)


def joint_kinds(model: Model) -> Float[Array, "nj nj"]:
    """ϑ, diagonal: 1 for revolute joints, 0 for prismatic ones (Ehsani 2016, Eq. 178, 181)."""
    return jnp.diag(jnp.array(model.topology.revolute, dtype=model.axis.dtype))


def _block(
    model: Model,
    J: Float[Array, "nj nq"],
    g: Float[Array, "nb nq 3"],
    b: Float[Array, "nb nj 3"],
    points: PathRows,
    lines: LinesOfAction,
    shrinking: ShrinkingForces,
) -> Float[Array, "nq nm"]:
    """R = γᵀ E + Jᵀ ϑ βᵀ Ê, with a block of three rows for each body (Eq. 193-194)."""
    (nj, nq), nm = J.shape, model.nm
    gamma, beta = g.swapaxes(1, 2).reshape(-1, nq), b.swapaxes(1, 2).reshape(-1, nj)
    pulls = gmlav(lines, points, range(nm), range(model.nb), shrinking)
    E, E_hat = (pull.reshape(nm, -1).T for pull in pulls)
    return gamma.T @ E + J.T @ joint_kinds(model) @ beta.T @ E_hat


def _sparse(
    model: Model,
    J: Float[Array, "nj nq"],
    g: Float[Array, "nb nq 3"],
    b: Float[Array, "nb nj 3"],
    points: PathRows,
    lines: LinesOfAction,
    shrinking: ShrinkingForces,
) -> Float[Array, "nq nm"]:
    """R_k = Σ γ_i E_ki + Jᵀ ϑ Σ β_i Ê_ki over the bodies i of path k (Eq. 195)."""
    columns = []
    for k in range(model.nm):
        bodies = touched_bodies(points, k)
        E, E_hat = gmlav(lines, points, [k], bodies, shrinking)
        at = np.array(bodies, dtype=int)
        force = jnp.einsum("iqx,ix->q", g[at], E[0])
        moment = jnp.einsum("ijx,ix->j", b[at], E_hat[0])
        columns.append(force + J.T @ joint_kinds(model) @ moment)
    return jnp.stack(columns, axis=1)


def _own_motion(
    model: Model,
    q: Float[Array, " nq"],
    points: PathRows,
    lines: LinesOfAction,
    shrinking: ShrinkingForces,
) -> Float[Array, "nq nm"]:
    """Σ (∂r/∂q)ᵀ (e + ē + s) over the points that move in their bodies, where s is the force
    through what is shrinking; not in the paper."""
    R = jnp.zeros((q.shape[0], model.nm), dtype=model.axis.dtype)
    for (p, inputs), location in zip(model.paths.layout.moving, model.paths.moving, strict=True):
        (row,) = np.flatnonzero(points.source == p)
        at = np.array(inputs, dtype=int)
        force = lines.onward[row] + lines.backward[row]
        force = force + shrinking.force[np.equal(shrinking.sources, p)].sum(axis=0)
        R = R.at[at, points.path[row]].add(location.jacobian(q[at]).T @ force)
    return R


def _carriers(model: Model) -> Float[Array, "nb nj"]:
    """1 where joint j carries body i: j ∈ Anc(i) ∪ {i}."""
    links = np.array(model.topology.body_links)
    carried = np.where((links >= 0)[:, None], model.topology.ancestors[links], 0)
    return jnp.array(carried, dtype=model.axis.dtype)


def _over_pairs(
    term: Callable[[Array, Array], Array], model: Model, poses: Float[Array, "nb 4 4"]
) -> Float[Array, "nb nj ..."]:
    """A term of joint j and the pose of body i, for all of both."""
    of_body = jax.vmap(term, in_axes=(0, None))
    return jax.vmap(of_body, in_axes=(None, 0))(jnp.arange(model.nj), poses)


def _seen_from(
    link: Float[Array, "4 4"], pose: Float[Array, "4 4"]
) -> tuple[Float[Array, "3 3"], Float[Array, " 3"]]:
    """Orientation of a frame in a link's frame, and its origin there."""
    R = link[:3, :3].T
    return R @ pose[:3, :3], R @ (pose[:3, 3] - link[:3, 3])
