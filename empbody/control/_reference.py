"""What a controller is to follow: coordinates over time, with exact derivatives."""

import abc
import os
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.interpolate import BSpline

from ..io import Motion, read_motion
from ..model import Model
from ..model._checks import is_concrete
from ..rhythms import AbstractRhythm, Spline
from ..signals import SmoothingSpline, low_pass, smoothing_spline

_DEGREE = 5


class Desired(NamedTuple):
    """Where the coordinates should be, with rates and accelerations."""

    q: Float[Array, "*rows nq"]
    qd: Float[Array, "*rows nq"]
    qdd: Float[Array, "*rows nq"]


class AbstractReference(eqx.Module):
    """A desired motion: q, q̇ and q̈ at a time (s)."""

    @abc.abstractmethod
    def __call__(self, t: Float[Array, ""]) -> Desired:
        """At one time; batch with `jax.vmap`."""

    @property
    @abc.abstractmethod
    def span(self) -> tuple[float, float] | None:
        """First and last time it is known at (s); None where it knows no end."""


class FunctionReference(AbstractReference):
    """A function or callable module from a time to coordinates (nq,), differentiated by JAX."""

    function: Callable[[Any], Any]

    def __call__(self, t: Float[Array, ""]) -> Desired:
        time = jnp.asarray(t, dtype=float)
        one = jnp.ones_like(time)

        def value(x: Array) -> Array:
            return jnp.asarray(self.function(x), dtype=time.dtype)

        def value_and_rate(x: Array) -> tuple[Array, Array]:
            return jax.jvp(value, (x,), (one,))

        (q, qd), (_, qdd) = jax.jvp(value_and_rate, (time,), (one,))
        return Desired(q, qd, qdd)

    @property
    def span(self) -> tuple[float, float] | None:
        return None


class CurveReference(AbstractReference):
    """Curves of time: rhythms of one variable, side by side, each for some coordinates."""

    curves: tuple[AbstractRhythm, ...]
    first: Float[Array, ""]
    last: Float[Array, ""]
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)

    def __call__(self, t: Float[Array, ""]) -> Desired:
        time = jnp.asarray(t, dtype=float)[None]
        jets = [curve.jet(time, jnp.ones_like(time)) for curve in self.curves]
        order = np.argsort(np.concatenate([np.asarray(c, dtype=int) for c in self.columns]))
        parts = [(jet.value, jet.jacobian[:, 0], jet.curvature) for jet in jets]
        return Desired(*(jnp.concatenate(part)[order] for part in zip(*parts, strict=True)))

    @property
    def span(self) -> tuple[float, float] | None:
        if not self.bounded or not is_concrete((self.first, self.last)):
            return None
        return float(self.first), float(self.last)


def as_reference(
    model: Model,
    reference: Any,
    *,
    lowpass: float | None = None,
    spline: float | Literal["auto"] | None = None,
) -> AbstractReference:
    """A reference motion of a model from whatever describes one.

    **Arguments:**

    - `reference`: a function of time (s) that gives the coordinates (nq,), written with
      jax.numpy; a callable module of the same kind; a rhythm of one variable, such as
      `rhythms.Spline.fit(times, samples)`; a Diffrax path; the spline of
      `signals.smoothing_spline`; an `eb.Motion`, whose columns are found by name; the path of
      a .mot, .sto or .csv file; or a reference made before.
    - `lowpass`: for motions and files: cutoff (Hz) of a fourth-order Butterworth filter
      without lag, which samples pass first.
    - `spline`: for motions and files: cutoff (Hz) of quintic smoothing splines, "auto" to let
      the noise in the data decide, None to pass through every sample.

    **Raises:** `ValueError` for coordinates that are missing or too many, by name; the
    reader's `FileFormatError` for files.
    """
    sampled = isinstance(reference, Motion | str | os.PathLike)
    if not sampled and (lowpass is not None or spline is not None):
        raise ValueError("lowpass and spline smooth samples: give them with a motion or a file")
    if isinstance(reference, str | os.PathLike):
        reference = read_motion(reference, model)
    if isinstance(reference, Motion):
        return _of_motion(model, reference, lowpass, spline)
    if isinstance(reference, SmoothingSpline):
        return _checked(model, _of_splines(reference))
    if isinstance(reference, AbstractReference):
        return _checked(model, reference)
    if isinstance(reference, AbstractRhythm):
        if reference.n_in not in (1, None):
            raise ValueError(
                f"a {type(reference).__name__} of {reference.n_in} variables is no reference: it "
                "must be a curve of time alone"
            )
        return _checked(model, _of_rhythm(reference))
    if isinstance(reference, diffrax.AbstractPath):
        return _checked(model, FunctionReference(reference.evaluate))
    if callable(reference):
        return _checked(model, FunctionReference(reference))
    raise ValueError(
        f"reference is a {type(reference).__name__}; give a function of time, a spline, an "
        "eb.Motion or the path of a motion file"
    )


def _of_rhythm(curve: AbstractRhythm) -> CurveReference:
    breaks, bounded = jnp.zeros(2), isinstance(curve, Spline) and not curve.periodic
    if isinstance(curve, Spline):
        breaks = curve.breaks
    columns = (tuple(range(curve.n_out or 1)),)
    return CurveReference((curve,), breaks[0], breaks[-1], columns, bounded)


def _of_splines(found: SmoothingSpline) -> CurveReference:
    curves = tuple(_spline(curve) for _, curve in found.curves)
    first, last = (jnp.asarray(x, dtype=float) for x in found.span)
    return CurveReference(curves, first, last, tuple(c for c, _ in found.curves), True)


def _spline(curve: BSpline) -> Spline:
    """SciPy's quintic spline with full end knots, as a module of ours."""
    return Spline(curve.t[_DEGREE:-_DEGREE], curve.c, degree=_DEGREE)


def _of_motion(
    model: Model, motion: Motion, lowpass: float | None, spline: float | str | None
) -> CurveReference:
    names = model.coordinate_names
    absent = [name for name in names if name not in motion.coordinates]
    extra = [name for name in motion.coordinates if name not in names]
    if absent:
        there = ", ".join(motion.coordinates)
        beside = f"; {', '.join(extra)} are no coordinates of the model" if extra else ""
        raise ValueError(
            f"the motion lacks {len(absent)} of {model.nq} coordinates: {', '.join(absent)}; it "
            f"has {there}{beside}"
        )
    if extra:
        raise ValueError(
            f"the motion has columns that are no coordinates of the model: {', '.join(extra)}; "
            f"the model has {', '.join(names)}: leave the others out"
        )
    q = np.column_stack([motion.coordinate(name) for name in names])
    if lowpass is not None:
        q = low_pass(motion.time, q, cutoff=lowpass)
    if spline is None:
        return _of_splines(smoothing_spline(motion.time, q, smoothing=0.0))
    cutoff = None if spline == "auto" else float(spline)
    return _of_splines(smoothing_spline(motion.time, q, cutoff=cutoff))


def _checked(model: Model, reference: AbstractReference) -> AbstractReference:
    """The reference, if it gives the model's coordinates."""
    try:
        found = jax.eval_shape(reference, jnp.zeros(()))
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(
            "the reference cannot be differentiated by JAX: write the function with jax.numpy, "
            "or sample it and give an eb.Motion"
        ) from error
    if found.q.shape != (model.nq,):
        names = ", ".join(model.coordinate_names)
        raise ValueError(
            f"the reference gives an array of shape {found.q.shape} for {model.nq} coordinates "
            f"({names})"
        )
    return reference
