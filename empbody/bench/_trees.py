"""Right-hand sides of a shoulder-sized tree and of pendulum chains, beside peers."""

import importlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..dynamics import forward_dynamics
from ..model import Body, Model, Revolute, Weld
from ..models import pendulum_chain
from ..rhythms import Affine, Polynomial, Stack
from ._timing import Figure, compile_figure, in_a_batch, in_a_loop, interleaved

BATCH = 4096
_REPEATS = 15


def shoulder_sized() -> Model:
    """10 joints, 4 massive bodies, 3 coordinates; six joints follow a quadratic rhythm of
    two coordinates. Random figures of a shoulder's size: a yardstick, not a shoulder."""
    rng = np.random.default_rng(0)
    bodies, parent = [], "ground"
    for i in range(10):
        axis = rng.normal(size=3)
        joint = Revolute(axis / np.linalg.norm(axis), rng.normal(size=3) / 10, rng.normal(size=3))
        heavy = i in (2, 5, 9)
        inertia = {"mass": 1.0 + 0.1 * i, "com": (0.0, -0.1, 0.0), "inertia": (0.01, 0.004, 0.01)}
        bodies.append(Body(f"link{i}", parent, joint, **(inertia if heavy else {})))
        parent = f"link{i}"
    bodies.append(Body("load", parent, Weld((0.0, -0.3, 0.0)), mass=1.5, inertia=(0.01,) * 3))
    girdle = Polynomial.total_degree(2, 2, rng.normal(size=(6, 6)) / 5)
    humerus = Affine(jnp.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 0], [0, 0, 1.0]]))
    rhythm = Stack([(girdle, (0, 1)), (humerus, (0, 1, 2))], n_in=3)
    return Model.build(("plane", "elevation", "rotation"), bodies, rhythm)


def run() -> dict[str, Figure]:
    figures = _shoulder() | _chains()
    shoulder, chain = shoulder_sized(), pendulum_chain(100, axes="random")
    for name, model in (("shoulder", shoulder), ("chain100", chain)):
        q = 0.1 * jnp.ones(model.nq)
        figures[f"compile_{name}_s"] = compile_figure(
            lambda q, m=model: forward_dynamics(m, q, q), q
        )
    return figures


def _shoulder() -> dict[str, Figure]:
    model, loops = shoulder_sized(), 2000

    def acceleration(q: Any, qd: Any) -> Any:
        return forward_dynamics(model, q, qd)

    works = [in_a_loop(acceleration, 3, loops), in_a_batch(acceleration, 3, BATCH)]
    peer = mujoco_call(model)
    single, batched, *beside = interleaved(works + ([peer] if peer else []), _REPEATS)
    single, batched = [t / loops for t in single], [t / BATCH for t in batched]
    figures = {}
    for key, ours in (("rhs_shoulder", single), ("rhs_shoulder_batched", batched)):
        note: dict[str, Any] = {}
        figures[f"{key}_over_mujoco"] = Figure.missing("MuJoCo (pip: mujoco) is not installed")
        if peer:
            theirs = [t / _CALLS for t in beside[0]]
            note = {"peer": float(np.median(theirs)) * 1e6, "peer_is": "MuJoCo mj_forward, µs"}
            figures[f"{key}_over_mujoco"] = Figure.ratio(ours, theirs, peer_us=note["peer"])
        figures[f"{key}_us"] = Figure.of([t * 1e6 for t in ours], **note)
    return figures


