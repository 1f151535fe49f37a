"""Forces on a surface at the ends of a stretch, through the size that it has left.

What is left of a surface depends on the ends of the stretch alone (`_remainder`). The length's
slope to the surface's displacement is a sum of two unit vectors, and that to its size follows
from the length being homogeneous in all lengths (Euler). The slopes of what is left are
written out here: differentiating it backwards takes three times as many operations, all of
which would be compiled for every model.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._circle import OPENING, plane_normal
from ._compact import on_those
from ._given import Touches, picker
from ._remainder import (
    CLEARANCE,
    CYLINDER_HOLD,
    DOUBT,
    ROUND_HOLD,
    apart,
    next_to_nothing,
)
from ._slipping import seen, smooth, steadiness, steadiness_slopes, steep
from ._surfaces import Surfaces
from ._vectors import cross, dot, length, turn

Ends = Float[Array, "3 2 *batch"]


class Stretched(NamedTuple):
    """Slots with their strings."""

    surfaces: Surfaces
    a: Float[Array, "3 *batch"]
    b: Float[Array, "3 *batch"]
    comes: Float[Array, "3 *batch"]
    """From touch-down back along the string; `goes`, from lift-off on."""
    goes: Float[Array, "3 *batch"]
    touches: tuple[Array, ...]
    on: Bool[Array, "*batch"]
    second: Bool[Array, "*batch"]


def squeeze(
    surfaces: Surfaces,
    a: Float[Array, "3 ns lanes"],
    b: Float[Array, "3 ns lanes"],
    t: Touches,
    comes: Float[Array, "3 ns lanes"],
    goes: Float[Array, "3 ns lanes"],
) -> tuple[Float[Array, "3 ns lanes"], Float[Array, "3 ns lanes"]]:
    """Slopes of the length to the stretch's ends through the size that is left, slot by slot."""
    # Which kind a picked surface is depends on the pose, so rows say nothing any more.
    loose = dataclasses.replace(surfaces, rows=())
    touches = (t.p, t.q, t.arc, t.before, t.after)
    return _squeezed(Stretched(loose, a, b, comes, goes, touches, t.on, t.second))


