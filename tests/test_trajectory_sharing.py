"""Force sharing along a motion, with elastic tendons and activation dynamics."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.sharing import SharingStatus, share_frames, share_trajectory

ROWS = 41


def elbow(**how):
    def muscle(name, points, **numbers):
        points = [eb.PathPoint(*point) for point in points]
        return eb.Muscle(name, points, minimum_activation=0.01, **numbers, **how)

    forearm = eb.Body(
        "forearm",
        "ground",
        eb.Revolute(axis=(0, 0, 1), translation=(0.0, -0.3, 0.0)),
        1.65,
        (0.0, -0.173, 0.0),
        (0.0226, 0.002, 0.0226),
    )
    return eb.Model.build(
        coordinates=("flexion",),
        bodies=[forearm],
        muscles=[
            muscle(
                "biceps",
                [("ground", (0.025, 0.0, 0.0)), ("forearm", (0.015, -0.045, 0.0))],
                max_isometric_force=1060.0,
                optimal_fibre_length=0.1321,
                tendon_slack_length=0.1923,
            ),
            muscle(
                "brachialis",
                [("ground", (0.01, -0.17, 0.0)), ("forearm", (0.01, -0.03, 0.0))],
                max_isometric_force=987.0,
                optimal_fibre_length=0.0858,
                tendon_slack_length=0.0535,
            ),
            muscle(
                "triceps",
                [("ground", (-0.02, -0.1, 0.0)), ("forearm", (-0.022, 0.01, 0.0))],
                max_isometric_force=1249.0,
                optimal_fibre_length=0.1138,
                tendon_slack_length=0.098,
                pennation=0.157,
            ),
        ],
    )


@pytest.fixture(scope="module")
def model():
    return elbow()


@pytest.fixture(scope="module")
def motion(model):
    """Times, coordinates, rates and torques of one flexion that takes `duration`."""
    torques = jax.jit(jax.vmap(lambda *x: eb.inverse_dynamics(model, *x)))

    def of(duration):
        t = np.linspace(0.0, duration, ROWS)
        pace = np.pi / duration
        q = (1.0 - 0.5 * np.cos(pace * t))[:, None]
        qd = (0.5 * pace * np.sin(pace * t))[:, None]
        qdd = (0.5 * pace**2 * np.cos(pace * t))[:, None]
        return tuple(map(jnp.asarray, (t, q, qd, torques(q, qd, qdd))))

    return of


@pytest.fixture(scope="module")
def quick(model, motion):
    return share_trajectory(model, *motion(0.8))


def is_all(status, item):
    return bool(jnp.all(status == item))


def test_everything_holds(model, motion, quick):
    _, q, _, tau = motion(0.8)
    assert is_all(quick.status, SharingStatus.balanced)
    assert float(quick.violation) < 1e-6
    assert float(jnp.max(quick.relative_residual)) < 1e-6
    np.testing.assert_allclose(quick.residual, np.zeros((ROWS, 1)), atol=1e-4)
    arms = jax.jit(jax.vmap(lambda x: eb.moment_arms(model, x)))(q)
    given = jnp.einsum("kjm,km->kj", arms, quick.forces)
    np.testing.assert_allclose(given, tau, atol=1e-4)
    for values in (quick.activations, quick.excitations):
        assert np.all((values > 0.01 - 1e-6) & (values < 1.0 + 1e-6))
    assert np.all(quick.forces > -1e-3)
    lengths = jax.jit(jax.vmap(lambda x: eb.path_lengths(model, x)))(q)
    p = model.muscles.parameters
    height = np.asarray(p.optimal_fibre_length * jnp.sin(p.pennation))[None]
    along = np.sqrt(np.asarray(quick.fibre_lengths) ** 2 - height**2)
    np.testing.assert_allclose(along + np.asarray(quick.tendon_lengths), lengths, atol=1e-12)
    assert np.all(np.asarray(quick.tendon_lengths) >= 0.999 * np.asarray(p.tendon_slack_length))


def test_the_excitations_drive_the_muscles_so(model, quick):
    """Integrated by another method, they give the torques of the motion."""
    muscles = model.muscles
    fine = 50
    tendon = quick.forces / muscles.parameters.max_isometric_force[None]
    shape = eqx.tree_at(lambda m: m.mass, model, model.mass)
    hill = type(muscles)(
        muscles.parameters, muscles.curves, muscles.activation_dynamics, "elastic", "implicit"
    )
    inner = jnp.asarray(np.linspace(0.0, 0.8, fine * (ROWS - 1) + 1))
    angle = (1.0 - 0.5 * jnp.cos(np.pi / 0.8 * inner))[:, None]
    rate = (0.5 * np.pi / 0.8 * jnp.sin(np.pi / 0.8 * inner))[:, None]
    length = jax.jit(jax.vmap(lambda x: eb.path_lengths(shape, x)))(angle)
    speed = jax.jit(jax.vmap(lambda x, v: eb.lengthening_speeds(shape, x, v)))(angle, rate)

    def advance(state, k):
        def slope(state, excitation, k):
            return hill.derivative(state, excitation, length[k], speed[k])

        excitation = quick.excitations[k // fine]
        h = 0.8 / (fine * (ROWS - 1))
        one = slope(state, excitation, k)
        ahead = jax.tree.map(lambda x, d: x + h * d, state, one)
        two = slope(ahead, excitation, k + 1)
        state = jax.tree.map(lambda x, a, b: x + 0.5 * h * (a + b), state, one, two)
        return state, state.fibre

    start = eb.HillState(quick.activations[0], tendon[0])
    _, forces = jax.jit(lambda s: jax.lax.scan(advance, s, jnp.arange(fine * (ROWS - 1))))(start)
    off = np.abs(np.asarray(forces)[fine - 1 :: fine] - np.asarray(tendon)[1:])
    assert np.max(off) < 0.02 * np.max(tendon)


def test_slow_motion_with_stiff_tendons_is_static_sharing(model, motion):
    stiff = eqx.tree_at(lambda m: m.muscles.parameters.tendon_strain, model, jnp.full(3, 1e-3))
    slow = motion(20.0)
    found = share_trajectory(stiff, *slow)
    static = share_frames(stiff, *slow[1:], lower=0.01)
    np.testing.assert_allclose(found.activations, static.activations, atol=5e-4)
    np.testing.assert_allclose(found.forces, static.forces, rtol=5e-3, atol=0.3)
    assert float(jnp.max(found.relative_residual)) < 1e-5
    # with real tendons the fibres are shorter, and it is another answer
    soft = share_trajectory(model, *slow)
    assert float(jnp.max(jnp.abs(soft.activations - static.activations))) > 1e-3


@pytest.mark.parametrize(
    "cost",
    [
        "activation_cubed",
        pytest.param("activation_squared", marks=pytest.mark.slow),
        pytest.param("force_squared", marks=pytest.mark.slow),
    ],
)
def test_rigid_tendons_without_activation_dynamics_are_static_sharing(motion, cost):
    plain = elbow(tendon="rigid", activation_dynamics=None)
    quick = motion(0.8)
    found = share_trajectory(plain, *quick, cost=cost, reserves=5.0)
    static = share_frames(plain, *quick[1:], cost=cost, reserves=5.0, lower=0.01)
    np.testing.assert_allclose(found.activations, static.activations, atol=2e-4)
    np.testing.assert_allclose(found.reserves, static.reserves, atol=2e-2)
    np.testing.assert_array_equal(found.excitations, found.activations)


def test_derivatives(model, motion):
    t, q, qd, tau = motion(0.8)

    @jax.jit
    def effort(scale, strength):
        newton = model.muscles.parameters.max_isometric_force
        strong = eqx.tree_at(
            lambda m: m.muscles.parameters.max_isometric_force, model, strength * newton
        )
        found = share_trajectory(strong, t, q, qd, scale * tau, tolerance=1e-9)
        return jnp.sum(found.activations**2)

    slopes = jax.jit(jax.grad(effort, argnums=(0, 1)))(1.0, 1.0)
    assert np.all(np.isfinite(slopes))
    h = 1e-3
    rough = (
        (effort(1.0 + h, 1.0) - effort(1.0 - h, 1.0)) / (2 * h),
        (effort(1.0, 1.0 + h) - effort(1.0, 1.0 - h)) / (2 * h),
    )
    np.testing.assert_allclose(slopes, rough, rtol=1e-3)


def test_a_demand_that_no_muscle_can_meet_is_told(model, motion):
    t, q, qd, tau = motion(0.8)
    heavy = tau.at[10:20].set(500.0)
    found = share_trajectory(model, t, q, qd, heavy)
    assert np.all((found.status == SharingStatus.infeasible)[10:20])
    assert np.all(np.abs(found.residual[12:18]) > 100.0)


def test_bad_input_is_refused_in_words(model, motion):
    t, q, qd, tau = motion(0.8)
    with pytest.raises(ValueError, match="cost is 'effort'"):
        share_trajectory(model, t, q, qd, tau, cost="effort")
    with pytest.raises(ValueError, match=r"tau has shape .* for 41 frames of 1"):
        share_trajectory(model, t, q, qd, tau[:5])
    with pytest.raises(ValueError, match="at least three frames"):
        share_trajectory(model, t[:2], q[:2], qd[:2], tau[:2])
    with pytest.raises(ValueError, match="must increase"):
        share_trajectory(model, t[::-1], q, qd, tau)
    with pytest.raises(ValueError, match=r"weights has shape \(2,\)"):
        share_trajectory(model, t, q, qd, tau, weights=[1.0, 2.0])
