"""Outcomes of a simulation, as codes that survive jit and vmap."""

import diffrax
import equinox as eqx
from jaxtyping import Array, Bool


class SimulationStatus(eqx.Enumeration):
    """Outcome of one simulation; each item carries its reason in words."""

    done = "the end of ts was reached"
    event = "an event stopped the simulation before the end of ts"
    bad_start = (
        "simulation: the start is not usable: a number in q0 or qd0 is NaN or infinite, q0 is "
        "outside a coordinate's range, or the equations of motion have no value there"
    )
    out_of_steps = (
        "simulation: ran out of steps before the end of ts; raise max_steps or loosen rtol and atol"
    )
    step_too_small = (
        "simulation: no step was small enough; the rhythm failed, the mass matrix became "
        "singular, or the motion is too stiff for the solver"
    )
    not_finite = "simulation: the state became NaN or infinite; make the fixed step smaller"
    left_range = (
        "simulation: a coordinate left its range or that of a muscle's moving point, where the "
        "model is not known to hold; stop there with event=CoordinateLimit(name), or widen the "
        "range"
    )
    solver_failed = "simulation: the solver failed"
    bad_times = (
        "simulation: ts must increase, dt0 and fixed_step must be positive, and times to step to "
        "must increase from the first of ts to the last"
    )


def judge(
    result: diffrax.RESULTS,
    *,
    good_times: Bool[Array, ""],
    good_start: Bool[Array, ""],
    at_end: Bool[Array, ""],
    finite: Bool[Array, ""],
    in_range: Bool[Array, ""],
) -> SimulationStatus:
    """Our code for what Diffrax reports and for what it does not look at."""
    status, results = SimulationStatus, diffrax.RESULTS
    out = status.solver_failed
    out = status.where(result == results.max_steps_reached, status.out_of_steps, out)
    out = status.where(result == results.dt_min_reached, status.step_too_small, out)
    out = status.where(result == results.event_occurred, status.event, out)
    # The last step may end within rounding of the end and count as too small.
    fine = (result == results.successful) | ((result == results.dt_min_reached) & at_end)
    out = status.where(fine, status.done, out)
    out = status.where(finite & ~in_range, status.left_range, out)
    out = status.where(finite, out, status.not_finite)
    out = status.where(good_start, out, status.bad_start)
    return status.where(good_times, out, status.bad_times)


def succeeded(status: SimulationStatus) -> Bool[Array, "..."]:
    return (status == SimulationStatus.done) | (status == SimulationStatus.event)
