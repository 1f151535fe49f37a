"""Computed torque: the law that makes tracking errors die out critically damped."""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics import inverse_dynamics
from ..model import Model
from ..model._checks import is_concrete
from ..simulation._feedback import AbstractFeedback
from ._forced import forced
from ._reference import AbstractReference


class ComputedTorque(eqx.Module):
    """τ(t, q, q̇) = M Q_d + N q̇ - G - force elements, with

    Q_d = q̈_des - 2 K (q̇ - q̇_des) - K² (q - q_des)

    (Ehsani 2016, Eq. 200 corrected, and 201). On the model itself q̈ = Q_d, so every error
    decays as e^(-K t). Springs, dampers and other force elements of the model are taken off;
    muscles are not part of it. Serves as `tau` of `eb.simulate`.
    """

    model: Model
    """What the controller takes the plant for."""
    reference: AbstractReference
    gains: Float[Array, " nq"]
    """K (1/s)"""

    def acceleration(
        self, t: Any, q: Float[Array, " nq"], qd: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        """Q_d: what the coordinates are to accelerate with (rad/s² or m/s²)."""
        return _wanted(self.reference, self.gains, t, q, qd)

    def __call__(
        self, t: Any, q: Float[Array, " nq"], qd: Float[Array, " nq"]
    ) -> Float[Array, " nq"]:
        """Generalised forces (N m or N)."""
        wanted = self.acceleration(t, q, qd)
        elements = bool(self.model.forces)
        return inverse_dynamics(self.model, q, qd, wanted, t=t, elements=elements)


class ComputedLoop(AbstractFeedback):
    """The same law on the model that it was made for: Eq. 200 as one system,

    M q̈ - τ = G - N q̇ + force elements and q̈ = Q_d,

    whose second line gives the accelerations and whose first then gives the torques. `answer`
    says what is integrated:

    - "wanted": Q_d. Nobody asks for torques between the saved rows, so none are computed.
    - "system": the same; torques are computed at every stage, and where there are none (no
      pose, no finite force) there is no acceleration either.
    - "plant": the model's answer to the torques, equal to Q_d up to rounding.
    """

    reference: AbstractReference
    gains: Float[Array, " nq"]
    answer: Literal["wanted", "system", "plant"] = eqx.field(static=True, default="wanted")

    def respond(
        self, model: Model, t: Any, q: Float[Array, " nq"], qd: Float[Array, " nq"]
    ) -> tuple[Float[Array, " nq"], Float[Array, " nq"]]:
        wanted = _wanted(self.reference, self.gains, t, q, qd)
        qdd, torques = forced(model, q, qd, wanted, t=t)
        if self.answer == "plant":
            return qdd, torques
        if self.answer == "system":
            wanted = jnp.where(jnp.isfinite(torques), wanted, jnp.nan)
        return wanted, torques


def _wanted(
    reference: AbstractReference, gains: Float[Array, " nq"], t: Any, q: Array, qd: Array
) -> Float[Array, " nq"]:
    desired = reference(jnp.asarray(t, dtype=q.dtype))
    late, off = qd - desired.qd, q - desired.q
    return desired.qdd - 2.0 * gains * late - gains**2 * off


def as_gains(model: Model, gains: Any) -> Float[Array, " nq"]:
    """One gain per coordinate, from one number or nq of them."""
    array = jnp.asarray(gains, dtype=float)
    if array.shape not in ((), (model.nq,)):
        names = ", ".join(model.coordinate_names)
        hint = "; give the diagonal of K" if array.shape == (model.nq, model.nq) else ""
        raise ValueError(
            f"gains have shape {array.shape} for {model.nq} coordinates ({names}): give one "
            f"number or one per coordinate{hint}"
        )
    wide = jnp.broadcast_to(array, (model.nq,))
    if is_concrete(wide):
        wrong = np.flatnonzero(~(np.asarray(wide) > 0.0) | ~np.isfinite(np.asarray(wide)))
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(
                f"the gain of {model.coordinate_names[k]!r} is {float(wide[k]):.6g}: a positive "
                "number (1/s) is expected"
            )
    return wide
