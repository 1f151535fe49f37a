"""Hill-type muscles: published curve values, OpenSim's numbers, equilibrium, power, gradients."""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from empbody.muscles import (
    DeGrooteFregly,
    HillMuscles,
    HillParameters,
    HillState,
    Millard,
    MixedCurves,
    SmoothActivation,
    SwitchedActivation,
    Thelen,
)
from empbody.muscles._bezier import Corner
from empbody.muscles._fibre import BALANCED, SHORTEST, SLACK

REFERENCE = json.loads(
    (pathlib.Path(__file__).parent / "reference" / "hill" / "opensim.json").read_text()
)
FAMILIES = {"de_groote_fregly": DeGrooteFregly, "millard": Millard, "thelen": Thelen}
NAMES = ("de_groote_fregly", "millard", "thelen")
# Derivatives of the Bézier curves take long to compile.
QUICK = ("de_groote_fregly", pytest.param("millard", marks=pytest.mark.slow), "thelen")


def one(value: float) -> jax.Array:
    return jnp.asarray([value])


def same_unit(family: str, size: int, **given) -> HillParameters:
    """The unit that OpenSim's numbers belong to, `size` times."""
    numbers = dict(FAMILIES[family].typical, pennation=0.3) | given
    return HillParameters.of([f"m{i}" for i in range(size)], 700.0, 0.09, 0.13, **numbers)


def muscles(family: str, size: int, **given) -> HillMuscles:
    return HillMuscles(same_unit(family, size), FAMILIES[family](), **given)


def evaluate(curves, which: str, x):
    strain = jnp.full_like(x, type(curves).typical["tendon_strain"])
    if which == "tendon":
        return curves.tendon_force(x, strain)
    if which == "inverse_tendon":
        return curves.tendon_length(x, strain)
    if which == "inverse_velocity":
        return curves.velocity(jnp.full_like(x, 0.3), jnp.full_like(x, 0.1), x)
    return {
        "active": curves.active_force_length,
        "passive": curves.passive_force_length,
        "velocity": curves.force_velocity,
    }[which](x)


# Curves


@pytest.mark.parametrize("family", NAMES)
def test_landmarks(family):
    curves = FAMILIES[family]()
    top = 1.0 + type(curves).typical["tendon_strain"]
    # The sum of three bells misses 1 by a little, as published.
    slack = 0.01 if family == "de_groote_fregly" else 1e-14
    assert evaluate(curves, "active", one(1.0))[0] == pytest.approx(1.0, abs=slack)
    assert evaluate(curves, "velocity", one(0.0))[0] == pytest.approx(1.0, abs=1e-14)
    assert evaluate(curves, "velocity", one(-1.0))[0] == pytest.approx(0.0, abs=1e-14)
    assert evaluate(curves, "tendon", one(top))[0] == pytest.approx(1.0, abs=1e-13)
    assert evaluate(curves, "tendon", one(1.0))[0] == pytest.approx(0.0, abs=1e-15)
    strained = 1.0 + float(curves.passive_strain)
    assert evaluate(curves, "passive", one(strained))[0] == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("family", ["de_groote_fregly", "millard"])
@pytest.mark.parametrize("which", ["active", "velocity", "passive", "tendon"])
def test_curves_equal_opensim(family, which):
    curves, table = FAMILIES[family](), REFERENCE[family][which]
    x, y = (jnp.asarray([row[k] for row in table]) for k in range(2))
    value, slope = jax.jvp(lambda x: evaluate(curves, which, x), (x,), (jnp.ones_like(x),))
    np.testing.assert_allclose(value, y, rtol=1e-11, atol=1e-12)
    if len(table[0]) == 3:
        ours, theirs = np.asarray(slope), np.asarray([row[2] for row in table])
        kept = ~np.isin(x, [1.0]) if which == "tendon" else slice(None)
        np.testing.assert_allclose(ours[kept], theirs[kept], rtol=1e-8, atol=1e-9)


