"""Parameters of a model fitted to motion, torques, moment arms and muscle torques."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.fitting import (
    Bounded,
    Free,
    Inertia,
    MeasuredLengths,
    MeasuredMomentArms,
    MeasuredMotion,
    MeasuredMuscleTorques,
    MeasuredTorques,
    Positive,
    PositiveDefinite,
    UnitVector,
    fit_parameters,
)
from empbody.fitting._parameter_problem import ParameterProblem, linearised
from empbody.fitting._parameters import open_combinations
from empbody.fitting._selection import Selection

RNG = np.random.default_rng(5)
TS = jnp.linspace(0.0, 0.8, 9)
TORQUE = jnp.array([1.0])


def pendulum(length: float, mass: float) -> eb.Model:
    hinge = eb.Revolute((0, 0, 1))
    bob = eb.Body("bob", "ground", hinge, mass, (0, -length, 0), (1e-2, 5e-3, 1e-2))
    return eb.Model.build(("q",), [bob])


def elbow(slack, force, axis=(0, 0, 1), tendon="rigid", fibre=0.12) -> eb.Model:
    """Two muscles about a hinge."""
    points = ((0.03, 0.02), (-0.03, -0.022))
    muscles = [
        eb.Muscle(
            name,
            [eb.PathPoint("ground", (x, 0.0, 0.004)), eb.PathPoint("arm", (y, -0.32, 0.01))],
            max_isometric_force=f,
            optimal_fibre_length=fibre,
            tendon_slack_length=s,
            tendon=tendon,
        )
        for name, (x, y), s, f in zip(("flexor", "extensor"), points, slack, force, strict=True)
    ]
    hinge = eb.Revolute(axis, translation=(0.0, -0.28, 0.0))
    arm = eb.Body("arm", "ground", hinge, 1.5, (0, -0.15, 0), (0.02, 0.002, 0.02))
    return eb.Model.build(("flexion",), [arm], muscles=muscles)


def check_slope(fit) -> None:
    """Derivatives of all residuals against central differences, away from the fit."""
    z, step = fit._z + 0.05, 1e-6
    _, slope, _ = linearised(fit._problem, z)
    for k, e in enumerate(jnp.eye(len(z))):
        ends = [linearised(fit._problem, z + sign * step * e)[0] for sign in (1, -1)]
        numbers = np.asarray(ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(
            slope[:, k], numbers, rtol=1e-6, atol=1e-6 * np.abs(numbers).max()
        )


LENGTH_AND_MASS = {"length": lambda m: m.com[0, 1], "mass": lambda m: m.mass[0]}


@pytest.fixture(scope="module")
def motion() -> MeasuredMotion:
    options = {"tau": TORQUE, "rtol": 1e-9, "atol": 1e-9}
    found = eb.simulate(pendulum(0.7, 1.3), [0.5], [0.0], TS, **options)
    return MeasuredMotion(TS, found.q, **options)


def test_length_and_mass_of_a_pendulum_from_its_motion(motion: MeasuredMotion) -> None:
    seen = []
    fit = fit_parameters(
        pendulum(0.5, 1.0), LENGTH_AND_MASS, motion, progress=lambda k, n: seen.append((k, n))
    )
    assert abs(float(fit.values["length"]) + 0.7) < 1e-6
    assert abs(float(fit.values["mass"]) - 1.3) < 1e-6
    np.testing.assert_allclose(fit.model.com[0], (0, -0.7, 0), atol=1e-6)
    assert fit.converged
    assert fit.solver == "Levenberg-Marquardt"
    assert fit.history[0] > fit.history[-1]
    assert len(fit.history) == fit.steps + 1 == len(seen)
    assert fit.labels == ("length", "mass")
    assert "mass" in str(fit)


def test_gradients_through_the_simulation(motion: MeasuredMotion) -> None:
    problem = ParameterProblem(Selection(pendulum(0.5, 1.0), LENGTH_AND_MASS), (motion,), False)
    z, both = (
        problem.selection.vector(),
        eqx.filter_jit(lambda p, z: jax.value_and_grad(p.value)(z)),
    )
    step = 1e-5
    numbers = [
        (both(problem, z + step * e)[0] - both(problem, z - step * e)[0]) / (2 * step)
        for e in jnp.eye(2)
    ]
    np.testing.assert_allclose(both(problem, z)[1], numbers, rtol=1e-6)
    residual, forward, _ = linearised(problem, z)
    np.testing.assert_allclose(residual @ forward, numbers, rtol=1e-6)


def test_combinations_that_change_nothing() -> None:
    names = ("a", "b", "c")
    full = RNG.normal(size=(8, 3))
    assert open_combinations(full, names) == []
    product = np.stack([full[:, 0], full[:, 0], full[:, 1]], axis=1)
    (words,) = open_combinations(product, names)
    assert words == "the combination 1 a - 1 b (relative changes)"
    nothing = np.stack([full[:, 0], full[:, 1], np.zeros(8)], axis=1)
    assert open_combinations(nothing, names) == ["c"]


Q = np.linspace(-0.5, 0.9, 9)[:, None]
ACTIVATION = RNG.uniform(0.1, 0.9, size=(9, 2))


def test_slack_length_and_strength_from_muscle_torques() -> None:
    true = elbow((0.17, 0.18), (800.0, 950.0))
    torques = jax.vmap(lambda q, a: eb.muscle_torques(true, q, jnp.zeros(1), a))(
        jnp.asarray(Q), jnp.asarray(ACTIVATION)
    )
    data = MeasuredMuscleTorques(Q, ACTIVATION, torques)
    start = elbow((0.175, 0.177), (900.0, 900.0))
    fit = fit_parameters(
        start,
        lambda m: (
            m.muscles.parameters.tendon_slack_length,
            m.muscles.parameters.max_isometric_force,
        ),
        data,
    )
    np.testing.assert_allclose(fit.values["tendon_slack_length"], (0.17, 0.18), rtol=1e-6)
    np.testing.assert_allclose(fit.values["max_isometric_force"], (800, 950), rtol=1e-6)
    assert fit.labels[0] == "tendon_slack_length[0]"
    assert fit.freedom == 9 - 4
    check_slope(fit)


@pytest.mark.slow
def test_fibre_lengths_with_elastic_tendons() -> None:
    given = {"slack": (0.17, 0.18), "force": (800.0, 950.0), "tendon": "elastic"}
    true = elbow(**given, fibre=0.11)
    poses, levels = jnp.asarray(Q[:5]), jnp.asarray(ACTIVATION[:5])

    def torque(q, a):
        state = eb.initial_muscle_state(true, q, activation=a)
        return eb.muscle_torques(true, q, jnp.zeros(1), state)

    data = MeasuredMuscleTorques(Q[:5], ACTIVATION[:5], jax.vmap(torque)(poses, levels))
    where = {"fibre": lambda m: m.muscles.parameters.optimal_fibre_length}
    fit = fit_parameters(elbow(**given), where, data, transforms=(0.08, 0.15))
    np.testing.assert_allclose(fit.values["fibre"], 0.11, rtol=1e-6)


def test_a_joint_axis_from_moment_arms_and_lengths() -> None:
    tilted = np.array([0.1, -0.15, 1.0])
    tilted /= np.linalg.norm(tilted)
    true = elbow((0.17, 0.18), (800.0, 950.0), tilted)
    arms = jax.vmap(lambda q: eb.moment_arms(true, q))(jnp.asarray(Q))
    lengths = jax.vmap(lambda q: eb.path_lengths(true, q))(jnp.asarray(Q))
    arms = np.asarray(arms).copy()
    arms[2, 0, 1] = np.nan  # not measured
    data = [MeasuredMomentArms(Q, arms, sigma=1e-3), MeasuredLengths(Q, lengths, sigma=1e-3)]
    start = elbow((0.17, 0.18), (800.0, 950.0))
    fit = fit_parameters(start, lambda m: m.axis[0], data)
    np.testing.assert_allclose(fit.values["axis[0]"], tilted, atol=1e-6)
    assert abs(float(jnp.linalg.norm(fit.model.axis[0])) - 1) < 1e-12
    check_slope(fit)


@pytest.fixture(scope="module")
def torques() -> tuple[np.ndarray, ...]:
    q, qd, qdd = RNG.normal(size=(3, 40, 1))
    true = pendulum(0.7, 1.3)
    tau = jax.vmap(lambda *s: eb.inverse_dynamics(true, *s))(
        jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)
    )
    return q, qd, qdd, np.asarray(tau)


def test_standard_errors_hold_for_noisy_torques(torques) -> None:
    q, qd, qdd, tau = torques
    noisy = tau + 0.05 * RNG.normal(size=tau.shape)
    fit = fit_parameters(
        pendulum(0.5, 1.0), LENGTH_AND_MASS, MeasuredTorques(q, qd, qdd, noisy, sigma=0.05)
    )
    check_slope(fit)
    assert 0.7 < fit.sigma < 1.3
    low, high = fit.interval("mass", 0.999)
    assert low < 1.3 < high
    # Against the textbook: J by central differences in the parameters themselves.
    length, mass, step = -float(fit.values["length"]), float(fit.values["mass"]), 1e-6
    along = jax.jit(jax.vmap(eb.inverse_dynamics, in_axes=(None, 0, 0, 0)))

    def tau_of(dl: float, dm: float) -> np.ndarray:
        return np.asarray(along(pendulum(length - dl, mass + dm), *map(jnp.asarray, (q, qd, qdd))))

    columns = [
        (tau_of(dl, dm) - tau_of(-dl, -dm))[:, 0] / (2 * step) / 0.05
        for dl, dm in ((step, 0.0), (0.0, step))
    ]
    slope = np.stack(columns, axis=1)
    expected = fit.sigma**2 * np.linalg.inv(slope.T @ slope)
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-5)
    np.testing.assert_allclose(fit.errors["mass"], np.sqrt(expected[1, 1]), rtol=1e-5)


def test_what_torques_cannot_tell_is_named(torques) -> None:
    where = LENGTH_AND_MASS | {"gravity": lambda m: m.gravity[1], "pull": lambda m: m.gravity[2]}
    start, data = pendulum(0.7, 1.3), MeasuredTorques(*torques)
    # m l² + I and m l g are all that a swing shows.
    message = r"do not determine pull nor the combination (- )?0.5 length [+-] 1 mass [+-] 0.5 grav"
    with pytest.raises(ValueError, match=message):
        fit_parameters(start, where, data, steps=2)
    fit = fit_parameters(start, where, data, steps=2, unidentified="note")
    assert "pull" in fit.notes[-1]


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_gradient_descent_finds_the_same(torques, solver: str) -> None:
    fit = fit_parameters(
        pendulum(0.6, 1.1),
        lambda m: m.mass,
        MeasuredTorques(*torques),
        solver=solver,
        steps=400,
        patience=25,
        rate=None if solver == "lbfgs" else 3e-2,
        tolerance=1e-8,
        unidentified="note",
    )
    loss_of = fit_parameters(pendulum(0.6, 1.1), lambda m: m.mass, MeasuredTorques(*torques))
    np.testing.assert_allclose(fit.values["mass"], loss_of.values["mass"], rtol=1e-4)
    assert len(fit.history) == fit.steps + 1


def test_a_loss_of_ones_own() -> None:
    fit = fit_parameters(pendulum(0.5, 1.0), lambda m: m.mass[0], lambda m: (m.mass[0] - 2.5) ** 2)
    assert abs(float(fit.values["mass[0]"]) - 2.5) < 1e-4
    assert fit.errors is None
    assert fit.solver == "L-BFGS"
    with pytest.raises(ValueError, match="scalar loss"):
        fit.interval("mass[0]")
    residual = fit_parameters(
        pendulum(0.5, 1.0), lambda m: m.mass[0], lambda m: jnp.stack([m.mass[0] - 2.5, 0.0])
    )
    assert abs(float(residual.values["mass[0]"]) - 2.5) < 1e-8


@pytest.mark.parametrize(
    ("transform", "start"),
    [
        (Free(), np.array([0.0, -3.0, 2.0])),
        (Free(), np.array(0.0)),
        (Positive(), np.array([[1e-3, 40.0]])),
        (Bounded(-1.0, 3.0), np.array([0.0, 2.9])),
        (UnitVector(), np.array([[0.0, 0.6, 0.8], [1.0, 0.0, 0.0]])),
        (PositiveDefinite(), np.array([[[2.0, 0.3], [0.3, 1.0]]])),
        (Inertia(), np.diag([0.02, 0.03, 0.04])),
    ],
)
def test_transforms_give_back_the_start_and_stay_inside(transform, start) -> None:
    transform.check("x", start)
    begin = jnp.asarray(start)
    z = transform.unconstrained(begin)
    assert z.shape == (transform.size(start.shape),)
    np.testing.assert_allclose(transform.value(z, begin), start, atol=1e-12)
    far = transform.value(z + jnp.asarray(RNG.normal(size=z.shape)), begin)
    slope = jax.jacfwd(lambda z: transform.value(z, begin))(z)
    assert far.shape == start.shape
    assert bool(jnp.isfinite(slope).all())
    match transform:
        case Positive():
            assert bool((far > 0).all())
        case Bounded():
            assert bool(((far > -1) & (far < 3)).all())
        case UnitVector():
            np.testing.assert_allclose(np.linalg.norm(far, axis=-1), 1.0, atol=1e-12)
        case PositiveDefinite():
            assert np.linalg.eigvalsh(np.asarray(far)).min() > 0
        case Inertia():
            a, b, c = np.linalg.eigvalsh(np.asarray(far))
            assert a > 0
            assert c < a + b


MODEL = pendulum(0.5, 1.0)


@pytest.mark.parametrize(
    ("where", "options", "message"),
    [
        (lambda m: (), {}, "nothing is free"),
        (lambda m: m.topology, {}, "is no array|no array of it"),
        (lambda m: (m.mass, m.mass[0]), {}, "free twice"),
        (lambda m: m.mass[3], {}, "out of bounds"),
        (lambda m: m.axis[0, 1], {}, "all three"),
        (lambda m: m.com[0][1], {}, "index a parameter once"),
        (lambda m: m.mass, {"transforms": (2.0, 3.0)}, "not between its bounds"),
        (lambda m: m.mass, {"transforms": "round"}, "transform 'round'"),
        (lambda m: m.mass, {"transforms": {"weight": "free"}}, "parameters are mass"),
        (lambda m: m.com, {"transforms": "positive"}, "cannot be kept positive"),
        (lambda m: m.lower, {}, "not finite at the start"),
        (lambda m: m.com, {}, "1 residuals for 3"),
        (lambda m: m.mass, {"solver": "lm", "data": lambda m: m.mass[0]}, "needs residuals"),
        (lambda m: m.mass, {"data": lambda m: jnp.nan * m.mass[0]}, "the loss is nan"),
        (lambda m: m.mass, {"data": lambda m: jnp.inf * m.mass}, r"data 0 .*1 of 1 residuals"),
        (lambda m: m.mass, {"data": []}, "no data"),
    ],
)
def test_what_cannot_work_is_refused(where, options, message) -> None:
    data = options.pop("data", lambda m: m.mass - 2.0)
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        fit_parameters(MODEL, where, data, **options)


def test_data_of_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="first row is not finite"):
        MeasuredMotion(TS, np.full((9, 1), np.nan))
    with pytest.raises(ValueError, match="chosen by the fit"):
        MeasuredMotion(TS, np.zeros((9, 1)), adjoint="direct")
    with pytest.raises(ValueError, match="different shapes"):
        MeasuredTorques(Q, Q, Q[:3], Q)
    with pytest.raises(ValueError, match="sigma must be"):
        MeasuredLengths(Q, Q, sigma=0.0)
    with pytest.raises(ValueError, match=r"\(n, nq, nm\)"):
        MeasuredMomentArms(Q, np.zeros((9, 2, 2)))


def test_the_second_fit_compiles_nothing() -> None:
    traces = []

    def residuals(m: eb.Model) -> jax.Array:
        traces.append(1)
        return jnp.stack([m.mass[0] - 2.5, m.mass[0] ** 2 - 6.0])

    first = fit_parameters(pendulum(0.5, 1.0), lambda m: m.mass[0], residuals)
    before = len(traces)
    second = fit_parameters(pendulum(0.5, 1.4), lambda m: m.mass[0], residuals)
    assert len(traces) - before == 1  # to know the shape
    np.testing.assert_allclose(first.values["mass[0]"], second.values["mass[0]"], rtol=1e-7)


@pytest.mark.slow
def test_intervals_hold_the_truth_in_their_share_of_cases(torques) -> None:
    q, qd, qdd, tau = torques
    rng, inside = np.random.default_rng(7), []
    for _ in range(200):
        noisy = tau + 0.3 * rng.normal(size=tau.shape)
        fit = fit_parameters(
            pendulum(0.6, 1.1), LENGTH_AND_MASS, MeasuredTorques(q, qd, qdd, noisy, sigma=0.3)
        )
        for name, true in (("length", -0.7), ("mass", 1.3)):
            low, high = fit.interval(name)
            inside.append(bool(low < true < high))
    assert 0.91 < np.mean(inside) < 0.985
