"""First and second derivatives of body transforms, from screws.

The equations of motion do not need them; they are here because the formulation is built
on them, and so that the fast path can be compared with the literal one term by term.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ._motion import Motion
from ._points import Coordinates, body_transforms


@eqx.filter_jit
def transform_derivatives(model: Model, q: Coordinates) -> Float[Array, "nb four_nq 4"]:
    """D_i = ∂B_i/∂q with B_i the transposed transform of body i (Eq. 45, Definition 1)."""
    jacobian, _ = _body_screws(model, q)
    slope = jnp.einsum("bkij,bjl->bkil", jacobian, body_transforms(model, q))
    return jnp.einsum("bkji->bikj", slope).reshape(model.nb, 4 * model.nq, 4)


@eqx.filter_jit
def transform_second_derivatives(model: Model, q: Coordinates) -> Float[Array, "nb four_nq2 4"]:
    """D'_i = ∂²B_i/∂q² (Eq. 58, Definition 1 twice)."""
    jacobian, rate = _body_screws(model, q)
    bend = rate + jnp.einsum("bkij,bljm->bklim", jacobian, jacobian)
    curve = jnp.einsum("bklij,bjm->bklim", bend, body_transforms(model, q))
    return jnp.einsum("bklji->biklj", curve).reshape(model.nb, 4 * model.nq**2, 4)


def _body_screws(
    model: Model, q: Coordinates
) -> tuple[Float[Array, "nb nq 4 4"], Float[Array, "nb nq nq 4 4"]]:
    """Each body's screw per coordinate, and its derivatives, as 4×4 matrices about the
    ground's origin."""
    motion = Motion.of(model, q)
    turn, slide = motion.screw[:, :3], motion.screw[:, 3:]
    screw = _as_matrix(turn, slide - jnp.cross(turn, motion.origin[None]))
    links = jnp.asarray(model.topology.ancestors, dtype=q.dtype)
    per_link = jnp.einsum("ab,bij,bk->akij", links, screw, motion.jacobian)
    turned = jnp.einsum("blij,bjm->blim", per_link, screw)
    turned = turned - jnp.einsum("bij,bljm->blim", screw, per_link)  # d(screw)/dq_l
    hessian = model.rhythm.hessian(q)
    rate = jnp.einsum("bij,bkl->bklij", screw, hessian)
    rate = rate + jnp.einsum("blij,bk->bklij", turned, motion.jacobian)
    rate = jnp.einsum("ab,bklij->aklij", links, rate)
    moving = jnp.asarray([link >= 0 for link in model.topology.body_links])
    carrier = jnp.maximum(jnp.asarray(model.topology.body_links), 0)
    jacobian = jnp.where(moving[:, None, None, None], per_link[carrier], 0.0)
    return jacobian, jnp.where(moving[:, None, None, None, None], rate[carrier], 0.0)


def _as_matrix(turn: Float[Array, "n 3"], slide: Float[Array, "n 3"]) -> Float[Array, "n 4 4"]:
    x, y, z = turn.T
    zero = jnp.zeros_like(x)
    rows = [
        jnp.stack([zero, -z, y, slide[:, 0]], axis=1),
        jnp.stack([z, zero, -x, slide[:, 1]], axis=1),
        jnp.stack([-y, x, zero, slide[:, 2]], axis=1),
        jnp.zeros((turn.shape[0], 4), dtype=turn.dtype),
    ]
    return jnp.stack(rows, axis=1)
