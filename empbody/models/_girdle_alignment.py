"""A rhythm measured between other bone landmarks, fitted onto the model's rest pose."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._de_groot import DeGroot
from ._girdle import Girdle
from ._girdle_pose import euler_yxz, girdle_pose, sincos
from ._triples import Matrix


def aligned(girdle: Girdle, pose: Float[Array, " nq"]) -> Girdle:
    """The same rhythm, with bones in `pose` (rad) as de Groot and Brand's regression has them.

    Other landmarks on a bone are a constant turn C of its frame: R_measured = R C. Taking C
    from one pose, the bones' turns between poses stay as measured, in thorax axes. C goes
    into the zero pose, so the rhythm's angles keep their meaning: `shoulder_angles` still
    gives those between the rhythm's own landmarks.
    """
    published = Girdle(DeGroot(), (0, 1))
    ours, theirs = (each.angles(each._inputs(pose)) for each in (published, girdle))
    zero = published.zero
    clavicle = zero.clavicle @ _turn(ours[:2]).T @ _turn(theirs[:2])
    scapula = zero.scapula @ _turn(ours[-3:]).T @ _turn(theirs[-3:])
    turned = zero._replace(clavicle=clavicle, scapula=scapula)
    if theirs.shape[0] == 6:
        # The axial rotation is an angle, not a turn: its own offset goes off.
        wanted = girdle_pose(ours, girdle.axes, zero).axial
        found = girdle_pose(theirs, girdle.axes, turned).axial
        turned = turned._replace(axial=zero.axial + found - wanted)
    return eqx.tree_at(lambda g: g.zero, girdle, turned)


def _turn(angles: Float[Array, " n"]) -> Float[Array, "3 3"]:
    columns: Matrix = euler_yxz(*(sincos(angle) for angle in angles))
    return jnp.stack([jnp.stack(column) for column in columns], axis=1)
