"""Motion of all links at once, in the ground frame.

Link i stands in its parent by a constant placement, then a slide f_i along the axis
(prismatic) or a turn f_i about it (revolute): Ehsani 2016, Eq. 38-40. World transforms
come from pointer doubling, velocities and accelerations from sums over ancestors of
screws that all refer to one common point, so nothing is done link after link, except in large
trees on CPU, where that is cheaper.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model, Topology
from ..rhythms import AbstractRhythm, Identity, Jet
from ._lanes import components, cross, halves, lanes_last, materialise, mix, multiply, rotate, skew
from ._walk import outwards, over_ancestors


class LaneTree(eqx.Module):
    """A model's placements, lanes last, prepared for fast use."""

    placement: Float[Array, "nj 3 3 #lanes"]
    sine: Float[Array, "nj 3 3 #lanes"]
    """Factor of sin θ in placement times Rodrigues' formula."""
    versine: Float[Array, "nj 3 3 #lanes"]
    """Factor of 1 - cos θ."""
    axis: Float[Array, "nj 3 #lanes"]
    slide: Float[Array, "nj 3 #lanes"]
    """The axis in the parent link's frame."""
    translation: Float[Array, "nj 3 #lanes"]
    bodies: Float[Array, "nb 3 4 #lanes"]
    """Body frames [R | p] in their links' frames."""
    topology: Topology = eqx.field(static=True)
    stored: bool = eqx.field(static=True)
    """Whether values that are read often are computed once and stored. That pays in batches;
    for one sample alone, computing them again takes less time than another kernel."""

    @staticmethod
    def of(model: Model, batched: Model | None = None, stored: bool = True) -> "LaneTree":
        """From a model; `batched` tells which leaves have a leading batch axis."""

        def leaf(get) -> Array:
            return lanes_last(get(model), False if batched is None else get(batched))

        axis = leaf(lambda m: m.axis)
        placement = leaf(lambda m: m.rotation)
        turn = skew(axis)
        sine = multiply(placement, turn)
        slide = rotate(placement, axis)
        versine = multiply(sine, turn)
        if stored:
            sine, versine, slide = materialise(sine, versine, slide)
        return LaneTree(
            placement=placement,
            sine=sine,
            versine=versine,
            axis=axis,
            slide=slide,
            translation=leaf(lambda m: m.translation),
            bodies=body_placements(model, batched),
            topology=model.topology,
            stored=stored,
        )


def body_placements(model: Model, batched: Model | None = None) -> Float[Array, "nb 3 4 #lanes"]:
    """Body frames [R | p] in their links' frames, lanes last."""
    turned = batched is not None and bool(batched.body_rotation)
    moved = batched is not None and bool(batched.body_translation)
    turn = lanes_last(model.body_rotation, turned)
    move = lanes_last(model.body_translation, moved)
    return _side_by_side(turn, move[:, :, None])


def _side_by_side(a: Array, b: Array) -> Array:
    """Columns of a, then of b, in as many lanes as either has."""
    (lanes,) = jnp.broadcast_shapes(a.shape[-1:], b.shape[-1:])  # none in an empty batch
    both = [jnp.broadcast_to(x, (*x.shape[:-1], lanes)) for x in (a, b)]
    return jnp.concatenate(both, axis=2)


_LAST_ROW = np.array([0.0, 0.0, 0.0, 1.0])[None, None, :, None]


def compose(a: Array, b: Array) -> Array:
    """Product of rigid transforms held as (n, 3, 4, lanes)."""
    # Whole rows at a time, unlike `multiply`: reverse mode seldom comes here.
    turned = a[:, :, 0:1] * b[:, 0:1] + a[:, :, 1:2] * b[:, 1:2] + a[:, :, 2:3] * b[:, 2:3]
    return turned + a[:, :, 3:4] * jnp.asarray(_LAST_ROW, dtype=a.dtype)


@eqx.filter_custom_jvp
def link_transforms(tree: LaneTree, f: Float[Array, "nj #lanes"]) -> Float[Array, "nj 3 4 lanes"]:
    """Ground-to-link transforms [R | p] of all links."""
    return _transforms(tree, f)


