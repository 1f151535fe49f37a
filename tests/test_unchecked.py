"""Functions without Equinox's checks: same numbers, same derivatives, no call back to Python."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.simulation import SimulationStatus
from empbody.simulation._unchecked import unchecked


def checked(x, scale):
    x = eqx.error_if(x, x < 0.0, "negative")
    x, count = eqx.error_if((x, jnp.arange(2)), jnp.any(x > 10.0), "too large")
    return {"root": jnp.sqrt(x) * scale, "count": count, "name": "kept"}


def test_values_and_derivatives_are_the_same():
    x, scale = jnp.array([1.0, 4.0]), jnp.array(3.0)
    found = unchecked(checked)(x, scale)
    assert found["name"] == "kept"
    np.testing.assert_array_equal(found["root"], [3.0, 6.0])
    np.testing.assert_array_equal(found["count"], [0, 1])
    slope = jax.grad(lambda x: jnp.sum(unchecked(checked)(x, scale)["root"]))(x)
    np.testing.assert_allclose(slope, [1.5, 0.75])
    many = jax.vmap(lambda x: unchecked(checked)(x, scale)["root"])(jnp.stack([x, 4.0 * x]))
    np.testing.assert_array_equal(many[1], [6.0, 12.0])


def test_no_call_back_is_left_and_nothing_is_raised():
    x, scale = jnp.array([-1.0, 4.0]), jnp.array(3.0)
    with pytest.raises(eqx.EquinoxRuntimeError, match="negative"):
        eqx.filter_jit(checked)(x, scale)
    with_checks = eqx.filter_jit(checked).lower(x, scale).as_text()
    without = eqx.filter_jit(unchecked(checked))
    assert "callback" in with_checks
    assert "callback" not in without.lower(x, scale).as_text()
    assert jnp.isnan(without(x, scale)["root"][0])


def test_other_calls_back_stay():
    def told(x):
        seen = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return eqx.error_if(jax.pure_callback(lambda y: 2.0 * y, seen, x), x < 0.0, "negative")

    assert float(unchecked(told)(jnp.array(3.0))) == 6.0
    assert "callback" in jax.jit(unchecked(told)).lower(jnp.array(3.0)).as_text()


@pytest.mark.parametrize(
    ("ts", "options"),
    [
        ([0.0, 0.2, 0.1], {}),
        ([0.0, jnp.nan, 0.2], {}),
        ([0.0, 0.1, 0.2], {"dt0": -1e-3}),
        ([0.0, 0.1, 0.2], {"fixed_step": 0.0}),
        ([0.0, 0.1, 0.2], {"fixed_step": [0.0, 0.05, 0.3]}),
    ],
)
def test_simulation_tells_bad_times_by_its_status(ts, options):
    """Inside a user's jit, where the numbers cannot be looked at beforehand."""
    model = eb.models.pendulum_chain(1)
    options = {name: jnp.asarray(value) for name, value in options.items()}

    @eqx.filter_jit
    def run(ts, options):
        return eb.simulate(model, [0.1], [0.0], ts, rtol=1e-4, max_steps=64, throw=False, **options)

    found = run(jnp.array(ts), options)
    assert bool(found.status == SimulationStatus.bad_times)
    assert not bool(found.succeeded)
    assert bool(jnp.all(jnp.isnan(found.q[1:])))
