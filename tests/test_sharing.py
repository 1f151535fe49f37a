"""Force sharing: against SciPy, its optimality, its derivatives, and demands out of reach."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import empbody as eb
from empbody.sharing import (
    SharingStatus,
    capacities,
    share,
    share_by_descent,
    share_forces,
    share_frames,
)

COSTS = ("activation_squared", "activation_cubed", "force_squared")
NQ, NM, SAMPLES = 3, 14, 64


def problems(seed, nq=NQ, nm=NM, samples=SAMPLES, strength=1.0):
    """Moment arms, capacities, passive forces, and torques that activations 0 … strength give."""
    rng = np.random.default_rng(seed)
    arms = 0.03 * rng.normal(size=(samples, nq, nm))
    capacity = rng.uniform(100.0, 1200.0, size=(samples, nm))
    passive = rng.uniform(0.0, 50.0, size=(samples, nm))
    a = strength * rng.uniform(-0.3, 1.1, size=(samples, nm)).clip(0.0, 1.0)
    tau = np.einsum("sqm,sm->sq", arms, capacity * a + passive)
    return tuple(jnp.asarray(x) for x in (arms, capacity, passive, tau))


_compiled = {}


def solved(arguments, **options):
    key = tuple(sorted(options.items()))
    if key not in _compiled:
        _compiled[key] = jax.jit(jax.vmap(lambda *one: share(*one, **options)))
    return _compiled[key](*arguments)


def is_all(status, item):
    return bool(jnp.all(status == item))


def cost_and_slope(cost, a, capacity, passive, weights):
    force = capacity * a + passive
    if cost == "force_squared":
        return np.sum(weights * force**2), 2 * weights * force * capacity
    power = 3 if cost == "activation_cubed" else 2
    return np.sum(weights * a**power), power * weights * a ** (power - 1)


def by_scipy(cost, arms, capacity, passive, tau, weights):
    """An independent solution: SLSQP, then Newton's method on its active set."""
    effect, demand = np.asarray(arms * capacity[None]), np.asarray(tau - arms @ passive)
    capacity, passive = np.asarray(capacity), np.asarray(passive)
    scale = np.linalg.norm(effect, axis=1)
    size = cost_and_slope(cost, np.ones_like(capacity), capacity, passive, weights)[0]

    def value(a):
        c, slope = cost_and_slope(cost, a, capacity, passive, weights)
        return c / size, slope / size

    balance = {
        "type": "eq",
        "fun": lambda a: (effect @ a - demand) / scale,
        "jac": lambda a: effect / scale[:, None],
    }
    result = scipy.optimize.minimize(
        value,
        np.full_like(capacity, 0.4),
        jac=True,
        bounds=[(0.0, 1.0)] * len(capacity),
        constraints=balance,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    a, free = result.x, (result.x > 1e-7) & (result.x < 1.0 - 1e-7)
    a = np.where(free, a, np.round(a))
    # SLSQP stops on the cost and leaves about 1e-7; on its active set the rest is smooth.
    worth = np.linalg.lstsq(effect[:, free].T, value(a)[1][free], rcond=None)[0]
    n = len(tau)
    for _ in range(5):
        h = 1e-6
        bend = np.diag((value(a + h)[1] - value(a - h)[1])[free] / (2 * h))
        matrix = np.block([[bend, -effect[:, free].T], [effect[:, free], np.zeros((n, n))]])
        off = np.append(value(a)[1][free] - effect[:, free].T @ worth, effect @ a - demand)
        step = np.linalg.solve(matrix, -off)
        a[free] += step[: free.sum()]
        worth += step[free.sum() :]
    return a


@pytest.mark.parametrize("cost", COSTS)
def test_agrees_with_scipy_and_is_optimal(cost):
    arguments = problems(1)
    found = solved(arguments, cost=cost)
    assert is_all(found.status, SharingStatus.balanced)
    assert np.max(np.abs(found.residual)) < 1e-10
    arms, capacity, passive = (np.asarray(x) for x in arguments[:3])
    a, multipliers = np.asarray(found.activations), np.asarray(found.multipliers)
    np.testing.assert_allclose(found.forces, capacity * a + passive, rtol=1e-14)
    assert a.min() >= 0.0
    assert a.max() <= 1.0
    assert np.any(a == 0.0)
    assert np.any(a == 1.0)
    # Optimality: the slope of the Lagrangian is zero inside and pushes outwards at bounds.
    slope = cost_and_slope(cost, a, capacity, passive, 1.0)[1]
    price = np.einsum("sqm,sq->sm", arms * capacity[:, None], multipliers)
    push = (price - slope) / np.abs(slope).max()
    assert np.max(np.abs(push[(a > 0.0) & (a < 1.0)])) < 1e-10
    assert np.all(push[a == 0.0] < 1e-10)
    assert np.all(push[a == 1.0] > -1e-10)
    for i in range(12):
        other = by_scipy(cost, *(x[i] for x in arguments), np.ones(NM))
        mine = cost_and_slope(cost, a[i], capacity[i], passive[i], 1.0)[0]
        theirs = cost_and_slope(cost, other, capacity[i], passive[i], 1.0)[0]
        assert abs(mine / theirs - 1.0) < 1e-8
        np.testing.assert_allclose(a[i], other, rtol=0.0, atol=1e-8)


def test_the_multipliers_are_the_slope_of_the_cost():
    arms, capacity, passive, tau = (x[0] for x in problems(2))

    @jax.jit
    def least(tau):
        return jnp.sum(share(arms, capacity, passive, tau).activations ** 2)

    slope = jax.grad(least)(jnp.asarray(tau))
    np.testing.assert_allclose(slope, share(arms, capacity, passive, tau).multipliers, rtol=1e-9)


def test_weights_and_bounds():
    arms, capacity, passive, _ = (x[0] for x in problems(3))
    tau = arms @ (0.4 * capacity + passive)
    dear = np.ones(NM)
    dear[2] = 100.0
    plain = share(arms, capacity, passive, tau)
    spared = share(arms, capacity, passive, tau, weights=dear)
    assert spared.activations[2] < 0.2 * plain.activations[2]
    other = by_scipy("activation_squared", arms, capacity, passive, tau, dear)
    np.testing.assert_allclose(spared.activations, other, atol=1e-8)
    held = share(arms, capacity, passive, tau, lower=0.2, upper=0.8)
    assert held.status == SharingStatus.balanced
    assert jnp.min(held.activations) >= 0.2
    assert jnp.max(held.activations) <= 0.8


@pytest.mark.parametrize("cost", COSTS)
def test_infeasible_demands_are_reported_with_the_smallest_reserve(cost):
    arguments = problems(4, strength=2.5)
    arms, capacity, passive, tau = arguments
    found = solved(arguments, cost=cost)
    infeasible = np.asarray(found.status == SharingStatus.infeasible)
    balanced = np.asarray(found.status == SharingStatus.balanced)
    assert np.all(infeasible | balanced)
    assert 5 < infeasible.sum() < SAMPLES - 5
    for i in range(SAMPLES):
        effect = arms[i] * capacity[i][None]
        nearest = scipy.optimize.lsq_linear(
            effect, tau[i] - arms[i] @ passive[i], (0.0, 1.0), method="bvls", tol=1e-14
        )
        left = -nearest.fun
        assert infeasible[i] == (np.linalg.norm(left) > 1e-8)
        np.testing.assert_allclose(found.residual[i], left, atol=1e-4 if infeasible[i] else 1e-8)
    reserve = np.linalg.norm(np.asarray(found.residual)[infeasible], axis=1)
    assert reserve.min() > 1e-3


def test_reserves_balance_what_muscles_cannot():
    arguments = problems(4, strength=2.5)
    arms, _, _, tau = arguments
    alone = solved(arguments, cost="activation_squared")
    found = solved(arguments, cost="activation_squared", reserves=1.0)
    given = np.einsum("sqm,sm->sq", arms, found.forces) + found.reserves
    assert np.max(np.abs(given - tau)) < 1e-10
    lacking = np.asarray(found.status == SharingStatus.needs_reserves)
    assert np.all(lacking | np.asarray(found.status == SharingStatus.balanced))
    # What is called lacking is so; some that lack little may not be proved.
    assert not np.any(lacking & ~np.asarray(alone.status == SharingStatus.infeasible))
    assert lacking.sum() > 5
    # A reserve is S²λ/2.
    np.testing.assert_allclose(found.reserves, 0.5 * found.multipliers, rtol=1e-9, atol=1e-12)
    # However expensive, they balance; then they are the smallest that will do.
    dear = solved(arguments, cost="activation_squared", reserves=1e-3)
    assert not np.any(np.asarray(dear.status == SharingStatus.unsolved))
    assert np.max(np.abs(dear.residual)) < 1e-10
    np.testing.assert_allclose(dear.reserves, alone.residual, atol=1e-4)
    # Cheaper reserves do more and spare the muscles.
    cheap = solved(arguments, cost="activation_squared", reserves=30.0)
    assert np.all(np.sum(cheap.activations**2, axis=1) <= np.sum(found.activations**2, axis=1))


@pytest.mark.parametrize(
    ("cost", "reserves"), [*((cost, None) for cost in COSTS), ("activation_cubed", 3.0)]
)
def test_derivatives_against_differences(cost, reserves):
    given = tuple(jnp.asarray(x[5]) for x in problems(6))

    def outputs(given):
        found = share(*given, cost=cost, reserves=reserves)
        rest = found.reserves, found.multipliers * 1e2
        return jnp.concatenate([found.activations, found.forces / 1e3, *rest])

    rng = np.random.default_rng(0)
    ways = [jax.tree.map(lambda x: x * rng.normal(size=x.shape), given) for _ in range(3)]
    weights = rng.normal(size=2 * NM + 2 * NQ)
    function = jax.jit(outputs)
    along = jax.jit(lambda way: jax.jvp(outputs, (given,), (way,))[1])
    back = jax.jit(jax.grad(lambda x: weights @ outputs(x)))(given)
    h = 1e-6
    for way in ways:
        ahead = function(jax.tree.map(lambda x, w: x + h * w, given, way))
        behind = function(jax.tree.map(lambda x, w: x - h * w, given, way))
        slope = along(way)
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=2e-5, atol=2e-5)
        pulled = sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(back), way, strict=True))
        np.testing.assert_allclose(weights @ slope, pulled, rtol=1e-9)


