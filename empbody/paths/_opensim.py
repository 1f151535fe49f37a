"""Moment arms as OpenSim's MomentArmSolver defines them, for comparison with its output.

They differ from -∂L/∂q in four ways (the first three found with OpenSim 4.6).

- **Couplers of several inputs.** OpenSim gives the coordinate a unit speed, the others none,
  and projects all speeds on those that the constraints allow: orthogonally, with equal
  weights for radians and metres, the other free coordinates not held. The result is
  divided by the coordinate's own speed. With u = C q̇ all speeds of the model and
  W = CᵀC, the moment arm of coordinate i is Σ_k R_k (W⁻¹)_ki / (W⁻¹)_ii. W is diagonal, and
  the sum is R_i, unless a dependent coordinate has two or more inputs.
- **Moving points within a body.** Tension in a segment whose ends are on one body is left
  out, and with it the work on an end that moves in the body. Whether two bodies are welded
  together does not matter: only one and the same body counts.
- **Moving points out of range.** There OpenSim holds the point still but not its
  derivative. This is not reproduced.
- **Surfaces that give way.** OpenSim's do not. Where ours shrink (an end inside, a side that
  lets go), what that does to the length is left out.

The motion of a moving point counts at the segments that lead to other bodies.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..kinematics import body_transforms, joint_jacobian
from ..model import Model
from ._effective import effective_points


@eqx.filter_jit
def opensim_moment_arms(
    model: Model, q: Float[Array, " nq"], speeds: Float[Array, "nu nq"] | None = None
) -> Float[Array, "nq nm"]:
    """Moment arms of all units about all coordinates in OpenSim's convention (m, or 1).

    `speeds` is C, the derivative of OpenSim's coordinates, dependent ones included, to q.
    It is ∂f/∂q if absent: right where each of OpenSim's coordinates is one joint variable,
    and harmless elsewhere as long as no coordinate depends on two or more others.
    """
    tension = _generalised_tension(model, q)
    C = joint_jacobian(model, q) if speeds is None else speeds
    spread = jnp.linalg.inv(C.T @ C)
    return spread @ tension / jnp.diag(spread)[:, None]


def _generalised_tension(model: Model, q: Float[Array, " nq"]) -> Float[Array, "nq nm"]:
    """Generalised force of unit tension: -Σ eᵀ (dx_b - dx_a) over the segments ab that count.

    Those are the ones between living points on two bodies. dx is the derivative of a point's
    position in the ground frame, with points on surfaces taken as fixed to the body.
    """
    paths = effective_points(model, q)
    if not paths:
        return jnp.zeros((q.shape[0], 0), dtype=q.dtype)
    path = np.repeat(np.arange(len(paths)), [len(points.bodies) for points in paths])
    body = np.concatenate([points.bodies for points in paths])
    source = np.concatenate([points.sources for points in paths])
    local = jnp.concatenate([points.local for points in paths])
    alive = jnp.concatenate([points.alive for points in paths])

    A = _with_ground(body_transforms(model, q))[body + 1]
    dA = jax.jacfwd(lambda x: _with_ground(body_transforms(model, x)))(q)[body + 1]
    x = jnp.einsum("nij,nj->ni", A[:, :3, :3], local) + A[:, :3, 3]
    dx = jnp.einsum("nijq,nj->niq", dA[:, :3, :3], local) + dA[:, :3, 3]
    for (p, inputs), location in zip(model.paths.layout.moving, model.paths.moving, strict=True):
        (row,) = np.flatnonzero(source == p)
        at = np.array(inputs, dtype=int)
        dx = dx.at[row, :, at].add((A[row, :3, :3] @ location.jacobian(q[at])).T)

    end = _next_living(alive)
    e = jax.vmap(_unit)(x[end] - x)
    across = (jnp.asarray(path)[end] == path) & (jnp.asarray(body)[end] != body)
    work = jnp.einsum("ni,niq->nq", e, dx - dx[end])
    work = jnp.where((alive & across)[:, None], work, 0)
    return jnp.zeros((model.nm, q.shape[0]), dtype=work.dtype).at[path].add(work).T


def _next_living(alive: Bool[Array, " n"]) -> Int[Array, " n"]:
    """The next living point of each point; itself if there is none."""
    n = alive.shape[0]
    here = jnp.arange(n)
    at_or_after = jax.lax.cummin(jnp.where(alive, here, n), reverse=True)
    after = jnp.concatenate([at_or_after[1:], jnp.array([n], dtype=here.dtype)])
    return jnp.where(after < n, after, here)


def _unit(v: Float[Array, " 3"]) -> Float[Array, " 3"]:
    square = v @ v
    nothing = square == 0
    return jnp.where(nothing, 0, v / jnp.sqrt(jnp.where(nothing, 1, square)))


def _with_ground(poses: Float[Array, "nb 4 4"]) -> Float[Array, "bodies 4 4"]:
    return jnp.concatenate([jnp.eye(4, dtype=poses.dtype)[None], poses])