@link_transforms.def_jvp
def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """A change of f moves each link by the screws of the joints that carry it, so the sweep
    over the tree is differentiated only where placements themselves change."""
    (tree, f), (tree_move, f_move) = primals, tangents
    if jax.tree.leaves(tree_move):
        held = (tree_move, None)
        transform, change = eqx.filter_jvp(_transforms, (tree, f), held)
    else:
        transform, change = link_transforms(tree, f), None
    if f_move is None:
        return transform, change
    origin = jax.lax.stop_gradient(transform[tree.topology.order[-1], :, 3][None])
    screw = screws(tree, transform, origin)
    moved = mix(tree.topology.ancestors, screw * f_move[:, None])
    turn, slide = (part[:, :, None] for part in halves(moved))
    x, y, z, place = components(transform, 2)
    columns = [cross(turn, x), cross(turn, y), cross(turn, z)]
    columns.append(slide + cross(turn, place - origin[:, :, None]))
    swung = jnp.concatenate(columns, axis=2)
    return transform, swung if change is None else change + swung


def _transforms(tree: LaneTree, f: Float[Array, "nj #lanes"]) -> Float[Array, "nj 3 4 lanes"]:
    topology = tree.topology
    revolute = np.asarray(topology.revolute)
    if revolute.all():
        angle, offset = f, tree.translation
    else:
        turns = jnp.asarray(revolute)[:, None]
        angle = jnp.where(turns, f, 0.0)
        offset = tree.translation + tree.slide * jnp.where(turns, 0.0, f)[:, None]
    if not revolute.any():
        local = jnp.broadcast_to(tree.placement, (*tree.placement.shape[:3], f.shape[-1]))
    else:
        sine, versine = jnp.sin(angle), 1.0 - jnp.cos(angle)
        if tree.stored:
            sine, versine = materialise(sine, versine)
        turned = tree.sine * sine[:, None, None] + tree.versine * versine[:, None, None]
        local = tree.placement + turned
    transform = _side_by_side(local, offset[:, :, None])
    if not topology.is_deep:
        return _sweep(topology, transform)
    if jax.default_backend() == "cpu":
        return _walk(topology, transform)
    return _double(topology, transform)


def _sweep(topology: Topology, local: Array) -> Array:
    """From the roots outwards, link by link; for deep trees that would compile too long."""
    world: dict[int, Array] = {}
    for link in topology.order:
        parent, own = topology.parents[link], local[link : link + 1]
        world[link] = own if parent < 0 else compose(world[parent], own)
    return jnp.concatenate([world[link] for link in range(topology.n_links)])


def _walk(topology: Topology, local: Array) -> Array:
    """The same sweep in a compiled loop."""

    def step(above: Array, own: Array) -> tuple[Array, Array]:
        world = compose(above[None], own[None])[0]
        return world, world

    ground = jnp.eye(3, 4, dtype=local.dtype)[:, :, None]
    return outwards(topology, step, jnp.broadcast_to(ground, local.shape[1:]), local)


def _double(topology: Topology, transform: Array) -> Array:
    """Each round composes every link with its 2^k-th ancestor."""
    for jump in topology.jumps:
        above = transform.at[np.maximum(jump, 0)].get(mode="promise_in_bounds")
        has_ancestor = jnp.asarray(jump >= 0)[:, None, None, None]
        moved = compose(above, transform)
        (transform,) = materialise(jnp.where(has_ancestor, moved, transform))
    return transform


class LinkMotion(eqx.Module):
    """Everything about the links' motion at one (q, q̇), with q̈ = 0.

    Screws, velocities and accelerations are six rows (angular, linear); the linear part
    belongs to the material point that passes `origin`, a point near the mechanism, so
    that no accuracy is lost when it stands far from the ground's origin.
    """

    q: Float[Array, "nq #lanes"]
    qd: Float[Array, "nq #lanes"]
    f: Float[Array, "nj #lanes"]
    jacobian: Float[Array, "nj nq #lanes"]
    """∂f/∂q; one lane if it is the same for all."""
    fd: Float[Array, "nj #lanes"]
    """ḟ"""
    transform: Float[Array, "nj 3 4 #lanes"]
    origin: Float[Array, "1 3 #lanes"]
    screw: Float[Array, "nj 6 #lanes"]
    """Motion of a link per unit joint speed."""
    velocity: Float[Array, "nj 6 #lanes"]
    acceleration: Float[Array, "nj 6 #lanes"]
    """With q̈ = 0: what velocity and curvature alone bring."""
    bodies: Float[Array, "nb 3 4 #lanes"]
    """Body frames in their links' frames."""
    topology: Topology = eqx.field(static=True)
    identity: bool = eqx.field(static=True)
    """Whether joint variables are the coordinates themselves."""