def test_thelen_closed_forms():
    curves = Thelen()
    np.testing.assert_allclose(
        curves.active_force_length(jnp.asarray([0.6, 1.3])),
        np.exp(-np.asarray([0.16, 0.09]) / 0.45),
        rtol=1e-15,
    )
    np.testing.assert_allclose(
        curves.passive_force_length(jnp.asarray([0.8, 1.3])),
        [0.0, (np.exp(2.5) - 1.0) / (np.exp(5.0) - 1.0)],
        rtol=1e-14,
    )
    # The paper's rounded numbers for the tendon: toe to 0.609 of the strain, then 1.712.
    toe, stiffness = curves._toe(one(0.04))
    assert float(toe[0]) / 0.04 == pytest.approx(0.609, abs=5e-4)
    assert float(stiffness[0]) * 0.04 == pytest.approx(1.712, abs=5e-4)
    # Eq. 6-7: speed from force, at half activation.
    a, fast = 0.5, 0.25 + 0.75 * 0.5
    short = fast * (0.4 - 1.0) / (1.0 + 0.4 / 0.25)
    long = fast * (1.2 - 1.0) * 0.4 / (10.0 * (1.4 - 1.2))
    np.testing.assert_allclose(
        curves.force_velocity(jnp.asarray([short, long]), jnp.full(2, a)), [0.4, 1.2], rtol=1e-14
    )


@pytest.mark.parametrize("family", NAMES)
def test_inverses(family):
    curves = FAMILIES[family]()
    force = jnp.asarray([2e-6, 1e-3, 0.1, 0.3, 0.66, 1.0, 2.0])
    strain = jnp.full_like(force, type(curves).typical["tendon_strain"])
    back = curves.tendon_force(curves.tendon_length(force, strain), strain)
    np.testing.assert_allclose(back, force, rtol=1e-12, atol=1e-14)
    rng = np.random.default_rng(1)
    size = 2000
    active = jnp.asarray(10.0 ** rng.uniform(-4, 0, size))
    damping = jnp.asarray(10.0 ** rng.uniform(-3, 0, size))
    wanted = jnp.asarray(active * rng.uniform(-0.3, 3.0, size))
    level = jnp.asarray(rng.uniform(0.01, 1.0, size))
    v = curves.velocity(active, damping, wanted, level)
    left = active * curves.force_velocity(v, level) + damping * v - wanted
    np.testing.assert_allclose(left / (active + damping), 0.0, atol=1e-12)


def test_bezier_corners_are_inverted_exactly():
    """Every curviness, tangents that meet anywhere between the knots, level ends included."""
    grid = np.meshgrid(
        [0.1, 0.3, 0.5, 0.7, 0.9],
        [0.0, 1e-8, 1e-4, 0.01, 0.06, 0.3, 0.5, 0.8, 0.999, 1.0],
        [0.0, 1e-12, 1e-5, 1e-3, *np.linspace(0.01, 0.99, 60), 0.999, 1.0],
    )
    curviness, meet, u = (jnp.asarray(x.ravel()) for x in grid)

    def corner(meet, curviness):
        one = jnp.ones_like(meet)
        return Corner(2.0 * one, 3.0 * one, 3.0 * curviness * meet, curviness)

    @jax.jit
    def there_and_back(meet, curviness, value):
        return corner(meet, curviness).at(corner(meet, curviness).parameter(value))

    value = corner(meet, curviness).at(u)
    np.testing.assert_allclose(there_and_back(meet, curviness, value), value, rtol=0, atol=4e-15)
    steep = (meet > 0.05) & (meet < 0.95)
    given = (meet[steep], curviness[steep], value[steep])
    slope = jax.jit(lambda given, along: jax.jvp(there_and_back, given, along)[1])
    for k in range(3):
        along = tuple(jnp.full_like(x, float(i == k)) for i, x in enumerate(given))
        np.testing.assert_allclose(slope(given, along), float(k == 2), rtol=0, atol=1e-12)


