"""What a model's parameters are fitted to: motion, torques, moment arms, lengths."""

import abc
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics import inverse_dynamics
from ..model import Model
from ..muscles import HillMuscles, muscle_torques
from ..muscles._forces import balanced_state
from ..paths import lengths_and_arms, path_lengths
from ..simulation import simulate


class AbstractMeasurement(eqx.Module):
    """Residuals of a model against measurements. NaN in the measurements leaves a number out."""

    @abc.abstractmethod
    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        """(model - measurement) / sigma. `forward` says which mode derivatives will be taken in."""


class _Table(eqx.Module):
    """Measured numbers, which of them there are, and their standard deviation."""

    values: Float[Array, "..."]
    seen: Float[Array, "..."]
    sigma: Float[Array, "..."]

    def __init__(self, what: str, values: Any, sigma: Any):
        given = np.asarray(values, dtype=float)
        seen = np.isfinite(given)
        if not seen.any():
            raise ValueError(f"{what}: none of the {given.size} numbers is finite")
        width = np.asarray(sigma, dtype=float)
        if not (np.isfinite(width).all() and (width > 0).all()):
            raise ValueError(f"{what}: sigma must be finite and above 0")
        try:
            width = np.broadcast_to(width, given.shape)
        except ValueError:
            raise ValueError(f"{what}: sigma of shape {width.shape} for {given.shape}") from None
        self.values = jnp.asarray(np.where(seen, given, 0.0), dtype=float)
        self.seen = jnp.asarray(seen, dtype=float)
        self.sigma = jnp.asarray(width, dtype=float)

    def apart(self, found: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.seen * (found - self.values) / self.sigma


@final
class MeasuredMotion(AbstractMeasurement):
    """Coordinates along a simulation: residual (q(t) - measured) / sigma, times after the first.

    `ts` (s) and `q` (n, nq; rad or m) are the recording; it starts at its first row unless
    `q0` says otherwise, with rates `qd0` (default: at rest). All else goes to `eb.simulate`:
    `tau`, `excitation`, `muscle_state`, `rtol`, `atol`, `solver`, ... Gradients go through the
    simulation by Diffrax's adjoints.
    """

    ts: Float[Array, " n"]
    table: _Table
    q0: Float[Array, " nq"]
    qd0: Float[Array, " nq"]
    options: dict[str, Any]

    def __init__(
        self, ts: Any, q: Any, *, q0: Any = None, qd0: Any = None, sigma: Any = 1.0, **options: Any
    ):
        self.ts = jnp.asarray(ts, dtype=float)
        rows = np.asarray(q, dtype=float)
        if rows.ndim != 2 or self.ts.ndim != 1 or len(rows) != len(self.ts):
            raise ValueError(
                f"motion: {self.ts.shape} times for coordinates of shape {rows.shape}; "
                "(n,) and (n, nq) are expected"
            )
        wrong = {"adjoint", "throw"} & set(options)
        if wrong:
            raise ValueError(f"motion: {sorted(wrong)[0]} is chosen by the fit; leave it out")
        start = rows[0] if q0 is None else np.asarray(q0, dtype=float)
        if not np.isfinite(start).all():
            raise ValueError("motion: the first row is not finite; give the start as q0")
        rate = np.zeros_like(start) if qd0 is None else np.asarray(qd0, dtype=float)
        self.q0, self.qd0 = jnp.asarray(start, dtype=float), jnp.asarray(rate, dtype=float)
        self.table = _Table("motion", rows[1:], sigma)
        self.options = options

    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        adjoint = "forward" if forward else "checkpoint"
        found = simulate(
            model, self.q0, self.qd0, self.ts, adjoint=adjoint, throw=False, **self.options
        )
        return self.table.apart(found.q[1:])


@final
class MeasuredTorques(AbstractMeasurement):
    """Generalised forces (n, nq; N m or N) that a known motion needs, by inverse dynamics.

    With `elements`, what the model's springs, dampers and external forces give is taken off.
    """

    q: Float[Array, "n nq"]
    qd: Float[Array, "n nq"]
    qdd: Float[Array, "n nq"]
    table: _Table
    elements: bool = eqx.field(static=True)

    def __init__(
        self, q: Any, qd: Any, qdd: Any, torques: Any, *, sigma: Any = 1.0, elements: bool = False
    ):
        self.q, self.qd, self.qdd = (_rows("torques", x) for x in (q, qd, qdd))
        self.table = _Table("torques", torques, sigma)
        self.elements = elements
        _same("torques", self.table.values.shape, self.q.shape, self.qd.shape, self.qdd.shape)

    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        del forward

        def torque(q: Array, qd: Array, qdd: Array) -> Array:
            return inverse_dynamics(model, q, qd, qdd, elements=self.elements)

        return self.table.apart(jax.vmap(torque)(self.q, self.qd, self.qdd))


@final
class MeasuredLengths(AbstractMeasurement):
    """Lengths (n, nm; m) of the musculotendon units in poses q (n, nq)."""

    q: Float[Array, "n nq"]
    table: _Table

    def __init__(self, q: Any, lengths: Any, *, sigma: Any = 1.0):
        self.q = _rows("lengths", q)
        self.table = _Table("lengths", _rows("lengths", lengths), sigma)
        _same("lengths", self.table.values.shape[:1], self.q.shape[:1])

    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        del forward
        return self.table.apart(jax.vmap(lambda q: path_lengths(model, q))(self.q))


@final
class MeasuredMomentArms(AbstractMeasurement):
    """Moment arms -∂L/∂q (n, nq, nm; m) in poses q (n, nq); (n, nm) if there is one coordinate.

    Coordinates or units that were not measured are NaN.
    """

    q: Float[Array, "n nq"]
    table: _Table

    def __init__(self, q: Any, arms: Any, *, sigma: Any = 1.0):
        self.q = _rows("moment arms", q)
        given = np.asarray(arms, dtype=float)
        if given.ndim == 2 and self.q.shape[1] == 1:
            given = given[:, None, :]
        if given.ndim != 3 or given.shape[:2] != self.q.shape:
            raise ValueError(
                f"moment arms of shape {given.shape} in poses of shape {self.q.shape}; "
                "(n, nq, nm) and (n, nq) are expected, NaN where nothing was measured"
            )
        self.table = _Table("moment arms", given, sigma)

    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        del forward
        return self.table.apart(jax.vmap(lambda q: lengths_and_arms(model, q)[1])(self.q))


@final
class MeasuredMuscleTorques(AbstractMeasurement):
    """Torques (n, nq; N m) that the muscles give in poses q (n, nq) at activations (n, nm).

    `qd` (n, nq) is zero unless given. Where tendons are elastic, fibres and tendons are in
    balance at every instant.
    """

    q: Float[Array, "n nq"]
    qd: Float[Array, "n nq"]
    activation: Float[Array, "n nm"]
    table: _Table

    def __init__(self, q: Any, activation: Any, torques: Any, *, qd: Any = None, sigma: Any = 1.0):
        self.q = _rows("muscle torques", q)
        self.qd = jnp.zeros_like(self.q) if qd is None else _rows("muscle torques", qd)
        self.activation = _rows("muscle torques", activation)
        self.table = _Table("muscle torques", torques, sigma)
        _same("muscle torques", self.table.values.shape, self.q.shape, self.qd.shape)
        _same("muscle torques", self.q.shape[:1], self.activation.shape[:1])

    def residuals(self, model: Any, forward: bool) -> Float[Array, "..."]:
        del forward
        muscles = model.muscles if isinstance(model, Model) else None
        elastic = isinstance(muscles, HillMuscles) and muscles.tendon == "elastic"

        def torque(q: Array, qd: Array, activation: Array) -> Array:
            state = balanced_state(model, q, qd, activation) if elastic else activation
            return muscle_torques(model, q, qd, state)

        return self.table.apart(jax.vmap(torque)(self.q, self.qd, self.activation))


def _rows(what: str, values: Any) -> Float[Array, "n k"]:
    array = np.asarray(values, dtype=float)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{what}: an array of shape {array.shape}; (rows, columns) is expected")
    return jnp.asarray(array)


def _same(what: str, *shapes: tuple[int, ...]) -> None:
    if len(set(shapes)) > 1:
        raise ValueError(f"{what}: arrays of different shapes: {', '.join(map(str, shapes))}")
