"""Inverse kinematics, inverse dynamics and force sharing of a trial, beside their peers."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ..io import Markers, Motion
from ..model import Model
from ..models._holzbaur import holzbaur
from ..paths import moment_arms
from ..pipeline import MarkerSet, inverse_dynamics_along, inverse_kinematics, marker_positions
from ..sharing import share
from ._opensim import OpenSimShoulder
from ._timing import Figure, interleaved

FRAMES = 3600
_PEER_FRAMES = 40
_REPEATS = 5
_PLACES = (
    ("c7", "thorax", (-0.05, 0.02, 0.0)),
    ("jugular", "thorax", (0.0, 0.0, 0.0)),
    ("clavicle", "clavicle", (0.0, 0.02, 0.08)),
    ("acromion", "scapula", (-0.02, 0.02, 0.01)),
    ("blade", "scapula", (-0.09, -0.05, -0.06)),
    ("arm", "humerus", (0.03, -0.12, 0.02)),
    ("lateral", "humerus", (0.0, -0.28, 0.03)),
    ("medial", "humerus", (0.0, -0.28, -0.03)),
)
NAMES = tuple(name for name, *_ in _PLACES)


def trial() -> tuple[Model, Markers, Motion]:
    """A shoulder that moves for 36 s at 100 Hz, seen by eight noisy markers."""
    model = holzbaur()
    places = {name: (body, point) for name, body, point in _PLACES}
    seconds = np.arange(FRAMES) / 100
    middle, half = np.radians([20.0, 70.0, -25.0]), np.radians([60.0, 50.0, 35.0])
    q = middle + half * np.sin(seconds[:, None] * np.array([[0.9, 1.7, 2.3]]))
    points = marker_positions(model, MarkerSet.of(model, NAMES, places), jnp.asarray(q))
    noise = 0.002 * np.random.default_rng(0).normal(size=points.shape)
    return (
        model,
        Markers(seconds, NAMES, np.asarray(points) + noise, 100.0),
        Motion.of(model, seconds, q),
    )


def run() -> dict[str, Figure]:
    model, markers, motion = trial()
    places = {name: (body, point) for name, body, point in _PLACES}
    arms, capacity, tau = demands(model, motion)
    sharing = jax.jit(jax.vmap(lambda R, t: share(R, capacity, 0.0, t).activations))
    works = [
        lambda: inverse_kinematics(model, markers, places=places).q,
        lambda: inverse_dynamics_along(model, motion).tau,
        lambda: sharing(arms, tau),
    ]
    rates = [[FRAMES / t for t in times] for times in interleaved(works, _REPEATS)]
    by_scipy, apart = _scipy_rate(arms, capacity, tau, np.asarray(sharing(arms, tau)))
    peers = _opensim_rates(markers.positions, motion.q)
    beside = {"reason": "OpenSim (pip: opensim) is not installed"} if peers is None else {}
    tracked, driven = peers or (None, None)
    return {
        "ik_frames_per_s": Figure.of(rates[0], peer=tracked, frames=FRAMES, **beside),
        "id_frames_per_s": Figure.of(rates[1], peer=driven, frames=FRAMES, **beside),
        "share_frames_per_s": Figure.of(
            rates[2],
            frames=FRAMES,
            peer=by_scipy,
            peer_is="SciPy SLSQP, same problem",
            largest_difference=apart,
        ),
    }


def demands(
    model: Model, motion: Motion
) -> tuple[Float[Array, "frames nq nm"], Float[Array, " nm"], Float[Array, "frames nq"]]:
    """Moment arms along a motion, what the muscles can pull (N), and torques within reach."""
    arms = jax.jit(jax.vmap(lambda q: moment_arms(model, q)))(jnp.asarray(motion.q))
    capacity = jnp.linspace(200.0, 1200.0, model.nm)
    phase = jnp.arange(model.nm, dtype=float)[None]
    active = 0.3 + 0.25 * jnp.sin(1.3 * jnp.asarray(motion.time)[:, None] + phase)
    return arms, capacity, jnp.einsum("fqm,fm->fq", arms, capacity[None] * active)


def _scipy_rate(
    arms: Array, capacity: Array, tau: Array, ours: Float[np.ndarray, "frames nm"]
) -> tuple[float, float]:
    """Frames per second of SciPy on the first frames, and the largest difference to ours."""
    effect = np.asarray(arms * capacity[None, None])[:_PEER_FRAMES]
    asked = np.asarray(tau)[:_PEER_FRAMES]
    start, bounds = np.full(effect.shape[2], 0.3), [(0.0, 1.0)] * effect.shape[2]
    begin = time.perf_counter()
    found = [
        minimize(
            lambda a: a @ a,
            start,
            jac=lambda a: 2.0 * a,
            bounds=bounds,
            constraints={
                "type": "eq",
                "fun": lambda a, A=A, b=b: A @ a - b,
                "jac": lambda a, A=A: A,
            },
            method="SLSQP",
            options={"ftol": 1e-10},
        ).x
        for A, b in zip(effect, asked, strict=True)
    ]
    rate = _PEER_FRAMES / (time.perf_counter() - begin)
    return rate, float(np.max(np.abs(np.array(found) - ours[:_PEER_FRAMES])))


def _opensim_rates(
    points: Float[np.ndarray, "frames n 3"], q: Float[np.ndarray, "frames nq"]
) -> tuple[float, float] | None:
    """Frames per second of OpenSim's solvers on the first frames: inverse kinematics with
    couplers as constraints, and inverse dynamics of all its coordinates."""
    try:
        peer = OpenSimShoulder(wrapping=False)
    except ImportError:
        return None
    osim: Any = peer._osim
    for name, body, point in _PLACES:
        frame = peer._bodies[body]
        peer.model.addMarker(osim.Marker(name, frame, osim.Vec3(*map(float, point))))
    peer.model.finalizeConnections()
    state = peer.model.initSystem()
    table = osim.TimeSeriesTableVec3()
    table.setColumnLabels(osim.StdVectorString(NAMES))
    for row in range(_PEER_FRAMES):
        values = [osim.Vec3(*map(float, point)) for point in points[row]]
        table.appendRow(row / 100, osim.RowVectorVec3(values))
    table.addTableMetaDataString("Units", "m")
    reference = osim.MarkersReference(table, osim.SetMarkerWeights())
    none = osim.SimTKArrayCoordinateReference()
    solver = osim.InverseKinematicsSolver(peer.model, reference, none, float("inf"))
    solver.setAccuracy(1e-5)
    state.setTime(0.0)
    solver.assemble(state)
    begin = time.perf_counter()
    for row in range(1, _PEER_FRAMES):
        state.setTime(row / 100)
        solver.track(state)
    tracked = (_PEER_FRAMES - 1) / (time.perf_counter() - begin)
    return tracked, _opensim_dynamics(q[:_PEER_FRAMES])


def _opensim_dynamics(q: Float[np.ndarray, "frames nq"]) -> float:
    """Frames per second from positions, speeds and accelerations, which are given."""
    peer = OpenSimShoulder(wrapping=False)
    osim: Any = peer._osim
    poses = [osim.Vector(peer.variables(row)) for row in q]
    speeds = osim.Vector(peer.state.getNU(), 0.1)
    solver = osim.InverseDynamicsSolver(peer.model)
    begin = time.perf_counter()
    for pose in poses:
        peer.state.setQ(pose)
        peer.state.setU(speeds)
        peer.model.realizeDynamics(peer.state)
        solver.solve(peer.state, speeds)
    return len(poses) / (time.perf_counter() - begin)