EXTREME = [-1e30, -1e6, -20.0, -1.0, 0.0, 0.1, 0.14946908, 1.0, 1.8, 3.0, 50.0, 1e6, 1e30]


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_finite_everywhere(family, dtype):
    x = jnp.asarray(EXTREME, dtype=dtype)
    # Bézier curves are straight beyond their ends, where 1e30 over- or underflows nothing.
    curves = jax.tree.map(lambda leaf: leaf.astype(dtype), FAMILIES[family]())

    def all_curves(x):
        return jnp.stack(
            [
                evaluate(curves, which, x)
                for which in ("active", "passive", "velocity", "tendon", "inverse_tendon")
            ]
            + [evaluate(curves, "inverse_velocity", jnp.clip(x, -1e6, 1e6))]
        )

    value, slope = jax.jit(lambda x: jax.jvp(all_curves, (x,), (jnp.ones_like(x),)))(x)
    assert value.dtype == dtype
    assert jnp.isfinite(value).all(), value
    assert jnp.isfinite(slope).all(), slope
    reverse = jax.jit(jax.grad(lambda x: all_curves(x).sum()))(jnp.clip(x, -1e6, 1e6))
    assert jnp.isfinite(reverse).all(), reverse


@pytest.mark.parametrize("family", QUICK)
def test_gradients_to_shape_constants(family):
    curves = FAMILIES[family]()
    leaves, structure = jax.tree.flatten(curves)
    length, speed, pull = one(0.83), one(-0.21), one(0.4)

    def value(leaves):
        curves = jax.tree.unflatten(structure, leaves)
        return (
            curves.active_force_length(length)
            + curves.passive_force_length(length + 0.6)
            + curves.force_velocity(speed)
            + curves.tendon_force(1.02 * jnp.ones(1), 0.05 * jnp.ones(1))
            + curves.tendon_length(pull, 0.05 * jnp.ones(1))
            + curves.velocity(one(0.5), one(0.1), pull)
        )[0]

    # Slopes of 0 at the ends are bounds of their range, so step along the others only.
    check_grads(jax.jit(value), (leaves,), order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6)


# Activation


def test_activation_rates():
    a, e, expected = (jnp.asarray([row[k] for row in REFERENCE["activation"]]) for k in range(3))
    times = (jnp.full_like(a, 0.015), jnp.full_like(a, 0.05), jnp.full_like(a, 0.01))
    rate = SwitchedActivation().rate(a, e, *times)
    np.testing.assert_allclose(rate, expected, rtol=1e-13)
    np.testing.assert_allclose(SmoothActivation(1e6).rate(a, e, *times), expected, rtol=1e-12)
    # The published smoothing of 0.1, from the formula in the paper.
    f = 0.5 * np.tanh(0.1 * np.asarray(e - a))
    pace = 0.5 + 1.5 * np.asarray(a)
    formula = (1.0 / (0.015 * pace) * (f + 0.5) + pace / 0.05 * (0.5 - f)) * np.asarray(e - a)
    np.testing.assert_allclose(SmoothActivation(0.1).rate(a, e, *times), formula, rtol=1e-13)


def test_excitation_is_held_in_its_range():
    a = jnp.asarray([0.01, 1.0])
    times = (jnp.full(2, 0.015), jnp.full(2, 0.05), jnp.full(2, 0.01))
    for model in (SwitchedActivation(), SmoothActivation()):
        np.testing.assert_allclose(model.rate(a, jnp.asarray([-3.0, 7.0]), *times), 0.0, atol=1e-12)


# Whole units against OpenSim


@pytest.mark.parametrize("family", NAMES)
def test_equilibrium_equals_opensim(family):
    rows = np.asarray(REFERENCE["equilibrium"][family])
    units = muscles(family, len(rows))
    l_mt, a = jnp.asarray(rows[:, 0]), jnp.asarray(rows[:, 1])

    @eqx.filter_jit
    def run(units, a, l_mt):
        state = units.initial_state(l_mt, None, a)
        return units.equilibrium(a, l_mt), units.outputs(state, l_mt, jnp.zeros_like(l_mt))

    found, out = run(units, a, l_mt)
    assert (found.status == BALANCED).all()
    # OpenSim stops its iteration at about 1e-8 of the force; its Thelen muscle earlier.
    tolerance = {"thelen": 2e-6, "millard": 2e-6, "de_groote_fregly": 2e-6}[family]
    np.testing.assert_allclose(found.fibre_length, rows[:, 2], rtol=tolerance)
    for ours, column in (
        (out.tendon_force, 3),
        (out.pennation, 4),
        (out.tendon_strain, 5),
        (out.active_force, 6),
    ):
        np.testing.assert_allclose(ours, rows[:, column], rtol=20 * tolerance, atol=1e-4)
    np.testing.assert_allclose(out.passive_force, rows[:, 7], rtol=20 * tolerance, atol=1e-2)
    np.testing.assert_allclose(out.normalised_fibre_velocity, 0.0, atol=1e-11)


