"""Geodesics over an ellipsoid shot from the touch-down point.

In coordinates divided by the semi-axes the ellipsoid is the unit sphere, lines stay lines
and tangency stays tangency. The points where a line from a can touch form a circle there;
one azimuth names the touch-down point and with it the direction of the string. A geodesic
is shot from it, and Newton's method finds the azimuth and the length with which its tangent
meets b. The geodesic's unit normal n moves as in Neumann's problem, a particle on a sphere
in a quadratic potential: with dτ = ds / |S⁻² x|²,

    d²nᵢ/dτ² = (2 J Σ n²/S² - 2E - J/Sᵢ²) nᵢ,

a polynomial without divisions (J is Joachimsthal's constant). The distance η between
neighbouring geodesics obeys the same equation with 1/(S₁S₂S₃)² in the last term, which makes
the Jacobian of the shot exact. Source: H. Knörrer, J. reine angew. Math. 334 (1982) 69-78;
integrator of order 6: S. Blanes, P. C. Moan, J. Comput. Appl. Math. 142 (2002) 313-330.
"""

import functools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ._vectors import cross, dot, root

_DRIFT = (
    0.0378593198406116,
    0.102635633102435,
    -0.0258678882665587,
    0.314241403071447,
    -0.130144459517415,
    0.106417700369543,
    -0.00879424312851058,
)
_DRIFT = (*_DRIFT, 1 - 2 * math.fsum(_DRIFT), *_DRIFT[::-1])
_KICK = (
    0.09171915262446165,
    0.183983170005006,
    -0.05653436583288827,
    0.004914688774712854,
    0.143761127168358,
    0.328567693746804,
)
_KICK = (*_KICK, 0.5 - math.fsum(_KICK))
_KICK = (*_KICK, *_KICK[::-1])
_GAUSS = zip(*np.polynomial.legendre.leggauss(8), strict=True)
_NODES = tuple((float(0.5 + 0.5 * x), float(0.5 * w)) for x, w in _GAUSS)
"""Of quadrature from 0 to 1, and their weights."""


class Frame(NamedTuple):
    """The problem in coordinates divided by the semi-axes."""

    s: Array  # semi-axes
    inverse: Array  # their inverses
    det: Array  # their product
    ya: Array
    yb: Array
    ha: Array  # length of the tangent from a to the unit sphere
    hb: Array
    rho: Array  # cosine of the angle between ya and the touch-down points
    sigma: Array  # its sine
    rho_b: Array
    sigma_b: Array
    e1: Array  # towards a
    e2: Array  # in the plane of a, b and the centre, the way the path sets out
    e3: Array  # normal of that plane
    b1: Array  # the same for b: towards b, and the way the path comes from
    b2: Array
    lean: Array  # ±1: the side of the plane to slip to from a saddle
    told: Array  # 1 if the path is known to be on that side
    tilt: Array  # cosine and sine of the angle from the plane to where it is known to be


class Aim(NamedTuple):
    """A geodesic at the touch-down point."""

    y: Array  # on the unit sphere
    us: Array  # direction, not of unit length
    g: Array  # that length
    n: Array  # unit normal of the ellipsoid
    v: Array  # dn/dτ
    pace: Array  # root of J
    energy: Array
    eta: Array  # distance of the neighbour, and its rate
    eta_rate: Array


class Shot(NamedTuple):
    y: Array  # where the geodesic ends, on the unit sphere
    u: Array  # its direction there
    slopes: Array  # ∂length/∂(semi-axes)
    length: Array
    short: Array  # angle by which it ends too early
    turn: Array  # correction of the azimuth
    late: Array  # correction of τ
    stable: Array  # the geodesic is no saddle
    dy: Array  # first-order corrections of y and u
    du: Array