def test_derivative_of_an_infeasible_frame_is_finite_and_right():
    arms, capacity, passive, tau = (x[0] for x in problems(7, samples=1))
    tau = jnp.asarray(20.0 * tau)
    assert share(arms, capacity, passive, tau).status == SharingStatus.infeasible

    @jax.jit
    def residual(capacity, tau):
        return share(arms, capacity, passive, tau).residual

    slopes = jax.jacfwd(residual, (0, 1))(jnp.asarray(capacity), tau)
    for k in (0, 1):
        way = np.random.default_rng(k).normal(size=slopes[k].shape[1])
        h = 1e-3 * np.eye(2)[k]
        ahead = residual(
            capacity + h[0] * way if k == 0 else capacity, tau + h[1] * way if k else tau
        )
        behind = residual(
            capacity - h[0] * way if k == 0 else capacity, tau - h[1] * way if k else tau
        )
        np.testing.assert_allclose(slopes[k] @ way, (ahead - behind) / 2e-3, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("nq", "nm"), [(1, 1), (1, 2), (5, 3)])
def test_sizes(nq, nm):
    arguments = problems(8, nq, nm, samples=16, strength=0.9)
    run = jax.jit(jax.vmap(share))
    found = run(*arguments)
    assert is_all(found.status, SharingStatus.balanced)
    assert np.max(np.abs(found.residual)) < 1e-9
    off = (*arguments[:3], arguments[3] + (1.0 if nq > nm else 1e3))
    missed = run(*off)
    assert is_all(missed.status, SharingStatus.infeasible)