@pytest.mark.parametrize("family", ["millard", "thelen"])
def test_fibre_speed_equals_opensim(family):
    rows = np.asarray(REFERENCE["explicit"][family])
    units = muscles(family, len(rows))
    state = HillState(jnp.asarray(rows[:, 1]), jnp.asarray(rows[:, 2]))
    l_mt = jnp.asarray(rows[:, 0])
    out = units.outputs(state, l_mt, jnp.zeros_like(l_mt))
    np.testing.assert_allclose(out.tendon_force, rows[:, 3], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(out.normalised_fibre_velocity, rows[:, 4], rtol=1e-8)


@pytest.mark.parametrize("family", ["millard", "de_groote_fregly"])
def test_rigid_tendon_equals_opensim(family):
    rows = np.asarray(REFERENCE["rigid"][family])
    units = muscles(family, len(rows), tendon="rigid")
    state = HillState(jnp.asarray(rows[:, 1]))
    l_mt, v_mt = jnp.asarray(rows[:, 0]), jnp.asarray(rows[:, 2])
    out = units.outputs(state, l_mt, v_mt)
    np.testing.assert_allclose(out.normalised_fibre_length, rows[:, 3], rtol=1e-12)
    np.testing.assert_allclose(out.normalised_fibre_velocity, rows[:, 4], rtol=1e-12)
    np.testing.assert_allclose(out.tendon_force, rows[:, 5], rtol=1e-9)
    np.testing.assert_allclose(out.musculotendon_power, rows[:, 7], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out.tendon_force, units.force(state, l_mt, v_mt), rtol=1e-14)


# States, balance, power

SIZE = 6


def varied(family: str, seed: int = 0) -> tuple[HillParameters, np.random.Generator]:
    rng = np.random.default_rng(seed)
    p = HillParameters.of(
        [f"m{i}" for i in range(SIZE)],
        rng.uniform(100, 1500, SIZE),
        rng.uniform(0.03, 0.2, SIZE),
        rng.uniform(0.02, 0.3, SIZE),
        pennation=rng.uniform(0.0, 0.5, SIZE),
        **(dict(FAMILIES[family].typical) | {"damping": 0.05}),
    )
    return p, rng


CASES = [
    ("rigid", "explicit"),
    ("elastic", "explicit"),
    ("elastic", "implicit"),
]


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize(("tendon", "formulation"), CASES)
def test_powers_and_forces_balance(family, tendon, formulation):
    p, rng = varied(family)
    units = HillMuscles(p, FAMILIES[family](), tendon=tendon, formulation=formulation)
    assert units.n_states == SIZE * (1 if tendon == "rigid" else 2)
    stretch = jnp.asarray(rng.uniform(0.7, 1.25, SIZE))
    l_mt = p.tendon_slack_length + stretch * p.optimal_fibre_length * jnp.cos(p.pennation)
    v_mt = p.optimal_fibre_length * jnp.asarray(rng.normal(0, 1.0, SIZE))
    a = jnp.asarray(rng.uniform(0.05, 1.0, SIZE))
    e = jnp.asarray(rng.uniform(0.0, 1.0, SIZE))

    @eqx.filter_jit
    def run(units, a, l_mt, v_mt):
        state = units.initial_state(l_mt, None, 0.8 * a)
        if units.activation_dynamics is not None:  # not in balance: the activation has changed
            state = eqx.tree_at(lambda s: s.activation, state, a)
        rate = units.derivative(state, e, l_mt, v_mt)
        left = units.residual(state, rate, e, l_mt, v_mt)
        return (
            state,
            rate,
            left,
            units.outputs(state, l_mt, v_mt),
            units.force(state, l_mt, v_mt),
        )

    _, rate, left, out, force = run(units, a, l_mt, v_mt)
    scale = p.max_isometric_force
    np.testing.assert_allclose(out.tendon_force, force, rtol=1e-14)
    total = out.fibre_power + out.tendon_power
    np.testing.assert_allclose(total / scale, out.musculotendon_power / scale, atol=1e-12)
    np.testing.assert_allclose(out.musculotendon_power, -force * v_mt, rtol=1e-14)
    parts = out.active_force + out.passive_force + out.damping_force
    np.testing.assert_allclose(parts / scale, out.fibre_force / scale, atol=1e-12)
    np.testing.assert_allclose(out.fibre_force * jnp.cos(out.pennation), force, rtol=1e-13)
    length = out.tendon_length + out.fibre_length * jnp.cos(out.pennation)
    np.testing.assert_allclose(length, l_mt, rtol=1e-13)
    assert all(np.abs(x).max() < 1e-10 for x in jax.tree.leaves(left))
    # Constant thickness.
    height = out.fibre_length * jnp.sin(out.pennation)
    np.testing.assert_allclose(height, p.optimal_fibre_length * jnp.sin(p.pennation), atol=1e-15)
    if formulation == "explicit" and tendon == "elastic":
        speed = rate.fibre * p.optimal_fibre_length
        np.testing.assert_allclose(speed, out.fibre_velocity, rtol=1e-13)
    if formulation == "implicit":
        # Tendon force follows its stiffness.
        expected = out.tendon_stiffness * out.tendon_velocity / scale
        np.testing.assert_allclose(rate.fibre, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", QUICK)
@pytest.mark.parametrize("formulation", ["explicit", "implicit"])
def test_held_muscle_settles_in_equilibrium(family, formulation):
    p, _ = varied(family, seed=3)
    units = HillMuscles(p, FAMILIES[family](), activation_dynamics=None, formulation=formulation)
    # Lengths on the ascending limb, where the balance is stable.
    l_mt = p.tendon_slack_length * 1.01 + 0.8 * p.optimal_fibre_length

    @eqx.filter_jit
    def settle(units, start, level):
        state = units.initial_state(l_mt, None, start)
        still = jnp.zeros_like(l_mt)

        def step(_, fibre):
            def rate(x):
                return units.derivative(HillState(None, x), level, l_mt, still).fibre

            # Linearly implicit steps: the balance with a stiff tendon is reached fast.
            k, slope = jax.jvp(rate, (fibre,), (jnp.ones_like(fibre),))
            h = 2e-3
            return fibre + h * k / (1.0 - h * jnp.minimum(slope, 0.0))

        return jax.lax.fori_loop(0, 4000, step, state.fibre), units.initial_state(
            l_mt, None, level
        ).fibre

    for start, level in ((1.0, 0.01), (0.01, 1.0)):
        end, expected = settle(units, jnp.full(SIZE, start), jnp.full(SIZE, level))
        np.testing.assert_allclose(end, expected, rtol=1e-7)


@pytest.mark.parametrize("family", QUICK)
def test_any_path_length_is_finite(family):
    p = same_unit(family, 1)
    units = {
        "elastic": HillMuscles(p, FAMILIES[family]()),
        "implicit": HillMuscles(p, FAMILIES[family](), formulation="implicit"),
        "rigid": HillMuscles(p, FAMILIES[family](), tendon="rigid"),
    }
    slack, optimal = p.tendon_slack_length[0], p.optimal_fibre_length[0]
    reach = jnp.asarray([-1e3, -1.0, 0.0, 0.01, SHORTEST, 0.06, 0.1, 0.5, 1.0, 1.6, 3.0, 1e3])
    l_mt = (slack + optimal * reach)[:, None]
    v_mt = jnp.asarray([0.0, 1e3, -1e3])

    def values(units, x):
        l_mt, v_mt, level = x
        shared = None if units.formulation == "implicit" else v_mt
        state = units.initial_state(l_mt, shared, level)
        rate = units.derivative(state, level, l_mt, v_mt)
        return units.force(state, l_mt, v_mt), jax.tree.leaves((state, rate))

    def batch(units, l_mt, v_mt, level):
        def one_sample(l_mt, v_mt):
            x = (l_mt, v_mt, jnp.full_like(l_mt, level))
            ones = jax.tree.map(jnp.ones_like, x)
            return jax.jvp(lambda x: values(units, x), (x,), (ones,))

        return jax.vmap(one_sample)(l_mt, v_mt)

    pairs = [(length, speed) for speed in v_mt for length in l_mt[:, 0]]
    l_all, v_all = (jnp.asarray([pair[k] for pair in pairs])[:, None] for k in range(2))
    for name, unit in units.items():
        value, slope = eqx.filter_jit(batch)(unit, l_all, v_all, jnp.asarray(0.4))
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(value)), name
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(slope)), name
        np.testing.assert_array_equal(value[0][:3], 0.0)  # a slack tendon bears nothing
    balance = eqx.filter_jit(lambda unit, path: unit.equilibrium(one(0.4), path).status)
    status = jax.vmap(lambda path: balance(units["elastic"], path))(l_mt)
    assert (status[:4] == SLACK).all()
    assert (status[7:11] == BALANCED).all()