def frame_of(a: Array, b: Array, s: Array, side: Array, told: Array | None = None) -> Frame:
    """`told`: where the path must stay on the side of the plane to which `side` points; by
    default where that is off the plane."""
    inverse = 1 / s
    ya, yb = a * inverse, b * inverse
    na2, nb2 = dot(ya, ya), dot(yb, yb)
    na, nb = jnp.sqrt(na2), jnp.sqrt(nb2)
    ha, hb = root(na2 - 1), root(nb2 - 1)
    e1, b1 = ya / na[None], yb / nb[None]
    # The side lies between the two ends in the plane for the short way round.
    hint = side * inverse
    sign = jnp.where(dot(hint, e1 + b1) < 0, -1.0, 1.0).astype(na.dtype)
    normal = sign[None] * cross(e1, b1)
    # Through the centre, the plane is that of the side; failing that, any.
    spare = cross(e1, hint)
    first = jnp.abs(e1[0]) < 0.6
    axis = jnp.stack([first, ~first, jnp.zeros_like(first)]).astype(na.dtype)
    blind = dot(spare, spare) <= 1e-20 * dot(hint, hint)
    spare = jnp.where(blind[None], cross(e1, axis), spare)
    normal = jnp.where((dot(normal, normal) > 1e-20)[None], normal, spare)
    e3 = normal / jnp.sqrt(dot(normal, normal))[None]
    beside = dot(hint, e3)
    least = 1e-6 * jnp.sqrt(dot(hint, hint))
    e2, b2 = cross(e3, e1), cross(b1, e3)
    way = e2 + b2
    ahead = dot(hint, way) / jnp.sqrt(dot(way, way) + 1e-30)
    off = jnp.abs(beside) > least
    tilted = off & (ahead > 0)
    size = 1 / jnp.sqrt(jnp.where(tilted, ahead * ahead + beside * beside, 1))
    tilt = jnp.stack([jnp.where(tilted, ahead * size, 1), jnp.where(tilted, beside * size, 0)])
    told = off if told is None else off & (told > 0.5)
    return Frame(
        s, inverse, s[0] * s[1] * s[2], ya, yb, ha, hb, 1 / na, ha / na, 1 / nb, hb / nb,
        e1, e2, e3, b1, b2,
        jnp.where(beside < -least, -1, 1).astype(na.dtype),
        told.astype(na.dtype),
        tilt,
    )  # fmt: skip


def combine(k: Array, x: Array, m: Array, y: Array) -> Array:
    """k x + m y, for one number and one vector each."""
    return k[None] * x + m[None] * y


def launch(f: Frame, c: Array, d: Array) -> tuple[Array, Array]:
    """Touch-down point and direction on the unit sphere for azimuth (cos, sin) seen from a."""
    out = combine(c, f.e2, d, f.e3)
    return combine(f.rho, f.e1, f.sigma, out), combine(f.rho, out, -f.sigma, f.e1)


def land(f: Frame, c: Array, d: Array) -> tuple[Array, Array]:
    """Lift-off point and direction on the unit sphere for azimuth (cos, sin) seen from b."""
    out = combine(c, f.b2, d, f.e3)
    return combine(f.rho_b, f.b1, f.sigma_b, out), combine(f.sigma_b, f.b1, -f.rho_b, out)


def _fly(n: Array, p: Array, k: Array, energy: Array, steps: int | Array):
    """Integrate (normal, neighbour's distance) and ∫n² over `steps` steps of unit length, the
    last one shorter unless that is an integer.

    The normal is in units in which J Σ n²/S² is half the sum of its squares: each stage waits
    for the one before, and this is one product less to wait for."""
    # The last drift of a step and the first of the next are one.
    drift = jnp.asarray((*_DRIFT[1:-1], 2 * _DRIFT[-1]), n.dtype)
    kick = jnp.asarray(_KICK, n.dtype)

    def stage(k, energy, state, constants):
        (n, p, total), (kick, drift) = state, constants
        square = n[:3] * n[:3]
        # Two halves and what does not need m, so that little has to wait for the rest.
        m = (n[0] * n[0] - energy) + (n[1] * n[1] + square[2])
        push = kick * n
        p = (p - k * push) + m[None] * push
        return (n + drift * p, p, total + kick * square), None

    state = n + _DRIFT[0] * p, p, jnp.zeros_like(n[:3])
    whole = functools.partial(stage, k, energy)
    if isinstance(steps, int):
        # XLA is quicker with one loop; its turns are what takes time.
        every = jnp.tile(kick, steps), jnp.tile(drift, steps)
        (n, p, total), _ = lax.scan(whole, state, every)
        return n - _DRIFT[0] * p, p, total
    before = jnp.ceil(steps) - 1
    step = lambda _, state: lax.scan(whole, state, (kick, drift))[0]  # noqa: E731
    n, p, total = lax.fori_loop(0, before.astype(int), step, state)
    # The last step in its own unit of length.
    part = steps - before
    square = part * part
    n, p = part * (n - _DRIFT[0] * p), square * p
    last = functools.partial(stage, square * k, square * energy)
    state = n + _DRIFT[0] * p, p, part * total
    (n, p, total), _ = lax.scan(last, state, (kick, drift))
    return (n - _DRIFT[0] * p) / part, p / square, total / part


