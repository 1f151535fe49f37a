"""eb.simulate: against closed forms, and what it says when it cannot go on."""

import subprocess
import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ellipj, ellipk

from empbody.forces import CoordinateSpring, JointForce
from empbody.model import Body, Model, Prismatic, Revolute
from empbody.rhythms import Identity, Implicit, Stack
from empbody.simulation import (
    CoordinateLimit,
    Crossing,
    SimulationError,
    SimulationStatus,
    simulate,
)
from empbody.solvers import RKF45

G, AMPLITUDE = 9.81, 1.2
TS = np.linspace(0.0, 2.0, 21)


def pendulum(mass=1.0, **options):
    bob = Body("bob", joint=Revolute(axis=(0, 0, 1)), mass=mass, com=(0, -1.0, 0))
    return Model.build(("angle",), [bob], gravity=(0, -G, 0), **options)


def exact(t):
    """Angle of a unit pendulum let go at AMPLITUDE, in Jacobi's elliptic functions."""
    k = np.sin(AMPLITUDE / 2)
    sn = ellipj(ellipk(k * k) - np.sqrt(G) * t, k * k)[0]
    return 2 * np.arcsin(k * sn)


class Circle(eqx.Module):
    """x² + y² = r²."""

    radius: jax.Array

    def __call__(self, q, f):
        return q**2 + f**2 - self.radius**2


def bead(reach=0.9, **options):
    """A bead on the upper half of a circle, x as coordinate: it folds at x = ±1."""
    loop = Implicit.build(Circle(jnp.asarray(1.0)), 0.0, 1.0, -reach, reach, n=64, **options)
    bodies = [
        Body("carriage", joint=Prismatic(axis=(1, 0, 0))),
        Body("bead", parent="carriage", joint=Prismatic(axis=(0, 1, 0)), mass=1.0),
    ]
    rhythm = Stack([(Identity(), (0,)), (loop, (0,))], n_in=1)
    return Model.build(("x",), bodies, rhythm=rhythm, gravity=(0, -G, 0))


@pytest.fixture(scope="module")
def model():
    return pendulum()


@pytest.fixture(scope="module")
def on_circle():
    return bead()


# ---- accuracy ----


