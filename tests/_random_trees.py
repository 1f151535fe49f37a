"""Random trees, and what every implementation of the dynamics gives on them.

A shape is a topology, a rhythm family and a number of coordinates, drawn from the shape's
own seed. Its numbers are drawn per case, so the cases of one shape stack into one batched
model and share one compilation.

`IMPLEMENTATIONS` lists who is compared: anything with the functions that `evaluate` calls.
`empbody.autodiff` is the one that the others are held against.
"""

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import empbody
from empbody import autodiff, kronecker
from empbody.model import Body, Chain, Model, Prismatic, Revolute, Weld
from empbody.rhythms import AbstractRhythm, Identity, Neural


class Wavy(AbstractRhythm):
    """f = c + A q + B sin(C q): smooth, nonlinear, every coordinate in every joint."""

    c: Float[Array, " nj"]
    A: Float[Array, "nj nq"]
    B: Float[Array, "nj nj"]
    C: Float[Array, "nj nq"]

    @property
    def n_in(self) -> int:
        return self.A.shape[-1]

    @property
    def n_out(self) -> int:
        return self.c.shape[-1]

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        return self.c + self.A @ q + self.B @ jnp.sin(self.C @ q)


@dataclass(frozen=True)
class Shape:
    """What all cases of one shape share; `joints` gives the joint of each body.

    Joints: "r" revolute, "p" prismatic, "w" weld, several letters a chain. `parents` holds
    the position of each body's parent, -1 for the ground, and need not be sorted.
    `massless` bodies have neither mass nor inertia.
    """

    nq: int
    parents: tuple[int, ...]
    joints: tuple[str, ...]
    massless: tuple[int, ...]
    rhythm: str
    seeds: tuple[int, ...]

    @property
    def nj(self) -> int:
        return sum(len(joint.replace("w", "")) for joint in self.joints)

    @property
    def nb(self) -> int:
        return len(self.parents)


class Cases(NamedTuple):
    """Stacked over the cases of one shape: the first axis of every leaf."""

    models: Model
    q: Float[Array, "n nq"]
    qd: Float[Array, "n nq"]
    qdd: Float[Array, "n nq"]
    points: Float[Array, "n nb 3"]
    """One point on each body, in body axes."""


