"""Orders, stability, dense output, adjoints and batching of our own Diffrax solvers."""

from fractions import Fraction
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

from empbody.solvers import RKF45, TRBDF2, StageChord

TIGHT = StageChord(rtol=1e-11, atol=1e-11)


# --- order conditions, in exact arithmetic ------------------------------------------


class Surd(NamedTuple):
    """p + r √2 with rational p and r: the field of TR-BDF2's coefficients."""

    p: Fraction
    r: Fraction = Fraction(0)

    def __add__(self, other):
        return Surd(self.p + other.p, self.r + other.r)

    def __sub__(self, other):
        return Surd(self.p - other.p, self.r - other.r)

    def __mul__(self, other):
        return Surd(self.p * other.p + 2 * self.r * other.r, self.p * other.r + self.r * other.p)

    def __float__(self):
        return float(self.p) + float(self.r) * 2**0.5


def dot(xs, ys):
    terms = [x * y for x, y in zip(xs, ys, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def elementary_weights(a, one):
    """(order, stage vector Φ, density γ) of the 17 rooted trees up to order five.

    A formula b is of order p at θ where b·Φ = θ^order / γ for all trees up to order p.
    """

    def mul(*vectors):
        out = [one] * len(a)
        for v in vectors:
            out = [x * y for x, y in zip(out, v, strict=True)]
        return out

    def up(v):
        return [dot(row, v) for row in a]

    e = [one] * len(a)
    c = up(e)
    return [
        (1, e, 1),
        (2, c, 2),
        (3, mul(c, c), 3),
        (3, up(c), 6),
        (4, mul(c, c, c), 4),
        (4, mul(c, up(c)), 8),
        (4, up(mul(c, c)), 12),
        (4, up(up(c)), 24),
        (5, mul(c, c, c, c), 5),
        (5, mul(c, c, up(c)), 10),
        (5, mul(up(c), up(c)), 20),
        (5, mul(c, up(mul(c, c))), 15),
        (5, mul(c, up(up(c))), 30),
        (5, up(mul(c, c, c)), 20),
        (5, up(mul(c, up(c))), 40),
        (5, up(up(mul(c, c))), 60),
        (5, up(up(up(c))), 120),
    ]


def exact_order(weights, b, one, theta=Fraction(1)):
    """Largest p ≤ 5 for which every condition up to order p holds exactly."""
    failed = [
        order
        for order, phi, density in weights
        if dot(b, phi) != one * type(one)(*[theta**order / density])
    ]
    return min(failed, default=6) - 1


def rational(values):
    """The fractions that these floats were written as."""
    out = [Fraction(float(x)).limit_denominator(10**7) for x in values]
    assert np.allclose([float(x) for x in out], values, rtol=0, atol=2e-16)
    return out


def full_matrix(tableau):
    a = np.zeros((tableau.num_stages, tableau.num_stages))
    for i, row in enumerate(tableau.a_lower):
        a[i + 1, : i + 1] = row
    return a if tableau.a_diagonal is None else a + np.diag(tableau.a_diagonal)


def test_rkf45_order_conditions():
    tableau = RKF45.tableau
    a = [rational(row) for row in full_matrix(tableau)]
    weights = elementary_weights(a, Fraction(1))
    b = rational(tableau.b_sol)
    embedded = rational(tableau.b_sol - tableau.b_error)
    assert exact_order(weights, b, Fraction(1)) == 5
    assert exact_order(weights, embedded, Fraction(1)) == 4
    assert [sum(row) for row in a][1:] == rational(tableau.c)


def test_rkf45_continuous_extension_order_conditions():
    tableau = RKF45.tableau
    weights = elementary_weights([rational(row) for row in full_matrix(tableau)], Fraction(1))
    b = rational(tableau.b_sol)
    middle = rational(RKF45.interpolation_cls.c_mid)
    first, last = [[Fraction(int(i == j)) for i in range(7)] for j in (0, 6)]
    for theta in (Fraction(1, 7), Fraction(1, 2), Fraction(5, 6)):
        # quartic with value 0 and b at the ends, slopes of stages 1 and 7, middle value
        t, u = theta, 1 - theta
        at_theta = [
            f0 * t * u**2 * (1 - 2 * t)
            + 16 * m * t**2 * u**2
            + y * t**2 * (1 + 2 * u - 8 * u**2)
            + f1 * (-(t**2)) * u * (1 - 2 * u)
            for f0, m, y, f1 in zip(first, middle, b, last, strict=True)
        ]
        assert exact_order(weights, at_theta, Fraction(1), theta) == 4


def test_trbdf2_order_conditions():
    def surd(p, r):
        return Surd(Fraction(p), Fraction(r))

    zero, d, w = surd(0, 0), surd(1, "-1/2"), surd(0, "1/4")
    third = Surd(Fraction(1, 3))
    one = surd(1, 0)
    a = [[zero, zero, zero], [d, d, zero], [w, w, d]]
    b = [w, w, d]
    embedded = [(one - w) * third, (one + w + w + w) * third, d * third]
    tableau = TRBDF2.tableau
    close = dict(rtol=0, atol=2e-16)
    np.testing.assert_allclose(
        full_matrix(tableau), [[float(x) for x in row] for row in a], **close
    )
    np.testing.assert_allclose(tableau.b_sol, [float(x) for x in b], **close)
    np.testing.assert_allclose(
        tableau.b_sol - tableau.b_error, [float(x) for x in embedded], **close
    )
    weights = elementary_weights(a, one)
    assert exact_order(weights, b, one) == 2
    assert exact_order(weights, embedded, one) == 3


@pytest.mark.parametrize("solver", [RKF45, TRBDF2])
def test_last_stage_is_first_of_next_step(solver):
    assert solver.tableau.fsal


# --- measured orders -----------------------------------------------------------------

ECCENTRICITY = 0.3
KEPLER0 = jnp.array(
    [1 - ECCENTRICITY, 0.0, 0.0, ((1 + ECCENTRICITY) / (1 - ECCENTRICITY)) ** 0.5, 1.0]
)


def kepler(t, y, args):
    """Kepler's problem from the pericentre, and z' = z cos t for the dependence on t."""
    del args
    x, z = y[:2], y[4]
    cube = (x @ x) ** 1.5
    return jnp.concatenate([y[2:4], -x / cube, (z * jnp.cos(t))[None]])


def kepler_exact(t):
    """Closed form: Kepler's equation E - e sin E = t, period 2π; z = exp(sin t)."""
    e = ECCENTRICITY
    big_e = t
    for _ in range(30):
        big_e = big_e - (big_e - e * jnp.sin(big_e) - t) / (1 - e * jnp.cos(big_e))
    b = (1 - e**2) ** 0.5
    rate = 1 / (1 - e * jnp.cos(big_e))
    return jnp.stack(
        [
            jnp.cos(big_e) - e,
            b * jnp.sin(big_e),
            -jnp.sin(big_e) * rate,
            b * jnp.cos(big_e) * rate,
            jnp.exp(jnp.sin(t)),
        ]
    )


def slopes(errors):
    errors = np.asarray(errors)
    return np.log2(errors[:-1] / errors[1:])


CASES = {
    # solver, steps of the global test, largest step of the local test, orders
    "rkf45": (RKF45(), (48, 96, 192, 384), 0.05, 5),
    "trbdf2": (TRBDF2(root_finder=TIGHT), (64, 128, 256, 512), 0.08, 2),
}


@pytest.fixture(scope="module", params=list(CASES))
def case(request):
    return CASES[request.param]


def test_convergence_of_steps_and_dense_output(case):
    solver, counts, _, order = case
    t1 = 3.0
    # none of these fall on the ends of steps
    ts = jnp.linspace(0.0123, 2.9871, 61)

    @jax.jit
    @jax.vmap
    def errors(dt):
        sol = diffrax.diffeqsolve(
            diffrax.ODETerm(kepler),
            solver,
            0.0,
            t1,
            dt,
            KEPLER0,
            saveat=diffrax.SaveAt(t1=True, ts=ts),
            max_steps=2 * counts[-1],
        )
        exact = jax.vmap(kepler_exact)(sol.ts)
        off = jnp.max(jnp.abs(sol.ys - exact), axis=1)
        # root mean square: the largest depends on where in their steps the ts happen to be
        return off[-1], jnp.sqrt(jnp.mean(off[:-1] ** 2))

    at_end, dense = errors(t1 / jnp.array(counts))
    assert np.all(np.abs(slopes(at_end)[-2:] - order) < 0.2), slopes(at_end)
    assert np.all(np.abs(slopes(dense)[-2:] - order) < 0.2), slopes(dense)
    assert dense[-1] < 2 * at_end[-1]


def test_local_orders(case):
    """One step: error of the solution, the estimate, the embedded formula, the interpolant."""
    solver, _, largest, order = case
    term = diffrax.ODETerm(kepler)
    t0 = jnp.asarray(0.4)

    def one_step(solver, h):
        y0 = kepler_exact(t0)
        state = solver.init(term, t0, t0 + h, y0, None)
        y1, estimate, dense_info, _, _ = solver.step(term, t0, t0 + h, y0, None, state, False)
        inside = solver.interpolation_cls(t0=t0, t1=t0 + h, **dense_info)
        mid = t0 + 0.37 * h
        return (
            jnp.max(jnp.abs(y1 - kepler_exact(t0 + h))),
            jnp.max(jnp.abs(estimate)),
            jnp.max(jnp.abs(y1 - estimate - kepler_exact(t0 + h))),
            jnp.max(jnp.abs(inside.evaluate(mid) - kepler_exact(mid))),
        )

    hs = largest / 2.0 ** jnp.arange(4)
    measured = jax.jit(jax.vmap(lambda h: one_step(solver, h)))(hs)
    solution, estimate, embedded, inside = (slopes(x)[-1] for x in measured)
    assert abs(solution - (order + 1)) < 0.2
    assert abs(estimate - solver.error_order(term)) < 0.2
    assert abs(inside - (5 if order == 5 else 3)) < 0.25
    if order == 5:
        assert abs(embedded - 5) < 0.2
    else:
        # the third-order formula itself is what the raw estimate subtracts
        raw = TRBDF2(root_finder=TIGHT, smooth_error=False)
        unsmoothed = jax.jit(jax.vmap(lambda h: one_step(raw, h)))(hs)
        assert abs(slopes(unsmoothed[1])[-1] - 3) < 0.2
        assert abs(slopes(unsmoothed[2])[-1] - 4) < 0.2
        np.testing.assert_allclose(unsmoothed[1][-1], measured[1][-1], rtol=0.02)


# --- adaptive steps ------------------------------------------------------------------


def driven_pendulum(t, y, args):
    del args
    return jnp.stack([y[1], -jnp.sin(y[0]) - 0.5 * y[1] + jnp.cos(2.0 * t)])


def solve_pendulum(solver, tol):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(driven_pendulum),
        solver,
        0.0,
        10.0,
        None,
        jnp.array([1.0, 0.0]),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 173)),
        stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
        max_steps=2**14,
    )


