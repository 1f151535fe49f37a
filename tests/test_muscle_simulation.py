"""Motion driven by muscles: statics, energy, stability, gradients, excitations, errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson, solve_ivp
from scipy.optimize import brentq

import empbody as eb
from empbody.simulation import SimulationError, SimulationStatus

MASS, G = 8.0, 9.81
TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def hanging(**given):
    """A mass that hangs on one muscle; the coordinate is the muscle's length."""
    numbers = {
        "max_isometric_force": 300.0,
        "optimal_fibre_length": 0.1,
        "tendon_slack_length": 0.2,
        "pennation": 0.2,
    }
    ends = [eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("mass", (0, 0, 0))]
    return eb.Model.build(
        ("length",),
        [eb.Body("mass", "ground", eb.Prismatic((0, -1, 0)), MASS)],
        gravity=(0, -G, 0),
        muscles=[eb.Muscle("m", ends, **(numbers | given))],
    )


def forearm(**given):
    """A forearm with a flexor and an extensor, the upper arm hanging; rigid tendons."""
    numbers = {"optimal_fibre_length": 0.12, "tendon_slack_length": 0.19, "tendon": "rigid"}
    flexor = [eb.PathPoint("ground", (0.02, 0.0, 0)), eb.PathPoint("fore", (0.01, -0.04, 0))]
    extensor = [eb.PathPoint("ground", (-0.03, 0.0, 0)), eb.PathPoint("fore", (-0.02, 0.01, 0))]
    joint = eb.Revolute((0, 0, 1), (0, -0.3, 0))
    return eb.Model.build(
        ("elbow",),
        [eb.Body("fore", "ground", joint, 1.5, (0, -0.12, 0), (0.008, 0.001, 0.008))],
        ranges={"elbow": (-0.1, 2.6)},
        muscles=[
            eb.Muscle("flexor", flexor, max_isometric_force=435.0, **(numbers | given)),
            eb.Muscle("extensor", extensor, max_isometric_force=600.0, **(numbers | given)),
        ],
    )


@pytest.fixture(scope="module")
def weight():
    return hanging()


@pytest.fixture(scope="module")
def elbow():
    return forearm()


def resting_length(model, level):
    """Where the balanced muscle carries the weight, by bisection."""
    force = jax.jit(lambda x: model.muscles.equilibrium(jnp.array([level]), x).tendon_force)
    carried = MASS * G / float(model.muscles.parameters.max_isometric_force[0])
    return brentq(lambda x: float(force(jnp.array([x]))[0]) - carried, 0.2, 0.45, xtol=1e-13)


# Statics and stability of elastic tendons

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("solver", "formulation"),
    [
        ("tsit5", "explicit"),
        pytest.param("tsit5", "implicit", marks=SLOW),
        pytest.param("kvaerno5", "explicit", marks=SLOW),
        pytest.param("kvaerno5", "implicit", marks=SLOW),
    ],
)
def test_elastic_tendon_at_least_and_full_activation(solver, formulation):
    """Let go from a short and from a stretched muscle, the weight swings less and less."""
    model = hanging(formulation=formulation)
    ts = np.linspace(0.0, 1.5, 31)
    options = {"solver": solver, "rtol": 1e-7, "atol": 1e-7}
    for level in (0.01, 1.0):
        there = resting_length(model, level)
        drive = jnp.array([level])
        state = eb.initial_muscle_state(model, jnp.array([there]), activation=drive)
        still = eb.simulate(
            model, [there], [0.0], ts, excitation=drive, muscle_state=state, **options
        )
        assert float(jnp.max(jnp.abs(still.q - there))) < 1e-6
        for away in (-0.03, 0.02):
            start = jnp.array([there + away])
            state = eb.initial_muscle_state(model, start, activation=drive)
            fallen = eb.simulate(
                model, start, [0.0], ts, excitation=drive, muscle_state=state, **options
            )
            assert bool(jnp.all(jnp.isfinite(fallen.muscles.fibre)))
            swing = np.abs(fallen.q[:, 0] - there)
            assert swing[-10:].max() < 0.85 * swing[:10].max()
            assert int(fallen.stats["num_steps"]) < 8000
            out = fallen.muscle_outputs(model)
            assert bool(jnp.all(out.tendon_force >= 0.0))