@pytest.mark.parametrize("family", QUICK)
@pytest.mark.parametrize(("tendon", "formulation"), CASES)
def test_gradients_equal_differences(family, tendon, formulation):
    p, rng = varied(family, seed=7)
    curves = FAMILIES[family]()
    l_mt = p.tendon_slack_length * 1.01 + 0.9 * p.optimal_fibre_length
    v_mt = p.optimal_fibre_length * jnp.asarray(rng.uniform(-2.0, -0.5, SIZE))
    level = jnp.asarray(rng.uniform(0.2, 0.9, SIZE))

    def value(scales, stretch, speed, level):
        changed = jax.tree.map(lambda x, s: x * s, p, scales)
        units = HillMuscles(changed, curves, tendon=tendon, formulation=formulation)
        path, pace = l_mt * stretch, v_mt * speed
        # Sharing the speed solves twice; once is enough for the other cases.
        state = units.initial_state(path, pace if formulation == "explicit" else None, level)
        rate = units.derivative(state, 0.5 * level, path, pace)
        force = units.force(state, path, pace)
        rates = sum(x.sum() for x in jax.tree.leaves(rate))
        return 1e-3 * rates + (force / p.max_isometric_force).sum() + state.activation.sum()

    scales = jax.tree.map(jnp.ones_like, p)
    arguments = (scales, jnp.ones(SIZE), jnp.ones(SIZE), level)
    check_grads(
        jax.jit(value), arguments, order=1, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5, eps=1e-5
    )


