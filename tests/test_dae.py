"""The constrained formulation: equal to the plain ODE, and its loops stay closed."""

import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody import dae, models
from empbody.forces import CoordinateForce, CoordinateSpring, JointSpring
from empbody.simulation import simulate

HERE = pathlib.Path(__file__).parent / "reference"
G = (0.0, -9.80665, 0.0)
Q0 = [models.Q0_TEST_SET]


@pytest.fixture(scope="module")
def squeezer():
    """Fourier: its start guess is not quite on the constraint, and it is quick to compile."""
    return models.squeezer("fourier")


@pytest.fixture(scope="module")
def table():
    return np.genfromtxt(HERE / "squeezer_testset.csv", delimiter=",", names=True)


def mechanisms():
    four = models.four_bar(gravity=G).with_forces(
        [
            CoordinateSpring("q", stiffness=3.0, rest=0.2, damping=0.5),
            CoordinateForce("q", jnp.sin),
            JointSpring("theta3", stiffness=2.0, damping=0.1),
        ]
    )
    return {
        "four_bar": (four, models.FourBarLoop(), [0.6], [1.1]),
        "five_bar": (models.five_bar(gravity=G), models.FiveBarLoop(), [0.3, -0.8], [1.0, 2.0]),
        "squeezer": (models.squeezer(), models.SqueezerLoop(), [1.3], [700.0]),
    }


@eqx.filter_jit
def both_ways(model, constrained, q, qd, tau, t):
    """f̈ by the ODE and by the index-1 DAE at the same state, with the drift there."""
    jet = model.rhythm.jet(q, qd)
    qdd = eb.forward_dynamics(model, q, qd, tau, t=t)
    f, fd = constrained.start(q, qd)
    found = constrained.accelerations(t, f, fd, tau)
    return jet.jacobian @ qdd + jet.curvature, found.fdd, constrained.drift(f, fd)


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "squeezer"])
def test_accelerations_equal_those_of_the_ode(name):
    model, loop, q, qd = mechanisms()[name]
    q, qd = jnp.asarray(q), jnp.asarray(qd)
    tau = 0.01 * jnp.arange(1.0, model.nq + 1)
    constrained = dae.constrained(model, loop, alpha=10.0, beta=10.0)
    ode, found, drift = both_ways(model, constrained, q, qd, tau, 0.3)
    np.testing.assert_allclose(found, ode, rtol=1e-10, atol=1e-11 * np.max(np.abs(ode)))
    assert float(drift[0]) < 1e-13
    assert float(drift[1]) < 1e-12


def test_a_rhythm_is_a_constraint_too():
    rhythm = eb.rhythms.Polynomial.fit(
        np.linspace(-1, 1, 9), np.stack([np.linspace(-1, 1, 9), np.linspace(-1, 1, 9) ** 2], 1), 2
    )
    bodies = [
        eb.Body("a", "ground", eb.Revolute((0, 0, 1)), 1.0, (0.5, 0, 0), (0.1, 0.1, 0.1)),
        eb.Body("b", "a", eb.Revolute((0, 0, 1), (1, 0, 0)), 1.0, (0.5, 0, 0), (0.1, 0.1, 0.1)),
    ]
    model = eb.Model.build(["q"], bodies, rhythm)
    constrained = dae.constrained(model, dae.RhythmLoop(rhythm, independent=[0]))
    q, qd, tau = jnp.asarray([0.4]), jnp.asarray([2.0]), jnp.zeros(1)
    ode, found, _ = both_ways(model, constrained, q, qd, tau, 0.0)
    np.testing.assert_allclose(found, ode, rtol=1e-11)


def test_projection_closes_the_loops(squeezer):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())

    @eqx.filter_jit
    def run(constrained):
        f, fd = constrained.start(jnp.asarray([1.3]), jnp.asarray([700.0]))
        noise = jnp.sin(jnp.arange(7.0))
        opened = f + 1e-6 * noise, fd + 1e-3 * noise
        once = constrained.project(*opened, True)
        return opened, once, constrained.project(*once, True), constrained.project(*opened)

    opened, once, twice, velocity_only = run(constrained)
    drift = eqx.filter_jit(constrained.drift)
    assert drift(*opened)[0] > 1e-9
    assert drift(*once)[0] < 1e-11
    assert drift(*once)[1] < 1e-13
    np.testing.assert_allclose(once[0], twice[0], atol=1e-9)
    np.testing.assert_array_equal(velocity_only[0], opened[0])
    assert drift(*velocity_only)[1] < 1e-13


def rms(found, table):
    return float(np.sqrt(np.mean((found.q[:, 0] - table["q"]) ** 2)))


def test_projected_trajectory_converges(squeezer, table):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())
    errors = []
    for tol in (1e-6, 1e-8, 1e-10):
        found = dae.simulate_dae(constrained, Q0, [0.0], table["t"], rtol=tol, atol=tol)
        errors.append(rms(found, table))
        assert found.end_drift[1] < 1e-13
        assert np.max(found.drift) < 2e-2 * tol
    assert errors[0] < 1e-5
    assert errors[1] < 1e-7
    assert errors[2] < 1e-9
    names = [f"theta{i}" for i in range(1, 8)]
    angles = np.stack([table[name] for name in names], axis=1)
    np.testing.assert_allclose(found.f, angles, atol=1e-8)
    np.testing.assert_allclose(found.qd[:, 0], table["qd"], atol=1e-4)