def test_mass_finds_its_static_length():
    """A damped muscle: by 2 s nothing moves any more."""
    model = hanging(damping=0.3)
    ts = np.linspace(0.0, 2.0, 3)
    found = eb.simulate(model, [0.29], [0.0], ts, excitation=[0.4], rtol=1e-8, atol=1e-8)
    assert float(found.q[-1, 0]) == pytest.approx(resting_length(model, 0.4), abs=1e-6)
    np.testing.assert_allclose(found.muscles.activation[-1], 0.4, atol=1e-8)
    out = found.muscle_outputs(model)
    np.testing.assert_allclose(out.tendon_force[-1], MASS * G, rtol=1e-4)
    np.testing.assert_array_equal(found.excitation, 0.4)


# Energy


def test_work_of_the_muscles_is_the_change_of_energy(elbow):
    ts = np.linspace(0.0, 0.4, 801)

    def excitation(t, q, qd):
        return jnp.stack([0.3 + 0.2 * jnp.sin(20.0 * t), 0.1 - 0.05 * jnp.sin(20.0 * t)])

    found = eb.simulate(elbow, [0.4], [0.0], ts, excitation=excitation, **TIGHT)
    power = found.muscle_outputs(elbow).musculotendon_power.sum(axis=1)
    work = simpson(np.asarray(power), x=ts)
    gain = float(found.energy(elbow)[-1] - found.energy(elbow)[0])
    assert abs(gain) > 0.5
    assert work == pytest.approx(gain, rel=1e-6)
    # The activations are those of their own equation.
    hill = elbow.muscles
    rate = jax.jit(
        lambda t, a: (
            hill.derivative(
                eb.HillState(a), excitation(t, None, None), jnp.ones(2), jnp.zeros(2)
            ).activation
        )
    )
    alone = solve_ivp(rate, (0.0, 0.4), np.full(2, 0.01), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.muscles.activation[-1], alone.y[:, -1], atol=1e-7)


# Excitations


class Reflex(eqx.Module):
    """Flexor excited by its own stretch."""

    gain: jax.Array

    def __call__(self, t, q, qd, muscles):
        stretch = jnp.maximum(muscles.fibre - 0.9, 0.0)
        return 0.02 + self.gain * stretch


def test_reflex_sees_the_muscles(weight):
    ts = np.linspace(0.0, 0.5, 11)
    found = [
        eb.simulate(weight, [0.3], [0.0], ts, excitation=Reflex(jnp.asarray(gain)))
        for gain in (0.0, 2.0)
    ]
    np.testing.assert_allclose(found[0].excitation, 0.02)
    stretch = np.maximum(found[1].muscles.fibre - 0.9, 0.0)
    np.testing.assert_allclose(found[1].excitation, 0.02 + 2.0 * stretch, rtol=1e-12)
    assert float(found[1].q[-1, 0]) < float(found[0].q[-1, 0]) - 0.005


def test_excitations_in_percent_are_told(weight):
    """They are held between 0 and 1, but not without a word."""
    ts = np.linspace(0.0, 0.5, 11)
    message = r"excitation of muscle 'm' is .* acts as 1: .*percent"
    with pytest.warns(UserWarning, match=message):
        eb.simulate(weight, [0.3], [0.0], ts, excitation=Reflex(jnp.asarray(100.0)))


def test_without_excitation_muscles_take_no_part(elbow):
    ts = np.linspace(0.0, 0.1, 4)
    bare = elbow.with_muscles([])
    found = eb.simulate(elbow, [0.5], [0.0], ts)
    np.testing.assert_array_equal(found.q, eb.simulate(bare, [0.5], [0.0], ts).q)
    assert found.muscles is None
    with pytest.raises(ValueError, match="muscles took no part"):
        found.muscle_outputs(elbow)