@pytest.fixture(scope="module")
def pendulum():
    return np.asarray(jax.jit(lambda: solve_pendulum(diffrax.Dopri8(), 1e-13).ys)())


@pytest.mark.parametrize(
    ("solver", "tols", "power"),
    # without local extrapolation the error of TR-BDF2 falls as tol^(2/3)
    [(RKF45(), (1e-5, 1e-7, 1e-9), 1), (TRBDF2(), (1e-4, 1e-5, 1e-6), 2 / 3)],
    ids=["rkf45", "trbdf2"],
)
def test_adaptive_steps_meet_the_tolerance(solver, tols, power, pendulum):
    sol = jax.jit(jax.vmap(lambda tol: solve_pendulum(solver, tol)))(jnp.array(tols))
    errors = np.max(np.abs(np.asarray(sol.ys) - pendulum), axis=(1, 2))
    assert np.all(errors < (30 if power == 1 else 2) * np.array(tols) ** power), errors
    # steps grow with tol^(-1/power of the estimate)
    growth = slopes(sol.stats["num_accepted_steps"][::-1]) / np.log2(tols[0] / tols[1])
    expected = 1 / solver.error_order(diffrax.ODETerm(driven_pendulum))
    assert np.all(np.abs(growth[0] - expected) < 0.06), growth


