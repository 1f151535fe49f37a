"""One-sided ellipsoids on a stretch: a string that would slip off has been let go before."""

import jax
import jax.numpy as jnp
import numpy as np
from _sliding_string import place, sliding_string, unexplained

import empbody as eb

STEPS, COUNT = 601, 100


def test_few_strings_slip_off_before_the_side_lets_go():
    """Sweeps that are hard on purpose: random axes and turns, the line near the centre. Where a
    string slips off its length jumps: on these in 13 sweeps of 100, by up to 2.9 mm, if the side
    lets go at the same distance whatever the ellipsoid's shape."""
    rng = np.random.default_rng(11)
    axes = rng.uniform(0.015, 0.04, (COUNT, 3))
    centre = rng.uniform(-0.015, 0.015, (COUNT, 3))
    turned = np.linalg.qr(rng.normal(size=(COUNT, 3, 3)))[0]
    turned[:, :, 2] *= np.linalg.det(turned)[:, None]
    start = np.column_stack([np.full(COUNT, -0.13), rng.uniform(-0.03, 0.03, (COUNT, 2))])
    ends = np.full((COUNT, 2, 3), 0.13)
    ends[:, :, 1:] = rng.uniform(-0.04, 0.04, (COUNT, 2, 2))
    model = sliding_string(eb.WrapEllipsoid("egg", "ground", (0.02, 0.03, 0.025), quadrant="+x"))

    def sweep(start, ends, axes, centre, turned):
        placed = place(model, start, ends, centre[None], turned[None], axes[None])
        at = jnp.linspace(0.0, 1.0, STEPS)[:, None]
        return jax.vmap(lambda q: eb.paths.lengths_and_arms(placed, q))(at)

    given = [jnp.asarray(x) for x in (start, ends, axes, centre, turned)]
    length, arm = (np.asarray(x).reshape(COUNT, STEPS) for x in jax.jit(jax.vmap(sweep))(*given))
    jump = np.max(unexplained(length, arm), axis=1)
    straight = np.linalg.norm(
        start[:, None] - ends[:, :1] - np.linspace(0, 1, STEPS)[:, None] * np.diff(ends, axis=1),
        axis=2,
    )
    assert np.mean(length > straight + 1e-6) > 0.5
    assert np.sum(jump > 5e-5) <= 3
    assert jump.max() < 2e-3