def test_no_capacity():
    arms, capacity, passive, tau = (x[0] for x in problems(9))
    capacity = jnp.where(jnp.arange(NM) % 3 == 0, 0.0, capacity)
    tau = arms @ (0.3 * capacity + passive)
    for cost in COSTS:
        found = share(arms, capacity, passive, tau, cost=cost)
        assert found.status == SharingStatus.balanced
        assert np.all(found.activations[::3] == 0.0)
        slope = jax.grad(
            lambda c, cost=cost: jnp.sum(share(arms, c, passive, tau, cost=cost).forces)
        )
        assert np.all(np.isfinite(slope(capacity)))
    nothing = share(arms, jnp.zeros(NM), passive, tau)
    assert nothing.status == SharingStatus.infeasible
    np.testing.assert_allclose(nothing.residual, tau - arms @ passive, rtol=1e-9)
    rest = share(arms, capacity, 0.0, jnp.zeros(NQ))
    assert rest.status == SharingStatus.balanced
    np.testing.assert_array_equal(rest.activations, 0.0)


def test_a_coordinate_without_muscles():
    arms, capacity, passive, tau = (x[0] for x in problems(9))
    arms = jnp.concatenate([arms, jnp.zeros((1, NM))])
    still = share(arms, capacity, passive, jnp.append(tau, 0.0))
    assert still.status == SharingStatus.balanced
    asked = share(arms, capacity, passive, jnp.append(tau, 2.0))
    assert asked.status == SharingStatus.infeasible
    np.testing.assert_allclose(asked.residual, [0, 0, 0, 2], atol=1e-4)
    helped = share(arms, capacity, passive, jnp.append(tau, 2.0), reserves=np.array([0, 0, 0, 1.0]))
    assert helped.status == SharingStatus.needs_reserves
    np.testing.assert_allclose(helped.reserves, [0, 0, 0, 2], atol=1e-10)
    np.testing.assert_allclose(helped.activations, still.activations, atol=1e-10)