@eqx.filter_custom_jvp
def _squeezed(strings: Stretched) -> tuple[Array, Array]:
    """Only for slots in contact; derivatives are taken of all."""
    n, lanes = strings.on.shape
    pick = picker(strings)
    found = on_those(
        lambda which: slopes(pick(which // lanes, which % lanes)),
        strings.on.reshape(-1),
        jnp.zeros((3, 2, n * lanes), strings.a.dtype),
        jnp.arange(n * lanes, dtype=jnp.int32),
    )
    found = found.reshape(3, 2, n, lanes)
    return found[:, 0], found[:, 1]


@_squeezed.def_jvp
def _squeezed_jvp(primals: tuple, tangents: tuple) -> tuple:
    def both(strings: Stretched) -> tuple[Array, Array]:
        found = slopes(strings)
        return found[:, 0], found[:, 1]

    return _squeezed(*primals), eqx.filter_jvp(both, primals, tangents)[1]


def slopes(strings: Stretched) -> Ends:
    """Slopes of the length to the two ends of each stretch."""
    slots, a, b, comes, goes, touches, on, second = strings
    p, q, arc, before, after = touches
    local = jnp.stack([slots.local(a), slots.local(b)], axis=1)
    push = jnp.where(on[None], -(comes + goes), 0.0)
    push = jnp.stack([dot(slots.rotation[:, k], push) for k in range(3)]) * slots.size
    whole = length(p - before) + arc + length(after - q)

    def per_scale(shift: Array, scale: Array) -> Array:
        """Slope to the size."""
        middle = shift * slots.size
        if "cylinder" in slots.has:
            # Anywhere on its axis; far from the string, directions would have to be exact.
            height = jnp.where(slots.cylinder, slots.local(p)[2], middle[2])
            middle = jnp.concatenate([middle[:2], height[None]])
        middle = slots.world(middle)
        rate = whole + dot(before - middle, -comes) + dot(after - middle, -goes)
        alive = scale > next_to_nothing(scale)
        return jnp.where(on & alive, rate / jnp.where(alive, scale, 1.0), 0.0)

    steep = through_what_is_left(slots, local, second, push, per_scale)
    return turn(slots.rotation[:, :, None], steep)


def through_what_is_left(
    slots: Surfaces,
    local: Ends,
    second: Bool[Array, "*batch"],
    push: Float[Array, "3 *batch"],
    per_scale: Callable[[Array, Array], Array],
) -> Ends:
    """Slopes to the ends, all in the surfaces' frames, of what has the slopes `push` to the
    shift of what is left (`Left`) and `per_scale`, at that shift and scale, to its scale."""
    x = jnp.stack([slots.round(local[:, 0]), slots.round(local[:, 1])], axis=1)
    share = _share(slots, local, x)
    if "side" in slots.has:
        grip = _grip(slots, x, share.outside)
        # Nothing has to hold a string on the shorter way round a cylinder.
        held = second & (dot(slots.side, slots.side) > 0.0) & (grip.against | ~slots.cylinder)
        factor = jnp.where(held, grip.value, 1.0)
        hold = share.between * factor
        shift = jnp.where(held[None], (1.0 - hold)[None] * grip.foot, 0.0)
        size = per_scale(shift, share.outside * hold)
        # The less it holds, the nearer it is to the straight line (`Surfaces.ways`).
        pull = jnp.where(held, dot(push, grip.foot), 0.0)
        per_hold = share.outside * size - pull
        per_grip = jnp.where(held, per_hold * share.between, 0.0)
        along = jnp.where(held, 1.0 - hold, 0.0)
        more = per_grip[None, None] * grip.slopes + along[None, None] * grip.along(push)
        size = hold * size + per_grip * grip.per_outside
        per_hold = per_hold * factor
    else:
        size = per_scale(jnp.zeros_like(push), share.outside * share.between)
        more = jnp.zeros_like(x)
        size, per_hold = size * share.between, size * share.outside
    steep = size[None, None] * share.outside_slopes + per_hold[None, None] * share.between_slopes
    steep = (steep + more) / slots.size[:, None]
    if "cylinder" in slots.has:
        # It was seen along its axis.
        axial = jnp.where(slots.cylinder[None], per_hold[None] * share.rise, steep[2])
        steep = jnp.concatenate([steep[:2], axial[None]])
    return steep


class _Share(NamedTuple):
    """What is left whatever the side, in two factors: because of ends inside, and because of
    the end faces of a cylinder."""

    outside: Float[Array, "*batch"]
    between: Float[Array, "*batch"]
    outside_slopes: Ends
    between_slopes: Ends
    rise: Float[Array, "2 *batch"]
    """Slopes of the latter to the axial coordinates."""


def _share(slots: Surfaces, local: Ends, x: Ends) -> _Share:
    square = dot(x, x)
    some = square > 0.0
    reach = jnp.sqrt(jnp.where(some, square, 1.0))
    clear = 1.0 - CLEARANCE
    inside = some & (clear * reach < 1.0)
    out = jnp.where(some, jnp.where(inside, clear * reach, 1.0), 0.0)
    slopes = (jnp.where(inside, clear / reach, 0.0) * out[::-1])[None] * x
    value = out[0] * out[1]
    between, across, rise = jnp.ones_like(value), jnp.zeros_like(x), jnp.zeros_like(square)
    if "cylinder" in slots.has:
        radius = slots.size[0]
        away = jnp.where(some, reach, 0.0)
        total = away[0] + away[1]
        total = jnp.where(total > 0.0, total, 1.0)
        part = away / total[None]
        low, high = local[2, 0], local[2, 1]
        height = (low + part[0] * (high - low)) / radius
        beyond = jnp.abs(height) - slots.half / radius
        between = jnp.where(slots.cylinder, 1.0 - smooth(beyond), 1.0)
        slope = jnp.where(slots.cylinder, -jnp.sign(height) * steep(beyond) / radius, 0.0)
        rise = slope[None] * part[::-1]
        signs = jnp.where(some, _signs(x) * part[::-1] / (reach * total[None]), 0.0)
        across = ((slope * (high - low))[None] * signs)[None] * x
    if "torus" in slots.has:
        value = jnp.where(slots.torus, 1.0, value)
        slopes = jnp.where(slots.torus[None, None], 0.0, slopes)
    return _Share(value, between, slopes, across, rise)


class _Grip(NamedTuple):
    """How firmly a one-sided surface holds the string (see `_remainder.hook`)."""

    against: Bool[Array, "*batch"]
    """Whether it holds it on the longer way round."""
    value: Float[Array, "*batch"]
    slopes: Ends
    per_outside: Float[Array, "*batch"]
    """Slope to what is left because of ends inside."""
    foot: Float[Array, "3 *batch"]
    line: Float[Array, "3 *batch"]
    weights: Float[Array, "2 *batch"]
    sway: Ends
    """Slopes of the foot's place on the line, from 0 to 1."""

    def along(self, direction: Float[Array, "3 *batch"]) -> Ends:
        """Slopes of the foot's distance in a direction."""
        moved = self.weights[None] * direction[:, None]
        return moved + dot(direction, self.line)[None, None] * self.sway


def _grip(slots: Surfaces, x: Ends, left: Float[Array, "*batch"]) -> _Grip:
    a, b = x[:, 0], x[:, 1]
    square, product = dot(x, x), dot(a, b)
    line = b - a
    whole = dot(line, line)
    whole = jnp.where(whole > 0.0, whole, 1.0)
    place = -dot(a, line) / whole
    free = (place > 0.0) & (place < 1.0)
    place = jnp.clip(place, 0.0, 1.0)
    foot = a + place[None] * line
    weights = jnp.stack([1.0 - place, place])
    signs = _signs(x)
    sway = signs[None] * foot[:, None] - weights[None] * line[:, None]
    sway = jnp.where(free[None, None], sway / whole[None, None], 0.0)

    # Angle between the ends.
    scale = square[0] * square[1]
    scale = jnp.sqrt(jnp.where(scale > 0.0, scale, 1.0))
    cosine = product / scale
    wide, wide_slope = smooth((1.0 - cosine) / OPENING), steep((1.0 - cosine) / OPENING) / OPENING
    some = jnp.where(square > 0.0, square, 1.0)
    opening = (cosine[None] / some)[None] * x - x[:, ::-1] / scale[None, None]

    # The side's preference for one of the two ways round.
    normal = plane_normal(*apart(a, b))
    outside = square > 1.0
    some = jnp.where(outside, square, 2.0)
    tangent = jnp.sqrt(some - 1.0)
    lean = signs * jnp.where(outside, tangent / some, 0.0)
    lean_slope = signs * jnp.where(outside, (2.0 - some) / (tangent * some * some), 0.0)
    across = cross(slots.side * jnp.ones_like(a), normal)
    heights = dot(across[:, None], x)
    preference = lean[0] * heights[0] + lean[1] * heights[1]
    against = preference < 0.0
    doubt = jnp.where(slots.cylinder, *DOUBT)
    strength = jnp.abs(preference) / doubt
    sure = jnp.where(slots.ellipsoid, 1.0, smooth(strength))
    sure_slope = jnp.where(against, -1.0, 1.0) * steep(strength) / doubt
    sure_slope = jnp.where(slots.ellipsoid, 0.0, sure_slope)
    # The normal turns with the ends.
    tilt = cross(lean[0][None] * a + lean[1][None] * b, slots.side * jnp.ones_like(a))
    tilt = tilt - dot(tilt, normal)[None] * normal
    area = cross(a, b)
    area = dot(area, area)
    flat = area <= 1e-24 * square[0] * square[1]
    tilt = jnp.where(flat[None], 0.0, tilt / jnp.sqrt(jnp.where(flat, 1.0, area))[None])
    turned = jnp.stack([cross(b, tilt), cross(tilt, a)], axis=1)
    preferred = (lean_slope * heights)[None] * x + lean[None] * across[:, None] + turned

    # Distance of the line from the centre.
    beside = dot(foot, foot)
    distance = jnp.sqrt(jnp.where(beside > 0.0, beside, 1.0))
    full = jnp.where(slots.cylinder, CYLINDER_HOLD[0], ROUND_HOLD[0])
    none = jnp.where(slots.cylinder, CYLINDER_HOLD[1], ROUND_HOLD[1])
    far = (against | slots.ellipsoid) & (beside > 0.0)
    per = 1.0 / jnp.where(slots.ellipsoid & (left > 0.0), left, 1.0)
    far = jnp.where(far, (per * distance - full) / (none - full), 0.0)
    near, near_slope = 1.0 - smooth(far), -per * steep(far) / ((none - full) * distance)

    slopes = ((sure * wide * near_slope)[None] * weights)[None] * foot[:, None]
    slopes = slopes + (near * wide * sure_slope)[None, None] * preferred
    slopes = slopes + (near * sure * wide_slope)[None, None] * opening
    value = near * wide * sure
    per_outside = jnp.where(slots.ellipsoid, -sure * wide * near_slope * beside * per, 0.0)
    if "ellipsoid" in slots.has:
        size = slots.size * jnp.ones_like(a)
        side = slots.side * jnp.ones_like(a)
        shadow = seen(a, b, size, side)
        steady = jnp.where(slots.ellipsoid, steadiness(shadow, x, left), 1.0)
        drift, per_left = steadiness_slopes(shadow, x, left, size, side)
        own = jnp.where(slots.ellipsoid, value, 0.0)
        slopes = steady[None, None] * slopes + own[None, None] * drift
        per_outside, value = steady * per_outside + own * per_left, steady * value
    return _Grip(against, value, slopes, per_outside, foot, line, weights, sway)


def _signs(x: Ends) -> Float[Array, "2 *batch"]:
    """1 for the first end, -1 for the second."""
    one = jnp.ones_like(x[0, 0])
    return jnp.stack([one, -one])
