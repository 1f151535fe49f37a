"""Strings over single surfaces, all kinds side by side.

Cylinder, sphere and ellipsoid are one thing in coordinates divided by their size, where they
are the unit circle or the unit sphere: what is left of them, whether a string touches, and
where it would touch if they were round. For cylinder and sphere that is the answer; over an
ellipsoid it is where the geodesic is looked for.
"""

import functools
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._circle import Round, bears, detour, plane_normal, wound
from ._ellipsoid import ellipsoid_block, ellipsoid_path
from ._geodesic import Geodesic, Tried
from ._remainder import (
    CYLINDER_HOLD,
    Left,
    apart,
    end_share,
    foot_of,
    hook,
    next_to_nothing,
    outside_share,
)
from ._slipping import rests, seen, steadiness, turn_over
from ._torus import torus_block, torus_path
from ._torus_contact import torus_contact, torus_inside
from ._vectors import Tree, cross, dot, length, turn, turn_back


class Contact(NamedTuple):
    """Touch-down and lift-off of strings over surfaces, elementwise.

    Where `on` is false a string is straight, and the other entries are finite but mean
    nothing.
    """

    on: Bool[Array, "..."]
    p: Float[Array, "3 ..."]
    """Where the string meets the surface (m)."""
    q: Float[Array, "3 ..."]
    """Where it leaves."""
    arc: Float[Array, "..."]
    """Length on the surface (m)."""
    converged: Bool[Array, "..."]
    """Whether it is the shortest string; where false it is finite but something else."""


class Ways(NamedTuple):
    """What is left of surfaces for the ways in which strings may lie on them, elementwise.

    In the first, plain one a string takes the shorter way round: in the plane of its ends and the
    centre, or over an ellipsoid in the nearer of two valleys (`_slipping`). In the second a
    one-sided surface holds it on its side. Of an ellipsoid's valleys the farther one may have the
    shorter string and is tried as well where that is in doubt: as the second where there are no
    sides, and else as the third. So the string is

        the shorter of both (first, and second or third), but
        the longer one of that and the one that its side holds.

    Each of the three changes continuously, so its length does.
    """

    plain: Left
    other: Left
    turned: Float[Array, "3 *batch"]
    """Axis about which the string turns the other way round."""
    first: Bool[Array, "*batch"]
    """Whether the first is worth a try: not where a side holds the string fully."""
    second: Bool[Array, "*batch"]
    unsure: Bool[Array, "*batch"]
    """Whether it is the other way round, and nothing is held."""
    third: Bool[Array, "*batch"]
    kept: Bool[Array, "*batch"]
    """Whether the side of a cylinder holds the string whatever else that meets: in the second way.
    From anything round a string may slip when others move it, so there a side only counts while
    the surface has the string to itself."""


class _Valleys(NamedTuple):
    """Where the string may rest (`_slipping`)."""

    against: Bool[Array, "*batch"]
    """Whether the side's string need not be the one of the first way."""
    turn: Float[Array, "3 *batch"]
    """Axis about which a string turns that rests on the side."""
    turned: Float[Array, "3 *batch"]
    """The same for the place that is farther from the straight line."""
    steady: Float[Array, "*batch"]
    doubtful: Bool[Array, "*batch"]
    """Whether either place may be that of the shorter string."""


