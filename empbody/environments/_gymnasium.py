"""Environments as Gymnasium knows them. Gymnasium is optional and imported on request only."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._reach import Reach, ReachState
from ._shoulder import shoulder_reach

_NAME = "empbody/ShoulderReach-v0"


def _library() -> Any:
    try:
        import gymnasium
    except ImportError as missing:
        raise ImportError(
            "Gymnasium is not installed: pip install 'empbody[gym]' (or gymnasium itself)"
        ) from missing
    return gymnasium


def to_gymnasium(environment: Reach) -> Any:
    """A `gymnasium.Env` of one environment.

    Observations are float32 arrays in the order of `environment.observation_names`. Actions
    are from -1 to 1; for muscles, -1 is no and 1 full excitation. `reset(options={"q": ...,
    "target": ...})` gives start and target (rad). The `info` of reset and step holds
    `distance`, the largest angle that is missing (rad).

    One step at a time costs a call of a compiled function each; for many environments at
    once, use `environment` itself under `jax.vmap`.
    """
    gym = _library()
    low, high = (np.asarray(end, np.float32) for end in environment.observation_bounds)
    least, most = environment.action_bounds

    @eqx.filter_jit
    def begin(environment: Reach, key: Any) -> Any:
        return environment.reset(key)

    @eqx.filter_jit
    def step(environment: Reach, state: Any, action: Any) -> Any:
        out = environment.step(state, least + (most - least) * 0.5 * (action + 1.0))
        return out, environment.distance(out.state)

    class ReachEnv(gym.Env):
        """Reaching a posture; see `empbody.environments.Reach`."""

        metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own interface)

        def __init__(self) -> None:
            self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)
            size = (environment.action_size,)
            self.action_space = gym.spaces.Box(-1.0, 1.0, size, dtype=np.float32)
            self.render_mode = None
            self.state = None

        def _seen(self, observation: Any) -> np.ndarray:
            return np.clip(np.asarray(observation, np.float32), low, high)

        def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
            super().reset(seed=seed)
            key = jax.random.key(int(self.np_random.integers(2**31)))
            self.state = _with_options(environment, begin(environment, key), options or {})
            info = {"distance": float(environment.distance(self.state))}
            return self._seen(environment.observe(self.state)), info

        def step(self, action: Any) -> Any:
            if self.state is None:
                raise RuntimeError("call reset before the first step")
            action = jnp.asarray(action, environment.box.dtype)
            out, distance = step(environment, self.state, action)
            self.state = out.state
            return (
                self._seen(out.observation),
                float(out.reward),
                bool(out.terminated),
                bool(out.truncated),
                {"distance": float(distance)},
            )

    return ReachEnv()


def _with_options(environment: Reach, state: ReachState, options: dict) -> ReachState:
    """A fresh state with start and target of one's own."""
    for name, value in options.items():
        if name not in ("q", "target"):
            raise ValueError(f"reset knows no option {name!r}; choose 'q' or 'target'")
        array = jnp.asarray(value, state.q.dtype)
        if array.shape != state.q.shape:
            raise ValueError(f"option {name!r} has shape {array.shape}, not {state.q.shape}")
        low, high = environment.model.lower, environment.model.upper
        if bool(jnp.any((array < low) | (array > high))):
            names = ", ".join(environment.model.coordinate_names)
            raise ValueError(
                f"option {name!r} is {array.tolist()} for {names}, outside their ranges "
                f"{low.tolist()} to {high.tolist()}; give rad"
            )
        state = eqx.tree_at(lambda s, name=name: getattr(s, name), state, array)
    return state


def _make(**options: Any) -> Any:
    """What Gymnasium calls; `options` are those of `shoulder_reach`."""
    return to_gymnasium(shoulder_reach(**options))


def register(name: str = _NAME) -> str:
    """Make `gymnasium.make(name, drive=..., ...)` known; returns the name.

    Keywords go to `shoulder_reach`. Nothing is registered by importing the package.
    """
    gym = _library()
    if name not in gym.registry:
        gym.register(id=name, entry_point=f"{__name__}:_make")
    return name
