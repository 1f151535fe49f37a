"""The model: a tree of links with a rhythm. Data and checks, no algorithms."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm, Identity
from . import _checks
from ._body import Body
from ._force import AbstractForce
from ._joints import Chain, Prismatic, Revolute, Weld
from ._marker import Marker
from ._path import AbstractMuscles, AbstractUnit
from ._path_set import PathSet
from ._precision import hint
from ._surface import Surface
from ._topology import Topology


class Model(eqx.Module):
    """A tree of rigid bodies whose joint variables are a rhythm of a few coordinates.

    Every number is an array leaf; names and structure are static. So a model can be
    edited with `eqx.tree_at`, differentiated to any number and vmapped over subjects
    without compiling again. Make one with `Model.build`.

    Placements are those of joint frames in the *parent link's* frame: constant placements
    of welded bodies are folded in when the model is built.
    """

    axis: Float[Array, "nj 3"]
    """Joint axis in the joint frame, unit length."""
    translation: Float[Array, "nj 3"]
    """Joint frame's origin in the parent link's frame (m)."""
    rotation: Float[Array, "nj 3 3"]
    """Joint frame's orientation in the parent link's frame."""
    body_translation: Float[Array, "nb 3"]
    """Body frame's origin in its link's frame (m); zero unless the body is welded on."""
    body_rotation: Float[Array, "nb 3 3"]
    """Body frame's orientation in its link's frame."""
    mass: Float[Array, " nb"]
    """kg"""
    com: Float[Array, "nb 3"]
    """Centre of mass in the body frame (m)."""
    inertia: Float[Array, "nb 3 3"]
    """About the centre of mass, in body axes (kg m²)."""
    gravity: Float[Array, " 3"]
    """Acceleration of free fall in the ground frame (m/s²)."""
    lower: Float[Array, " nq"]
    """Lower end of each coordinate's range; -inf where there is none."""
    upper: Float[Array, " nq"]
    """Upper end of each coordinate's range; +inf where there is none."""
    rhythm: AbstractRhythm
    """Joint variables as a function of the coordinates."""
    forces: tuple[AbstractForce, ...]
    """Springs, dampers, torques and external forces."""
    paths: PathSet
    """Paths of the musculotendon units, and the surfaces that they slide over."""
    muscles: AbstractMuscles | None
    """How the units give force; None where they have paths only."""
    default_q: Float[Array, " nq"]
    """Coordinates of the default pose."""
    marker_positions: Float[Array, "nk 3"]
    """Markers in their bodies' frames (m)."""
    coordinate_names: tuple[str, ...] = eqx.field(static=True)
    joint_names: tuple[str, ...] = eqx.field(static=True)
    body_names: tuple[str, ...] = eqx.field(static=True)
    topology: Topology = eqx.field(static=True)
    marker_names: tuple[str, ...] = eqx.field(static=True)
    marker_bodies: tuple[int, ...] = eqx.field(static=True)
    """Body of each marker; -1 is the ground."""
    source: Any = eqx.field(static=True)
    """Where the model came from: a hashable object of the reader's own, or None."""

    @property
    def report(self) -> Any:
        """What the reader of the model's file says about it; None for a model made by hand."""
        return getattr(self.source, "report", None)

    @property
    def nq(self) -> int:
        """Number of generalised coordinates."""
        return len(self.coordinate_names)

    @property
    def nj(self) -> int:
        """Number of joint variables (links)."""
        return len(self.joint_names)

    @property
    def nb(self) -> int:
        """Number of bodies."""
        return len(self.body_names)

    @property
    def nm(self) -> int:
        """Number of musculotendon units."""
        return self.paths.layout.n_units

    @property
    def muscle_names(self) -> tuple[str, ...]:
        return self.paths.layout.names

    @property
    def markers(self) -> tuple[Marker, ...]:
        """Markers as they were given; their numbers are `marker_positions`."""
        bodies = [self.body_names[b] if b >= 0 else "ground" for b in self.marker_bodies]
        rows = zip(self.marker_names, bodies, self.marker_positions, strict=True)
        return tuple(Marker(name, body, location) for name, body, location in rows)

    def coordinate_index(self, name: str) -> int:
        return _checks.name_index("coordinate", self.coordinate_names, name)

    def joint_index(self, name: str) -> int:
        return _checks.name_index("joint", self.joint_names, name)

    def body_index(self, name: str) -> int:
        """Position of a body; -1 for the ground."""
        return -1 if name == "ground" else _checks.name_index("body", self.body_names, name)

    def muscle_index(self, name: str) -> int:
        return _checks.name_index("musculotendon unit", self.muscle_names, name)

    @staticmethod
    def build(
        coordinates: Sequence[str],
        bodies: Sequence[Body],
        rhythm: AbstractRhythm | None = None,
        gravity: Any = (0.0, -9.80665, 0.0),
        forces: Sequence[AbstractForce] = (),
        ranges: Mapping[str, tuple[float, float]] | None = None,
        muscles: Sequence[AbstractUnit] = (),
        surfaces: Sequence[Surface] = (),
        default_q: Mapping[str, float] | None = None,
        markers: Sequence[Marker] = (),
        source: Any = None,
    ) -> "Model":
        """Make and check a model.

        **Arguments:**

        - `coordinates`: names of the generalised coordinates.
        - `bodies`: in any order; joint variables follow the order of this list.
        - `rhythm`: joint variables as a function of the coordinates; the identity if absent.
        - `gravity`: acceleration of free fall in the ground frame (m/s²).
        - `forces`: springs, dampers, torques, external forces (see `empbody.forces`).
        - `ranges`: lower and upper bound by coordinate name, in the coordinate's unit.
        - `muscles`: musculotendon units: `Muscle`, or `Path` where only geometry is wanted.
        - `surfaces`: what their paths slide over (`WrapCylinder`, `WrapSphere`, ...).
        - `default_q`: default pose by coordinate name; zero for the others.
        - `markers`: what motion capture sees.
        - `source`: hashable; kept as it is (`eb.load` keeps its file's description there).

        **Raises:** `ValueError`, naming the body, for anything that is not a rigid-body tree.
        """
        rhythm = Identity() if rhythm is None else rhythm
        if isinstance(coordinates, str):
            raise ValueError(f"coordinates is the string {coordinates!r}; give ({coordinates!r},)")
        coordinates = tuple(coordinates)
        bodies = tuple(bodies)
        _checks.unique_names("coordinate", coordinates)
        if not bodies:
            raise ValueError("a model needs at least one body")
        _checks.parents(bodies)
        tree = _Tree()
        for body in bodies:
            tree.add(body, {b.name: b for b in bodies})
        links, frames = tree.in_order_of(bodies)
        if not links:
            raise ValueError("all bodies are welded to the ground: nothing can move")
        _checks.unique_names("joint", [link.name for link in links])
        _check_sizes(rhythm, coordinates, [link.name for link in links])
        mass = [_checks.mass(body) for body in bodies]
        inertia = [_checks.inertia_matrix(body) for body in bodies]
        has_mass = [_has_mass(m, i) for m, i in zip(mass, inertia, strict=True)]
        body_links = tuple(frame.link for frame in frames)
        topology = Topology(
            parents=tuple(link.parent for link in links),
            revolute=tuple(link.revolute for link in links),
            body_links=body_links,
            massive=tuple(b for b, link in enumerate(body_links) if link >= 0 and has_mass[b]),
            welded=tuple(_is_placed(body) for body in bodies),
        )
        lower, upper = _ranges(coordinates, ranges or {})
        positions, marker_bodies = _pack_markers(markers, [body.name for body in bodies])
        model = Model(
            axis=_stack([link.axis for link in links]),
            translation=_stack([link.translation for link in links]),
            rotation=_stack([link.rotation for link in links]),
            body_translation=_stack([frame.translation for frame in frames]),
            body_rotation=_stack([frame.rotation for frame in frames]),
            mass=_stack(mass),
            com=_stack([_checks.vector(f"com of body {b.name!r}", b.com) for b in bodies]),
            inertia=_stack(inertia),
            gravity=jnp.asarray(_checks.vector("gravity", gravity), dtype=float),
            lower=lower,
            upper=upper,
            rhythm=rhythm,
            forces=(),
            paths=PathSet.pack(muscles, surfaces, [body.name for body in bodies], coordinates),
            muscles=_pack_forces(muscles),
            default_q=_pose(coordinates, default_q or {}),
            marker_positions=positions,
            coordinate_names=coordinates,
            joint_names=tuple(link.name for link in links),
            body_names=tuple(body.name for body in bodies),
            topology=topology,
            marker_names=tuple(marker.name for marker in markers),
            marker_bodies=marker_bodies,
            source=source,
        )
        hint(topology, muscles, surfaces)
        return model.with_forces(forces)

    def with_forces(self, forces: Sequence[AbstractForce]) -> "Model":
        """The same model with these force elements instead of its own."""
        bound = tuple(force.bind(self) for force in forces)
        return eqx.tree_at(lambda m: m.forces, self, bound, is_leaf=lambda x: x is self.forces)

    def with_muscles(
        self, muscles: Sequence[AbstractUnit], surfaces: Sequence[Surface] = ()
    ) -> "Model":
        """The same model with these musculotendon units and surfaces instead of its own."""
        paths = PathSet.pack(muscles, surfaces, self.body_names, self.coordinate_names)
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Model(**(values | {"paths": paths, "muscles": _pack_forces(muscles)}))

    def with_rhythm(self, rhythm: AbstractRhythm) -> "Model":
        """The same model with another rhythm of the same sizes."""
        _check_sizes(rhythm, self.coordinate_names, self.joint_names)
        return eqx.tree_at(lambda m: m.rhythm, self, rhythm)