def aim(f: Frame, c: Array, d: Array) -> Aim:
    """The geodesic of azimuth (c, d)."""
    s, inverse = f.s, f.inverse
    y, u = launch(f, c, d)
    yi, ui, us = y * inverse, u * inverse, u * s
    w, kappa = dot(yi, yi), dot(yi, ui)
    r, g = jnp.sqrt(w), jnp.sqrt(dot(us, us))
    n = yi / r[None]
    pace = r / g
    v = combine(pace, ui, -kappa / g, n)
    pull = n * inverse
    energy = dot(v, v) + pace * pace * dot(pull, pull)
    eta = f.sigma * f.det / g
    eta_rate = (f.rho * f.det * w / g - kappa * eta) / g
    return Aim(y, us, g, n, v, pace, energy, eta, eta_rate)


def shoot(f: Frame, at: Aim, tau: Array, steps: int | Array, most: float | Array = 0.5) -> Shot:
    """Follow the geodesic for `tau`, and how to correct that and the azimuth.

    The azimuth is corrected by no more than `most` (rad). `steps` of integration need not be an
    integer (`_fly`): what is left of error is continuous in it, so that no length jumps where one
    step more is taken."""
    s, inverse = f.s, f.inverse
    y, us, g, n, v, pace, energy, eta, eta_rate = at
    h = tau / steps
    h2 = h * h
    unit = math.sqrt(2.0) * h * pace
    scale = unit[None] * inverse
    end, rate, total = _fly(
        jnp.concatenate([scale * n, eta[None]]),
        h[None] * jnp.concatenate([scale * v, eta_rate[None]]),
        jnp.concatenate([0.5 * scale * scale, (h2 / (f.det * f.det))[None]]),
        energy * h2,
        steps,
    )
    back = s / unit[None]
    n, v = end[:3] * back, rate[:3] * (back / h[None])
    eta, eta_rate = end[3], rate[3] / h

    # Back from the normal to the point and the direction.
    ns, vs = n * s, v * s
    r = 1 / jnp.sqrt(dot(ns, ns))
    y2 = r[None] * ns
    u2 = vs - dot(y2, vs)[None] * y2
    u2 = u2 / jnp.sqrt(dot(u2, u2))[None]
    us2 = u2 * s
    g2 = jnp.sqrt(dot(us2, us2))
    direction = us2 / g2[None]
    across = cross(n, direction)
    across_i = across * inverse
    kappa = dot(u2 * inverse, y2 * inverse)

    # The string lifts off where y·yb = 1; the angle to go from its cosine and sine.
    cosine, sine = dot(y2, f.yb), dot(u2, f.yb)
    short, base = sine - cosine * f.hb, cosine + sine * f.hb
    short = 2 * short / (base + jnp.sqrt(short * short + base * base) + 1e-30)  # 2 tan(angle/2)
    # It then passes b at this distance, which turning at the start changes by `gain`.
    rest = (f.yb - y2) * s
    miss = dot(across, rest)
    near = r * eta
    slope = (kappa * eta + g2 * eta_rate) / (r * g2)  # of the distance to a neighbour, by arc
    far = slope * g2 * f.hb
    gain = near + far
    floor = 1e-3 * (jnp.abs(near) + jnp.abs(far)) + 1e-30
    # Down the slope of the length, also from a saddle.
    turn = jnp.clip(miss / jnp.maximum(jnp.abs(gain), floor), -most, most)
    turn = jnp.where((gain <= 0) & (jnp.abs(turn) < 1e-2), 0.1 * f.lean, turn)
    ahead = short - near * dot(across_i, u2) * turn
    late = ahead * g2 / (r * r)

    # First-order corrections: along the geodesic and to its neighbour.
    aside = near * turn
    dy = combine(ahead, u2, aside, across_i)
    bend = -(ahead + aside * dot(across_i, u2)) / (r * g2)
    dui = combine(bend, n * inverse, slope * turn, across_i)
    du = g2[None] * (dui - dot(dui, u2)[None] * u2)

    slopes = (0.5 / h)[None] * (s * s * s * total)
    arc = dot(s, y2 * direction) - dot(s, y * us) / g + dot(s, slopes)
    # The length to the foot of b on the tangent. Its slope there is the direction, at b the
    # corrected one; with the mean of both, what is left is of third order.
    reach = dot(direction, rest)
    off = rest - reach[None] * direction
    length = g * f.ha + arc + reach + dot(du * s, off) / (2 * g2)
    return Shot(y2, u2, slopes, length, short, turn, late, gain > 0, dy, du)