# Use


def test_batches_without_new_traces():
    units = muscles("de_groote_fregly", 3)
    count = 0

    @eqx.filter_jit
    def rates(units, state, e, l_mt, v_mt):
        nonlocal count
        count += 1
        return jax.vmap(units.derivative)(state, e, l_mt, v_mt)

    shape = (5, 3)
    state = HillState(jnp.full(shape, 0.3), jnp.full(shape, 0.9))
    arguments = (jnp.full(shape, 0.5), jnp.full(shape, 0.21), jnp.zeros(shape))
    first = rates(units, state, *arguments)
    other = eqx.tree_at(lambda u: u.parameters.max_isometric_force, units, jnp.ones(3))
    rates(other, state, *arguments)
    assert count == 1
    single = units.derivative(jax.tree.map(lambda x: x[0], state), *(x[0] for x in arguments))
    np.testing.assert_allclose(first.fibre[0], single.fibre, rtol=1e-13)


def test_mixed_families():
    p = same_unit("millard", 3)
    mixed = HillMuscles(p, MixedCurves((Thelen(), Millard()), ((2, 0), (1,))))
    l_mt, level = jnp.full(3, 0.215), jnp.full(3, 0.4)
    balance = eqx.filter_jit(lambda units: units.equilibrium(level, l_mt))
    found = balance(mixed)
    for curves, unit in ((Thelen(), 0), (Millard(), 1), (Thelen(), 2)):
        alone = balance(HillMuscles(p, curves))
        np.testing.assert_allclose(found.fibre_length[unit], alone.fibre_length[unit], rtol=1e-12)
    with pytest.raises(ValueError, match="every unit from 0 to 2 once"):
        MixedCurves((Thelen(), Millard()), ((0, 1), (1,)))


