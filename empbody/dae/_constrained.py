"""A mechanism in joint variables with constraints: index-1 differential-algebraic equations."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..dynamics._assemble import mass_and_bias
from ..dynamics._bodies import LaneBodies
from ..forces import CoordinateForce, CoordinateSpring
from ..kinematics import Motion
from ..kinematics._links import motion_of
from ..model import Model
from ..rhythms import Identity
from ._constraints import Loop, coordinate_slopes, slopes, value_and_jacobian

_ASSEMBLY_STEPS = 6


class Acceleration(NamedTuple):
    """Solution of the index-1 equations at one (f, ḟ)."""

    fdd: Float[Array, " nj"]
    """f̈ (rad/s² or m/s²)"""
    multipliers: Float[Array, " nc"]
    """λ: minus Gᵀ λ are the joint forces that keep the loops closed."""


class Servo(NamedTuple):
    """Solution of the index-1 equations with the coordinates' accelerations given."""

    fdd: Float[Array, " nj"]
    """f̈ (rad/s² or m/s²)"""
    multipliers: Float[Array, " nc"]
    torques: Float[Array, " nq"]
    """Generalised forces on the coordinates that it takes (N m or N)."""


class Constrained(eqx.Module):
    """The same tree as a model's, all joint variables free, held together by g(f) = 0.

    [[M, Gᵀ], [G, 0]] [f̈; λ] = [Q - N ḟ; -g''[ḟ, ḟ] - 2α ġ - β² g]

    with M, N, Q those of the joint variables: the constraint twice differentiated (index
    1). With α = β = 0 it holds for accelerations only and the loops drift open; Baumgarte's
    terms (1972) pull them back, or the state is projected after each step
    (`simulate_dae`). Make one with `constrained`.
    """

    tree: Model
    """The model with an identity rhythm: its coordinates are the joint variables."""
    loop: Loop
    alpha: Float[Array, ""]
    """Baumgarte's damping (1/s)."""
    beta: Float[Array, ""]
    """Baumgarte's frequency (1/s)."""
    model: Model
    """The model as it was; its rhythm makes start guesses."""

    @property
    def n_constraints(self) -> int:
        return self.model.nj - self.model.nq

    def accelerations(
        self,
        t: Float[Array, ""] | float,
        f: Float[Array, " nj"],
        fd: Float[Array, " nj"],
        tau: Float[Array, " nq"] | None = None,
    ) -> Acceleration:
        """f̈ and λ under gravity, the model's force elements and `tau` on the coordinates."""
        motion = motion_of(self.tree, f, fd)
        mass, need = mass_and_bias(LaneBodies.of(self.tree), motion)
        push = self._forces(Motion.of_lane(motion), t, tau) - need[:, 0]
        g, jacobian, rate, curvature = slopes(self.loop, f, fd)
        right = -curvature - 2.0 * self.alpha * rate - self.beta**2 * g
        return Acceleration(*_saddle(mass[..., 0], jacobian, push, right))

    def servo(
        self,
        t: Float[Array, ""] | float,
        f: Float[Array, " nj"],
        fd: Float[Array, " nj"],
        qdd: Float[Array, " nq"],
    ) -> Servo:
        """f̈, λ and the torques τ that accelerate the coordinates q(f) as told.

        [[M, Gᵀ, -Bᵀ], [G, 0, 0], [B, 0, 0]] [f̈; λ; τ] = [Q - N ḟ; γ; q̈ - q''[ḟ, ḟ]] with
        B = ∂q/∂f and γ as in `accelerations`: Eq. 200 (Ehsani 2016) in joint variables.
        """
        motion = motion_of(self.tree, f, fd)
        mass, need = mass_and_bias(LaneBodies.of(self.tree), motion)
        push = self._forces(Motion.of_lane(motion), t, None) - need[:, 0]
        g, jacobian, rate, curvature = slopes(self.loop, f, fd)
        right = -curvature - 2.0 * self.alpha * rate - self.beta**2 * g
        lead, bend = coordinate_slopes(self.loop, f, fd)
        rows = jnp.concatenate([jacobian, -lead])
        fdd, pull = _saddle(mass[..., 0], rows, push, jnp.concatenate([right, bend - qdd]))
        n = jacobian.shape[0]
        return Servo(fdd, pull[:n], pull[n:])

    def _forces(
        self, motion: Motion, t: Float[Array, ""] | float, tau: Float[Array, " nq"] | None
    ) -> Float[Array, " nj"]:
        time = jnp.asarray(t, dtype=motion.q.dtype)
        on_coordinates = [f for f in self.tree.forces if _is_of_coordinates(f)]
        total = jnp.zeros_like(motion.q)
        for force in self.tree.forces:
            if not _is_of_coordinates(force):
                total = total + force.generalised_force(motion, time)
        if tau is None and not on_coordinates:
            return total
        # A force τ on q is (∂q/∂f)ᵀ τ on the joint variables.
        q, qd = jax.jvp(self.loop.coordinates, (motion.q,), (motion.qd,))
        push = jnp.zeros_like(q) if tau is None else tau
        seen = eqx.tree_at(lambda m: (m.q, m.qd), motion, (q, qd))
        for force in on_coordinates:
            push = push + force.generalised_force(seen, time)
        return total + jax.vjp(self.loop.coordinates, motion.q)[1](push)[0]

    def drift(
        self, f: Float[Array, " nj"], fd: Float[Array, " nj"]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """max |g| and max |ġ|: how far the loops are open, in the constraint's units."""
        g, rate = jax.jvp(self.loop.constraint, (f,), (fd,))
        return jnp.max(jnp.abs(g)), jnp.max(jnp.abs(rate))

    def project(
        self, f: Float[Array, " nj"], fd: Float[Array, " nj"], position: bool = False
    ) -> tuple[Float[Array, " nj"], Float[Array, " nj"]]:
        """The state moved onto ġ = 0 and, with `position`, onto g = 0.

        The smallest move in the metric of the mass matrix. The position takes one Newton
        step, enough for what a step of integration leaves.
        """
        motion = motion_of(self.tree, f, fd)
        mass = mass_and_bias(LaneBodies.of(self.tree), motion)[0][..., 0]
        g, jacobian = value_and_jacobian(self.loop, f)
        zero = jnp.zeros_like(f)
        if position:
            f = f - _saddle(mass, jacobian, zero, g)[0]
            jacobian = value_and_jacobian(self.loop, f)[1]
        fd = fd - _saddle(mass, jacobian, zero, jacobian @ fd)[0]
        return f, fd

    def start(
        self, q: Float[Array, " nq"], qd: Float[Array, " nq"]
    ) -> tuple[Float[Array, " nj"], Float[Array, " nj"]]:
        """(f, ḟ) that close the loops at these coordinates, near the model's own rhythm."""
        f = self.model.rhythm(q)

        def residual(x: Float[Array, " nj"]) -> Float[Array, " nj"]:
            return jnp.concatenate([self.loop.constraint(x), self.loop.coordinates(x) - q])

        def correct(_, x: Float[Array, " nj"]) -> Float[Array, " nj"]:
            return x - jnp.linalg.solve(jax.jacfwd(residual)(x), residual(x))

        f = jax.lax.fori_loop(0, _ASSEMBLY_STEPS, correct, f)
        speed = jnp.concatenate([jnp.zeros(self.n_constraints, dtype=qd.dtype), qd])
        return f, jnp.linalg.solve(jax.jacfwd(residual)(f), speed)


def constrained(
    model: Model, loop: Loop, *, alpha: ArrayLike = 0.0, beta: ArrayLike = 0.0
) -> Constrained:
    """A model in joint variables with the constraint that its rhythm stands for.

    **Arguments:**

    - `model`: its tree, forces and, for start guesses, its rhythm are used.
    - `loop`: the constraint, for example `empbody.models.SqueezerLoop()`, or `RhythmLoop`
      for a rhythm that is itself the constraint.
    - `alpha`, `beta`: Baumgarte's parameters (1/s); equal ones damp critically.
    """
    f = jax.eval_shape(model.rhythm, jnp.zeros(model.nq))
    rows = jax.eval_shape(loop.constraint, f).shape
    inputs = jax.eval_shape(loop.coordinates, f).shape
    if rows != (model.nj - model.nq,) or inputs != (model.nq,):
        raise ValueError(
            f"the loop has {rows} equations and {inputs} coordinates for {model.nj} joint "
            f"variables of {model.nq} coordinates: {model.nj - model.nq} equations are needed"
        )
    free = jnp.full(model.nj, jnp.inf)
    tree = dataclasses.replace(
        model,
        rhythm=Identity(),
        lower=-free,
        upper=free,
        default_q=model.rhythm(model.default_q),
        coordinate_names=model.joint_names,
    )
    return Constrained(
        tree=tree,
        loop=loop,
        alpha=jnp.asarray(alpha, dtype=float),
        beta=jnp.asarray(beta, dtype=float),
        model=model,
    )


def _is_of_coordinates(force) -> bool:
    return isinstance(force, CoordinateForce | CoordinateSpring)


def _saddle(
    mass: Float[Array, "nj nj"],
    jacobian: Float[Array, "nc nj"],
    upper: Float[Array, " nj"],
    lower: Float[Array, " nc"],
) -> tuple[Float[Array, " nj"], Float[Array, " nc"]]:
    """x and λ of [[M, Gᵀ], [G, 0]] [x; λ] = [upper; lower], by one LU."""
    nj, nc = mass.shape[0], jacobian.shape[0]
    empty = jnp.zeros((nc, nc), dtype=mass.dtype)
    matrix = jnp.block([[mass, jacobian.T], [jacobian, empty]])
    solution = jnp.linalg.solve(matrix, jnp.concatenate([upper, lower]))
    return solution[:nj], solution[nj:]
