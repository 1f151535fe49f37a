"""Rates that follow each other, against a dense solution."""

import jax
import jax.numpy as jnp
import numpy as np

from empbody.paths._balance_rates import solve_rates

STRETCH = np.array([0, 0, 1, 2, 2, 2])
LANES, RANK = 3, 4


def matrices():
    """One for each stretch and lane, of few directions and far from contracting."""
    rng = np.random.default_rng(0)
    whole = np.zeros((LANES, 6, len(STRETCH), 6, len(STRETCH)))
    for stretch in (0, 2):
        (own,) = np.nonzero(stretch == STRETCH)
        size = 6 * len(own)
        for lane in range(LANES):
            left, right = rng.normal(size=(2, size, RANK))
            block = (left @ right.T).reshape(6, len(own), 6, len(own))
            whole[lane][:, own[:, None], :, own[None]] = np.moveaxis(block, (1, 3), (0, 1))
    return whole


def test_solves_where_iterating_diverges():
    whole = matrices()
    flat = whole.reshape(LANES, 36, 36)
    assert np.abs(np.linalg.eigvals(flat)).max(axis=-1).min() > 2
    given = np.random.default_rng(1).normal(size=(6, len(STRETCH), LANES))
    wanted = np.linalg.solve(np.eye(36) - flat, np.moveaxis(given, -1, 0).reshape(LANES, 36, 1))
    wanted = np.moveaxis(wanted.reshape(LANES, 6, len(STRETCH)), 0, -1)

    def solved(given):
        return solve_rates(lambda x: jnp.einsum("lanbm,bml->anl", whole, x), given, STRETCH)

    found, pull = jax.vjp(jax.jit(solved), jnp.asarray(given))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    # Backwards it is the transposed problem: products agree.
    weight = np.random.default_rng(2).normal(size=given.shape)
    (back,) = pull(jnp.asarray(weight))
    difference = np.sum(back * given) - np.sum(weight * wanted)
    assert abs(difference) < 1e-9 * np.abs(weight * wanted).sum()


def test_a_stretch_that_is_lost_stays_alone():
    """What is not a number in one stretch does not reach the others."""
    given = jnp.ones((6, len(STRETCH), LANES)).at[0, 2, 1].set(jnp.nan)
    found = solve_rates(lambda x: 0.5 * x, given, STRETCH)
    fine = np.ones(found.shape, bool)
    fine[:, 2, 1] = False
    np.testing.assert_allclose(np.asarray(found)[fine], 2.0, rtol=1e-12)
