"""Inverse kinematics and inverse dynamics of a trial, beside OpenSim."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..io import Markers, Motion
from ..model import Model
from ..models._holzbaur import holzbaur
from ..pipeline import MarkerSet, inverse_dynamics_along, inverse_kinematics, marker_positions
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
    works = [
        lambda: inverse_kinematics(model, markers, places=places).q,
        lambda: inverse_dynamics_along(model, motion).tau,
    ]
    poses, moments = interleaved(works, _REPEATS)
    rates = [[FRAMES / t for t in times] for times in (poses, moments)]
    peer = _opensim_rate(markers.positions)
    beside = {"reason": "OpenSim (pip: opensim) is not installed"} if peer is None else {}
    return {
        "ik_frames_per_s": Figure.of(rates[0], peer=peer, frames=FRAMES, **beside),
        "id_frames_per_s": Figure.of(rates[1], frames=FRAMES),
    }


def _opensim_rate(points: Float[np.ndarray, "frames n 3"]) -> float | None:
    """Frames per second of OpenSim's solver on the first frames, couplers as constraints."""
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
    return (_PEER_FRAMES - 1) / (time.perf_counter() - begin)