def _chains() -> dict[str, Figure]:
    figures = {}
    for n, loops, batch in ((30, 500, 1024), (100, 100, 256)):
        model = pendulum_chain(n, axes="random")

        def acceleration(q: Any, qd: Any, model: Model = model) -> Any:
            return forward_dynamics(model, q, qd)

        keys = (f"chain{n}_over_pinocchio", f"chain{n}_batched_over_pinocchio")
        peer = _pinocchio_call(model)
        works = [in_a_loop(acceleration, n, loops), in_a_batch(acceleration, n, batch)]
        if peer is None:
            reason = "Pinocchio (pip: pin) is not installed"
            figures |= {key: Figure.missing(reason) for key in keys}
            continue
        single, batched, theirs = interleaved([*works, peer], _REPEATS)
        theirs = [t / _CALLS for t in theirs]
        for key, ours, count in zip(keys, (single, batched), (loops, batch), strict=True):
            ratios = [t / count / p for t, p in zip(ours, theirs, strict=True)]
            ours_us, peer_us = np.median(ours) / count * 1e6, np.median(theirs) * 1e6
            figures[key] = Figure.of(ratios, ours_us=float(ours_us), peer_us=float(peer_us))
    return figures


_CALLS = 500


def _pinocchio_call(model: Model) -> Any:
    """Work that calls Pinocchio's ABA on the same tree, or None where it is missing."""
    try:
        pin: Any = importlib.import_module("pinocchio")
    except ImportError:
        return None
    peer = pin.Model()
    for i, parent in enumerate(model.topology.parents):
        joint = pin.JointModelRevoluteUnaligned(*np.asarray(model.axis[i]))
        place = pin.SE3(np.asarray(model.rotation[i]), np.asarray(model.translation[i]))
        index = peer.addJoint(parent + 1, joint, place, model.joint_names[i])
        body = pin.Inertia(
            float(model.mass[i]), np.asarray(model.com[i]), np.asarray(model.inertia[i])
        )
        peer.appendBodyToJoint(index, body, pin.SE3.Identity())
    data = peer.createData()
    q, v = 0.1 * np.ones(model.nq), 0.2 * np.ones(model.nq)
    tau = np.zeros(model.nq)

    def calls() -> None:
        for _ in range(_CALLS):
            pin.aba(peer, data, q, v, tau)

    return calls


def mujoco_call(model: Model) -> Any:
    """Work that calls MuJoCo's mj_forward on the same tree with all joints free, or None."""
    try:
        mujoco: Any = importlib.import_module("mujoco")
    except ImportError:
        return None
    peer = mujoco_model(mujoco, model)
    data = mujoco.MjData(peer)

    def calls() -> None:
        for _ in range(_CALLS):
            mujoco.mj_forward(peer, data)

    return calls


def mujoco_model(mujoco: Any, model: Model) -> Any:
    """The tree in MuJoCo, every joint variable a joint of its own."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.gravity = np.asarray(model.gravity)
    parents = {-1: spec.worldbody}
    for i in model.topology.order:
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, np.asarray(model.rotation[i]).ravel())
        body = parents[model.topology.parents[i]].add_body(
            name=f"b{i}", pos=np.asarray(model.translation[i]), quat=quaternion
        )
        body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=np.asarray(model.axis[i]))
        mass, com, moments = _carried(model, i)
        body.explicitinertial = True
        body.mass, body.ipos = mass, com
        body.fullinertia = moments[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        parents[i] = body
    return spec.compile()


def _carried(model: Model, link: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it of all that rides on a link, in its frame."""
    riders = [b for b in model.topology.massive if model.topology.body_links[b] == link]
    if not riders:
        return 1e-6, np.zeros(3), 1e-9 * np.eye(3)  # MuJoCo wants some
    turns = [np.asarray(model.body_rotation[b]) for b in riders]
    masses = np.array([float(model.mass[b]) for b in riders])
    places = np.array(
        [
            np.asarray(model.body_translation[b]) + turn @ np.asarray(model.com[b])
            for b, turn in zip(riders, turns, strict=True)
        ]
    )
    com = masses @ places / masses.sum()
    total = np.zeros((3, 3))
    for b, turn, mass, arm in zip(riders, turns, masses, places - com, strict=True):
        total += turn @ np.asarray(model.inertia[b]) @ turn.T
        total += mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return float(masses.sum()), com, total