def rotate(c: Array, d: Array, angle: Array) -> tuple[Array, Array]:
    c, d = c - angle * d, d + angle * c
    k = 1 / jnp.sqrt(c * c + d * d)
    return c * k, d * k


def chain_start(f: Frame) -> tuple[Array, Array, Array]:
    """Azimuth (cos, sin) and τ from the shortest chain of five points, one a meridian.

    In single precision: roots and quotients take most of the time, and it is only a start."""
    full = f.s.dtype
    f = Frame(*(x.astype(jnp.float32) for x in f))
    s = f.s
    # Plane path, tilted to where it is known to be: its ends, their bisector, and the bisectors
    # of the halves.
    c, d = f.tilt
    first = combine(f.rho, f.e1, f.sigma, f.e2)
    last = combine(f.rho_b, f.b1, f.sigma_b, f.b2)

    def bisector(x, y):
        z = x + y
        return z / jnp.sqrt(dot(z, z) + 1e-30)[None]

    turned = jnp.where(dot(cross(first, last), f.e3) < -1e-12, -1, 1).astype(f.det.dtype)
    upright = turned[None] * bisector(first, last)
    middle, across = combine(c, upright, d, f.e3), combine(c, f.e3, -d, upright)
    first = combine(f.rho, f.e1, f.sigma, combine(c, f.e2, d, f.e3))
    last = combine(f.rho_b, f.b1, f.sigma_b, combine(c, f.b2, d, f.e3))
    y = jnp.stack([first, bisector(first, middle), middle, bisector(middle, last), last])
    soft = 3e-5 * dot(s, s)

    def dots(x, y):
        return x[:, 0] * y[:, 0] + x[:, 1] * y[:, 1] + x[:, 2] * y[:, 2]

    z = across[None] - dots(y, across[None])[:, None] * y
    z = z / jnp.sqrt(dots(z, z) + 1e-30)[:, None]

    def shorten(_, chain):
        y, z = chain
        x = jnp.concatenate([(f.ya * s)[None], y * s[None], (f.yb * s)[None]])
        zs = z * s[None]
        chords = x[1:] - x[:-1]
        inv = 1 / jnp.sqrt(dots(chords, chords) + soft[None])
        t = chords * inv[:, None]
        before, after, zz = dots(t[:-1], zs), dots(t[1:], zs), dots(zs, zs)
        firm = (zz - before * before) * inv[:-1] + (zz - after * after) * inv[1:]
        diagonal = firm + dots(t[1:] - t[:-1], x[1:-1])
        off = (after[:-1] * before[1:] - dots(zs[:-1], zs[1:])) * inv[1:-1]
        force = after - before
        least = 0.15 * firm
        pivot, low, value = [jnp.maximum(diagonal[0], least[0])], [], [force[0]]
        for i in range(1, 5):
            low.append(off[i - 1] / pivot[-1])
            pivot.append(jnp.maximum(diagonal[i] - low[-1] * off[i - 1], least[i]))
            value.append(force[i] - low[-1] * value[-1])
        moves = [value[4] / pivot[4]]
        for i in (3, 2, 1, 0):
            moves.append(value[i] / pivot[i] - low[i] * moves[-1])
        move = jnp.clip(jnp.stack(moves[::-1]), -0.5, 0.5)
        k = (1 / jnp.sqrt(1 + move * move))[:, None]
        move = move[:, None]
        return k * (y + move * z), k * (z - move * y)

    y, _ = lax.fori_loop(0, 2, shorten, (y, z))
    chord = y[1] - y[0]
    angle = 2 * jnp.sqrt(dot(chord, chord))  # half of the whole
    heading = (f.rho / jnp.maximum(angle, 0.1))[None] * (4 * y[1] - 3 * y[0] - y[2])
    heading = heading + f.sigma[None] * y[0]
    c, d = dot(heading, f.e2), dot(heading, f.e3)
    k = jnp.sqrt(c * c + d * d)
    lost = k < 1e-6
    k = 1 / jnp.where(lost, 1.0, k)
    c, d = jnp.where(lost, 1.0, c * k), jnp.where(lost, 0.0, d * k)
    middle = y[1:] + y[:-1]
    size = dots(middle, middle)
    middle = middle * f.inverse[None]
    chord = (y[1:] - y[:-1]) * s[None]
    tau = jnp.sqrt(dots(chord, chord)) * (1 + (1 - 0.25 * size) / 6) * size / dots(middle, middle)
    tau = tau[0] + tau[1] + tau[2] + tau[3]
    tau = jnp.maximum(tau, 1e-9 * f.det)
    c, d, tau = (x.astype(full) for x in (c, d, tau))
    k = 1 / jnp.sqrt(c * c + d * d)
    return c * k, d * k, tau