class _Link(NamedTuple):
    """One joint variable with its placement in the parent link."""

    name: str
    parent: int
    revolute: bool
    axis: Any
    translation: Any
    rotation: Any


class _Frame(NamedTuple):
    """A body frame's constant placement on a link."""

    link: int
    translation: Any
    rotation: Any

    def place(self, translation: Any, rotation: Any) -> "_Frame":
        moved = self.translation + self.rotation @ translation
        return _Frame(self.link, moved, self.rotation @ rotation)


class _Tree:
    """Turns bodies with chain joints and welds into links; parents are placed first."""

    def __init__(self) -> None:
        ground = _Frame(-1, np.zeros(3), np.eye(3))
        self.frames: dict[str, _Frame] = {"ground": ground}
        self.links: list[_Link] = []
        self.owner: list[str] = []

    def add(self, body: Body, by_name: Mapping[str, Body]) -> None:
        if body.name in self.frames:
            return
        if body.parent not in self.frames:
            self.add(by_name[body.parent], by_name)
        frame = self.frames[body.parent]
        if body.joint is None:
            raise ValueError(f"body {body.name!r} has no joint; weld it with joint=Weld(...)")
        if isinstance(body.joint, Weld):
            where = f"weld of body {body.name!r}"
            placed = frame.place(
                _checks.vector(f"translation of {where}", body.joint.translation),
                _checks.rotation_matrix(f"rotation of {where}", body.joint.rotation),
            )
            self.frames[body.name] = placed
            return
        joints = body.joint.joints if isinstance(body.joint, Chain) else (body.joint,)
        for i, joint in enumerate(joints):
            default = body.name if len(joints) == 1 else f"{body.name}.{i + 1}"
            frame = self._hang(frame, joint, joint.name or default, body.name)
        if isinstance(body.joint, Chain) and body.joint.places_body:
            where = f"the frame of body {body.name!r} on its last joint"
            frame = frame.place(
                _checks.vector(f"translation of {where}", body.joint.translation),
                _checks.rotation_matrix(f"rotation of {where}", body.joint.rotation),
            )
        self.frames[body.name] = frame

    def _hang(self, frame: _Frame, joint: Revolute | Prismatic, name: str, body: str) -> _Frame:
        if not isinstance(joint, Revolute | Prismatic):
            raise ValueError(
                f"joint of body {body!r} is a {type(joint).__name__}; "
                "use Revolute, Prismatic, Weld or one of the chained joints"
            )
        where = f"joint {name!r} of body {body!r}"
        placed = frame.place(
            _checks.vector(f"translation of {where}", joint.translation),
            _checks.rotation_matrix(f"rotation of {where}", joint.rotation),
        )
        axis = _checks.unit_axis(f"axis of {where}", joint.axis)
        revolute = isinstance(joint, Revolute)
        self.links.append(
            _Link(name, frame.link, revolute, axis, placed.translation, placed.rotation)
        )
        self.owner.append(body)
        here = len(self.links) - 1
        return _Frame(here, np.zeros(3), np.eye(3))

    def in_order_of(self, bodies: Sequence[Body]) -> tuple[list[_Link], list[_Frame]]:
        """Links sorted by the user's list of bodies, and the frames of those bodies."""
        rank = {body.name: i for i, body in enumerate(bodies)}
        order = sorted(range(len(self.links)), key=lambda i: (rank[self.owner[i]], i))
        new = {old: i for i, old in enumerate(order)} | {-1: -1}
        links = [self.links[old]._replace(parent=new[self.links[old].parent]) for old in order]
        frames = [self.frames[body.name] for body in bodies]
        frames = [_Frame(new[f.link], f.translation, f.rotation) for f in frames]
        return links, frames


