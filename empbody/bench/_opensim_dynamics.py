"""Forward dynamics of the bones of Holzbaur's shoulder, beside OpenSim.

Three coordinates drive fourteen joints through spline couplers: a rhythm here, constraints there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics import forward_dynamics
from ..kinematics import joint_jacobian
from ..model import Body, Model, Weld
from ..models._shoulder_axes import published_axes
from ..models._shoulder_couplers import couplers
from ..models._shoulder_figures import COORDINATES, figures
from ..models._shoulder_inertia import inertia
from ..models._shoulder_tree import turns
from ._moment_arms import poses
from ._opensim import PHANTOM, OpenSimShoulder
from ._timing import Figure, compile_figure, interleaved

BATCH = 4096
_IN_A_LOOP = 2000
_PEERS = 50
_REPEATS = 11


def bones() -> Model:
    """The published chain without muscles, every body with the inertia it has in OpenSim."""
    bodies, variables, axes = [Body("thorax", joint=Weld())], [], published_axes()
    for joint in figures()["joints"]:
        name = joint["body"]
        chain = turns(joint["translation"], axes[name])
        bodies.append(Body(name, joint["parent"], chain, **(inertia(name) or PHANTOM)))
        variables += [variable for variable, _ in axes[name]]
    return Model.build(COORDINATES, bodies, couplers(variables))


def rates(count: int) -> Float[np.ndarray, "count 3"]:
    """Random rates of the coordinates (rad/s)."""
    return np.random.default_rng(1).normal(size=(count, 3))


def run() -> dict[str, Figure]:
    model = bones()
    numbers, rest = eqx.partition(model, eqx.is_array)
    q, qd = jnp.asarray(poses(BATCH)), jnp.asarray(rates(BATCH))

    def acceleration(numbers: Any, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Array:
        return forward_dynamics(eqx.combine(numbers, rest), q, qd)

    @jax.jit
    def in_turn(numbers: Any, q: Array, qd: Array) -> Array:
        return jax.lax.scan(lambda _, s: (None, acceleration(numbers, *s)), None, (q, qd))[1]

    together = jax.jit(jax.vmap(acceleration, in_axes=(None, 0, 0)))
    works = [
        lambda: in_turn(numbers, q[:_IN_A_LOOP], qd[:_IN_A_LOOP]),
        lambda: together(numbers, q, qd),
        *opensim_calls(model, poses(_PEERS), rates(_PEERS)),
    ]
    single, batched, *beside = interleaved(works, _REPEATS)
    single = [t / _IN_A_LOOP for t in single]
    batched = [t / BATCH for t in batched]
    figures = {
        "fd_us": Figure.of([t * 1e6 for t in single]),
        "fd_batched_us": Figure.of([t * 1e6 for t in batched], batch=BATCH),
    }
    keys = ("fd_speedup_vs_opensim", "fd_batched_speedup_vs_opensim")
    if not beside:
        reason = "OpenSim (pip: opensim) is not installed"
        figures |= {key: Figure.missing(reason) for key in keys}
    else:
        theirs, free = ([t / _PEERS for t in times] for times in beside)
        more = {"peer_us": _us(theirs), "peer_without_couplers_us": _us(free)}
        for key, ours in zip(keys, (single, batched), strict=True):
            figures[key] = Figure.ratio(theirs, ours, ours_us=_us(ours), **more)
    return figures | {"compile_fd_s": compile_figure(acceleration, numbers, q[0], qd[0])}


def _us(times: Sequence[float]) -> float:
    return float(np.median(times)) * 1e6


def opensim_calls(
    model: Model, q: Float[np.ndarray, "poses 3"], qd: Float[np.ndarray, "poses 3"]
) -> list[Callable[[], None]]:
    """Works that have OpenSim accelerate every state, with couplers and with all its joints
    free; none where it is missing. States lie on the couplers to begin with."""
    try:
        peers = [OpenSimShoulder(muscles=False, coupled=coupled) for coupled in (True, False)]
    except ImportError:
        return []
    positions = [peers[0].variables(each) for each in q]
    speeds = [peers[0].speeds(joint_rates(model, *each)) for each in zip(q, qd, strict=True)]

    def calls(peer: OpenSimShoulder) -> Callable[[], None]:
        def work() -> None:
            for position, speed in zip(positions, speeds, strict=True):
                peer.move(position, speed)

        return work

    return [calls(peer) for peer in peers]


def joint_rates(
    model: Model, q: Float[np.ndarray, "3"], qd: Float[np.ndarray, "3"]
) -> dict[str, float]:
    """Rates of all joint variables by name."""
    slopes = np.asarray(joint_jacobian(model, jnp.asarray(q)))
    return dict(zip(model.joint_names, (slopes @ qd).tolist(), strict=True))