def test_muscles_add_to_tau_and_stop_at_events(elbow):
    """What the muscles give can be held by torque; a strong pull ends at the limit."""
    traces = []

    def tau(t, q, qd):
        traces.append(None)
        return jnp.where(t < 1.0, 0.0, 1.0) * q - 0.1 * qd

    ts = np.linspace(0.0, 1.0, 11)
    limit = eb.CoordinateLimit("elbow", upper=1.5)
    options = {"tau": tau, "event": limit, "dense": True, "max_steps": 512}
    found = eb.simulate(elbow, [0.5], [0.0], ts, excitation=[0.6, 0.01], **options)
    assert bool(found.status == SimulationStatus.event)
    assert float(found.q_final[0]) == pytest.approx(1.5, abs=1e-9)
    assert found.muscles_final.activation.shape == (2,)
    assert float(found.muscles_final.activation[0]) > 0.5
    assert bool(jnp.isnan(found.muscles.activation[-1, 0]))
    assert bool(jnp.isnan(found.excitation[-1, 0]))
    q, qd = found.evaluate(0.1)
    assert q.shape == qd.shape == (1,)
    np.testing.assert_allclose(q, found.q[1], atol=1e-12)
    before = len(traces)
    weaker = eqx.tree_at(
        lambda m: m.muscles.parameters.max_isometric_force, elbow, jnp.array([300.0, 500.0])
    )
    slower = eb.simulate(weaker, [0.6], [0.0], ts, excitation=[0.7, 0.02], **options)
    assert float(slower.t_final) != float(found.t_final)
    assert len(traces) == before


# Gradients


@pytest.mark.parametrize(
    "adjoint",
    ["forward", pytest.param("checkpoint", marks=SLOW), pytest.param("backsolve", marks=SLOW)],
)
def test_gradients_of_a_simulated_length(weight, adjoint):
    """To slack length, strength and an excitation, through activation and elastic tendon."""
    ts = np.linspace(0.0, 0.15, 4)

    def end(values, adjoint):
        slack, strength, level = values
        model = eqx.tree_at(
            lambda m: (
                m.muscles.parameters.tendon_slack_length,
                m.muscles.parameters.max_isometric_force,
            ),
            weight,
            (slack[None], strength[None]),
        )
        options = {"adjoint": adjoint, "rtol": 1e-10, "atol": 1e-10, "max_steps": 4096}
        drive = level[None]
        return eb.simulate(model, [0.31], [0.0], ts, excitation=drive, **options).q[-1, 0]

    values = jnp.array([0.2, 300.0, 0.6])
    jacobian = jax.jacfwd if adjoint == "forward" else jax.jacrev
    found = jax.jit(jacobian(lambda x: end(x, adjoint)))(values)
    assert bool(jnp.all(jnp.isfinite(found)))
    run = jax.jit(lambda x: end(x, "checkpoint"))
    steps = values * 1e-4
    for k in range(3):
        there, back = values.at[k].add(steps[k]), values.at[k].add(-steps[k])
        difference = (run(there) - run(back)) / (2 * steps[k])
        np.testing.assert_allclose(found[k], difference, rtol=1e-4)


@pytest.mark.slow
def test_batch_of_subjects(elbow):
    ts = np.linspace(0.0, 0.2, 3)
    strength = jnp.array([[300.0, 500.0], [435.0, 600.0]])

    def run(strength):
        model = eqx.tree_at(lambda m: m.muscles.parameters.max_isometric_force, elbow, strength)
        return eb.simulate(model, [0.5], [0.0], ts, excitation=[0.3, 0.1], **TIGHT)

    both = jax.vmap(run)(strength)
    assert both.muscles.activation.shape == (2, 3, 2)
    for k in range(2):
        np.testing.assert_allclose(both.q[k], run(strength[k]).q, atol=1e-8)


def test_rigid_tendons_without_activation_dynamics():
    """Nothing but q and qd is integrated; excitations act at once."""
    model = forearm(activation_dynamics=None)
    ts = np.linspace(0.0, 0.3, 4)
    found = eb.simulate(model, [0.5], [0.0], ts, excitation=[0.3, 0.1])
    assert found.muscles.activation is None
    assert found.muscles.fibre is None
    np.testing.assert_allclose(found.muscle_outputs(model).activation, [[0.3, 0.1]] * 4)


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"excitation": [0.1, 0.2]}, r"excitation has shape \(2,\) for 1 muscles \(m\)"),
        ({"excitation": [50.0]}, r"excitation of muscle 'm' is 50: it must be in \[0, 1\]"),
        ({"excitation": [float("nan")]}, "excitation of muscle 'm' is nan"),
        ({"excitation": lambda t: t}, r"excitation takes the arguments \(t\); give a function"),
        ({"excitation": lambda t, q, qd: jnp.ones(2)}, r"has shape \(2,\) for 1 muscles"),
        ({"muscle_state": eb.HillState()}, "no excitation: muscles act only where excited"),
        ({"excitation": [0.1], "muscle_state": [1.0]}, "muscle_state is a list; give a HillState"),
        ({"excitation": [0.1], "muscle_state": eb.HillState(jnp.ones(1))}, "has no fibre"),
        (
            {"excitation": [0.1], "muscle_state": eb.HillState(None, jnp.ones(1))},
            "muscle_state has no activation",
        ),
    ],
)
def test_bad_input(weight, given, message):
    with pytest.raises(ValueError, match=message):
        eb.simulate(weight, [0.3], [0.0], [0.0, 0.1], **given)


