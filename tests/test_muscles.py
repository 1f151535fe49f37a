"""Muscles of a model: description, forces, torques, powers, gradients, errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import empbody as eb
from empbody.muscles import (
    DeGrooteFregly,
    HillMuscles,
    HillState,
    Millard,
    MixedCurves,
    SwitchedActivation,
    Thelen,
)

NUMBERS = {"max_isometric_force": 600.0, "optimal_fibre_length": 0.1, "tendon_slack_length": 0.2}
ORIGIN = eb.PathPoint("ground", (0.02, 0.0, 0.01))
POINTS = (
    (ORIGIN, eb.PathPoint("fore", (0.02, -0.04, 0.0))),
    (eb.PathPoint("upper", (-0.03, 0.02, 0.0)), eb.PathPoint("fore", (-0.02, 0.01, 0.01))),
    (ORIGIN, eb.PathPoint("upper", (0.03, -0.2, 0.0)), eb.PathPoint("fore", (0.02, -0.05, 0.0))),
)
Q, QD = jnp.array([0.3, 0.7]), jnp.array([1.5, -2.0])


def muscle(name="m", points=POINTS[0], **given):
    return eb.Muscle(name, points, **(NUMBERS | given))


def arm(muscles):
    """Two links in a plane."""
    bodies = [
        eb.Body("upper", "ground", eb.Revolute((0, 0, 1)), 2.0, (0, -0.15, 0), (0.02, 0.0, 0.02)),
        eb.Body("fore", "upper", eb.Revolute((0, 0, 1), (0, -0.3, 0)), 1.5, (0, -0.12, 0)),
    ]
    return eb.Model.build(("shoulder", "elbow"), bodies, muscles=muscles)


def three(**given):
    slack = (0.22, 0.19, 0.25)
    return arm(
        [
            muscle(f"m{k}", points, **({"tendon_slack_length": slack[k], "pennation": 0.2} | given))
            for k, points in enumerate(POINTS)
        ]
    )


@pytest.fixture(scope="module")
def rigid():
    return three(tendon="rigid")


@pytest.fixture(scope="module")
def elastic():
    return three()


# What is packed


def test_numbers_become_arrays_of_all_muscles():
    model = arm([muscle("a"), muscle("b", POINTS[1], max_isometric_force=300.0, damping=0.05)])
    hill = model.muscles
    assert isinstance(hill, HillMuscles)
    assert hill.names == model.muscle_names == ("a", "b")
    np.testing.assert_array_equal(hill.parameters.max_isometric_force, [600.0, 300.0])
    np.testing.assert_array_equal(hill.parameters.damping, [0.01, 0.05])
    assert isinstance(hill.curves, DeGrooteFregly)
    assert (hill.tendon, hill.formulation) == ("elastic", "explicit")


def test_numbers_left_out_belong_to_the_curves():
    units = [
        muscle("a", curves="millard"),
        muscle("b", curves="thelen"),
        muscle("c", curves=Millard(), damping=0.3),
        muscle("d"),
    ]
    hill = arm(units).muscles
    np.testing.assert_array_equal(hill.parameters.damping, [0.1, 0.0, 0.3, 0.01])
    np.testing.assert_array_equal(hill.parameters.tendon_strain, [0.049, 0.04, 0.049, 0.049])
    assert isinstance(hill.curves, MixedCurves)
    assert hill.curves.units == ((0, 2), (1,), (3,))


def test_curves_with_constants_of_their_own_are_stacked():
    units = [
        muscle("a", curves=Thelen(passive_strain=0.5)),
        muscle("b", curves="thelen"),
        muscle("c", curves=Thelen(passive_strain=0.7)),
    ]
    curves = arm(units).muscles.curves
    assert isinstance(curves, Thelen)
    np.testing.assert_array_equal(curves.passive_strain, [0.5, 0.6, 0.7])
    np.testing.assert_allclose(curves.passive_force_length(1.0 + curves.passive_strain), 1.0)
    bells = DeGrooteFregly(active_height=(0.8, 0.4, 0.1))
    mixed = arm([muscle("a", curves=bells), muscle("b")]).muscles.curves
    assert isinstance(mixed, MixedCurves)


def test_options_of_all_muscles():
    options = {"tendon": "elastic", "formulation": "implicit", "activation_dynamics": "switched"}
    hill = arm([muscle("a", **options), muscle("b", POINTS[1], **options)]).muscles
    assert hill.formulation == "implicit"
    assert isinstance(hill.activation_dynamics, SwitchedActivation)
    assert arm([muscle(activation_dynamics=None)]).muscles.activation_dynamics is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimal_fibre_length": 0.0}, r"optimal fibre length of muscle 'bad' is 0 m.*positive"),
        ({"optimal_fibre_length": None}, "optimal fibre length of muscle 'bad' is None; give a"),
        ({"optimal_fibre_length": "long"}, "optimal fibre length of muscle 'bad' is 'long'; give"),
        ({"max_isometric_force": -1.0}, "max isometric force of muscle 'bad' is -1 N"),
        ({"tendon_slack_length": float("nan")}, "tendon slack length of muscle 'bad' is nan"),
        ({"pennation": 20.0}, "pennation of muscle 'bad'.*radians"),
        ({"damping": [0.1, 0.2]}, r"damping of muscle 'bad' needs one number, got shape \(2,\)"),
        ({"curves": "hill"}, "curves of muscle 'bad' is 'hill'; choose from .*thelen"),
        ({"curves": MixedCurves([Thelen()], [[0]])}, "curves of muscle 'bad' are mixed"),
        ({"activation_dynamics": "slow"}, "activation_dynamics of muscle 'bad' is 'slow'"),
        ({"tendon": "rigid"}, "tendon of muscle 'good' is 'elastic' and of muscle 'bad' 'rigid'"),
        ({"damping": 0.0, "minimum_activation": 0.0}, "muscle 'bad' has neither damping nor"),
        ({"points": POINTS[0][:1]}, "path of 'bad' has 1 point"),
    ],
)
def test_errors_name_the_muscle(given, message):
    with pytest.raises(ValueError, match=message):
        arm([muscle("good"), muscle("bad", **given)])


# Forces at an instant


def test_forces_are_those_of_hill_muscles_on_the_paths(rigid):
    level = jnp.array([0.2, 0.5, 0.8])
    length, speed = eb.path_lengths(rigid, Q), eb.lengthening_speeds(rigid, Q, QD)
    force = eb.muscle_forces(rigid, Q, QD, level)
    expected = rigid.muscles.force(HillState(level), length, speed)
    np.testing.assert_allclose(force, expected, rtol=1e-13)
    assert bool(jnp.all(force > 0.0))
    torque = eb.muscle_torques(rigid, Q, QD, HillState(level))
    np.testing.assert_allclose(torque, eb.moment_arms(rigid, Q) @ force, rtol=1e-12)


@pytest.mark.parametrize("which", ["rigid", "elastic"])
def test_muscle_power_is_joint_power(which, rigid, elastic):
    """F · dL/dt = -(R F) · q̇, in many poses and speeds."""
    model = {"rigid": rigid, "elastic": elastic}[which]
    rng = np.random.default_rng(1)
    q, qd = rng.uniform(-0.2, 1.2, (16, 2)), rng.uniform(-5.0, 5.0, (16, 2))
    level = rng.uniform(0.02, 1.0, (16, 3))

    @jax.jit
    @jax.vmap
    def powers(q, qd, level):
        state = eb.initial_muscle_state(model, q, None, level)
        out = eb.muscle_outputs(model, q, qd, state)
        pull = out.tendon_force @ eb.lengthening_speeds(model, q, qd)
        joint = eb.muscle_torques(model, q, qd, state) @ qd
        return pull, joint, out, eb.muscle_forces(model, q, qd, state)

    pull, joint, out, force = powers(jnp.asarray(q), jnp.asarray(qd), jnp.asarray(level))
    assert float(jnp.min(jnp.max(force, axis=1))) > 5.0
    np.testing.assert_allclose(pull, -joint, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(out.musculotendon_power.sum(axis=1), joint, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        out.fibre_power + out.tendon_power, out.musculotendon_power, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(force, out.tendon_force, rtol=1e-12, atol=1e-12)


def test_balanced_state_holds_still(elastic):
    level = jnp.array([0.3, 0.05, 1.0])
    state = eb.initial_muscle_state(elastic, Q, activation=level)
    out = eb.muscle_outputs(elastic, Q, jnp.zeros(2), state)
    np.testing.assert_array_equal(out.activation, level)
    assert float(jnp.max(jnp.abs(out.fibre_velocity))) < 1e-9
    along = out.fibre_force * jnp.cos(out.pennation)
    np.testing.assert_allclose(along, out.tendon_force, rtol=1e-9)
    moving = eb.initial_muscle_state(elastic, Q, QD, level)
    assert bool(jnp.any(moving.fibre != state.fibre))
    least = eb.initial_muscle_state(elastic, Q)
    np.testing.assert_array_equal(least.activation, 0.01)


def test_without_activation_dynamics_the_excitation_counts():
    model = arm([muscle(tendon="rigid", activation_dynamics=None)])
    state = eb.initial_muscle_state(model, Q)
    assert state.activation is None
    level = jnp.array([0.4])
    force = eb.muscle_forces(model, Q, QD, state, level)
    np.testing.assert_allclose(force, eb.muscle_forces(model, Q, QD, level), rtol=1e-14)
    with pytest.raises(ValueError, match="give the excitation"):
        eb.muscle_forces(model, Q, QD, state)


# Numbers are leaves


def _torques(model, names):
    level = jnp.array([0.3, 0.5, 0.9])
    state = eb.initial_muscle_state(model, Q, None, level)

    def torques(*values):
        numbers = [lambda m, name=name: getattr(m.muscles.parameters, name) for name in names]
        edited = eqx.tree_at(lambda m: [pick(m) for pick in numbers], model, list(values))
        return eb.muscle_torques(edited, Q, QD, state)

    return torques


@pytest.mark.parametrize("which", ["rigid", "elastic"])
def test_gradients_to_every_number(which, rigid, elastic):
    model = {"rigid": rigid, "elastic": elastic}[which]
    names = ["max_isometric_force", "optimal_fibre_length", "tendon_slack_length", "pennation"]
    names += ["tendon_strain"] if which == "elastic" else ["max_contraction_velocity", "damping"]
    values = [getattr(model.muscles.parameters, name) for name in names]
    check_grads(jax.jit(_torques(model, names)), values, 1, ("fwd", "rev"), 1e-6, 1e-6, 1e-6)


def test_subjects_are_batched_without_new_traces(rigid):
    traces = []

    @eqx.filter_jit
    def forces(models, q):
        traces.append(None)
        level = jnp.full(3, 0.5)
        return eqx.filter_vmap(
            lambda m: eb.muscle_forces(m, q, QD, level), in_axes=eqx.if_array(0)
        )(models)

    def subjects(scale):
        stacked = jax.tree.map(lambda x: jnp.stack([x] * 3) if eqx.is_array(x) else x, rigid)
        strength = stacked.muscles.parameters.max_isometric_force * scale[:, None]
        return eqx.tree_at(lambda m: m.muscles.parameters.max_isometric_force, stacked, strength)

    scale = jnp.array([1.0, 2.0, 0.5])
    found = forces(subjects(scale), Q)
    single = eb.muscle_forces(rigid, Q, QD, jnp.full(3, 0.5))
    np.testing.assert_allclose(found, scale[:, None] * single[None], rtol=1e-12)
    forces(subjects(2.0 * scale), 0.5 * Q)
    assert len(traces) == 1


def test_a_model_can_be_built_from_traced_numbers():
    def torque(slack):
        model = arm([muscle(tendon_slack_length=slack, tendon="rigid")])
        return eb.muscle_torques(model, Q, QD, jnp.array([0.5]))[1]

    slope = jax.jit(jax.grad(torque))(0.22)
    difference = (torque(0.22 + 1e-6) - torque(0.22 - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


# What is refused


def test_units_without_force_are_refused():
    paths = arm([eb.Path("a", POINTS[0])])
    with pytest.raises(ValueError, match=r"units of this model \(a\) are paths without force"):
        eb.muscle_forces(paths, Q, QD, jnp.ones(1))
    with pytest.raises(ValueError, match="the model has no muscles"):
        eb.initial_muscle_state(arm([]), Q)


def test_levels_out_of_range_are_refused(rigid, elastic):
    over, state = jnp.array([0.5, 1.2, 0.5]), eb.initial_muscle_state(elastic, Q)
    with pytest.raises(ValueError, match=r"activation of 'm1' is 1.2; it must be between 0 and 1"):
        eb.muscle_forces(rigid, Q, QD, over)
    with pytest.raises(ValueError, match=r"activation of 'm1' is 1.2"):
        eb.muscle_outputs(elastic, Q, QD, HillState(over, state.fibre))
    with pytest.raises(ValueError, match=r"excitation of 'm0' is -0.1"):
        eb.muscle_torques(rigid, Q, QD, jnp.ones(3), jnp.array([-0.1, 0.0, 0.0]))
    with pytest.raises(ValueError, match="activation of 'm2' is nan"):
        eb.initial_muscle_state(elastic, Q, QD, jnp.array([0.0, 1.0, jnp.nan]))
    # Solvers pass bounds by a little.
    assert jnp.all(jnp.isfinite(eb.muscle_forces(rigid, Q, QD, jnp.full(3, 1.0 + 1e-9))))


def test_wrong_states_are_refused(rigid, elastic):
    with pytest.raises(ValueError, match=r"activation has shape \(2,\) for 3 muscles \(m0, m1"):
        eb.muscle_forces(rigid, Q, QD, jnp.ones(2))
    with pytest.raises(ValueError, match=r"q has shape \(3,\) for 2 coordinates"):
        eb.muscle_forces(rigid, jnp.ones(3), jnp.ones(3), jnp.ones(3))
    with pytest.raises(ValueError, match=r"elastic tendons, so .* give a state"):
        eb.muscle_forces(elastic, Q, QD, jnp.ones(3))
    with pytest.raises(ValueError, match="elastic tendons and the state has no fibre"):
        eb.muscle_outputs(elastic, Q, QD, HillState(jnp.ones(3)))
    with pytest.raises(ValueError, match="rigid tendons, but the state has a fibre"):
        eb.muscle_torques(rigid, Q, QD, HillState(jnp.ones(3), jnp.ones(3)))


def test_muscles_that_do_not_fit_their_paths_are_named():
    fit, slack, cm = (
        muscle("fit", tendon_slack_length=0.22),
        muscle("slack", tendon_slack_length=0.6),
        muscle("cm", optimal_fibre_length=10.0),
    )
    model = arm([fit, slack, cm])
    hangs, odd = eb.check_muscles(model, Q)
    assert "'slack' is 0.3" in hangs
    assert "tendon alone 0.6 m" in hangs
    assert "the fibre of 'cm' has 0.05 times" in odd
    assert eb.check_muscles(arm([fit]), Q) == ()
    edited = eqx.tree_at(
        lambda m: m.muscles.parameters.optimal_fibre_length, arm([fit]), jnp.zeros(1)
    )
    (impossible,) = eb.check_muscles(edited, Q)
    assert impossible.startswith("optimal fibre length of muscle 'fit' is 0 m")
    with pytest.raises(ValueError, match="has no muscles"):
        eb.check_muscles(arm([]), Q)