# --- stiffness -----------------------------------------------------------------------


def test_trbdf2_is_l_stable():
    a, e = full_matrix(TRBDF2.tableau), np.ones(3)

    def amplification(z):
        # stiffly accurate: the last stage is the new state, and free of cancellation
        return np.linalg.solve(np.eye(3) - z * a, e)[-1]

    imaginary = 1j * np.concatenate([[0.0], np.logspace(-2, 6, 200)])
    # bounded on the imaginary axis, both poles in the right half-plane: A-stable
    assert all(abs(amplification(z)) <= 1 + 1e-14 for z in imaginary)
    assert np.all(np.diag(a)[1:] > 0)
    assert abs(amplification(-1e8)) < 1e-7
    assert abs(amplification(-1e10)) < 1e-9


def test_van_der_pol_needs_few_implicit_and_many_explicit_steps():
    mu, y0 = 1e3, jnp.array([2.0, 0.0])

    def field(t, y, args):
        del t, args
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def solve(solver, tol):
        sol = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            solver,
            0.0,
            5.0,
            None,
            y0,
            stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
            max_steps=2**15,
        )
        return sol.ys[-1], sol.stats["num_steps"]

    implicit, few = jax.jit(lambda: solve(TRBDF2(), 1e-6))()
    explicit, many = jax.jit(lambda: solve(RKF45(), 1e-6))()
    np.testing.assert_allclose(implicit, explicit, atol=1e-5)
    assert few < 60
    assert many > 3000