def random_shape(
    seed: int, nq: int, nb: int, rhythm: str = "wavy", kinds: tuple[str, ...] = ("r", "p")
) -> Shape:
    """A tree with random branching whose bodies are listed in random order.

    All of `kinds` occur where there is room for them.
    """
    rng = np.random.default_rng(seed)
    above = [-1 if i == 0 else int(rng.integers(-1 if i > 2 else 0, i)) for i in range(nb)]
    rank = rng.permutation(nb)  # rank[i] is where body i stands in the list
    joints, parents = [""] * nb, [-1] * nb
    for i in range(nb):
        parents[rank[i]] = int(rank[above[i]]) if above[i] >= 0 else -1
        joints[rank[i]] = kinds[i % len(kinds)]
    massless = tuple(int(i) for i in rng.choice(nb, size=nb // 4, replace=False))
    return Shape(nq, tuple(parents), tuple(joints), massless, rhythm, tuple(range(4)))


SHAPES = {
    "one_coordinate": random_shape(seed=1, nq=1, nb=3),
    "branched": random_shape(seed=2, nq=2, nb=7, kinds=("r", "p", "w", "r")),
    "twelve_bodies": random_shape(seed=3, nq=3, nb=12, kinds=("r", "w", "rr", "p", "r", "r")),
    "neural": random_shape(seed=4, nq=4, nb=5, rhythm="neural"),
    "chains": random_shape(seed=5, nq=5, nb=4, kinds=("rpr", "r", "w", "pr")),
    "free_body": Shape(6, (-1, -1, 0), ("w", "ppprrr", "r"), (), "wavy", tuple(range(4))),
}
UNCOUPLED = random_shape(seed=7, nq=3, nb=3, rhythm="identity")
"""Joint variables are the coordinates; for tests of single equations."""


@functools.cache
def cases(name: str) -> Cases:
    """All cases of a shape, stacked; "uncoupled" is a shape too."""
    shape = UNCOUPLED if name == "uncoupled" else SHAPES[name]
    drawn = [_case(shape, np.random.default_rng((seed, *name.encode()))) for seed in shape.seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)


def _case(shape: Shape, rng: np.random.Generator) -> Cases:
    bodies = []
    for b, (parent, joint) in enumerate(zip(shape.parents, shape.joints, strict=True)):
        heavy = b not in shape.massless
        bodies.append(
            Body(
                f"body{b}",
                parent="ground" if parent < 0 else f"body{parent}",
                joint=_joint(joint, rng),
                mass=rng.uniform(0.5, 2.0) if heavy else 0.0,
                com=rng.normal(size=3) / 4,
                inertia=_inertia(rng) if heavy else (0.0, 0.0, 0.0),
            )
        )
    model = Model.build(
        coordinates=tuple(f"q{i}" for i in range(shape.nq)),
        bodies=bodies,
        rhythm=_rhythm(shape, rng),
        gravity=rng.normal(size=3) * 5,
    )
    q, qd, qdd = jnp.asarray(rng.normal(size=(3, shape.nq)))
    return Cases(model, q, qd, qdd, jnp.asarray(rng.normal(size=(shape.nb, 3)) / 2))


def _joint(letters: str, rng: np.random.Generator) -> Revolute | Prismatic | Weld | Chain:
    if letters == "w":
        return Weld(translation=rng.normal(size=3) / 3, rotation=rng.normal(size=3))
    joints = []
    for letter in letters:
        axis = rng.normal(size=3)
        kind = Revolute if letter == "r" else Prismatic
        place = {"translation": rng.normal(size=3) / 3, "rotation": rng.normal(size=3)}
        joints.append(kind(axis / np.linalg.norm(axis), **place))
    return joints[0] if len(joints) == 1 else Chain(tuple(joints))


def _inertia(rng: np.random.Generator) -> np.ndarray:
    """Inertia about the centre of mass of a cloud of points, so a possible one."""
    cloud = rng.normal(size=(6, 3)) / 5
    return sum((r @ r) * np.eye(3) - np.outer(r, r) for r in cloud - cloud.mean(axis=0))


def _rhythm(shape: Shape, rng: np.random.Generator) -> AbstractRhythm:
    nq, nj = shape.nq, shape.nj
    if shape.rhythm == "identity":
        return Identity()
    if shape.rhythm == "neural":
        key = jax.random.key(int(rng.integers(2**31)))
        return Neural((nq, 6, nj), key=key, gain=rng.uniform(1.0, 2.0, size=nj))
    c, A, C = rng.normal(size=nj), rng.normal(size=(nj, nq)), rng.normal(size=(nj, nq))
    B = rng.normal(size=(nj, nj)) / nj
    return Wavy(*(jnp.asarray(x) for x in (c, A, B, C)))


def kronecker_in(form: str) -> SimpleNamespace:
    """`empbody.kronecker` with one of its two forms chosen."""
    plain = ("body_transforms", "joint_hessians", "joint_jacobian", "joint_variables")
    formed = (
        "bias",
        "coriolis",
        "forward_dynamics",
        "gravity",
        "inverse_dynamics",
        "mass_matrix",
        "point_acceleration",
        "point_velocity",
        "transform_derivatives",
        "transform_second_derivatives",
    )
    functions = {name: getattr(kronecker, name) for name in (*plain, "point_position")}
    for name in formed:
        functions[name] = functools.partial(getattr(kronecker, name), form=form)
    return SimpleNamespace(**functions)


IMPLEMENTATIONS: dict[str, Any] = {
    "autodiff": autodiff,
    "kronecker_recursive": kronecker_in("recursive"),
    "kronecker_closed": kronecker_in("closed"),
    "fast": empbody,
}


@functools.cache
def evaluate(implementation: str, shape: str) -> dict[str, Array]:
    """Every quantity of one implementation on all cases of a shape, stacked.

    The reference adds Ṁ, as "mass_rate".
    """
    use = IMPLEMENTATIONS[implementation]
    body = f"body{SHAPES[shape].nb - 1}"

    def one(model: Model, q: Array, qd: Array, qdd: Array, points: Array) -> dict[str, Array]:
        tau = use.inverse_dynamics(model, q, qd, qdd)
        found = {
            "joint_variables": use.joint_variables(model, q),
            "joint_jacobian": use.joint_jacobian(model, q),
            "joint_hessians": use.joint_hessians(model, q),
            "body_transforms": use.body_transforms(model, q),
            "point_position": use.point_position(model, q, body, points[-1]),
            "point_velocity": use.point_velocity(model, q, qd, body, points[-1]),
            "point_acceleration": use.point_acceleration(model, q, qd, qdd, body, points[-1]),
            "mass_matrix": use.mass_matrix(model, q),
            "coriolis": use.coriolis(model, q, qd),
            "bias": use.bias(model, q, qd),
            "gravity": use.gravity(model, q),
            "inverse_dynamics": tau,
            "forward_dynamics": use.forward_dynamics(model, q, qd, tau),
        }
        for name in ("transform_derivatives", "transform_second_derivatives"):
            if hasattr(use, name):  # an implementation may do without D and D'
                found[name] = getattr(use, name)(model, q)
        if use is autodiff:
            slope = jax.jacfwd(lambda x: use.mass_matrix(model, x))(q)
            found["mass_rate"] = jnp.einsum("kji,i->kj", slope, qd)
        return found

    # Each is run once, so compiling costs more than optimising gains.
    quick = {"xla_backend_optimization_level": 0}
    return jax.jit(jax.vmap(one), compiler_options=quick)(*cases(shape))


def largest_error(found: Array, expected: Array) -> float:
    """Largest error over the cases, each relative to the case's largest entry."""
    axes = tuple(range(1, expected.ndim))
    size = jnp.maximum(jnp.max(jnp.abs(expected), axis=axes), 1e-12)
    return float(jnp.max(jnp.max(jnp.abs(found - expected), axis=axes) / size))