def _check_sizes(rhythm: AbstractRhythm, coordinates: Sequence[str], joints: Sequence[str]) -> None:
    nq, nj = len(coordinates), len(joints)
    if nq == 0:
        raise ValueError("a model needs at least one coordinate")
    if rhythm.n_in is not None and rhythm.n_in != nq:
        raise ValueError(f"{nq} coordinates for a rhythm with {rhythm.n_in} inputs")
    if rhythm.n_out is not None and rhythm.n_out != nj:
        raise ValueError(
            f"{rhythm.n_out} rhythm outputs for {nj} joint variables ({', '.join(joints)})"
        )
    if (rhythm.n_in is None or rhythm.n_out is None) and nq != nj:
        raise ValueError(
            f"{nq} coordinates for {nj} joint variables ({', '.join(joints)}): "
            "an identity rhythm needs as many of each"
        )


def _pack_forces(units: Sequence[AbstractUnit]) -> AbstractMuscles | None:
    """Force parameters of all units, which must be of one kind."""
    if not units:
        return None
    kinds = {type(unit) for unit in units}
    if len(kinds) > 1:
        a, b = (next(u.name for u in units if type(u) is kind) for kind in list(kinds)[:2])
        raise ValueError(
            f"units {a!r} and {b!r} are of different kinds; give force parameters to all units "
            "(Muscle) or to none (Path)"
        )
    return type(units[0]).pack(units)


