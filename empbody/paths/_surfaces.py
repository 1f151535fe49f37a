"""Strings over single surfaces, all kinds side by side.

Cylinder, sphere and ellipsoid are one thing in coordinates divided by their size, where they
are the unit circle or the unit sphere: what is left of them, whether a string touches, and
where it would touch if they were round. For cylinder and sphere that is the answer; over an
ellipsoid it is where the geodesic is looked for.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._circle import Round, wound
from ._ellipsoid import ellipsoid_path
from ._remainder import Hook, Left, end_share, hook, outside_share
from ._torus import torus_contact, torus_inside, torus_path
from ._vectors import Tree, dot, length, turn, turn_back


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


class Surfaces(eqx.Module):
    """Surfaces, each for one stretch of path, at one pose.

    Which kind each one is may differ by lane, so kinds are masks; where it is known that a
    kind does not occur, `has` says so and its work is left out.
    """

    centre: Float[Array, "3 *batch"]
    rotation: Float[Array, "3 3 *batch"]
    size: Float[Array, "3 *batch"]
    """Divisors that make it round: radius, radius, 1 for a cylinder, semi-axes otherwise;
    tube radius, ring radius, 1 for a torus (m)."""
    half: Float[Array, "*batch"]
    """Half the length of a cylinder (m)."""
    side: Float[Array, "3 *batch"]
    """Direction of the half that strings bear on; zero for either."""
    cylinder: Bool[Array, "*batch"]
    ellipsoid: Bool[Array, "*batch"]
    torus: Bool[Array, "*batch"]
    has: tuple[str, ...] = eqx.field(static=True)
    """Kinds that occur, and "side" if any has one."""
    rows: tuple[tuple[str, int, int], ...] = eqx.field(static=True, default=())
    """Where the surfaces of each kind are (first row, end), if they are sorted by kind; the
    rows are the last axis of the batch but one."""

    def _cut(self, kind: str, *values: Array) -> list[Array]:
        """Only those of one kind, where it is known which they are; else all."""
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

    def left(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"], held: Bool[Array, "*batch"]
    ) -> Left:
        """What is left of each for a stretch from a to b (in its own frame); `held` tells whose
        side holds the string."""
        _, free, holding = self._lefts(a, b)
        return _choose(held, holding, free)

    def _lefts(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"]
    ) -> tuple[Hook, Left, Left]:
        """What is left if no side holds the string, and if every side does."""
        ra, rb = self.round(a), self.round(b)
        share = outside_share(ra) * outside_share(rb)
        if "cylinder" in self.has:
            # A string passes a cylinder about where it would if both were seen from above.
            from_a, from_b = length(ra), length(rb)
            total = from_a + from_b
            part = from_a / jnp.where(total > 0.0, total, 1.0)
            height = (a[2] + part * (b[2] - a[2])) / self.size[0]
            between = end_share(height, self.half / self.size[0])
            share = share * jnp.where(self.cylinder, between, 1.0)
        if "torus" in self.has:
            share = jnp.where(self.torus, 1.0, share)
        grip = hook(ra, rb, self.side, self.cylinder)
        scale = share * grip.grip
        # The less is left, the nearer it is to the straight line.
        holding = Left((1.0 - scale)[None] * grip.foot, scale, grip.turn, share)
        nothing = jnp.zeros_like(ra)
        return grip, Left(nothing, share, nothing, share), holding

    def touched(
        self, a: Float[Array, "3 *batch"], b: Float[Array, "3 *batch"], left: Left
    ) -> tuple[Bool[Array, "*batch"], Round]:
        """Whether strings from a to b touch, and where they would if surfaces were round."""
        circle = wound(
            self.round(a) - left.shift, self.round(b) - left.shift, left.scale, left.turn
        )
        on = circle.on
        if "torus" in self.has:
            is_torus, tube, ring, x, y, before = self._cut(
                "torus", self.torus, self.size[0], self.size[1], a, b, on
            )
            clear = ~(torus_inside(x, tube, ring) | torus_inside(y, tube, ring))
            bears = jnp.where(is_torus, clear & torus_contact(x, y, tube, ring), before)
            on = self._put("torus", on, bears)
        return on, circle

    def alone(
        self,
        a: Float[Array, "3 *batch"],
        b: Float[Array, "3 *batch"],
        usable: Bool[Array, "*batch"],
    ) -> tuple[Contact, Left]:
        """Strings from a to b, each with nothing but its own surface in the way.

        One side of a one-sided surface holds the string while that makes it longer than
        letting go would. Over an ellipsoid without sides the shorter way is not always
        the one that the plane through both ends and the centre tells: near the centre both
        are tried.
        """
        grip, free, holding = self._lefts(a, b)
        if "side" not in self.has and "ellipsoid" not in self.has:
            return self.contact(a, b, free, usable), free
        other, second_wanted = holding, usable & grip.held & ~self.torus
        unsure = jnp.zeros_like(usable)
        if "ellipsoid" in self.has:
            sided = dot(self.side, self.side) > 0.0
            beside = dot(grip.foot, grip.foot)
            unsure = usable & self.ellipsoid & ~sided & (beside < _UNSURE * free.scale**2)
            other = _choose(unsure, free._replace(turn=grip.turn), holding)
            second_wanted = second_wanted | unsure
        # Both at once, on a new axis in front of the batch.
        depth = -usable.ndim - 1
        pair = lambda x, y: jnp.stack([x, y], axis=x.ndim + 1 + depth)  # noqa: E731
        one_of = lambda k: lambda x: jnp.take(x, k, axis=depth)  # noqa: E731
        both = jax.tree.map(pair, self, self).contact(
            pair(a, a), pair(b, b), jax.tree.map(pair, free, other), pair(usable, second_wanted)
        )
        first, second = (jax.tree.map(one_of(k), both) for k in range(2))
        straight = length(b - a)
        long = [jnp.where(c.on, string_length(a, c, b), straight) for c in (first, second)]
        better = second.on & jnp.where(unsure, first.on & (long[1] < long[0]), long[1] > long[0])
        return _choose(jax.lax.stop_gradient(better), (second, other), (first, free))

    def contact(
        self,
        a: Float[Array, "3 *batch"],
        b: Float[Array, "3 *batch"],
        left: Left,
        wanted: Bool[Array, "*batch"],
    ) -> Contact:
        """Strings from a to b (in the surfaces' frames), where wanted."""
        on, circle = self.touched(a, b, left)
        on = on & wanted
        p, q = (circle.p + left.shift) * self.size, (circle.q + left.shift) * self.size
        arc = circle.arc * self.size[0]
        if "cylinder" in self.has:
            first, last = _axial(circle, a, b)
            rise = (last - first) / jnp.where(arc > 0.0, arc, 1.0)
            p = p.at[2].set(jnp.where(self.cylinder, first, p[2]))
            q = q.at[2].set(jnp.where(self.cylinder, last, q[2]))
            arc = jnp.where(self.cylinder, arc * jnp.sqrt(1.0 + rise * rise), arc)
        if "ellipsoid" in self.has:
            middle, hint = left.shift * self.size, (circle.p + circle.q) * self.size
            here, size, scale, start, end, hint, middle = self._cut(
                "ellipsoid", on & self.ellipsoid, self.size, left.scale, a, b, hint, middle
            )
            axes = size * jnp.where(here, scale, 1.0)[None]
            hint = jax.lax.stop_gradient(hint)
            over = ellipsoid_path(start - middle, end - middle, axes, hint, here)
            found = Contact(here, over.p + middle, over.q + middle, over.arc)
            p, q, arc = self._placed("ellipsoid", found, p, q, arc)
        if "torus" in self.has:
            here, tube, ring, start, end = self._cut(
                "torus", on & self.torus, self.size[0], self.size[1], a, b
            )
            over = torus_path(start, end, tube, ring, here)
            found = Contact(here, over.p, over.q, over.arc)
            p, q, arc = self._placed("torus", found, p, q, arc)
        return Contact(on, p, q, arc)

    def _placed(
        self, kind: str, found: Contact, p: Array, q: Array, arc: Array
    ) -> tuple[Array, Array, Array]:
        """p, q and arc with those of one kind put in, where they are in contact."""

        def put(old: Array, new: Array) -> Array:
            (own,) = self._cut(kind, old)
            return self._put(kind, old, jnp.where(_fit(found.on, own), new, own))

        return put(p, found.p), put(q, found.q), put(arc, found.arc)


_UNSURE = 0.1
"""Squared distance of the line from the centre, in radii, below which both ways are tried."""


def _fit(mask: Array, like: Array) -> Array:
    return jnp.broadcast_to(mask, like.shape)


def _choose(mask: Array, yes: Tree, no: Tree) -> Tree:
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
    begin: Float[Array, "3 *batch"], contact: Contact, end: Float[Array, "3 *batch"]
) -> Float[Array, "*batch"]:
    """Length of strings in contact, from begin to end."""
    return length(contact.p - begin) + contact.arc + length(end - contact.q)