def screws(tree: LaneTree, transform: Array, origin: Array) -> Float[Array, "nj 6 #lanes"]:
    turn, place = halves(transform, 2)
    axis, place = rotate(turn, tree.axis), jnp.squeeze(place, axis=2)
    revolute = np.asarray(tree.topology.revolute)
    if not revolute.any():
        return jnp.concatenate([jnp.zeros_like(axis), axis], axis=1)
    arm = cross(place - origin, axis)
    if revolute.all():
        return jnp.concatenate([axis, arm], axis=1)
    turns = jnp.asarray(revolute)[:, None, None]
    return jnp.concatenate([jnp.where(turns, axis, 0.0), jnp.where(turns, arm, axis)], axis=1)


def cross_motion(a: Array, b: Array) -> Array:
    """Rate of change of screw b carried along with velocity a."""
    (turn, slide), (spun, carried) = halves(a), halves(b)
    angular = cross(turn, spun)
    linear = cross(turn, carried) + cross(slide, spun)
    return jnp.concatenate([angular, linear], axis=1)


def link_motion(
    tree: LaneTree,
    q: Float[Array, "nq #lanes"],
    qd: Float[Array, "nq #lanes"],
    jet: Jet,
    identity: bool,
    qdd: Float[Array, "nq #lanes"] | None = None,
    walked: bool = False,
) -> LinkMotion:
    """Motion of all links; `jet` is the rhythm's, lanes last. With q̈ = 0 unless given.

    `walked`: sums over ancestors go link after link. Their derivatives are slower then.
    """
    f, jacobian, curvature = materialise(*jet) if tree.stored and not identity else jet
    fd = qd if identity else jnp.sum(jacobian * qd[None], axis=1)
    if qdd is not None:
        curvature = curvature + (qdd if identity else jnp.sum(jacobian * qdd[None], axis=1))
    transform = link_transforms(tree, f)
    # Results do not depend on this point, so neither do their derivatives.
    origin = jax.lax.stop_gradient(transform[tree.topology.order[-1], :, 3][None])
    screw = screws(tree, transform, origin)

    def summed(values: Array) -> Array:
        if walked:
            return over_ancestors(tree.topology, values)
        return mix(tree.topology.ancestors, values)

    velocity = summed(screw * fd[:, None])
    drift = screw * curvature[:, None] + cross_motion(velocity, screw) * fd[:, None]
    return LinkMotion(
        q=q,
        qd=qd,
        f=f,
        jacobian=jacobian,
        fd=fd,
        transform=transform,
        origin=origin,
        screw=screw,
        velocity=velocity,
        acceleration=summed(drift),
        bodies=jnp.broadcast_to(tree.bodies, (*tree.bodies.shape[:-1], transform.shape[-1])),
        topology=tree.topology,
        identity=identity,
    )


def lane_jet(
    rhythm: AbstractRhythm,
    q: Float[Array, "nq #lanes"],
    qd: Float[Array, "nq #lanes"],
    batched: AbstractRhythm | None = None,
) -> Jet:
    """A rhythm's jet for every lane; `batched` tells which of its leaves differ by lane."""
    if isinstance(rhythm, Identity):
        eye = jnp.eye(q.shape[0], dtype=q.dtype)[:, :, None]
        return Jet(q, eye, jnp.zeros_like(q))
    if q.shape[-1] == 1 and not any(jax.tree.leaves(batched)):
        return Jet(*(x[..., None] for x in rhythm.jet(q[:, 0], qd[:, 0])))
    arrays, rest = eqx.partition(rhythm, eqx.is_array)
    axes = None if batched is None else jax.tree.map(lambda b: 0 if b else None, batched)

    def jet(arrays: AbstractRhythm, q: Array, qd: Array) -> Jet:
        return eqx.combine(arrays, rest).jet(q, qd)

    return jax.vmap(jet, in_axes=(axes, -1, -1), out_axes=-1)(arrays, q, qd)


def motion_of(model: Model, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> LinkMotion:
    """Motion of all links of one sample."""
    q, qd = q[:, None], qd[:, None]
    identity = isinstance(model.rhythm, Identity)
    return link_motion(LaneTree.of(model), q, qd, lane_jet(model.rhythm, q, qd), identity)
