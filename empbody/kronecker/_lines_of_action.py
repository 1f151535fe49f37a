"""How paths under unit tension pull on the bodies that they touch.

(Ehsani 2016, Definitions 2-5, Eq. 150-154.) The paper sees a path as its effective points:
the first and the last one on each body of the attachment sequence. Here every point of a
path has a row. A living point whose next one lies on another body is a last point, one
whose previous one does is a first point, a point may be both, and the rest do not pull.

Poses are counted as bodies are in the paper: the ground is number 0, body b of the model
number b + 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..paths import EffectivePoints, ShrinkingForces
from ._joints import skew


class PathRows(NamedTuple):
    """The points of all paths, one path after the other."""

    path: Int[np.ndarray, " n"]
    body: Int[np.ndarray, " n"]
    """-1 is the ground."""
    local: Float[Array, "n 3"]
    """Positions in the body frames (m)."""
    alive: Bool[Array, " n"]
    """Whether the path goes through the point."""
    source: Int[np.ndarray, " n"]
    """The point in the model's list of path points; -1 for a point on a surface."""


class LinesOfAction(NamedTuple):
    """Unit vectors along the paths, for each point in the axes of its body."""

    onward: Float[Array, "n 3"]
    """e, towards the next point (Ehsani 2016, Eq. 152); zero for an insertion."""
    backward: Float[Array, "n 3"]
    """ē, towards the previous point (Definition 3, corrected); zero for an origin."""
    last: Bool[Array, " n"]
    """The next point lies on another body."""
    first: Bool[Array, " n"]
    """The previous point lies on another body."""


def attachment_sequence(points: EffectivePoints) -> tuple[int, ...]:
    """Γ of a path: its bodies in order, -1 for the ground (Ehsani 2016, Definition 2).

    Which points live must be known, so this works on values, not under a transformation.
    A body to which the path comes back is named again.
    """
    living = np.array(points.bodies)[np.asarray(points.alive)]
    return tuple(int(b) for k, b in enumerate(living) if k == 0 or b != living[k - 1])


def touched_bodies(points: PathRows, path: int) -> tuple[int, ...]:
    """Γ - {0} without order and repetition, with points counted that do not live."""
    return tuple(sorted({int(b) for b in points.body[points.path == path]} - {-1}))


def all_points(paths: tuple[EffectivePoints, ...]) -> PathRows:
    sizes = [len(points.bodies) for points in paths]
    return PathRows(
        path=np.repeat(np.arange(len(paths)), sizes),
        body=np.concatenate([points.bodies for points in paths]),
        local=jnp.concatenate([points.local for points in paths]),
        alive=jnp.concatenate([points.alive for points in paths]),
        source=np.concatenate([points.sources for points in paths]),
    )


def lines_of_action(poses: Float[Array, "bodies 4 4"], points: PathRows) -> LinesOfAction:
    """Lines of action of all paths, with points that do not live stepped over."""
    n = len(points.path)
    path, body = jnp.array(points.path), jnp.array(points.body) + 1
    following, preceding = _neighbours(points.alive)
    has_next, has_previous = points.alive & (following < n), points.alive & (preceding >= 0)
    following, preceding = jnp.minimum(following, n - 1), jnp.maximum(preceding, 0)
    has_next &= path[following] == path
    has_previous &= path[preceding] == path

    def line(i: Array, u: Array, r_last: Array, r_first: Array) -> Array:
        """From a point on body i to one on body u, in axes of i (Ehsani 2016, Eq. 151)."""
        A, r_u = _relative(poses[i], poses[u])
        return _unit(r_u + A @ r_first - r_last)

    def reciprocal(j: Array, j_before: Array, e: Array) -> Array:
        """ē = -(j**→j* A) e, the previous body's e in axes of this one."""
        return -_relative(poses[j], poses[j_before])[0] @ e

    e = jax.vmap(line)(body, body[following], points.local, points.local[following])
    e = jnp.where(has_next[:, None], e, 0)
    e_bar = jax.vmap(reciprocal)(body, body[preceding], e[preceding])
    e_bar = jnp.where(has_previous[:, None], e_bar, 0)
    return LinesOfAction(
        onward=e,
        backward=e_bar,
        last=has_next & (body[following] != body),
        first=has_previous & (body[preceding] != body),
    )


def gmlav(
    lines: LinesOfAction,
    points: PathRows,
    paths: Sequence[int],
    bodies: Sequence[int],
    shrinking: ShrinkingForces | None = None,
) -> tuple[Float[Array, "k b 3"], Float[Array, "k b 3"]]:
    """E and Ê of some paths for some bodies: forces, and moments about the bodies' origins.

    (Ehsani 2016, Definitions 3 and 4, corrected.) In each body's axes, N and N m per newton
    of tension. Zero for bodies that the path does not touch (Eq. 153-154); where it comes
    back to a body, contributions add (Eq. 153, corrected). The paper's surfaces are always
    whole; forces through what is `shrinking` add to them.
    """
    e = jnp.where(lines.last[:, None], lines.onward, 0)
    e_bar = jnp.where(lines.first[:, None], lines.backward, 0)
    r_tilde = jax.vmap(skew)(points.local)
    E = e + e_bar
    E_hat = (r_tilde @ e[:, :, None] + r_tilde @ e_bar[:, :, None])[:, :, 0]
    path, body = points.path, points.body
    if shrinking is not None:
        path, body = np.append(path, shrinking.units), np.append(body, shrinking.bodies)
        turned = jnp.cross(shrinking.local, shrinking.force)
        E = jnp.concatenate([E, shrinking.force])
        E_hat = jnp.concatenate([E_hat, turned])
    of_path = np.equal.outer(paths, path)[:, None, :]
    on_body = np.equal.outer(bodies, body)[None, :, :]
    member = jnp.array(of_path & on_body, dtype=E.dtype)
    return member @ E, member @ E_hat


def with_ground(poses: Float[Array, "nb 4 4"]) -> Float[Array, "bodies 4 4"]:
    """Poses of all bodies, the ground first."""
    return jnp.concatenate([jnp.eye(4, dtype=poses.dtype)[None], poses])


def _neighbours(alive: Bool[Array, " n"]) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """The next living point of each point, n if none; the previous one, -1 if none."""
    n = alive.shape[0]
    here = jnp.arange(n)
    at_or_after = jax.lax.cummin(jnp.where(alive, here, n), reverse=True)
    at_or_before = jax.lax.cummax(jnp.where(alive, here, -1))
    following = jnp.concatenate([at_or_after[1:], jnp.array([n], dtype=here.dtype)])
    preceding = jnp.concatenate([jnp.array([-1], dtype=here.dtype), at_or_before[:-1]])
    return following, preceding


def _relative(
    i: Float[Array, "4 4"], u: Float[Array, "4 4"]
) -> tuple[Float[Array, "3 3"], Float[Array, " 3"]]:
    """Orientation of body u in body i, and its origin in axes of i."""
    R = i[:3, :3].T
    return R @ u[:3, :3], R @ (u[:3, 3] - i[:3, 3])


def _unit(v: Float[Array, " 3"]) -> Float[Array, " 3"]:
    """v / |v|; zero for points that coincide, which have no line."""
    square = v @ v
    nothing = square == 0
    return jnp.where(nothing, 0, v / jnp.sqrt(jnp.where(nothing, 1, square)))