def plane_length(f: Frame) -> Array:
    """Length of the path in the plane of a, b and the centre (m): a real way past, and so no
    shorter than the geodesic to which it would slip."""
    first = combine(f.rho, f.e1, f.sigma, f.e2)
    last = combine(f.rho_b, f.b1, f.sigma_b, f.b2)
    ahead = cross(f.e3, first)
    angle = jnp.arctan2(dot(ahead, last), dot(first, last))
    angle = jnp.where(angle < -1e-6, angle + 2 * math.pi, jnp.maximum(angle, 0))
    arc = jnp.zeros_like(angle)
    for node, weight in _NODES:
        turn = node * angle
        along = combine(jnp.cos(turn), ahead, -jnp.sin(turn), first) * f.s
        arc = arc + weight * jnp.sqrt(dot(along, along))
    ends = (f.ya - first) * f.s, (f.yb - last) * f.s
    return jnp.sqrt(dot(ends[0], ends[0])) + angle * arc + jnp.sqrt(dot(ends[1], ends[1]))


def corrected(shot: Shot, c: Array, d: Array, tau: Array) -> tuple[Array, Array, Array]:
    return *rotate(c, d, shot.turn), tau + jnp.clip(shot.late, -0.4 * tau, 0.4 * tau)


def arrival(f: Frame, shot: Shot) -> tuple[Array, Array]:
    """Azimuth (cos, sin) of the lift-off point seen from b, after correction."""
    y, u = shot.y + shot.dy, shot.u + shot.du
    out = combine(f.sigma_b, y, -f.rho_b, u)
    c, d = dot(out, f.b2), dot(out, f.e3)
    k = 1 / jnp.sqrt(c * c + d * d)
    return c * k, d * k
