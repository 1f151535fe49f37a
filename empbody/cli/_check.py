"""`empbody check`: the same numbers from OpenSim, side by side."""

import argparse
import dataclasses
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..dynamics import inverse_dynamics, mass_matrix
from ..io import load
from ..kinematics import body_transforms
from ..model import Model
from ..paths import lengths_and_arms, opensim_moment_arms, path_lengths
from ._errors import FAILURE, CommandError
from ._length_gaps import Gap, Gaps
from ._models import finish, load_model, shown_pose
from ._opensim_peer import OpenSimPeer
from ._progress import Progress

_STEP = 1e-4


@dataclasses.dataclass
class Line:
    """One quantity: the largest difference over all poses, and where."""

    what: str
    unit: str
    bound: float
    """Below this the two agree."""
    advice: str
    """What a larger difference means."""
    difference: float = 0.0
    where: str = ""
    pose: int = -1

    def see(self, pose: int, difference: np.ndarray, names: list[str]) -> None:
        """Take in differences, one for each name."""
        if not difference.size:
            return
        worst = int(np.argmax(np.where(np.isfinite(difference), difference, np.inf)))
        value = float(difference[worst])
        if not value <= self.difference or self.pose < 0:
            self.difference, self.where, self.pose = value, names[worst], pose

    @property
    def agrees(self) -> bool:
        return self.difference <= self.bound


def run(arguments: argparse.Namespace) -> int:
    if arguments.poses < 1:
        raise CommandError(f"--poses {arguments.poses}: at least 1 is needed")
    progress = Progress(quiet=arguments.quiet)
    model = load_model(arguments, progress)
    peer = _peer(model, arguments, progress)
    names = [name for name in model.muscle_names if name in peer.path_names]
    poses, speeds, pushes = _draw(model, arguments.poses, arguments.seed)
    notes = _notes(model, arguments, peer, names)
    if _has_polynomials(pathlib.Path(arguments.model)):
        speeds = np.zeros_like(speeds)
        notes.append(
            "OpenSim takes the first derivative of a MultivariatePolynomialFunction for its "
            "second one, so inverse dynamics is compared at rest"
        )
    with progress.stage("posing it in OpenSim"):
        tangents = np.stack([_tangent(peer, q) for q in poses])
    with progress.stage("computing here"):
        ours = _ours(model, poses, speeds, pushes, tangents)
    lines, gaps = _lines(), Gaps()
    with progress.counting("computing with OpenSim") as count:
        left = 0.0
        for i in range(len(poses)):
            left = max(left, _compare(peer, model, names, ours, i, lines, gaps))
            count(i + 1, len(poses))
    if left > 1e-9:
        notes.append(f"OpenSim's constraints are met to {left:.1e} only, which limits the rest")
    shown = [line for line in lines.values() if line.pose >= 0]
    agrees = all(line.agrees for line in shown)
    apart = gaps.worst(lines["length"].bound)
    if apart and not arguments.no_wrap:
        with progress.stage("computing straight paths"):
            gaps.straight = _straight(arguments, model, apart, poses)
    summary = {
        "opensim": peer.version,
        "poses": [shown_pose(model, q) for q in poses],
        "muscles_compared": len(names),
        "agrees": agrees,
        "differences": {
            key: {
                "what": line.what,
                "largest": line.difference if np.isfinite(line.difference) else None,
                "unit": line.unit,
                "agrees": line.agrees,
                "where": line.where,
                "pose": line.pose,
            }
            for key, line in lines.items()
            if line.pose >= 0
        },
        "lengths_apart": [dataclasses.asdict(gap) for gap in apart],
        "notes": notes,
    }
    words = _words(shown, notes, model, poses, peer, gaps.words(apart, len(names)))
    finish(arguments, "check", progress, summary, words)
    return FAILURE if arguments.strict and not agrees else 0