def test_smoothed_estimate_saves_steps_where_the_raw_one_grows_with_stiffness():
    """Prothero and Robinson: y' = λ (y - cos t) - sin t, started off the slow solution."""

    def solve(solver, lam):
        sol = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, lam: lam * (y - jnp.cos(t)) - jnp.sin(t)),
            solver,
            0.0,
            10.0,
            None,
            jnp.array([1.5]),
            args=lam,
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
            max_steps=4096,
        )
        return sol.ys[-1, 0] - jnp.cos(10.0), sol.stats["num_steps"]

    lams = jnp.array([-1e4, -1e6, -1e8])
    error, steps = jax.jit(jax.vmap(lambda lam: solve(TRBDF2(), lam)))(lams)
    raw_error, raw = jax.jit(jax.vmap(lambda lam: solve(TRBDF2(smooth_error=False), lam)))(lams)
    assert np.all(np.abs(error) < 1e-6)
    assert np.all(np.abs(raw_error) < 1e-6)
    assert np.all(steps < 150), steps
    assert np.all(raw[1:] > 2 * steps[1:]), (raw, steps)


# --- derivatives, batches, types -----------------------------------------------------


def logistic(t, y, rate):
    del t
    return {"y": rate * y["y"] * (1 - y["y"])}


def logistic_end(solver, adjoint, tol, y0, rate):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(logistic),
        solver,
        jnp.asarray(0.0, y0.dtype),
        jnp.asarray(2.0, y0.dtype),
        None,
        {"y": y0},
        args=rate,
        adjoint=adjoint,
        stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
        max_steps=4096,
    ).ys["y"][-1]


def logistic_exact(y0, rate):
    return 1 / (1 + (1 / y0 - 1) * jnp.exp(-2 * rate))