@pytest.mark.parametrize(
    ("solver", "tolerance", "error"),
    [
        ("tsit5", 1e-10, 1e-9),
        pytest.param(RKF45(), 1e-10, 5e-9, marks=pytest.mark.slow),
        pytest.param("Dopri5", 1e-10, 5e-9, marks=pytest.mark.slow),
        pytest.param("kvaerno5", 1e-8, 2e-6, marks=pytest.mark.slow),
        pytest.param("TRBDF2", 1e-7, 1e-4, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_pendulum_follows_its_closed_form(model, solver, tolerance, error):
    solution = simulate(model, [AMPLITUDE], [0.0], TS, solver=solver, rtol=tolerance, atol=1e-10)
    assert np.abs(solution.q[:, 0] - exact(TS)).max() < error
    assert solution.energy_drift(model) < 10 * error
    assert bool(solution.status == SimulationStatus.done)
    assert bool(jnp.all(solution.reached))
    assert solution.t_final == TS[-1]
    np.testing.assert_allclose(solution.q_final, solution.q[-1], rtol=1e-14)
    taken = solution.stats["num_accepted_steps"] + solution.stats["num_rejected_steps"]
    assert 0 < solution.stats["num_steps"] == taken
    with pytest.raises(ValueError, match="dense=True"):
        solution.evaluate(1.0)


def test_dense_output(model):
    options = {"solver": "dopri8", "rtol": 1e-10, "atol": 1e-10, "max_steps": 128}
    solution = simulate(model, [AMPLITUDE], [0.0], TS, dense=True, **options)
    assert np.abs(solution.q[:, 0] - exact(TS)).max() < 5e-9
    between = np.linspace(0.0, 2.0, 57)
    q, qd = solution.evaluate(between)
    assert q.shape == qd.shape == (57, 1)
    np.testing.assert_allclose(q[:, 0], exact(between), atol=1e-8)
    rate = (exact(between[1:-1] + 1e-5) - exact(between[1:-1] - 1e-5)) / 2e-5
    np.testing.assert_allclose(qd[1:-1, 0], rate, atol=1e-6)
    at_one, _ = solution.evaluate(1.0)
    np.testing.assert_allclose(at_one, solution.q[10], atol=1e-14)


def test_fixed_steps_converge_with_the_order_of_the_solver(model):
    errors = []
    for step in (0.04, 0.02):
        solution = simulate(model, [AMPLITUDE], [0.0], TS, fixed_step=step)
        assert solution.stats["num_steps"] == round(2.0 / step)
        errors.append(np.abs(solution.q[-1, 0] - exact(TS[-1])))
    assert np.log2(errors[0] / errors[1]) > 4.5
    grid = np.linspace(0.0, 2.0, 101)
    stepped = simulate(model, [AMPLITUDE], [0.0], TS, fixed_step=grid)
    assert stepped.stats["num_steps"] == 100
    np.testing.assert_allclose(stepped.q, solution.q, atol=1e-12)


@pytest.mark.slow
def test_fixed_steps_of_an_implicit_solver(model):
    solution = simulate(model, [AMPLITUDE], [0.0], TS, solver="trbdf2", fixed_step=0.005)
    assert np.abs(solution.q[:, 0] - exact(TS)).max() < 1e-3


def test_start_time_need_not_be_zero(model):
    shifted = simulate(model, [AMPLITUDE], [0.0], TS + 5.0)
    np.testing.assert_allclose(shifted.q[:, 0], exact(TS), atol=1e-6)
    ending_at_zero = simulate(model, [AMPLITUDE], [0.0], TS - 2.0)
    np.testing.assert_allclose(ending_at_zero.q[:, 0], exact(TS), atol=1e-6)


def test_monitors(model, on_circle):
    wanted = {"J": "energy", "open": "closure", "square": lambda t, q, qd: q[0] ** 2}
    solution = simulate(on_circle, [0.1], [0.0], TS[:4], monitors=wanted)
    energy = solution.energy(on_circle)
    np.testing.assert_allclose(energy, G * np.sqrt(1 - 0.01), atol=1e-6)
    np.testing.assert_allclose(solution.monitors["J"], energy, rtol=1e-12)
    np.testing.assert_allclose(solution.monitors["square"], solution.q[:, 0] ** 2)
    assert jnp.max(solution.monitors["open"]) < 1e-14
    assert jnp.max(solution.closure_error(on_circle)) < 1e-14
    with pytest.raises(ValueError, match="no monitor 'enrgy'"):
        simulate(model, [0.0], [0.0], TS, monitors=("enrgy",))


# ---- generalised forces ----


class Push(eqx.Module):
    """Takes gravity away and puts a spring and a ramp in its place."""

    stiffness: jax.Array
    ramp: jax.Array

    def __call__(self, t, q, qd):
        return G * jnp.sin(q) - self.stiffness * q + self.ramp * t


def test_forces_from_outside(model):
    held = simulate(model, [0.5], [0.0], TS, tau=[G * np.sin(0.5)])
    np.testing.assert_allclose(held.q, 0.5, atol=1e-10)
    spring = simulate(model, [0.5], [0.0], TS, tau=Push(jnp.array(4.0), jnp.array(0.0)))
    np.testing.assert_allclose(spring.q[:, 0], 0.5 * np.cos(2 * TS), atol=1e-6)
    by_time = simulate(model, [0.0], [0.0], TS, tau=Push(jnp.array(0.0), jnp.array(1.0)))
    np.testing.assert_allclose(by_time.q[:, 0], TS**3 / 6, atol=1e-6)


@pytest.mark.slow
def test_force_elements_act():
    """A spring and a torque that grows with time, by elements of the model."""
    forces = [JointForce("bob", lambda t: t), CoordinateSpring("angle", stiffness=4.0)]
    tau = Push(jnp.array(-4.0), jnp.array(0.0))
    element = simulate(pendulum(forces=forces), [0.0], [0.0], TS, tau=tau)
    np.testing.assert_allclose(element.q[:, 0], TS**3 / 6, atol=1e-6)


def test_new_numbers_do_not_compile_again(model):
    traces = []

    class Counted(eqx.Module):
        gain: jax.Array

        def __call__(self, t, q, qd):
            traces.append(None)
            return -self.gain * q

    def run(model, gain, q0, ts, **options):
        limit = CoordinateLimit("angle", upper=options.pop("upper", 3.0))
        simulate(model, q0, [0.0], ts, tau=Counted(jnp.asarray(gain)), event=limit, **options)

    run(model, 1.0, [0.3], TS)
    first = len(traces)
    run(pendulum(mass=2.0), 2.0, np.array([0.5]), 3.0 * TS + 1.0, rtol=1e-6, atol=1e-5, upper=2.0)
    run(model, 1.5, jnp.array([0.1]), list(TS), solver="TSIT5")
    assert len(traces) == first > 0


# ---- events ----


def test_coordinate_limit_stops_at_the_crossing(model):
    ts = np.linspace(0.0, 2.0, 6)
    when = brentq(lambda t: exact(t) + 0.3, 0.0, 1.0, xtol=1e-14)
    tight = {"solver": "dopri8", "rtol": 1e-11, "atol": 1e-11}
    solution = simulate(
        model, [AMPLITUDE], [0.0], ts, event=CoordinateLimit("angle", lower=-0.3), **tight
    )
    assert bool(solution.status == SimulationStatus.event)
    assert bool(solution.succeeded)
    assert abs(solution.t_final - when) < 1e-8
    np.testing.assert_allclose(solution.q_final, -0.3, atol=1e-12)
    np.testing.assert_array_equal(solution.reached, ts <= when)
    assert bool(jnp.all(jnp.isnan(solution.q[3:])))
    np.testing.assert_array_equal(solution.events, [True])
    assert solution.energy_drift(model) < 1e-8

    ranged = pendulum(ranges={"angle": (-0.3, 1.5)})
    assert CoordinateLimit("angle").limits(ranged) == (-0.3, 1.5)
    assert CoordinateLimit("angle", upper=2.0).limits(ranged) == (-np.inf, 2.0)


class Passing(eqx.Module):
    level: jax.Array

    def __call__(self, t, q, qd):
        return q[0] - self.level


def test_several_events(model):
    """Both limits are passed within one step and the nearer counts, then the crossing."""
    quarter = ellipk(np.sin(AMPLITUDE / 2) ** 2) / np.sqrt(G)

    def run(low, level):
        events = [
            CoordinateLimit("angle", lower=low - 1e-4, upper=9.0),
            Crossing(Passing(jnp.asarray(level)), "up"),
            CoordinateLimit("angle", lower=low, upper=8.0),
        ]
        return simulate(model, [AMPLITUDE], [0.0], TS, event=events, rtol=1e-10, atol=1e-10)

    nearer = run(0.0, 3.0)
    assert abs(nearer.t_final - quarter) < 1e-8
    np.testing.assert_array_equal(nearer.events, [False, False, True])
    # rising through zero comes three quarters of a period in
    rising = run(-2.0, 0.0)
    assert abs(rising.t_final - 3 * quarter) < 1e-8
    np.testing.assert_array_equal(rising.events, [False, True, False])


class Late(eqx.Module):
    after: jax.Array

    def __call__(self, t, q, qd):
        return t > self.after


def test_boolean_events_stop_at_the_end_of_a_step(model):
    options = {"fixed_step": 0.1, "find_root": False}
    start = model, [AMPLITUDE], [0.0], TS
    stopped = simulate(*start, event=Late(jnp.asarray(0.55)), **options)
    np.testing.assert_allclose(stopped.t_final, 0.6, atol=1e-12)
    assert bool(stopped.status == SimulationStatus.event)
    untouched = simulate(*start, event=Late(jnp.asarray(3.0)), **options)
    assert bool(untouched.status == SimulationStatus.done)
    np.testing.assert_array_equal(untouched.events, [False])


@pytest.mark.slow
def test_event_time_can_be_differentiated(model):
    def when(q0):
        event = CoordinateLimit("angle", lower=0.0)
        return simulate(
            model, q0[None], jnp.zeros(1), TS, event=event, solver="dopri8", rtol=1e-10
        ).t_final

    value, slope = jax.jit(jax.value_and_grad(when))(jnp.asarray(AMPLITUDE))

    def quarter(a):
        return ellipk(np.sin(a / 2) ** 2) / np.sqrt(G)

    h = 1e-4
    expected = (quarter(AMPLITUDE + h) - quarter(AMPLITUDE - h)) / (2 * h)
    np.testing.assert_allclose(value, quarter(AMPLITUDE), atol=1e-7)
    np.testing.assert_allclose(slope, expected, rtol=1e-5)


# ---- transformations ----


def test_batches_over_starts(model):
    starts = jnp.array([0.2, jnp.nan, AMPLITUDE])[:, None]

    def run(q0):
        return simulate(model, q0, jnp.zeros(1), TS, throw=False)

    batch = jax.jit(jax.vmap(run))(starts)
    assert batch.q.shape == (3, 21, 1)
    np.testing.assert_array_equal(batch.succeeded, [True, False, True])
    np.testing.assert_allclose(batch.q[2, :, 0], exact(TS), atol=1e-6)
    assert bool(jnp.all(jnp.isnan(batch.q[1])))


@pytest.mark.slow
def test_batches_over_models(model):
    models = eqx.filter_vmap(lambda g: eqx.tree_at(lambda m: m.gravity, model, g))(
        jnp.array([[0.0, -G, 0.0], [0.0, -2 * G, 0.0]])
    )
    pair = eqx.filter_vmap(lambda m: simulate(m, jnp.array([AMPLITUDE]), jnp.zeros(1), TS))(models)
    np.testing.assert_allclose(pair.q[0, :, 0], exact(TS), atol=1e-6)
    np.testing.assert_allclose(pair.q[1, :, 0], exact(np.sqrt(2.0) * TS), atol=1e-6)


@pytest.fixture(scope="module")
def final_angle(model):
    """Sum of later angles as a function of (q0, qd0, length, gravity), by an adjoint."""

    def total(parameters, adjoint):
        q0, qd0, length, fall = parameters
        bent = eqx.tree_at(
            lambda m: (m.com, m.gravity),
            model,
            (model.com.at[0, 1].set(-length), model.gravity.at[1].set(-fall)),
        )
        ts, options = jnp.array([0.0, 0.5, 1.0]), {"rtol": 1e-9, "atol": 1e-9, "max_steps": 128}
        out = simulate(bent, q0[None], qd0[None], ts, adjoint=adjoint, throw=False, **options)
        return jnp.sum(out.q[1:])

    return total


PARAMETERS = jnp.array([AMPLITUDE, 0.3, 1.0, G])


def slopes_twice(function, at, h):
    """Gradient by autodiff and by central differences, with one compilation."""
    both = jax.jit(jax.value_and_grad(function))
    differences = [(both(at + h * e)[0] - both(at - h * e)[0]) / (2 * h) for e in np.eye(at.size)]
    return both(at)[1], np.array(differences)


def test_adjoints_agree_with_each_other_and_with_differences(final_angle):
    reverse, differences = slopes_twice(lambda p: final_angle(p, "checkpoint"), PARAMETERS, 1e-5)
    np.testing.assert_allclose(reverse, differences, rtol=1e-4)
    forward = jax.jit(jax.jacfwd(lambda p: final_angle(p, "forward")))(PARAMETERS)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)


@pytest.mark.slow
def test_other_adjoints(final_angle):
    reverse = jax.jit(jax.grad(lambda p: final_angle(p, "checkpoint")))(PARAMETERS)
    back = jax.jit(jax.grad(lambda p: final_angle(p, "backsolve")))(PARAMETERS)
    np.testing.assert_allclose(back, reverse, rtol=1e-5)
    direct = jax.jit(jax.grad(lambda p: final_angle(p, diffrax.DirectAdjoint())))(PARAMETERS)
    np.testing.assert_allclose(direct, reverse, rtol=1e-10)


def test_gradient_through_a_loop_closure(on_circle):
    """To the start and to the radius of the circle."""

    def final(parameters):
        q0, radius = parameters
        bent = eqx.tree_at(lambda m: m.rhythm.rhythms[1].residual.radius, on_circle, radius)
        return simulate(bent, q0[None], jnp.zeros(1), jnp.array([0.0, 0.3])).q_final[0]

    slopes, differences = slopes_twice(final, jnp.array([0.3, 1.0]), 1e-5)
    np.testing.assert_allclose(slopes, differences, rtol=1e-4)


# ---- failures ----


def failure(*args, **options):
    with pytest.raises(SimulationError) as caught:
        simulate(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    soft = simulate(*args, throw=False, **options)
    assert not bool(soft.succeeded)
    return message, soft


def test_running_out_of_steps(model):
    message, soft = failure(model, [AMPLITUDE], [0.0], TS, max_steps=20)
    assert message.startswith("ran out of 20 steps at t = 0.")
    assert "raise max_steps or loosen rtol" in message
    assert bool(soft.status == SimulationStatus.out_of_steps)
    assert 0.0 < soft.t_final < 2.0
    np.testing.assert_allclose(soft.q_final[0], exact(float(soft.t_final)), atol=1e-6)
    message, _ = failure(model, [AMPLITUDE], [0.0], TS, fixed_step=1e-4)
    assert message.startswith("ran out of 16384 steps at t = 1.6384 s of 2 s")
    assert "enlarge fixed_step" in message


def test_unusable_starts(model, on_circle):
    message, soft = failure(model, [np.nan], [0.0], TS)
    assert message == "q0 is NaN in coordinate 'angle'"
    assert bool(soft.status == SimulationStatus.bad_start)
    assert soft.stats["num_steps"] < 10
    assert failure(model, [0.0], [np.inf], TS)[0] == "qd0 is infinite in coordinate 'angle'"
    ranged = pendulum(ranges={"angle": (-1.0, 1.0)})
    message = failure(ranged, [AMPLITUDE], [0.0], TS)[0]
    assert message == "q0 puts coordinate 'angle' at 1.2, outside its range -1 to 1"
    message = failure(on_circle, [0.95], [0.0], TS[:4])[0]
    assert "closes for 'x' from -0.9 to 0.9 only, 'x' is 0.95" in message
    limit = CoordinateLimit("angle", upper=1.0)
    message = failure(model, [AMPLITUDE], [0.0], TS, event=limit)[0]
    assert message == "q0 puts coordinate 'angle' at 1.2, not inside its limits -inf to 1"
    leaving = failure(model, [1.0], [0.5], TS, event=limit)[0]
    assert "at 1, not inside its limits" in leaving
    fallen = simulate(model, [1.0], [0.0], TS, event=limit)  # gravity takes it inside
    assert fallen.t_final > 0.5
    massless = eqx.tree_at(lambda m: m.mass, model, jnp.zeros(1))
    assert "mass matrix singular" in failure(massless, [0.1], [0.0], TS)[0]


def test_a_limit_ends_on_a_range_with_one_end():
    ranged = pendulum(ranges={"angle": (-0.3, np.inf)})
    stopped = simulate(ranged, [AMPLITUDE], [0.0], TS, event=CoordinateLimit("angle"))
    assert stopped.q_final[0] == pytest.approx(-0.3, abs=1e-12)


def test_leaving_the_range_of_a_coordinate():
    ranged = pendulum(ranges={"angle": (-1.0, 1.3)})
    message = failure(ranged, [AMPLITUDE], [0.0], TS)[0]
    assert "coordinate 'angle' left its range -1 to 1.3 by t = " in message
    assert "event=CoordinateLimit('angle')" in message


def test_leaving_the_range_of_a_rhythm(on_circle):
    """The bead slides to the end of the table; the time there follows from its energy."""
    message, soft = failure(on_circle, [0.1], [0.0], np.linspace(0.0, 3.0, 4))
    assert "the rhythm failed at t = " in message
    assert "closes for 'x' from -0.9 to 0.9 only" in message
    assert bool(soft.status == SimulationStatus.step_too_small)
    np.testing.assert_allclose(soft.q_final, 0.9, atol=1e-9)
    assert soft.stats["num_steps"] < 500
    message, soft = failure(on_circle, [0.1], [0.0], np.linspace(0.0, 3.0, 31), fixed_step=0.01)
    assert "the rhythm failed after t = " in message
    assert bool(soft.status == SimulationStatus.not_finite)


@pytest.mark.slow
def test_fixed_steps_that_blow_up():
    stiff = pendulum(forces=[CoordinateSpring("angle", stiffness=1e6)])
    message, _ = failure(stiff, [0.1], [0.0], TS, fixed_step=0.01)
    assert "make fixed_step smaller" in message


def test_failures_within_compiled_functions(model):
    def run(q0, throw):
        return simulate(model, q0, jnp.zeros(1), TS, throw=throw)

    starts = jnp.array([[0.1], [jnp.nan]])
    with pytest.raises(Exception, match="start is not usable"):
        jax.block_until_ready(eqx.filter_jit(run)(starts[1], True).q)
    fine = eqx.filter_jit(run)(starts[0], True)
    assert bool(fine.succeeded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q0": [0.0, 1.0]}, r"q0 has shape \(2,\) for 1 coordinates \(angle\)"),
        ({"qd0": [[0.0]]}, r"qd0 has shape \(1, 1\) .* use jax.vmap to batch"),
        ({"tau": [0.0, 1.0]}, r"tau has shape \(2,\)"),
        ({"ts": [0.0]}, "at least two times"),
        ({"ts": [0.0, 2.0, 1.0]}, r"ts\[2\] = 1 s comes after ts\[1\] = 2 s"),
        ({"ts": [0.0, np.inf]}, "NaN or infinity"),
        ({"solver": "ode45"}, "no solver 'ode45'; choose one of .*'trbdf2'"),
        ({"adjoint": "magic"}, "no adjoint 'magic'"),
        ({"adjoint": "backsolve", "dense": True}, "without events and dense output"),
        ({"rtol": -1.0}, "rtol = -1: a positive number"),
        ({"fixed_step": [0.0, 1.0]}, "from 0 to 1 s: they must increase from 0 to 2 s"),
        ({"fixed_step": [[0.0]]}, "fixed_step has shape"),
        ({"max_steps": 0}, "at least one step"),
        ({"event": CoordinateLimit("angel", 0.0)}, "no coordinate 'angel'.*angle"),
        ({"event": CoordinateLimit("angle")}, "'angle' has no range in the model"),
        ({"event": Crossing(abs, "sideways")}, "'up', 'down' or None"),
        ({"event": 3.0}, "event is a float"),
        ({"progress": "loud"}, "progress = 'loud'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments(model, change, message):
    arguments = {"q0": [0.0], "qd0": [0.0], "ts": TS} | change
    with pytest.raises(ValueError, match=message):
        simulate(model, **arguments)


def test_wrong_shape_from_a_function_of_the_state(model):
    with pytest.raises(ValueError, match=r"tau\(t, q, qd\) has shape \(\) for 1 coordinates"):
        simulate(model, [0.0], [0.0], TS, tau=lambda t, q, qd: 1.0)


def test_tight_tolerances_need_double_precision():
    with jax.enable_x64(False):
        model = pendulum()
        with pytest.raises(ValueError, match=r"needs double precision.*jax_enable_x64"):
            simulate(model, [AMPLITUDE], [0.0], TS)


@pytest.mark.slow
def test_single_precision():
    """In a process of its own, since x64 is on in this one."""
    program = """
import empbody as eb
from empbody.simulation import simulate
bob = eb.Body("bob", joint=eb.Revolute(axis=(0, 0, 1)), mass=1.0, com=(0, -1.0, 0))
model = eb.Model.build(("angle",), [bob], gravity=(0, -9.81, 0))
solution = simulate(model, [1.2], [0.0], [0.0, 2.0], rtol=1e-5, atol=1e-5)
assert str(solution.q.dtype) == "float32"
print(float(solution.q_final[0]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert abs(float(done.stdout) - exact(2.0)) < 1e-3


@pytest.mark.slow
def test_progress_meter(model, capfd):
    solution = simulate(model, [AMPLITUDE], [0.0], TS, progress=True)
    jax.block_until_ready(solution.q)
    jax.effects_barrier()
    assert "100.00%" in capfd.readouterr().err