def _peer(model: Model, arguments: argparse.Namespace, progress: Progress) -> OpenSimPeer:
    context = model.source.context
    held = {name: context.constant(name) for name in model.source.spec.coordinates}
    held = {name: value for name, value in held.items() if value is not None}
    path = pathlib.Path(arguments.model)
    try:
        with progress.stage("loading it in OpenSim"):
            return OpenSimPeer(path, model.coordinate_names, held, not arguments.no_wrap)
    except ImportError as error:
        raise CommandError(
            "OpenSim is not installed for this Python: 'pip install opensim' (or 'conda install "
            "-c opensim-org opensim'), then run this again",
            FAILURE,
        ) from error
    except RuntimeError as error:
        raise CommandError(f"OpenSim cannot use {path}: {_first_line(error)}", FAILURE) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _draw(model: Model, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poses well inside the ranges, speeds and accelerations."""
    rng = np.random.default_rng(seed)
    centre = np.asarray(model.default_q)
    low, high = np.asarray(model.lower), np.asarray(model.upper)
    low = np.where(np.isfinite(low) & (low > centre - 4.0), low, centre - 0.5)
    high = np.where(np.isfinite(high) & (high < centre + 4.0), high, centre + 0.5)
    margin = 0.05 * (high - low)
    poses = rng.uniform(low + margin, high - margin, size=(count, model.nq))
    return poses, rng.normal(size=poses.shape), rng.normal(size=poses.shape)


def _notes(
    model: Model, arguments: argparse.Namespace, peer: OpenSimPeer, names: list[str]
) -> list[str]:
    notes = []
    if peer.completed:
        notes.append(
            f"OpenSim would freeze {peer.completed} joint axes that name a coordinate but no "
            "function; for this comparison they move with the coordinate, as they do here"
        )
    if not model.topology.massive:
        notes.append("no body that moves has mass: there are no dynamics to compare")
    missing = [name for name in model.muscle_names if name not in names]
    if missing:
        notes.append(f"{len(missing)} paths are not in OpenSim's model: {', '.join(missing[:5])}")
    report = model.report
    if report is not None and report.unsupported:
        notes.append(f"{len(report.unsupported)} elements of the file were left out: see info")
    return notes


def _has_polynomials(path: pathlib.Path) -> bool:
    return b"<MultivariatePolynomialFunction" in path.read_bytes()


def _tangent(peer: OpenSimPeer, q: np.ndarray) -> np.ndarray:
    peer.pose(q)
    return peer.tangent()


def _straight(
    arguments: argparse.Namespace, model: Model, apart: list[Gap], poses: np.ndarray
) -> dict[str, float]:
    """Lengths through the points alone, where lengths are apart."""
    locked, freed, _, skip = model.source.options
    bare = load(
        arguments.model,
        lock=dict(locked),
        free=freed,
        wrapping=False,
        unsupported="skip" if skip else "raise",
    )
    lengths = np.asarray(_lengths(bare, jnp.asarray(poses)))
    return {gap.muscle: float(lengths[gap.pose, bare.muscle_index(gap.muscle)]) for gap in apart}


@eqx.filter_jit
def _lengths(model: Model, q: Array) -> Array:
    return jax.vmap(lambda x: path_lengths(model, x))(q)


def _ours(
    model: Model, poses: np.ndarray, speeds: np.ndarray, pushes: np.ndarray, tangents: np.ndarray
) -> dict[str, np.ndarray]:
    found = _evaluate(model, *map(jnp.asarray, (poses, speeds, pushes, tangents)))
    given = {"q": poses, "qd": speeds, "qdd": pushes}
    return given | {name: np.asarray(value) for name, value in found.items()}


@eqx.filter_jit
def _evaluate(model: Model, q: Array, qd: Array, qdd: Array, C: Array) -> dict[str, Array]:
    out = {"transforms": jax.vmap(lambda x: body_transforms(model, x))(q)}
    if model.topology.massive:
        out["mass"] = jax.vmap(lambda x: mass_matrix(model, x))(q)
        out["need"] = jax.vmap(lambda x, v, a: inverse_dynamics(model, x, v, a))(q, qd, qdd)
    if model.nm:
        out["lengths"], out["arms"] = jax.vmap(lambda x: lengths_and_arms(model, x))(q)
        out["opensim_arms"] = jax.vmap(lambda x, c: opensim_moment_arms(model, x, c))(q, C)
    return out


def _lines() -> dict[str, Line]:
    return {
        "position": Line(
            "where bodies are", "m", 1e-8,
            "joints or couplers are read differently: nothing below can be relied upon",
        ),
        "orientation": Line(
            "how bodies are turned", "rad", 1e-8,
            "joints or couplers are read differently: nothing below can be relied upon",
        ),
        "length": Line(
            "muscle lengths", "m", 1e-5,
            "another way round a surface, or one of the two has not found the shortest path; "
            "try --no-wrap to tell points from surfaces",
        ),
        "arm": Line(
            "moment arms, -dL/dq (OpenSim's lengths by differences)", "m", 1e-4,
            "see muscle lengths; where lengths agree, OpenSim's length jumps near this pose",
        ),
        "opensim_arm": Line(
            "moment arms by OpenSim's definition", "m", 1e-4,
            "see muscle lengths; where lengths agree, points move or are conditional near a "
            "switch, and OpenSim's number depends on it",
        ),
        "mass": Line(
            "mass matrix, share of its largest entry", "", 1e-8,
            "masses or inertias are read differently",
        ),
        "need": Line(
            "inverse dynamics, share of the largest moment", "", 1e-7,
            "masses, inertias or gravity are read differently, or a function's second derivative",
        ),
    }  # fmt: skip


def _compare(
    peer: OpenSimPeer,
    model: Model,
    names: list[str],
    ours: dict[str, np.ndarray],
    i: int,
    lines: dict[str, Line],
    gaps: Gaps,
) -> float:
    """Take one pose into the lines; what OpenSim leaves of its constraints' errors."""
    q, qd, qdd = ours["q"][i], ours["qd"][i], ours["qdd"][i]
    left = peer.pose(q)
    theirs = peer.transforms()
    bodies = [name for name in model.body_names if name in theirs]
    mine = {name: ours["transforms"][i, model.body_index(name)] for name in bodies}
    gap = [np.linalg.norm(mine[n][:3, 3] - theirs[n][:, 3]) for n in bodies]
    turn = [_angle(mine[n][:3, :3], theirs[n][:, :3]) for n in bodies]
    lines["position"].see(i, np.array(gap), bodies)
    lines["orientation"].see(i, np.array(turn), bodies)
    about = list(model.coordinate_names)
    if "mass" in ours:
        pairs = [f"{a} and {b}" for a in about for b in about]
        mass = peer.mass_matrix()
        lines["mass"].see(i, np.abs(ours["mass"][i] - mass).ravel() / np.abs(mass).max(), pairs)
        need = peer.inverse_dynamics(qd, qdd)
        lines["need"].see(i, np.abs(ours["need"][i] - need) / np.abs(need).max(), about)
    if not names:
        return left
    chosen = [model.muscle_index(name) for name in names]
    mine, lengths = ours["lengths"][i, chosen], peer.lengths(names)
    lines["length"].see(i, np.abs(mine - lengths), names)
    gaps.see(i, names, mine, lengths)
    labels = [f"{name} about {c}" for c in about for name in names]
    theirs_too = peer.moment_arms(names)
    also = ours["opensim_arms"][i][:, chosen]
    lines["opensim_arm"].see(i, np.abs(also - theirs_too).ravel(), labels)
    slopes = _slopes(peer, q, names)
    lines["arm"].see(i, np.abs(ours["arms"][i][:, chosen] - slopes).ravel(), labels)
    return left


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    """Between two orientations (rad), accurate for small angles."""
    return float(2.0 * np.arcsin(min(1.0, np.linalg.norm(a - b) / (2.0 * np.sqrt(2.0)))))


def _slopes(peer: OpenSimPeer, q: np.ndarray, names: list[str]) -> np.ndarray:
    """-∂L/∂q of OpenSim's lengths, by differences of fourth order."""
    rows = []
    for unit in np.eye(len(q)):
        total = np.zeros(len(names))
        for factor, weight in ((1, 8 / 12), (2, -1 / 12)):
            for sign in (1, -1):
                peer.pose(q + sign * factor * _STEP * unit, steps=1)
                total += sign * weight * peer.lengths(names)
        rows.append(-total / _STEP)
    peer.pose(q, steps=1)
    return np.array(rows)


def _words(
    lines: list[Line],
    notes: list[str],
    model: Model,
    poses: np.ndarray,
    peer: OpenSimPeer,
    lengths: list[str],
) -> list[str]:
    """The table, then advice on what differs."""
    width = max(len(line.what) for line in lines)
    out = [f"largest difference from OpenSim {peer.version} over {len(poses)} poses"]
    for line in lines:
        verdict = "agrees" if line.agrees else f"DIFFERS at {line.where}, pose {line.pose + 1}"
        out.append(f"  {line.what:<{width}}  {line.difference:9.2e} {line.unit:<3}  {verdict}")
    odd = [line for line in lines if not line.agrees]
    out += [f"{line.what}: {line.advice}" for line in odd] + lengths
    for k in sorted({line.pose for line in odd if line.pose >= 0}):
        shown = ", ".join(f"{n} {v:.4g}" for n, v in shown_pose(model, poses[k]).items())
        out.append(f"pose {k + 1}: {shown}")
    return out + [f"note: {note}" for note in notes]