class Surfaces(eqx.Module):
    """Surfaces, each for one stretch of path, at one pose.

    Which kind each one is may differ by lane, so kinds are masks; where it is known that a
    kind does not occur, `has` says so and its work is left out.
    """

    centre: Float[Array, "3 *batch"]
    rotation: Float[Array, "3 3 *batch"]
    size: Float[Array, "3 *#batch"]
    """Divisors that make it round: radius, radius, 1 for a cylinder, semi-axes otherwise;
    tube radius, ring radius, 1 for a torus (m)."""
    half: Float[Array, "*#batch"]
    """Half the length of a cylinder (m)."""
    side: Float[Array, "3 *#batch"]
    """Direction of the half that strings bear on; zero for either."""
    cylinder: Bool[Array, "*#batch"]
    ellipsoid: Bool[Array, "*#batch"]
    torus: Bool[Array, "*#batch"]
    has: tuple[str, ...] = eqx.field(static=True)
    """Kinds that occur, and "side" if any has one."""
    rows: tuple[tuple[str, int, int], ...] = eqx.field(static=True, default=())
    """Where the surfaces of each kind are (first row, end), if they are sorted by kind; the
    rows are the last axis of the batch but one."""

    def _cut(self, kind: str, *values: Array) -> list[Array]:
        """Only those of one kind, where it is known which they are; else all."""
        batch = self.centre.shape[1:]
        values = tuple(jnp.broadcast_to(x, (*x.shape[: -len(batch)], *batch)) for x in values)
        rows = next((slice(i, j) for name, i, j in self.rows if name == kind), None)
        return list(values) if rows is None else [x[..., rows, :] for x in values]

    def _put(self, kind: str, values: Array, new: Array) -> Array:
        """The opposite: those of one kind replaced."""
        rows = next((slice(i, j) for name, i, j in self.rows if name == kind), None)
        return new if rows is None else values.at[..., rows, :].set(new)

    def local(self, world: Float[Array, "3 *batch"]) -> Float[Array, "3 *batch"]:
        return turn_back(self.rotation, world - self.centre)

    def world(self, local: Float[Array, "3 *batch"]) -> Float[Array, "3 *batch"]:
        return turn(self.rotation, local) + self.centre

    def round(self, local: Float[Array, "3 *batch"]) -> Float[Array, "3 *batch"]:
        """Divided by the size; a cylinder is seen along its axis."""
        divided = local / self.size
        if "cylinder" not in self.has:
            return divided
        return jnp.stack([divided[0], divided[1], jnp.where(self.cylinder, 0.0, divided[2])])

    def inside(self, local: Float[Array, "3 *batch"]) -> Bool[Array, "*batch"]:
        """Whether points are inside; for a cylinder, between its end faces or not."""
        scaled = self.round(local)
        within = dot(scaled, scaled) < 1.0
        if "torus" not in self.has:
            return within
        return jnp.where(self.torus, torus_inside(local, self.size[0], self.size[1]), within)

    def ways(self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"]) -> "Ways":
        """In which a string from a to b may lie on each (in its own frame)."""
        ra, rb = self.round(a), self.round(b)
        outside, between = self._shares(a, b, ra, rb)
        share = outside * between
        nothing = jnp.zeros_like(ra)
        no = jnp.zeros_like(share, dtype=bool)
        plain = Left(nothing, share, nothing, no)
        if "side" not in self.has and "ellipsoid" not in self.has:
            return Ways(plain, plain, nothing, ~no, no, no, no, no)
        grip = hook(ra, rb, self.side, self.cylinder, self.ellipsoid, outside)
        against, turn, firm = grip.against, grip.turn, grip.grip
        turned = jnp.where(against, 1.0, -1.0)[None] * turn
        other, held, unsure, third, kept = plain, no, no, no, no
        if "ellipsoid" in self.has:
            valleys = self._valleys(ra, rb, outside, share)
            over = _Valleys(against, turn, turned, jnp.ones_like(firm), no)
            against, turn, turned, steady, doubtful = choose(self.ellipsoid, valleys, over)
            firm = steady * firm
            unsure = doubtful & self.sideless
            third = doubtful & ~self.sideless & (firm < 1.0)
        if "side" in self.has:
            # Nothing has to hold a string on the shorter way round a cylinder.
            plainly = self.cylinder & ~against
            scale = jnp.where(plainly, share, share * firm)
            # The less it holds, the nearer it is to the straight line. Not so where an end is
            # inside: it must stay on the outside of what is left, and keeps to its side.
            shift = jnp.where(plainly, 0.0, 1.0 - firm * between)[None] * grip.foot
            other = Left(shift, scale, turn, ~no)
            sided = (scale > next_to_nothing(scale)) & ~self.torus & ~self.sideless
            held, kept = sided & against, sided & self.cylinder
        other = choose(unsure, plain._replace(turn=turned), other)
        first = ~(self.ellipsoid & held & (firm >= 1.0) & (outside >= 1.0))
        return Ways(plain, other, turned, first, held | unsure, unsure, third, kept)

    def _valleys(self, ra: Array, rb: Array, outside: Array, share: Array) -> "_Valleys":
        """Ways round an ellipsoid."""
        one = jnp.ones_like(ra)
        size, side = self.size * one, self.side * one
        shadow = seen(ra, rb, size, side)
        valley = shadow.valley
        turn = turn_over(shadow, size, valley)
        depth = dot(shadow.off, valley) / length(valley * size)
        doubtful = shadow.firm & (shadow.share < _TWO * share)
        doubtful = doubtful & (jnp.abs(depth) < _UNSURE * share)
        sign = jnp.where(dot(valley, side) < 0.0, -1.0, 1.0)
        away = jnp.where(depth < 0.0, 1.0, -1.0)
        # With an end inside, what a side holds may be the longer one on the same side, too.
        against = (sign * depth < 0.0) | doubtful | (outside < 1.0)
        steady = steadiness(shadow, jnp.stack([ra, rb], axis=1), outside)
        return _Valleys(against, sign[None] * turn, away[None] * turn, steady, doubtful)

    def _either_may_be_shorter(self, ra: Array, rb: Array) -> Bool[Array, "*batch"]:
        """Of the two ways round an ellipsoid, for all that the line's distance from the centre
        tells. An end that is near makes more of a difference, and the rounder it is the less."""
        foot = foot_of(ra, rb)
        near = jnp.minimum(dot(ra, ra), dot(rb, rb)) < _NEAR
        within = jnp.where(near, _CENTRAL[1], _CENTRAL[0])
        square = self.size * self.size
        least = jnp.minimum(jnp.minimum(square[0], square[1]), square[2])
        most = jnp.maximum(jnp.maximum(square[0], square[1]), square[2])
        oblong = jnp.minimum(most / jnp.where(least > 0.0, least, 1.0) - 1.0, 1.0)
        return dot(foot, foot) < within * oblong**2

    @property
    def sideless(self) -> Bool[Array, "*#batch"]:
        return dot(self.side, self.side) == 0.0

    @property
    def firm(self) -> Bool[Array, "*#batch"]:
        """Round a cylinder without sides a string stays on its way, first or second, whatever
        else it meets: there is no slipping over to the other."""
        return self.cylinder & self.sideless

    def left(
        self,
        a: Float[Array, "3 *batch"],
        b: Float[Array, "3 *batch"],
        second: Bool[Array, "*batch"],
    ) -> Left:
        """What is left of each for a stretch from a to b, in the first or the second way."""
        plain, other, *_ = self.ways(a, b)
        # Without sides there are two ways as well, where other surfaces decide.
        normal = plane_normal(*apart(self.round(a), self.round(b)))
        other = choose(self.sideless, plain._replace(turn=-normal), other)
        plain = plain._replace(turn=jnp.where(self.firm[None], normal, 0.0))
        return choose(second, other, plain)

    def passes_by(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"]
    ) -> Bool[Array, "*batch"]:
        """Whether a string from a to b is so far off that neither way can touch: the line
        clears all of the surface, and is too far for its side to hold it. For less than that
        takes to find out in detail; nothing is said of tori."""
        ra, rb = self.round(a), self.round(b)
        foot = foot_of(ra, rb)
        sided = self.cylinder & ~self.sideless
        reach = jnp.where(sided, CYLINDER_HOLD[1] ** 2, 1.0) * (1.0 + 1e-9)
        return (dot(foot, foot) > reach) & ~self.torus

    def share(self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"]) -> Array:
        """What is left of each for a stretch from a to b whatever its side."""
        outside, between = self._shares(a, b, self.round(a), self.round(b))
        return outside * between

    def _shares(self, a: Array, b: Array, ra: Array, rb: Array) -> tuple[Array, Array]:
        """The same in two factors: because of ends inside, and because of end faces."""
        share = outside_share(ra) * outside_share(rb)
        between = jnp.ones_like(share)
        if "cylinder" in self.has:
            # A string passes a cylinder about where it would if both were seen from above.
            from_a, from_b = length(ra), length(rb)
            total = from_a + from_b
            part = from_a / jnp.where(total > 0.0, total, 1.0)
            height = (a[2] + part * (b[2] - a[2])) / self.size[0]
            between = end_share(height, self.half / self.size[0])
            between = jnp.where(self.cylinder, between, 1.0)
        if "torus" in self.has:
            share = jnp.where(self.torus, 1.0, share)
        return share, between

    def touch(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"], left: Left
    ) -> Bool[Array, "*batch"]:
        """Whether strings from a to b touch on the shorter way."""
        ra, rb = self.round(a) - left.shift, self.round(b) - left.shift
        return self._or_torus(a, b, bears(ra, rb, left.scale, jnp.zeros_like(ra)))

    def _or_torus(self, a: Array, b: Array, on: Array) -> Array:
        if "torus" not in self.has:
            return on
        is_torus, tube, ring, x, y, before = self._cut(
            "torus", self.torus, self.size[0], self.size[1], a, b, on
        )

        def bearing() -> Array:
            clear = ~(torus_inside(x, tube, ring) | torus_inside(y, tube, ring))
            return jnp.where(is_torus, clear & torus_contact(x, y, tube, ring), before)

        # Among surfaces of which it is not known what they are there is seldom a torus.
        unknown = not self.rows
        found = jax.lax.cond(jnp.any(is_torus), bearing, lambda: before) if unknown else bearing()
        return self._put("torus", on, found)

    def way_back(self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"]) -> Array:
        """How much longer the other way round is than the shorter one, for strings from a to b
        in contact (m): for round ones no more than it is. Not for tori.

        Over an ellipsoid near whose centre they pass, either may be the shorter one."""
        ra, rb = self.round(a), self.round(b)
        angle = jnp.arctan2(length(cross(ra, rb)), -dot(ra, rb))
        least = jnp.minimum(jnp.minimum(self.size[0], self.size[1]), self.size[2])
        if "cylinder" in self.has:
            # Along its axis both ways are equally long.
            across, along = length(rb - ra) * self.size[0], length(b - a)
            part = across / jnp.where(along > 0.0, along, 1.0)
            least = jnp.where(self.cylinder, self.size[0] * part, least)
        longer = 2.0 * angle * least
        if "ellipsoid" in self.has:
            longer = jnp.where(self.ellipsoid & self._either_may_be_shorter(ra, rb), 0.0, longer)
        return longer

    def excess(
        self,
        begins: Float[Array, "3 k *batch"],
        ends: Float[Array, "3 k *batch"],
        left: Left,
    ) -> Float[Array, "k *batch"]:
        """Roughly how much longer what is left of each makes k straight pieces (ends in the ground
        frame, m); negative where they do not meet.

        Ellipsoids are taken as round, and a torus always comes first: this only ranks them.
        """
        batch, k = self.centre.shape[1:], begins.shape[1]

        def repeat(x: Array) -> Array:
            parts = x.shape[: x.ndim - len(batch)]
            return jnp.broadcast_to(x.reshape(*parts, 1, *batch), (*parts, k, *batch))

        wide = jax.tree.map(repeat, self)
        a, b = wide.local(begins), wide.local(ends)
        shift, turn = left.shift[:, None], left.turn[:, None]
        on, longer = detour(wide.round(a) - shift, wide.round(b) - shift, left.scale[None], turn)
        longer = jnp.where(wide.torus, 1.0, longer * wide.size[0])
        return jnp.where(wide._or_torus(a, b, on), longer, -1.0)

    def contact(
        self,
        a: Float[Array, "3 *batch"],
        b: Float[Array, "3 *batch"],
        left: Left,
        wanted: Bool[Array, "*batch"],
        kernels: "Kernels",
        lies: Float[Array, "3 *batch"] | None = None,
    ) -> Contact:
        """Strings from a to b (in the surfaces' frames), where wanted.

        Over an ellipsoid a string `lies`, seen from its centre, in that direction if it is
        known; else it takes the shorter way."""
        circle, p, q, arc = self._as_if_round(a, b, left)
        on = self._or_torus(a, b, circle.on) & wanted
        converged = jnp.ones_like(on)
        if "ellipsoid" in self.has:
            middle = left.shift * self.size
            if lies is None:
                # The one of two valleys, or the middle of the string as if it were round.
                one = jnp.ones_like(a)
                begin, end = self.round(a) - left.shift, self.round(b) - left.shift
                size = self.size * left.scale[None] * one
                valley, two = rests(begin * one, end * one, size, left.turn * one)
                hint = jnp.where(two[None], valley, (circle.p + circle.q) * self.size)
                # Which of two strings is shorter is not known before, unless a side decides.
                told = left.kept
            else:
                hint, told = lies - 2.0 * middle, jnp.ones_like(on)
            here, size, scale, start, end, hint, told, middle = self._cut(
                "ellipsoid", on & self.ellipsoid, self.size, left.scale, a, b, hint, told, middle
            )
            axes = size * jnp.where(here, scale, 1.0)[None]
            hint = jax.lax.stop_gradient(hint)
            over = kernels.ellipsoid(start - middle, end - middle, axes, hint, here, told)
            found = Contact(here, over.p + middle, over.q + middle, over.arc, over.converged)
            p, q, arc, converged = self._placed("ellipsoid", found, p, q, arc, converged)
        if "torus" in self.has:
            here, tube, ring, start, end = self._cut(
                "torus", on & self.torus, self.size[0], self.size[1], a, b
            )
            over = kernels.torus(start, end, tube, ring, here)
            found = Contact(here, over.p, over.q, over.arc, over.converged)
            p, q, arc, converged = self._placed("torus", found, p, q, arc, converged)
        return Contact(on, p, q, arc, converged)

    def roughly(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"], left: Left
    ) -> tuple[Float[Array, "3 *batch"], Float[Array, "3 *batch"]]:
        """Where strings from a to b (in the surfaces' frames) touch down and lift off, as if
        ellipsoids were round in coordinates divided by their size; nothing is said of tori."""
        return self._as_if_round(a, b, left)[1:3]

    def _as_if_round(
        self, a: Array, b: Array, left: Left
    ) -> tuple[Round, Array, Array, Float[Array, "*batch"]]:
        a_round, b_round = self.round(a) - left.shift, self.round(b) - left.shift
        circle = wound(a_round, b_round, left.scale, left.turn)
        p, q = (circle.p + left.shift) * self.size, (circle.q + left.shift) * self.size
        arc = circle.arc * self.size[0]
        if "cylinder" in self.has:
            first, last = _axial(circle, a, b)
            rise = (last - first) / jnp.where(arc > 0.0, arc, 1.0)
            p = p.at[2].set(jnp.where(self.cylinder, first, p[2]))
            q = q.at[2].set(jnp.where(self.cylinder, last, q[2]))
            arc = jnp.where(self.cylinder, arc * jnp.sqrt(1.0 + rise * rise), arc)
        return circle, p, q, arc

    def _placed(self, kind: str, found: Contact, *old: Array) -> list[Array]:
        """p, q, arc, converged with those of one kind put in, where they are in contact."""

        def put(old: Array, new: Array) -> Array:
            (own,) = self._cut(kind, old)
            return self._put(kind, old, jnp.where(_fit(found.on, own), new, own))

        return [put(x, y) for x, y in zip(old, found[1:], strict=True)]


def slot_sizes(
    size: Float[Array, "3 *batch"],
    cylinder: Bool[Array, "*#batch"],
    sphere: Bool[Array, "*#batch"],
    torus: Bool[Array, "*#batch"],
) -> tuple[Float[Array, "3 *batch"], Float[Array, "*batch"]]:
    """`Surfaces.size` and `Surfaces.half` from the numbers in a model."""
    one = jnp.ones_like(size[0])
    second = jnp.where(cylinder | sphere, size[0], size[1])
    third = jnp.where(cylinder | torus, one, jnp.where(sphere, size[0], size[2]))
    half = 0.5 * jnp.minimum(jnp.where(cylinder, size[1], one), _LONG)
    return jnp.stack([size[0], second, third]), half


_LONG = 1e6
"""Stands for an endless cylinder (m): infinity would make gradients undefined."""


@runtime_checkable
class Kernels(Protocol):
    """Ways to find geodesics."""

    def ellipsoid(
        self, a: Array, b: Array, axes: Array, side: Array, on: Array, told: Array
    ) -> Geodesic: ...

    def torus(self, a: Array, b: Array, tube: Array, ring: Array, on: Array) -> Geodesic: ...


class Differentiable:
    """For all slots, most of which are not in contact."""

    def ellipsoid(
        self, a: Array, b: Array, axes: Array, side: Array, on: Array, told: Array
    ) -> Geodesic:
        return ellipsoid_path(a, b, axes, side, on, told)

    def torus(self, a: Array, b: Array, tube: Array, ring: Array, on: Array) -> Geodesic:
        return torus_path(a, b, tube, ring, on)


class ValuesOnly:
    """For a block of strings that are nearly all in contact, without derivatives.

    `tried` is what is known from a problem nearby; afterwards, what is known from this one.
    `hurried` means that there will be others yet: a first approximation is enough.
    """

    def __init__(self, tried: Tried, hurried: bool = False) -> None:
        self.tried, self._hurried = tried, hurried

    def ellipsoid(
        self, a: Array, b: Array, axes: Array, side: Array, on: Array, told: Array
    ) -> Geodesic:
        zero = jnp.zeros_like(a)
        none = Geodesic(zero, zero, zero[0], zero[0], ~on)
        arguments = (a, b, axes, side, on, self.tried, told)
        solve = functools.partial(ellipsoid_block, hurried=self._hurried)
        found, self.tried = jax.lax.cond(
            jnp.any(on), solve, lambda *_: (none, self.tried), *arguments
        )
        return found

    def torus(self, a: Array, b: Array, tube: Array, ring: Array, on: Array) -> Geodesic:
        zero = jnp.zeros_like(a)
        none = Geodesic(zero, zero, zero[0], zero[0], ~on)
        arguments = (a, b, tube, ring, on, self.tried)
        found, self.tried = jax.lax.cond(
            jnp.any(on), torus_block, lambda *_: (none, self.tried), *arguments
        )
        return found


_TWO, _UNSURE = 1.2, 0.35
"""Either valley of an ellipsoid may have the shorter string up to these shares of the evolute's
size and of the distance from the centre to the valley (`_slipping`)."""
_CENTRAL, _NEAR = (0.1, 0.25), 4.0
"""Among other surfaces, up to these squared distances of the line from the centre, in radii: the
second where the square of an end's distance is below the last."""


def _fit(mask: Array, like: Array) -> Array:
    return jnp.broadcast_to(mask, like.shape)


def choose(mask: Array, yes: Tree, no: Tree) -> Tree:
    return jax.tree.map(lambda x, y: jnp.where(_fit(mask, x), x, y), yes, no)


def _axial(circle: Round, a: Array, b: Array) -> tuple[Array, Array]:
    """Axial coordinates of contact on a cylinder: the unrolled string is straight.

    Without contact, both are where the line comes nearest, or close by.
    """
    arc = jnp.where(circle.on, circle.arc, 0.0)
    total = circle.first + arc + circle.last
    slope = (b[2] - a[2]) / jnp.where(total > 0.0, total, 1.0)
    return a[2] + circle.first * slope, b[2] - circle.last * slope


def string_length(
    begin: Float[Array, "3 *batch"],
    p: Float[Array, "3 *batch"],
    arc: Float[Array, "*batch"],
    q: Float[Array, "3 *batch"],
    end: Float[Array, "3 *batch"],
) -> Float[Array, "*batch"]:
    """Length of strings in contact, from begin to end."""
    return length(p - begin) + arc + length(end - q)
