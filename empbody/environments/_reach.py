"""Reaching a posture: an environment of pure functions."""

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ..model import Model
from ..muscles import HillState
from ..muscles._forces import hill_muscles
from ._stepping import advance, rates

_SPEED_UNIT = 10.0
"""rad/s (or m/s) of 1 in an observation."""


class ReachState(eqx.Module):
    """All that an episode is; a pytree of arrays."""

    q: Float[Array, " nq"]
    qd: Float[Array, " nq"]
    muscles: HillState | None
    """Activations; None where torques drive."""
    target: Float[Array, " nq"]
    """The posture to reach, and to hold."""
    steps: Int[Array, ""]
    """Control steps since the episode began."""
    key: Key[Array, ""]
    """For the resets that follow."""


class Outcome(NamedTuple):
    """What a step leads to."""

    state: ReachState
    observation: Float[Array, " no"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    """The episode failed: out of range, too fast, or an action that is not a number."""
    truncated: Bool[Array, ""]
    """The episode's time is over."""


class Reach(eqx.Module):
    """A model that is to reach a posture and hold it, in episodes of `horizon` steps.

    `reset(key)` gives a state, `step(state, action)` an `Outcome`. Both are pure functions
    of one sample: compile them with `eqx.filter_jit`, batch with `jax.vmap`, roll out with
    `jax.lax.scan`, differentiate with `jax.grad`. All numbers, the model's too, are array
    leaves: new ones do not recompile, and environments may differ within a batch.

    With `drive` "torque" an action holds one number from -1 to 1 for each coordinate, in
    units of `torques`; with "muscles" one excitation from 0 to 1 for each muscle. Numbers
    beyond are held at the bounds. An action acts for `dt` seconds.

    The reward of a step is -(|q - target|² + `speed_weight` |q̇|² + `effort_weight` mean
    action²), in rad² and (rad/s)²; a step that fails costs `failure_cost` more.
    """

    model: Model
    """Its ranges are those of the task."""
    torques: Float[Array, " nq"]
    """Largest torque on each coordinate (N m); without effect where muscles drive."""
    box: Float[Array, "2 nq"]
    """Lower and upper ends of the postures that episodes start from and lead to (rad)."""
    dt: Float[Array, ""]
    """Control step (s)."""
    margin: Float[Array, ""]
    """How far beyond a coordinate's range an episode fails (rad)."""
    fastest: Float[Array, ""]
    """Speed beyond which an episode fails (rad/s)."""
    speed_weight: Float[Array, ""]
    effort_weight: Float[Array, ""]
    failure_cost: Float[Array, ""]
    drive: Literal["torque", "muscles"] = eqx.field(static=True)
    substeps: int = eqx.field(static=True)
    """Runge-Kutta steps in a control step."""
    horizon: int = eqx.field(static=True)
    """Control steps in an episode."""

    def __check_init__(self) -> None:
        if self.drive not in ("torque", "muscles"):
            raise ValueError(f"drive is {self.drive!r}; choose 'torque' or 'muscles'")
        if self.substeps < 1 or self.horizon < 1:
            raise ValueError(
                f"substeps is {self.substeps} and horizon {self.horizon}: at least 1 is needed"
            )
        if self.drive == "muscles" and hill_muscles(self.model).tendon != "rigid":
            raise ValueError(
                "elastic tendons are too stiff for fixed steps; make the muscles with "
                "tendon='rigid'"
            )

    @property
    def action_names(self) -> tuple[str, ...]:
        """Coordinates or muscles, in the order of an action."""
        return self.model.coordinate_names if self.drive == "torque" else self.model.muscle_names

    @property
    def action_size(self) -> int:
        return len(self.action_names)

    @property
    def action_bounds(self) -> tuple[float, float]:
        """Of every number of an action."""
        return (-1.0 if self.drive == "torque" else 0.0), 1.0

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Angles (rad), speeds (10 rad/s), what is missing to the target (rad), activations."""
        names = self.model.coordinate_names
        kinds = ("{}", "{}_speed", "{}_to_go")
        seen = [kind.format(name) for kind in kinds for name in names]
        if self.drive == "muscles" and hill_muscles(self.model).activation_dynamics is not None:
            seen += [f"{name}_activation" for name in self.model.muscle_names]
        return tuple(seen)

    @property
    def observation_size(self) -> int:
        return len(self.observation_names)

    @property
    def observation_bounds(self) -> tuple[Float[Array, " no"], Float[Array, " no"]]:
        """Lowest and highest observation; what is beyond is held there."""
        low, high, fastest = self._bounds()
        speed = jnp.broadcast_to(fastest / _SPEED_UNIT, low.shape)
        rest = jnp.zeros(self.observation_size - 3 * self.model.nq)
        lowest = jnp.concatenate([low, -speed, self.box[0] - high, rest])
        return lowest, jnp.concatenate([high, speed, self.box[1] - low, rest + 1.0])

    def _bounds(self) -> tuple[Array, Array, Array]:
        """Lowest and highest q, largest |q̇|: beyond, an episode fails and no model is asked."""
        return self.model.lower - self.margin, self.model.upper + self.margin, self.fastest

    def reset(self, key: Key[Array, ""]) -> ReachState:
        """A new episode: at rest in a random posture, with another one to reach."""
        start, goal, later = jax.random.split(key, 3)
        shape, (low, high) = self.box.shape[1:], self.box
        q = jax.random.uniform(start, shape, low.dtype, low, high)
        target = jax.random.uniform(goal, shape, low.dtype, low, high)
        return self.begin(q, target, later)

    def begin(
        self, q: Float[Array, " nq"], target: Float[Array, " nq"], key: Key[Array, ""]
    ) -> ReachState:
        """A new episode from a posture of one's own to another (rad)."""
        muscles = None
        if self.drive == "muscles":
            held = hill_muscles(self.model)
            least = held.parameters.minimum_activation
            muscles = HillState(None if held.activation_dynamics is None else least)
        return ReachState(q, jnp.zeros_like(q), muscles, target, jnp.zeros((), jnp.int32), key)

    def observe(self, state: ReachState) -> Float[Array, " no"]:
        """What a policy sees, in the order of `observation_names`."""
        parts = [state.q, state.qd / _SPEED_UNIT, state.target - state.q]
        if state.muscles is not None and state.muscles.activation is not None:
            parts.append(state.muscles.activation)
        return jnp.clip(jnp.concatenate(parts), *self.observation_bounds)

    def step(self, state: ReachState, action: Float[Array, " na"]) -> Outcome:
        """The episode one control step later. After its end the motion goes on as before:
        look at `terminated` and `truncated`, or use `step_or_reset`."""
        if action.shape != (self.action_size,):
            hint = "; batch with jax.vmap" if action.ndim > 1 else ""
            raise ValueError(
                f"the action has shape {action.shape} for {self.action_size} numbers "
                f"({', '.join(self.action_names[:4])}{', ...' * (self.action_size > 4)}){hint}"
            )
        sound = jnp.all(jnp.isfinite(action))
        action = jnp.clip(jnp.where(jnp.isfinite(action), action, 0.0), *self.action_bounds)
        given = action * self.torques if self.drive == "torque" else action
        bounds = self._bounds()
        q, qd, muscles = advance(
            lambda moving: rates(self.model, bounds, given, moving),
            (state.q, state.qd, state.muscles),
            self.dt,
            self.substeps,
        )
        steps = state.steps + 1
        after = ReachState(q, qd, muscles, state.target, steps, state.key)
        low, high, fastest = bounds
        inside = jnp.all((q >= low) & (q <= high)) & jnp.all(jnp.abs(qd) <= fastest)
        terminated = ~(inside & sound)
        reward = -self.cost(after, action) - jnp.where(terminated, self.failure_cost, 0.0)
        return Outcome(after, self.observe(after), reward, terminated, steps >= self.horizon)

    def cost(self, state: ReachState, action: Float[Array, " na"]) -> Float[Array, ""]:
        """What a step costs, apart from failing: smooth in all its arguments."""
        miss = jnp.sum((state.q - state.target) ** 2)
        speed, effort = jnp.sum(state.qd**2), jnp.mean(action**2)
        return miss + self.speed_weight * speed + self.effort_weight * effort

    def step_or_reset(self, state: ReachState, action: Float[Array, " na"]) -> Outcome:
        """A step; where it ends the episode, state and observation are those of a new one.

        Reward, `terminated` and `truncated` still tell of the step.
        """
        out = self.step(state, action)
        fresh = self.reset(state.key)
        over = out.terminated | out.truncated
        after = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, out.state)
        return out._replace(state=after, observation=self.observe(after))

    def distance(self, state: ReachState) -> Float[Array, ""]:
        """Largest angle that is missing to the target (rad)."""
        return jnp.max(jnp.abs(state.q - state.target))