def test_bad_numbers_have_a_status_and_spoil_nothing_else():
    arguments = [np.array(x) for x in problems(1)]
    clean = solved(arguments, cost="activation_squared")
    arguments[3][0, 0] = np.nan
    arguments[1][1, 2] = np.inf
    arguments[1][2, 2] = -1.0
    found = solved([jnp.asarray(x) for x in arguments], cost="activation_squared")
    bad = np.asarray(found.status == SharingStatus.bad_input)
    np.testing.assert_array_equal(np.flatnonzero(bad), [0, 1, 2])
    assert np.all(np.isnan(found.activations[:3]))
    np.testing.assert_allclose(found.activations[3:], clean.activations[3:], atol=1e-12)
    one = [jnp.asarray(x[3]) for x in arguments]
    assert share(*one, weights=0.0).status == SharingStatus.bad_input
    assert share(*one, lower=0.5, upper=0.4).status == SharingStatus.bad_input


def test_bad_structure_is_refused():
    arms, capacity, passive, tau = (x[0] for x in problems(1))
    with pytest.raises(ValueError, match="cost is 'a'; choose from 'activation_squared'"):
        share(arms, capacity, passive, tau, cost="a")
    with pytest.raises(ValueError, match=r"weights has shape \(3,\); give one number or \(14,\)"):
        share(arms, capacity, passive, tau, weights=np.ones(3))


@pytest.mark.parametrize("cost", COSTS)
def test_descent_agrees(cost):
    arguments = problems(10, samples=8)
    found = solved(arguments, cost=cost)
    other = jax.jit(jax.vmap(lambda *one: share_by_descent(*one, cost=cost)))(*arguments)
    assert is_all(other.status, SharingStatus.balanced)
    np.testing.assert_allclose(other.activations, found.activations, atol=1e-6)
    np.testing.assert_allclose(other.multipliers, found.multipliers, rtol=1e-4, atol=1e-7)


# ---- a model ----


