"""The real Fourier basis of one coordinate: what both series share.

A basis row is (1, cos ωx … cos Kωx, sin ωx … sin Kωx), 2K + 1 numbers, with ω = 2π / period.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def harmonics(x: Float[Array, ""], period: Float[Array, ""], order: int) -> Float[Array, " n"]:
    """The basis at x.

    Every multiple's sine is taken directly: angle addition needs fewer of them, but many
    dependent steps, and each step is a kernel of its own.
    """
    phase = 2 * jnp.pi / period * x * jnp.arange(1, order + 1)
    return jnp.concatenate([jnp.ones_like(x)[None], jnp.cos(phase), jnp.sin(phase)])


def differentiate(
    coefficients: Float[Array, "n *rest"], period: Float[Array, ""]
) -> Float[Array, "n *rest"]:
    """Coefficients, along axis 0, of the derivative of a series.

    Differentiating these and not the basis keeps the work out of the batch under vmap.
    """
    order = (coefficients.shape[0] - 1) // 2
    counts = jnp.arange(1, order + 1).reshape(-1, *[1] * (coefficients.ndim - 1))
    rates = 2 * jnp.pi / period * counts
    cosines, sines = coefficients[1 : order + 1], coefficients[order + 1 :]
    zero = jnp.zeros_like(coefficients[:1])
    return jnp.concatenate([zero, rates * sines, -rates * cosines])


def derivative(basis: Float[Array, " n"], period: Float[Array, ""]) -> Float[Array, " n"]:
    """d/dx of a basis row, or of a derivative of it."""
    # (1, c, s)' = (0, -ks, kc): the negative of what it is for coefficients.
    return -differentiate(basis, period)


def design(x: np.ndarray, period: float, order: int) -> np.ndarray:
    """The basis at samples x (n,), in NumPy for a fit: (n, 2K + 1)."""
    phase = 2 * np.pi / period * x[:, None] * np.arange(1, order + 1)
    return np.concatenate([np.ones((len(x), 1)), np.cos(phase), np.sin(phase)], axis=1)


def check_count(coefficients: int, axis: str) -> None:
    """Refuse a number of coefficients that is not 2K + 1."""
    if coefficients % 2 == 0:
        raise ValueError(
            f"{coefficients} coefficients{axis}: the constant, K cosines and K sines make "
            "an odd number"
        )
