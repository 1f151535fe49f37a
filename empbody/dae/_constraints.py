"""What a constraint between joint variables must offer, and its derivatives."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm


@runtime_checkable
class Loop(Protocol):
    """A constraint in joint variables alone, as the loops of `empbody.models` are.

    A pytree whose array leaves are its parameters.
    """

    def constraint(self, f: Float[Array, " nj"], /) -> Float[Array, " nc"]:
        """g(f), zero where the loops close; nj - nq independent equations."""
        ...

    def coordinates(self, f: Float[Array, " nj"], /) -> Float[Array, " nq"]:
        """The generalised coordinates that the joint variables amount to."""
        ...


class RhythmLoop(eqx.Module):
    """A rhythm as a constraint: joint variables that are coordinates drive the others.

    `independent` tells, for each coordinate in turn, which joint variable it is; the other
    joint variables i obey f_i - rhythm_i(q) = 0.
    """

    rhythm: AbstractRhythm
    independent: tuple[int, ...] = eqx.field(static=True)
    dependent: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, rhythm: AbstractRhythm, independent: Sequence[int]):
        nj = rhythm.n_out
        if nj is None or rhythm.n_in != len(independent):
            raise ValueError(
                f"{len(independent)} independent joint variables for a rhythm of "
                f"{rhythm.n_in} coordinates and {nj} joint variables"
            )
        self.rhythm = rhythm
        self.independent = tuple(int(i) for i in independent)
        self.dependent = tuple(i for i in range(nj) if i not in self.independent)

    def constraint(self, f: Float[Array, " nj"], /) -> Float[Array, " nc"]:
        rest = np.asarray(self.dependent)
        return f[rest] - self.rhythm(self.coordinates(f))[rest]

    def coordinates(self, f: Float[Array, " nj"], /) -> Float[Array, " nq"]:
        return f[np.asarray(self.independent)]

    def slopes(self, f: Float[Array, " nj"], fd: Float[Array, " nj"]) -> "Slopes":
        """From the rhythm's own derivatives: those of autodiff would cost more."""
        rest, lead = np.asarray(self.dependent), np.asarray(self.independent)
        jet = self.rhythm.jet(f[lead], fd[lead])
        value = f[rest] - jet.value[rest]
        jacobian = _unit_rows(self.dependent, f).at[:, lead].set(-jet.jacobian[rest])
        rate = fd[rest] - jet.jacobian[rest] @ fd[lead]
        return Slopes(value, jacobian, rate, -jet.curvature[rest])


def _unit_rows(columns: tuple[int, ...], f: Float[Array, " nj"]) -> Float[Array, "n nj"]:
    rows = np.zeros((len(columns), f.shape[0]))
    rows[np.arange(len(columns)), np.asarray(columns)] = 1.0
    return jnp.asarray(rows, dtype=f.dtype)


class Slopes(NamedTuple):
    """A constraint at one (f, ḟ), with shared work."""

    value: Float[Array, " nc"]
    """g"""
    jacobian: Float[Array, "nc nj"]
    """G = ∂g/∂f"""
    rate: Float[Array, " nc"]
    """ġ = G ḟ"""
    curvature: Float[Array, " nc"]
    """Ġ ḟ = g''[ḟ, ḟ]"""


def value_and_jacobian(
    loop: Loop, f: Float[Array, " nj"]
) -> tuple[Float[Array, " nc"], Float[Array, "nc nj"]]:
    """g and G with one evaluation of g."""
    if isinstance(loop, RhythmLoop):
        return loop.slopes(f, jnp.zeros_like(f))[:2]

    def along(direction: Float[Array, " nj"]):
        return jax.jvp(loop.constraint, (f,), (direction,))

    basis = jnp.eye(f.shape[0], dtype=f.dtype)
    # Without the barrier the compiler computes sines again for every reader.
    return jax.lax.optimization_barrier(jax.vmap(along, out_axes=(None, 1))(basis))


def slopes(loop: Loop, f: Float[Array, " nj"], fd: Float[Array, " nj"]) -> Slopes:
    """g, G, ġ and g''[ḟ, ḟ]."""
    if isinstance(loop, RhythmLoop):
        return loop.slopes(f, fd)

    def rate(x: Float[Array, " nj"]):
        return jax.jvp(loop.constraint, (x,), (fd,))[1]

    value, jacobian = value_and_jacobian(loop, f)
    along, curvature = jax.jvp(rate, (f,), (fd,))
    return Slopes(value, jacobian, along, curvature)


def coordinate_slopes(
    loop: Loop, f: Float[Array, " nj"], fd: Float[Array, " nj"]
) -> tuple[Float[Array, "nq nj"], Float[Array, " nq"]]:
    """∂q/∂f and q''[ḟ, ḟ] of the coordinates that the joint variables amount to."""
    if isinstance(loop, RhythmLoop):
        return _unit_rows(loop.independent, f), jnp.zeros(len(loop.independent), dtype=f.dtype)

    def rate(x: Float[Array, " nj"]):
        return jax.jvp(loop.coordinates, (x,), (fd,))[1]

    return jax.jacfwd(loop.coordinates)(f), jax.jvp(rate, (f,), (fd,))[1]
