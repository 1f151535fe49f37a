"""D_b = ∂B_b/∂q, with B_b = (0→b A₄)ᵀ, arranged by Definition 1."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model import Model
from ._joints import joint_jacobian
from ._transforms import Links, body_placements, body_poses, links
from ._weights import first_weight

Form = Literal["recursive", "closed"]
"""Along the tree from parent to child, or as sums over all ancestors."""


@eqx.filter_jit
def transform_derivatives(
    model: Model, q: Float[Array, " nq"], form: Form = "recursive"
) -> Float[Array, "nb 4*nq 4"]:
    """D of every body: first derivatives of its transposed transform.

    Row 4-block i, row j of it, column k of D_b is ∂(0→b A₄)_ki/∂q_j. Zero for bodies
    welded to the ground. `form` is "recursive" (Ehsani 2016, Eq. 74, 77) or "closed"
    (Eq. 75-76); both give the same numbers.
    """
    tree, grad = links(model, q), joint_jacobian(model, q)
    if form == "recursive":
        return on_bodies(model, link_first_derivatives(model, tree, grad), q.shape[0])
    if form == "closed":
        return _closed(model, tree, grad)
    raise ValueError(f"form is {form!r}; use 'recursive' or 'closed'")


def link_first_derivatives(
    model: Model, tree: Links, grad: Float[Array, "nj nq"]
) -> Float[Array, "nj 4*nq 4"]:
    """D_i of every link, each from its parent's (Ehsani 2016, Eq. 77)."""
    nj, nq = grad.shape
    eye = jnp.eye(nq, dtype=grad.dtype)
    D: dict[int, Array] = {-1: jnp.zeros((4 * nq, 4), dtype=grad.dtype)}
    for i in model.topology.order:
        W_ii = tree.pose[i] @ tree.joint_matrix[i]
        D_parent = D[model.topology.parents[i]]
        D[i] = jnp.kron(W_ii.T, grad[i][:, None]) + jnp.kron(tree.joint[i].T, eye) @ D_parent
    return jnp.stack([D[i] for i in range(nj)])


def _closed(model: Model, tree: Links, grad: Float[Array, "nj nq"]) -> Float[Array, "nb 4*nq 4"]:
    """Σ over the joints j that carry the body of W_jbᵀ ⊗ ∇f_j (Ehsani 2016, Eq. 75)."""

    def term(j: Array, pose: Array) -> Array:
        return jnp.kron(first_weight(tree, j, pose).T, grad[j][:, None])

    poses = body_poses(model, tree)
    D = [jnp.zeros((4 * grad.shape[1], 4), dtype=grad.dtype)] * model.nb
    for b, link in enumerate(model.topology.body_links):
        if link >= 0:
            carriers = jnp.array(model.topology.chain(link))
            D[b] = jax.vmap(term, in_axes=(0, None))(carriers, poses[b]).sum(axis=0)
    return jnp.stack(D)


def on_bodies(
    model: Model, link_derivatives: Float[Array, "nj rows 4"], block: int
) -> Float[Array, "nb rows 4"]:
    """Derivatives for bodies from those for links, for 4-blocks of `block` rows.

    A body stands on its link by a constant E_b, so B_b = E_bᵀ B_i, and its derivative is
    (E_bᵀ ⊗ I) times the link's (Ehsani 2016, Theorem 1).
    """
    eye = jnp.eye(block, dtype=link_derivatives.dtype)
    fixed = body_placements(model)
    out = [jnp.zeros(link_derivatives.shape[1:], dtype=link_derivatives.dtype)] * model.nb
    for b, link in enumerate(model.topology.body_links):
        if link >= 0:
            out[b] = jnp.kron(fixed[b].T, eye) @ link_derivatives[link]
    return jnp.stack(out)