GRADIENTS = {
    "checkpoint": (diffrax.RecursiveCheckpointAdjoint, jax.grad),
    "backsolve": (diffrax.BacksolveAdjoint, jax.grad),
    "forward": (diffrax.ForwardMode, jax.jacfwd),
}


@pytest.mark.parametrize(
    "mode", ["checkpoint", pytest.param("backsolve", marks=pytest.mark.slow), "forward"]
)
@pytest.mark.parametrize(
    ("solver", "tol", "accuracy"),
    [(RKF45(), 1e-9, 1e-7), (TRBDF2(), 1e-7, 5e-5)],
    ids=["rkf45", "trbdf2"],
)
def test_gradients(solver, tol, accuracy, mode):
    make, differentiate = GRADIENTS[mode]
    point = (jnp.asarray(0.2), jnp.asarray(1.3))

    def end(y0, rate):
        return logistic_end(solver, make(), tol, y0, rate)

    ours = jax.jit(differentiate(end, argnums=(0, 1)))(*point)
    h = 1e-5
    for i, derivative in enumerate(ours):
        ahead, behind = list(point), list(point)
        ahead[i], behind[i] = ahead[i] + h, behind[i] - h
        central = (logistic_exact(*ahead) - logistic_exact(*behind)) / (2 * h)
        np.testing.assert_allclose(derivative, central, rtol=accuracy)


@pytest.mark.parametrize("solver", [RKF45(), TRBDF2()], ids=["rkf45", "trbdf2"])
def test_batches_and_single_precision(solver):
    y0 = jnp.array([0.1, 0.5, 0.9])
    rate = jnp.array([0.3, 1.0, 4.0])
    adjoint = diffrax.RecursiveCheckpointAdjoint()
    solve = jax.jit(jax.vmap(lambda y, r: logistic_end(solver, adjoint, 1e-6, y, r)))
    batch = solve(y0, rate)
    # an element's result does not depend on its neighbours
    alone = [solve(jnp.repeat(y, 3), jnp.repeat(r, 3))[0] for y, r in zip(y0, rate, strict=True)]
    np.testing.assert_allclose(batch, alone, rtol=1e-13)
    np.testing.assert_allclose(batch, logistic_exact(y0, rate), rtol=1e-4)
    single = jax.eval_shape(
        lambda *x: logistic_end(solver, adjoint, 1e-3, *x), jnp.float32(0.1), jnp.float32(0.3)
    )
    assert single.dtype == jnp.float32


# --- the chord iteration -------------------------------------------------------------


def test_chord_iterates_until_it_has_converged():
    chord = StageChord(rtol=1e-10, atol=1e-10)
    sol = optx.root_find(lambda x, _: x - jnp.cos(x), chord, jnp.asarray(0.5), max_steps=50)
    np.testing.assert_allclose(sol.value, 0.7390851332151607, rtol=1e-11)
    assert sol.stats["num_steps"] > 2
    # a start at the root: one update of size zero is enough
    exact = optx.root_find(lambda x, _: x**2 - 4, chord, jnp.asarray(2.0), max_steps=50)
    assert exact.stats["num_steps"] == 1


def test_chord_reports_divergence():
    chord = StageChord(rtol=1e-10, atol=1e-10)
    far = optx.root_find(
        lambda x, _: jnp.arctan(x), chord, jnp.asarray(3.0), max_steps=50, throw=False
    )
    assert far.result != optx.RESULTS.successful


def test_chord_in_a_solver_of_diffrax(pendulum):
    root_finder = diffrax.with_stepsize_controller_tols(StageChord)()
    solver = diffrax.Kvaerno5(root_finder=root_finder)
    sol = jax.jit(lambda: solve_pendulum(solver, 1e-8))()
    # at the end only: Kvaerno5's own dense output is a cubic, which its long steps outgrow
    assert np.max(np.abs(np.asarray(sol.ys[-1]) - pendulum[-1])) < 3e-7
    assert sol.stats["num_rejected_steps"] < 0.2 * sol.stats["num_steps"]