@pytest.fixture(scope="module")
def elbow():
    def muscle(name, points, **numbers):
        return eb.Muscle(name, points, tendon="rigid", minimum_activation=0.0, **numbers)

    points = {
        "biceps": [("ground", (0.025, 0.0, 0.0)), ("forearm", (0.015, -0.045, 0.0))],
        "triceps": [("ground", (-0.02, -0.1, 0.0)), ("forearm", (-0.022, 0.01, 0.0))],
    }
    points = {name: [eb.PathPoint(*point) for point in row] for name, row in points.items()}
    return eb.Model.build(
        coordinates=("flexion",),
        bodies=[
            eb.Body(
                "forearm",
                "ground",
                eb.Revolute(axis=(0, 0, 1), translation=(0.0, -0.3, 0.0)),
                1.65,
                (0.0, -0.173, 0.0),
                (0.0226, 0.002, 0.0226),
            )
        ],
        muscles=[
            muscle(
                "biceps",
                points["biceps"],
                max_isometric_force=1060.0,
                optimal_fibre_length=0.1321,
                tendon_slack_length=0.1923,
            ),
            muscle(
                "triceps",
                points["triceps"],
                max_isometric_force=1249.0,
                optimal_fibre_length=0.1138,
                tendon_slack_length=0.098,
                pennation=0.157,
            ),
        ],
    )


def motion(model, rows=60):
    t = np.linspace(0.0, 1.0, rows)
    q = (0.9 - 0.6 * np.cos(np.pi * t))[:, None]
    qd = (0.6 * np.pi * np.sin(np.pi * t))[:, None]
    qdd = (0.6 * np.pi**2 * np.cos(np.pi * t))[:, None]
    tau = jax.vmap(lambda *x: eb.inverse_dynamics(model, *x))(q, qd, qdd)
    return jnp.asarray(q), jnp.asarray(qd), tau


def test_shared_forces_drive_the_model(elbow):
    q, qd, tau = motion(elbow)
    calls = []
    found = share_frames(elbow, q, qd, tau, progress=lambda *x: calls.append(x))
    assert calls == [(60, 60)]
    assert is_all(found.status, SharingStatus.balanced)
    assert found.activations.shape == (60, 2)
    # The muscles' own force law gives the torques back.
    torques = jax.vmap(lambda *x: eb.muscle_torques(elbow, *x))(q, qd, found.activations)
    np.testing.assert_allclose(torques, tau, atol=1e-10)
    forces = jax.vmap(lambda *x: eb.muscle_forces(elbow, *x))(q, qd, found.activations)
    np.testing.assert_allclose(found.forces, forces, atol=1e-9)


def test_demands_beyond_the_model(elbow):
    q, qd = jnp.array([1.0]), jnp.zeros(1)
    asked = jnp.array([500.0])
    found = share_forces(elbow, q, qd, asked)
    assert found.status == SharingStatus.infeasible
    arms, capacity, passive = capacities(elbow, q, qd)
    most = jnp.sum(jnp.maximum(arms * capacity[None], 0.0)) + jnp.sum(arms @ passive)
    np.testing.assert_allclose(found.residual, asked - most, rtol=1e-6)
    helped = share_forces(elbow, q, qd, asked, reserves=10.0)
    assert helped.status == SharingStatus.needs_reserves
    np.testing.assert_allclose(arms @ helped.forces + helped.reserves, asked, atol=1e-10)
    active = share_forces(elbow, q, qd, jnp.array([20.0]), passive=False)
    np.testing.assert_allclose(active.forces, capacity * active.activations)


def test_derivative_to_maximum_forces(elbow):
    q, qd, tau = jnp.array([1.0]), jnp.array([0.5]), jnp.array([20.0])

    @jax.jit
    def activation(strength):
        model = eqx.tree_at(lambda m: m.muscles.parameters.max_isometric_force, elbow, strength)
        return share_forces(model, q, qd, tau).activations[0]

    strength = elbow.muscles.parameters.max_isometric_force
    slope = jax.grad(activation)(strength)
    for k in range(2):
        h = 1e-2 * jnp.eye(2)[k]
        difference = (activation(strength + h) - activation(strength - h)) / 2e-2
        np.testing.assert_allclose(slope[k], difference, rtol=1e-6, atol=1e-12)
    assert slope[0] < 0.0


def test_models_without_forces_are_refused():
    model = eb.models.pendulum_chain(1)
    with pytest.raises(ValueError, match="no muscles"):
        share_forces(model, jnp.zeros(1), jnp.zeros(1), jnp.zeros(1))


def test_frames_of_the_wrong_shape_are_refused(elbow):
    with pytest.raises(ValueError, match="tau has shape"):
        share_frames(elbow, jnp.zeros((4, 1)), jnp.zeros((4, 1)), jnp.zeros((4, 1))[:0])