def test_activation_can_be_left_out():
    units = muscles("thelen", 2, activation_dynamics=None, tendon="rigid")
    state = units.initial_state(jnp.full(2, 0.21))
    assert units.n_states == 0
    assert jax.tree.leaves(state) == []
    force = units.force(state, jnp.full(2, 0.21), jnp.zeros(2), jnp.asarray([0.2, 0.4]))
    np.testing.assert_allclose(force[1] / force[0], 2.0)
    with pytest.raises(ValueError, match="give the excitation"):
        units.force(state, jnp.full(2, 0.21), jnp.zeros(2))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("optimal_fibre_length", 0.0, "optimal fibre length of muscle 'biceps' is 0 m"),
        ("max_isometric_force", -5.0, "max isometric force of muscle 'biceps' is -5 N"),
        ("tendon_slack_length", 0.0, "tendon slack length of muscle 'biceps'"),
        ("pennation", 20.0, "pennation of muscle 'biceps' is 20 rad.*radians"),
        ("damping", -0.1, "damping of muscle 'biceps'"),
        ("minimum_activation", 1.0, "minimum activation of muscle 'biceps'"),
        ("tendon_strain", float("nan"), "tendon strain of muscle 'biceps' is nan"),
        ("activation_time", 0.0, "activation time of muscle 'biceps'"),
    ],
)
def test_bad_numbers_name_the_muscle(field, value, message):
    given = {"max_isometric_force": 100.0, "optimal_fibre_length": 0.1, "tendon_slack_length": 0.2}
    good = given.get(field, HillParameters.of(["x"], *given.values()).__dict__[field][0])
    with pytest.raises(ValueError, match=message):
        HillParameters.of(["triceps", "biceps"], **(given | {field: [float(good), value]}))


def test_bad_sizes_and_options():
    with pytest.raises(ValueError, match=r"shape \(3,\) for 2 muscle names"):
        HillParameters.of(["a", "b"], [1.0, 2.0, 3.0], 0.1, 0.1)
    with pytest.raises(ValueError, match="used twice"):
        HillParameters.of(["a", "a"], 1.0, 0.1, 0.1)
    p = HillParameters.of(["a"], 1.0, 0.1, 0.1, damping=0.0, minimum_activation=0.0)
    with pytest.raises(ValueError, match="'a' has neither damping nor a minimum activation"):
        HillMuscles(p)
    assert HillMuscles(p, tendon="rigid").n_states == 1


def test_second_derivatives():
    p = same_unit("de_groote_fregly", 1)

    def force(scale):
        changed = eqx.tree_at(lambda p: p.tendon_slack_length, p, 0.13 * scale)
        return HillMuscles(changed).equilibrium(one(0.6), one(0.215)).tendon_force[0]

    slope = jax.jit(jax.grad(lambda x: force(one(1.0) * x)))
    curvature = jax.jit(jax.grad(lambda x: slope(x)))(jnp.asarray(1.0))
    h = 1e-4
    differences = (slope(jnp.asarray(1.0 + h)) - slope(jnp.asarray(1.0 - h))) / (2 * h)
    np.testing.assert_allclose(curvature, differences, rtol=1e-5)


def test_traced_numbers_are_not_looked_at():
    def peak(slack):
        p = HillParameters.of(["a"], 100.0, 0.1, slack)
        return HillMuscles(p).equilibrium(one(1.0), one(0.3)).tendon_force[0]

    slope = jax.jit(jax.grad(peak))(jnp.asarray(0.2))
    assert jnp.isfinite(slope)
    assert slope != 0.0
