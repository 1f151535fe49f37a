"""Mean and spread of a population: linear mixed model by expectation-maximisation."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_FLOOR = 1e-10


class Sums(NamedTuple):
    """All that a population fit needs of its data, for each subject s and target k.

    With φ the features of target k (e of the d directions) at a row and y what is measured
    there: weighted sums over a subject's rows.
    """

    squares: Float[Array, "s k e e"]
    products: Float[Array, "s k e"]
    totals: Float[Array, "s k"]
    """Σ y²"""
    counts: Float[Array, "s k"]


class Mixed(NamedTuple):
    """Coefficients in directions: z_s ~ N(mean, covariance), y = φ z_s + noise."""

    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]
    noise: Float[Array, " k"]
    subjects: Float[Array, "s d"]
    """Posterior mean of every subject."""
    rounds: Int[Array, ""]
    change: Float[Array, ""]


@jax.jit
def sums(
    features: Float[Array, "s n k e"], values: Float[Array, "s n k"], weights: Float[Array, "s n k"]
) -> Sums:
    """Sums over padded rows; padding has weight zero."""

    def one(f: Array, y: Array, w: Array) -> Sums:
        squares = jnp.einsum("nke,nk,nkg->keg", f, w, f)
        products = jnp.einsum("nke,nk,nk->ke", f, w, y)
        return Sums(squares, products, jnp.sum(w * y * y, axis=0), jnp.sum(w, axis=0))

    return jax.vmap(one)(features, values, weights)


@eqx.filter_jit
def mixed_model(
    data: Sums,
    members: Int[Array, "k e"],
    block: Int[Array, " d"],
    used: Bool[Array, " s"],
    start_noise: Float[Array, " k"],
    roughness: Float[Array, " d"],
    rounds: int = 60,
    tolerance: float = 1e-4,
) -> Mixed:
    """Estimate from the subjects that are `used`.

    Expectation-maximisation (Laird and Ware 1982) with two changes for few subjects: the
    scatter is divided by the number of subjects less one, and correlations between
    directions are shrunk towards zero by as much as chance alone would make them (Schäfer
    and Strimmer 2005), separately within a target and between targets.
    """
    d = len(block)
    dtype = data.squares.dtype
    member = used.astype(dtype)
    n = jnp.sum(member)
    eye = jnp.eye(d, dtype=dtype)

    def gather(noise: Array) -> tuple[Array, Array]:
        """Precision of the data and its product with what they say, for each subject."""
        precision = jnp.zeros((len(data.totals), d, d), dtype=dtype)
        product = jnp.zeros((len(data.totals), d), dtype=dtype)
        for k, index in enumerate(members):
            inverse = 1.0 / noise[k] ** 2
            precision = precision.at[:, index[:, None], index[None, :]].add(
                inverse * data.squares[:, k]
            )
            product = product.at[:, index].add(inverse * data.products[:, k])
        return precision, product

    def posterior(mean: Array, covariance: Array, noise: Array) -> tuple[Array, Array]:
        factor = jnp.linalg.cholesky(covariance)
        precision, product = gather(noise)

        def one(a: Array, b: Array) -> tuple[Array, Array]:
            inner = jnp.linalg.cholesky(eye + factor.T @ a @ factor)
            half = jax.scipy.linalg.solve_triangular(inner, factor.T, lower=True)
            variance = half.T @ half
            return mean + variance @ (b - a @ mean), variance

        return jax.vmap(one)(precision, product)

    def maximise(z: Array, variance: Array, rest: Array) -> tuple[Array, Array, Array]:
        mean = jnp.sum(member[:, None] * z, axis=0) / n
        apart = (z - mean[None]) * member[:, None]
        scatter = apart.T @ apart / (n - 1.0)
        scatter = scatter + jnp.einsum("s,sde->de", member, variance) / n
        squares = []
        for k, index in enumerate(members):
            zk, a = z[:, index], data.squares[:, k]
            miss = (
                data.totals[:, k]
                - 2.0 * jnp.sum(zk * data.products[:, k], axis=1)
                + jnp.einsum("se,seg,sg->s", zk, a, zk)
                + jnp.einsum("seg,seg->s", a, variance[:, index[:, None], index[None, :]])
            )
            squares.append(jnp.sum(member * miss) / jnp.sum(member * data.counts[:, k]))
        least = _FLOOR * jnp.max(jnp.diagonal(scatter))
        noise = jnp.sqrt(jnp.maximum(jnp.stack(squares), least))
        return mean, shrunk(scatter, block, n) + least * eye, noise

    def advance(state: tuple[Array, ...]) -> tuple[Array, ...]:
        mean, covariance, noise, _, _, count = state
        z, variance = posterior(mean, covariance, noise)
        mean, new, noise_new = maximise(z, variance, noise)
        old_scale, new_scale = jnp.diagonal(covariance), jnp.diagonal(new)
        change = jnp.max(jnp.abs(new_scale - old_scale) / (new_scale + 1e-3 * jnp.max(new_scale)))
        change = jnp.maximum(change, jnp.max(jnp.abs(jnp.log(noise_new / noise))))
        return mean, new, noise_new, z, change, count + 1

    def going(state: tuple[Array, ...]) -> Array:
        return (state[4] > tolerance) & (state[5] < rounds)

    # Start: as spread as the data are, less so in rough directions. Where no subject has any
    # data it stays like that.
    total = jnp.sum(member[:, None] * data.totals) / jnp.sum(member[:, None] * data.counts)
    state = (
        jnp.zeros(d, dtype=dtype),
        total * jnp.diag(1.0 / (1.0 + roughness)),
        start_noise,
        jnp.zeros((len(data.totals), d), dtype=dtype),
        jnp.asarray(jnp.inf, dtype=dtype),
        jnp.asarray(0),
    )
    mean, covariance, noise, z, change, count = jax.lax.while_loop(going, advance, state)
    # The mean itself is known only from n subjects.
    return Mixed(mean, covariance * (1.0 + 1.0 / n), noise, z, count, change)


def shrunk(
    scatter: Float[Array, "d d"], block: Int[Array, " d"], n: Float[Array, ""]
) -> Float[Array, "d d"]:
    """Correlations shrunk towards zero; variances stay."""
    scale = jnp.sqrt(jnp.maximum(jnp.diagonal(scatter), jnp.finfo(scatter.dtype).tiny))
    outer = scale[:, None] * scale[None, :]
    correlation = scatter / outer
    square = correlation**2
    chance = (1.0 - jnp.minimum(square, 1.0)) ** 2 / jnp.maximum(n - 1.0, 1.0)
    other = block[:, None] != block[None, :]
    same = ~other & ~jnp.eye(len(block), dtype=bool)
    within = _intensity(chance, square, same)
    between = jnp.maximum(_intensity(chance, square, other), within)
    keep = jnp.where(other, 1.0 - between, jnp.where(same, 1.0 - within, 1.0))
    return correlation * keep * outer


def _intensity(chance: Array, square: Array, where: Array) -> Array:
    total = jnp.sum(jnp.where(where, square, 0.0))
    ratio = jnp.sum(jnp.where(where, chance, 0.0)) / jnp.where(total > 0, total, 1.0)
    return jnp.where(total > 0, jnp.clip(ratio, 0.0, 1.0), 1.0)
