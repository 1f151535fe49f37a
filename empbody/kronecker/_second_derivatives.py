"""D'_b = ∂²B_b/∂q², with B_b = (0→b A₄)ᵀ, arranged by Definition 1 twice."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus import commutation_matrix, vec
from ..model import Model
from ._first_derivatives import Form, link_first_derivatives, on_bodies
from ._joints import joint_hessians, joint_jacobian
from ._transforms import Links, body_poses, links
from ._weights import first_weight, second_weight


@eqx.filter_jit
def transform_second_derivatives(
    model: Model, q: Float[Array, " nq"], form: Form = "recursive"
) -> Float[Array, "nb 4*nq**2 4"]:
    """D' of every body: second derivatives of its transposed transform.

    Row (i, j, s), counted with s fastest, and column k of D'_b hold ∂²(0→b A₄)_ki/∂q_j∂q_s.
    Zero for bodies welded to the ground. `form` is "recursive" (Ehsani 2016, Eq. 89,
    corrected) or "closed" (Eq. 98-99, corrected); both give the same numbers.
    """
    tree, grad, hess = links(model, q), joint_jacobian(model, q), joint_hessians(model, q)
    if form == "recursive":
        return on_bodies(model, _recursive(model, tree, grad, hess), q.shape[0] ** 2)
    if form == "closed":
        return _closed(model, tree, grad, hess)
    raise ValueError(f"form is {form!r}; use 'recursive' or 'closed'")


def _recursive(
    model: Model, tree: Links, grad: Float[Array, "nj nq"], hess: Float[Array, "nj nq nq"]
) -> Float[Array, "nj 4*nq**2 4"]:
    """D'_i of every link, each from its parent's (Ehsani 2016, Eq. 89, corrected).

    The third term holds (Â_iᵀ pr→i A₄ᵀ) where W_iiᵀ is printed.
    """
    nj, nq = grad.shape
    U = commutation_matrix(nq, nq, grad.dtype)
    eye, eye2 = jnp.eye(nq, dtype=grad.dtype), jnp.eye(nq**2, dtype=grad.dtype)
    D = {-1: jnp.zeros((4 * nq, 4), dtype=grad.dtype)}
    D |= dict(enumerate(link_first_derivatives(model, tree, grad)))
    DD: dict[int, Array] = {-1: jnp.zeros((4 * nq**2, 4), dtype=grad.dtype)}
    for i in model.topology.order:
        parent = model.topology.parents[i]
        A_hat, A_joint, df = tree.joint_matrix[i], tree.joint[i], grad[i][:, None]
        W_ii = tree.pose[i] @ A_hat
        DD[i] = (
            jnp.kron(A_hat.T, U) @ jnp.kron(D[i], df)
            + jnp.kron(W_ii.T, vec(hess[i])[:, None])
            + jnp.kron(jnp.kron(A_hat.T @ A_joint.T, eye), df) @ D[parent]
            + jnp.kron(A_joint.T, eye2) @ DD[parent]
        )
    return jnp.stack([DD[i] for i in range(nj)])


def _closed(
    model: Model, tree: Links, grad: Float[Array, "nj nq"], hess: Float[Array, "nj nq nq"]
) -> Float[Array, "nb 4*nq**2 4"]:
    """Sums over all joints that carry the body, and all pairs of them (Ehsani 2016, Eq. 99)."""

    def bending(j: Array, pose: Array) -> Array:
        return jnp.kron(first_weight(tree, j, pose).T, vec(hess[j])[:, None])

    def pair(j: Array, s: Array, upper: Array, lower: Array, pose: Array) -> Array:
        W_bar = second_weight(tree, upper, lower, pose)
        return jnp.kron(W_bar.T, jnp.kron(grad[j], grad[s])[:, None])

    poses = body_poses(model, tree)
    DD = [jnp.zeros((4 * grad.shape[1] ** 2, 4), dtype=grad.dtype)] * model.nb
    for b, link in enumerate(model.topology.body_links):
        if link < 0:
            continue
        carriers = np.array(model.topology.chain(link))  # from the root to the leaf
        ranks = np.array(list(itertools.product(range(len(carriers)), repeat=2)))
        j, s = carriers[ranks].T
        upper, lower = carriers[np.sort(ranks, axis=1)].T
        pairs = jax.vmap(pair, in_axes=(0, 0, 0, 0, None))(j, s, upper, lower, poses[b])
        bends = jax.vmap(bending, in_axes=(0, None))(jnp.asarray(carriers), poses[b])
        DD[b] = pairs.sum(axis=0) + bends.sum(axis=0)
    return jnp.stack(DD)
