"""From the angles of clavicle and scapula to the joint variables of the shoulder's chain."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm, Jet
from ._de_groot import zero_pose
from ._girdle_pose import GirdlePose, ZeroPose, euler_yxz, girdle_pose, sincos
from ._girdle_rates import Rates, along, first_derivative, second_derivative
from ._shoulder_axes import joint_basis
from ._shoulder_figures import COORDINATES
from ._triples import Matrix


class Girdle(AbstractRhythm):
    """Joint variables of the shoulder's chain from anatomical angles of its bones.

    `angles` gives the bones' orientations relative to the thorax (rad, in the order of
    `ANATOMICAL_ANGLES`) from the coordinates `inputs`.

    Scapula: its turn from the zero pose is R(angles) R(zero)ᵀ, and its joint variables are
    the angles of that turn about the chain's axes. Clavicle: protraction and elevation turn
    the bone's axis from the zero pose in the same way; the third variable turns the bone
    about that axis. What cancels a turn further on in the chain is its negative.

    Where `angles` does not give the clavicle's axial rotation (five values and not six), it
    is the one that makes the scapula's turn relative to the clavicle smallest: the trace of
    that turn is A cos + B sin + C of the unknown angle, so the angle is atan2(B, A).
    """

    angles: AbstractRhythm
    axes: Float[Array, "2 3 3"]
    """Axes of clavicle and scapula (orthonormal, thorax axes), in the order of turning."""
    zero: ZeroPose
    """The bones' orientations in the model's zero pose."""
    inputs: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, angles: AbstractRhythm, inputs: tuple[int, ...]):
        self.angles = angles
        self.axes = jnp.asarray([joint_basis("clavicle"), joint_basis("scapula")], dtype=float)
        self.zero = zero_orientations()
        self.inputs = inputs

    @property
    def n_in(self) -> int:
        return len(COORDINATES)

    @property
    def n_out(self) -> int:
        return 16

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        pose = girdle_pose(self.angles(self._inputs(q)), self.axes, self.zero)
        return _in_chain(jnp.stack(pose.variables), q)

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        inputs = self._inputs(q)
        pose = girdle_pose(self.angles(inputs), self.axes, self.zero)
        return self._columns(self._rates(pose, self.angles.jacobian(inputs)))

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        self.check_coordinates(q)
        given = self.angles.jet(self._inputs(q), self._inputs(qd))
        pose = girdle_pose(given.value, self.axes, self.zero)
        columns = self._rates(pose, given.jacobian)
        speeds = [qd[i] for i in self.inputs]
        rates = given.jacobian[:, 0] * speeds[0]
        for k in range(1, len(speeds)):
            rates = rates + given.jacobian[:, k] * speeds[k]
        bend = second_derivative(pose, along(columns, speeds), rates, given.curvature)
        return Jet(
            _in_chain(jnp.stack(pose.variables), q),
            self._columns(columns),
            _in_chain(jnp.stack(bend), jnp.zeros_like(q)),
        )

    def _inputs(self, q: Array) -> Array:
        return jnp.stack([q[i] for i in self.inputs])

    def _rates(self, pose: GirdlePose, slopes: Float[Array, "n k"]) -> list[Rates]:
        return [first_derivative(pose, slopes[:, k]) for k in range(len(self.inputs))]

    def _columns(self, rates: list[Rates]) -> Float[Array, "nj nq"]:
        """Derivatives of all joint variables to all coordinates."""
        columns = [jnp.stack(each.variables) for each in rates]
        still = jnp.zeros_like(columns[0])
        places = range(len(COORDINATES))
        girdle = [columns[self.inputs.index(k)] if k in self.inputs else still for k in places]
        return _in_chain(jnp.stack(girdle, axis=1), jnp.eye(len(COORDINATES), dtype=still.dtype))


def zero_orientations() -> ZeroPose:
    """Of the model's zero pose: de Groot and Brand's regression at zero plane and elevation."""
    y, x, z, *scapula = (jnp.asarray(angle, dtype=float) for angle in zero_pose())

    def columns(turn: Matrix) -> Float[Array, "3 3"]:
        return jnp.stack([jnp.stack(column) for column in turn], axis=1)

    return ZeroPose(
        clavicle=columns(euler_yxz(sincos(y), sincos(x))),
        axial=z,
        scapula=columns(euler_yxz(*map(sincos, scapula))),
    )


def _order() -> np.ndarray:
    """Joint variables, in the model's order, from those of the girdle and the coordinates."""
    y, x, z, y_, x_, z_, plane, elevation, rotation = np.eye(9)
    clavicle, scapula = [y, x, z, -z, -x, -y], [y_, x_, z_, -z_, -x_, -y_]
    return np.stack([*clavicle, *scapula, plane, elevation, -plane, rotation])


_ORDER = _order()


def _in_chain(girdle: Array, q: Array) -> Array:
    """All joint variables, or derivatives of them, from six of the girdle and three more.

    A product with a constant matrix, so that no number is computed for two rows.
    """
    values = jnp.concatenate([girdle, q])
    return jnp.asarray(_ORDER, dtype=values.dtype) @ values