def test_models_without_muscles_cannot_be_excited(elbow):
    with pytest.raises(ValueError, match="the model has no muscles"):
        eb.simulate(elbow.with_muscles([]), [0.5], [0.0], [0.0, 0.1], excitation=[])
    path = eb.Path("p", [eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("fore", (0, 0, 0))])
    with pytest.raises(ValueError, match=r"\(p\) are paths without force parameters"):
        eb.simulate(elbow.with_muscles([path]), [0.5], [0.0], [0.0, 0.1], excitation=[0.1])


def test_a_start_that_is_not_finite_names_the_muscle(elbow):
    state = eb.HillState(jnp.array([0.1, jnp.nan]))
    with pytest.raises(SimulationError, match="activation of muscle 'extensor' is not finite"):
        eb.simulate(elbow, [0.5], [0.0], [0.0, 0.1], excitation=[0.1, 0.1], muscle_state=state)


@pytest.mark.parametrize(
    ("since", "options"), [(0.0, {}), (0.05, {}), (0.05, {"fixed_step": 0.01})]
)
def test_an_excitation_that_is_not_a_number_names_the_muscle(elbow, since, options):
    def excitation(t, q, qd):
        return jnp.array([0.1, jnp.where(t >= since, jnp.nan, 0.1)])

    with pytest.raises(SimulationError) as caught:
        eb.simulate(elbow, [0.5], [0.0], [0.0, 0.03, 0.1], excitation=excitation, **options)
    words = str(caught.value)
    assert "the excitation of muscle 'extensor' is NaN at t = " in words
    when = float(words.split("t = ")[1].split(" s")[0])
    assert since <= when < since + 0.051


def slider(**ranges):
    """A forearm whose flexor's insertion slides, as far as its range goes."""
    sliding = eb.rhythms.Affine([[0.002], [0.0], [0.0]], [0.01, -0.04, 0.0])
    points = [
        eb.PathPoint("ground", (0.02, 0.0, 0)),
        eb.MovingPoint("fore", sliding, ("elbow",), ranges),
    ]
    flexor = eb.Muscle(
        "flexor",
        points,
        max_isometric_force=435.0,
        optimal_fibre_length=0.12,
        tendon_slack_length=0.19,
        tendon="rigid",
    )
    return forearm().with_muscles([flexor])


def test_moving_point_out_of_range_names_the_muscle():
    model = slider(elbow=(0.0, 1.0))
    far, rest, level = jnp.array([1.2]), jnp.zeros(1), jnp.array([0.5])
    for function in (eb.muscle_forces, eb.muscle_torques, eb.muscle_outputs):
        with pytest.raises(ValueError, match="point 2 of 'flexor' moves with 'elbow'"):
            function(model, far, rest, level)
    with pytest.raises(ValueError, match="point 2 of 'flexor' moves with 'elbow'"):
        eb.initial_muscle_state(model, far)
    ts = np.linspace(0.0, 0.5, 11)
    with pytest.raises(SimulationError, match="q0 is not usable: point 2 of 'flexor'"):
        eb.simulate(model, far, rest, ts, excitation=level)
    # On its way out of the coordinate's own range it leaves the point's first.
    with pytest.raises(SimulationError, match="a muscle's path is not known any more: point 2"):
        eb.simulate(model, [0.5], [4.0], ts, excitation=level)
    left = eb.simulate(model, [0.5], [4.0], ts, excitation=level, throw=False)
    assert bool(left.status == SimulationStatus.left_range)