def _stack(rows: Sequence[Any]) -> jax.Array:
    """One array of all rows; NumPy first, which is quicker than many small transfers."""
    if _checks.is_concrete(rows):
        return jnp.asarray(np.stack(rows), dtype=float)
    return jnp.stack(rows)


def _has_mass(mass: Any, inertia: Any) -> bool:
    if not _checks.is_concrete((mass, inertia)):
        return True  # a traced mass may be anything
    return bool(mass > 0.0) or bool(np.any(np.asarray(inertia) != 0.0))


def _is_placed(body: Body) -> bool:
    """Whether a body's frame is placed on its link, rather than being the link's own."""
    joint = body.joint
    return isinstance(joint, Weld) or (isinstance(joint, Chain) and joint.places_body)


def _pose(coordinates: tuple[str, ...], values: Mapping[str, float]) -> jax.Array:
    pose = np.zeros(len(coordinates))
    for name, value in values.items():
        pose[_checks.name_index("coordinate", coordinates, name)] = value
    return jnp.asarray(pose, dtype=float)


def _pack_markers(
    markers: Sequence[Marker], bodies: Sequence[str]
) -> tuple[jax.Array, tuple[int, ...]]:
    _checks.unique_names("marker", [marker.name for marker in markers])
    places = tuple(
        -1 if marker.body == "ground" else _checks.name_index("body", bodies, marker.body)
        for marker in markers
    )
    if not markers:
        return jnp.zeros((0, 3)), places
    rows = [_checks.vector(f"location of marker {m.name!r}", m.location) for m in markers]
    return _stack(rows), places


def _ranges(
    coordinates: tuple[str, ...], ranges: Mapping[str, tuple[float, float]]
) -> tuple[jax.Array, jax.Array]:
    lower = np.full(len(coordinates), -np.inf)
    upper = np.full(len(coordinates), np.inf)
    for name, (low, high) in ranges.items():
        i = _checks.name_index("coordinate", coordinates, name)
        if not low < high:
            raise ValueError(f"range of coordinate {name!r} is empty: {low} ... {high}")
        lower[i], upper[i] = low, high
    return jnp.asarray(lower), jnp.asarray(upper)