def test_both_formulations_agree_from_the_manuscripts_start(squeezer, table):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())
    start, tight = [models.Q0_MANUSCRIPT], {"rtol": 1e-10, "atol": 1e-10}
    found = dae.simulate_dae(constrained, start, [0.0], table["t"], **tight)
    ode = simulate(models.squeezer(), start, [0.0], table["t"], solver="dopri8", **tight)
    assert float(np.sqrt(np.mean((found.q - ode.q) ** 2))) <= 1e-8
    assert abs(float(ode.q[-1, 0]) - table["q"][-1]) > 1e-3  # it is another motion


def test_stabilisation_holds_the_drift(squeezer, table):
    """Without any the loops open; Baumgarte's terms and the projection hold them."""
    loop, drift = models.SqueezerLoop(), {}
    for name, gain in (("none", 0.0), ("baumgarte", 1000.0)):
        constrained = dae.constrained(squeezer, loop, alpha=gain, beta=gain)
        found = dae.simulate_dae(
            constrained, Q0, [0.0], table["t"], projection="none", rtol=1e-6, atol=1e-6
        )
        drift[name] = float(found.end_drift[0])
    constrained = dae.constrained(squeezer, loop)
    found = dae.simulate_dae(
        constrained, Q0, [0.0], table["t"], projection="both", rtol=1e-6, atol=1e-6
    )
    drift["both"] = float(found.end_drift[0])
    assert drift["baumgarte"] < 0.1 * drift["none"]
    assert drift["both"] < 1e-15 < drift["baumgarte"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "limit"),
    [("dopri8", 1e-7), ("rkf45", 1e-7), ("kvaerno5", 1e-7), ("trbdf2", 1e-5)],
)
def test_other_solvers(squeezer, table, solver, limit):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())
    start = table[:5]
    found = dae.simulate_dae(
        constrained, Q0, [0.0], start["t"], solver=solver, rtol=1e-8, atol=1e-8
    )
    assert rms(found, start) < limit


def test_gradient_to_a_length(squeezer):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())
    f, fd = eqx.filter_jit(constrained.start)(jnp.asarray([1.3]), jnp.asarray([700.0]))

    def crank(length):
        longer = eqx.tree_at(lambda c: c.loop.of, constrained, length)
        return longer.accelerations(0.0, f, fd).fdd[0]

    value, slope = jax.jit(crank), jax.jit(jax.grad(crank))
    length, h = constrained.loop.of, 1e-8
    difference = (value(length + h) - value(length - h)) / (2 * h)
    np.testing.assert_allclose(slope(length), difference, rtol=1e-5)


class TooFew(eqx.Module):
    def constraint(self, f):
        return f[:2]

    def coordinates(self, f):
        return f[:1]


def test_bad_input(squeezer):
    constrained = dae.constrained(squeezer, models.SqueezerLoop())
    times = [0.0, 0.01]
    with pytest.raises(ValueError, match=r"has \(2,\) equations .* 6 equations are needed"):
        dae.constrained(squeezer, TooFew())
    with pytest.raises(ValueError, match="projection = 'sideways'"):
        dae.simulate_dae(constrained, Q0, [0.0], times, projection="sideways")
    with pytest.raises(ValueError, match="q0 has 2 numbers for 1"):
        dae.simulate_dae(constrained, [0.0, 1.0], [0.0], times)
    with pytest.raises(ValueError, match="at least two times"):
        dae.simulate_dae(constrained, Q0, [0.0], [0.0])
    with pytest.raises(ValueError, match="no solver 'euler'"):
        dae.simulate_dae(constrained, Q0, [0.0], times, solver="euler")
    with pytest.raises(ValueError, match="2 independent joint variables"):
        dae.RhythmLoop(eb.rhythms.Affine(np.ones((3, 1))), [0, 1])


@pytest.mark.parametrize("name", ["four_bar", "five_bar"])
def test_a_servo_finds_the_torques(name):
    """Torques for wanted accelerations of the coordinates give just those."""
    model, loop, q, qd = mechanisms()[name]
    constrained = dae.constrained(model, loop)
    f, fd = constrained.start(jnp.asarray(q), jnp.asarray(qd))
    wanted = jnp.asarray([3.0, -2.0][: model.nq])
    found = eqx.filter_jit(constrained.servo)(0.3, f, fd, wanted)
    again = eqx.filter_jit(constrained.accelerations)(0.3, f, fd, found.torques)
    np.testing.assert_allclose(again.fdd, found.fdd, rtol=1e-9, atol=1e-9)
    need = eb.inverse_dynamics(
        model, jnp.asarray(q), jnp.asarray(qd), wanted, t=0.3, elements=bool(model.forces)
    )
    np.testing.assert_allclose(found.torques, need, rtol=1e-8, atol=1e-10)


def test_torques_on_the_coordinates():
    """As a function, and as a servo that asks for what they give."""
    model, loop, q, qd = mechanisms()["four_bar"]
    constrained, ts = dae.constrained(model, loop), [0.0, 0.1]

    def law(t, q, qd):
        return 0.02 - 0.3 * qd

    def answer(t, q, qd):
        return eb.forward_dynamics(model, q, qd, law(t, q, qd), t=t)

    kinds = [{"tau": law}, {"servo": answer}]
    one, two = (
        dae.simulate_dae(constrained, q, qd, ts, projection="none", **kind) for kind in kinds
    )
    np.testing.assert_allclose(two.q, one.q, atol=1e-7)
    np.testing.assert_allclose(two.torques, 0.02 - 0.3 * two.qd, atol=1e-6)
    with pytest.raises(ValueError, match="tau or servo"):
        dae.simulate_dae(constrained, q, qd, ts, tau=law, servo=answer)
    with pytest.raises(ValueError, match=r"tau has shape \(2,\) for 1"):
        dae.simulate_dae(constrained, q, qd, ts, tau=[1.0, 2.0])
