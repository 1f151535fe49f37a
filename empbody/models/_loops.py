"""Loop closures g(q, f) = 0 of the three planar mechanisms, as functions with parameters.

Angles are in radians, counter-clockwise positive; each joint angle is relative to the
body before it. Every length is an array leaf, so derivatives to the lengths exist.

Each also states itself in all joint variables θ of its mechanism, without q: the
`constraint` that holds between them, and the `coordinates` they amount to. This is what
the constrained formulation (`empbody.dae`) works with.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._squeezer_data import SqueezerData

_SQUEEZER = SqueezerData()


def _length(value: float):
    return eqx.field(default_factory=lambda: jnp.asarray(value, dtype=float), converter=_number)


def _number(value) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float) if not isinstance(value, jnp.ndarray) else value


class FourBarLoop(eqx.Module):
    """Four-bar linkage driven by the height of its second body (Ehsani 2016, Eq. 121).

    q is the height of the second body's centre of mass; f = (θ1, θ2, θ3). Defaults are
    Table 1 (length in the manuscript's units). The loop folds at |q| = 2.05738 for them.
    """

    l0: Float[Array, ""] = _length(5.0)
    l1: Float[Array, ""] = _length(2.0)
    l2: Float[Array, ""] = _length(4.0)
    l3: Float[Array, ""] = _length(math.sqrt(5.0))
    lcm2: Float[Array, ""] = _length(2.0)

    def __call__(self, q: Float[Array, " 1"], f: Float[Array, " 3"]) -> Float[Array, " 3"]:
        """Heights of the centre of mass from both ends, and the span."""
        angles = jnp.stack([f[0], f[0] + f[1], f[0] + f[1] + f[2]])
        s, c = jnp.sin(angles), jnp.cos(angles)
        return jnp.stack(
            [
                self.l1 * s[0] + self.lcm2 * s[1] - q[0],
                (self.l2 - self.lcm2) * s[1] + self.l3 * s[2] + q[0],
                self.l1 * c[0] + self.l2 * c[1] + self.l3 * c[2] - self.l0,
            ]
        )

    def constraint(self, theta: Float[Array, " 3"]) -> Float[Array, " 2"]:
        """Height and span of the chain's end: the first two rows added, and the third."""
        g = self(jnp.zeros_like(theta[:1]), theta)
        return jnp.stack([g[0] + g[1], g[2]])

    def coordinates(self, theta: Float[Array, " 3"]) -> Float[Array, " 1"]:
        """Height of the second body's centre of mass."""
        return self.l1 * jnp.sin(theta[:1]) + self.lcm2 * jnp.sin(theta[:1] + theta[1:2])


class FiveBarLoop(eqx.Module):
    """Five-bar linkage with two coordinates (Ehsani 2016, Eq. 123).

    q = (θ1, θ2); f = (θ3, θ4). Defaults are Table 2. The sign of θ4 tells the two
    assembly modes apart; both exist on the whole torus of q.
    """

    l0: Float[Array, ""] = _length(3.0)
    l1: Float[Array, ""] = _length(1.0)
    l2: Float[Array, ""] = _length(1.0)
    l3: Float[Array, ""] = _length(3.0)
    l4: Float[Array, ""] = _length(3.0)

    def __call__(self, q: Float[Array, " 2"], f: Float[Array, " 2"]) -> Float[Array, " 2"]:
        """Height and span of the chain's end relative to the second ground pivot."""
        a2 = q[0] + q[1]
        a3 = a2 + f[0]
        angles = jnp.stack([q[0], a2, a3, a3 + f[1]])
        s, c = jnp.sin(angles), jnp.cos(angles)
        return jnp.stack(
            [
                self.l1 * s[0] + self.l2 * s[1] + self.l3 * s[2] + self.l4 * s[3],
                self.l1 * c[0] + self.l2 * c[1] + self.l3 * c[2] + self.l4 * c[3] - self.l0,
            ]
        )

    def constraint(self, theta: Float[Array, " 4"]) -> Float[Array, " 2"]:
        """The closure itself, in (θ1, …, θ4)."""
        return self(theta[:2], theta[2:])

    def coordinates(self, theta: Float[Array, " 4"]) -> Float[Array, " 2"]:
        """(θ1, θ2)"""
        return theta[:2]


class SqueezerLoop(eqx.Module):
    """The three loops of Andrews' squeezer mechanism (Ehsani 2016, Eq. 199).

    q = θ1, the crank's angle, which winds without bound; f = (θ2, …, θ7) with period 2π
    in q. Metres. Defaults are the figures of `SqueezerData`: ground points A = (xa, ya) and
    B = (xb, yb), and bars OF = rr, EF = d, BE = ss, AG = zt, GE = e, AH = u, HE = zf.
    """

    oax: Float[Array, ""] = _length(_SQUEEZER.xa)
    oay: Float[Array, ""] = _length(_SQUEEZER.ya)
    obx: Float[Array, ""] = _length(_SQUEEZER.xb)
    oby: Float[Array, ""] = _length(_SQUEEZER.yb)
    of: Float[Array, ""] = _length(_SQUEEZER.rr)
    ef: Float[Array, ""] = _length(_SQUEEZER.d)
    be: Float[Array, ""] = _length(_SQUEEZER.ss)
    ag: Float[Array, ""] = _length(_SQUEEZER.zt)
    ge: Float[Array, ""] = _length(_SQUEEZER.e)
    ah: Float[Array, ""] = _length(_SQUEEZER.u)
    he: Float[Array, ""] = _length(_SQUEEZER.zf)

    def __call__(self, q: Float[Array, " 1"], f: Float[Array, " 6"]) -> Float[Array, " 6"]:
        """Closures O-A-H-E-F, A-G-E-H and O-A-H-E-B, each as (x, y)."""
        th2, th3, th4, th5, th6, th7 = (f[i] for i in range(6))
        he = th2 + th6
        angles = jnp.stack([q[0], th2, he, he + th7, th3, th3 + th5, th4])
        s, c = jnp.sin(angles), jnp.cos(angles)
        ex = self.ah * c[1] + self.he * c[2]
        ey = self.ah * s[1] + self.he * s[2]
        return jnp.stack(
            [
                self.oax + ex + self.ef * c[3] - self.of * c[0],
                self.oay + ey + self.ef * s[3] - self.of * s[0],
                self.ag * c[4] + self.ge * c[5] - ex,
                self.ag * s[4] + self.ge * s[5] - ey,
                self.oax + ex - self.be * c[6] - self.obx,
                self.oay + ey - self.be * s[6] - self.oby,
            ]
        )

    def constraint(self, theta: Float[Array, " 7"]) -> Float[Array, " 6"]:
        """The closure itself, in (θ1, …, θ7); q - θ1 = 0 of Eq. 199 drops out."""
        return self(theta[:1], theta[1:])

    def coordinates(self, theta: Float[Array, " 7"]) -> Float[Array, " 1"]:
        """θ1"""
        return theta[:1]
