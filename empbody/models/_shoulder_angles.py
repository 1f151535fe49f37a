"""The anatomical angles that a shoulder model takes, read from the poses of its bones."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import body_transforms
from ..model import Model
from ._girdle import Girdle, zero_orientations
from ._girdle_pose import ZeroPose, euler_yxz, sincos
from ._shoulder_axes import joint_basis
from ._triples import (
    Matrix,
    Vector,
    apply,
    apply_transposed,
    triple,
    turn_about,
)


@eqx.filter_jit
def shoulder_angles(model: Model, q: Float[Array, " nq"]) -> Float[Array, " 6"]:
    """Orientation of clavicle and scapula to the thorax: six angles (rad), in the order of
    `empbody.rhythms.ANATOMICAL_ANGLES`.

    They come from the bodies' transforms, not from the rhythm, so they check it. Angles
    count from the model's zero pose, which is that of de Groot and Brand's regression at
    zero plane and elevation. The scapula's are YXZ angles of its whole orientation;
    protraction and elevation of the clavicle are those that carry its axis from the zero
    pose, its rotation is about that axis.
    """
    transforms = body_transforms(model, q)
    clavicle = _columns(transforms[model.body_index("clavicle"), :3, :3])
    scapula = _columns(transforms[model.body_index("scapula"), :3, :3])
    rhythm = model.rhythm
    zero = rhythm.zero if isinstance(rhythm, Girdle) else zero_orientations()
    side, _, bone = (triple(axis) for axis in jnp.asarray(joint_basis("clavicle"), dtype=float))
    return jnp.stack([*_clavicle(clavicle, zero, bone, side), *_scapula(scapula, zero)])


def _columns(turn: Float[Array, "3 3"]) -> Matrix:
    x, y, z = (triple(turn[:, k]) for k in range(3))
    return x, y, z


def _scapula(turn: Matrix, zero: ZeroPose) -> Vector:
    x, y, z = (apply(turn, column) for column in _columns(zero.scapula))
    return (
        jnp.arctan2(z[0], z[2]),
        jnp.arctan2(-z[1], jnp.sqrt(x[1] * x[1] + y[1] * y[1])),
        jnp.arctan2(x[1], y[1]),
    )


def _clavicle(turn: Matrix, zero: ZeroPose, bone: Vector, side: Vector) -> Vector:
    start = _columns(zero.clavicle)
    own, now = apply_transposed(start, bone), apply(turn, bone)
    # Ry(protraction) Rx(elevation) takes `own` to `now`; the height gives the second angle.
    height = now[1] / jnp.sqrt(own[1] * own[1] + own[2] * own[2])
    elevation = jnp.arctan2(own[1], own[2]) - jnp.arcsin(height)
    level = apply(euler_yxz(sincos(jnp.zeros_like(elevation)), sincos(elevation)), own)
    protraction = jnp.arctan2(
        level[2] * now[0] - level[0] * now[2], level[0] * now[0] + level[2] * now[2]
    )
    carried = euler_yxz(sincos(protraction), sincos(elevation))
    unturned = apply(carried, apply_transposed(start, side))
    rotation, _, _ = turn_about(now, unturned, apply(turn, side))
    return protraction, elevation, zero.axial + rotation
