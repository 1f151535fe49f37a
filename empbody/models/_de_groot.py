"""The shoulder rhythm of de Groot and Brand (2001): a regression on plane and elevation."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..rhythms import AbstractRhythm, Jet
from ._shoulder_figures import figures

REGRESSED = ("sc_protraction", "sc_elevation", "st_protraction", "st_medial_rotation", "st_tilt")
_ROWS = (("sc_y", 1.0), ("sc_z", -1.0), ("st_y", 1.0), ("st_z", -1.0), ("st_x", 1.0))
"""Rows of the published table and their signs in the names above."""


def published() -> dict[str, Float[np.ndarray, " 5"]]:
    """Columns of the published table, by name: rad, order and signs of `REGRESSED`."""
    given = figures()["de_groot"]
    signs = np.array([sign for _, sign in _ROWS])
    columns = dict(zip(given["columns"], np.array([given[r] for r, _ in _ROWS]).T, strict=True))
    return {
        "constant": np.radians(signs * columns["constant"]),
        "plane": signs * columns["plane"],
        "elevation": signs * columns["elevation"],
        "rest_weight": columns["rest_weight"],
        "rest": np.radians(signs * columns["rest"]),
    }


def zero_pose() -> Float[np.ndarray, " 6"]:
    """The six anatomical angles (rad) at zero plane and elevation.

    The clavicle's axial rotation, which is not regressed, is that of the rest pose.
    """
    table = published()
    y, x, *scapula = table["constant"] + table["rest_weight"] * table["rest"]
    return np.array([y, x, np.radians(figures()["de_groot"]["sc_x_rest"]), *scapula])


class DeGroot(AbstractRhythm):
    """Angles of clavicle and scapula to the thorax (rad) from plane and elevation (rad).

    Each of `REGRESSED` is constant + plane · Hy + elevation · Hz + rest_weight · rest. Hy is
    0 in abduction and π/2 in forward flexion. Signs are those of Wu et al. (2005): raising
    the clavicle and rotating the scapula upward are negative. `rest` is the subject's pose
    with the arm hanging; all numbers are leaves, to be fitted or varied by subject.
    """

    constant: Float[Array, " 5"]
    plane: Float[Array, " 5"]
    elevation: Float[Array, " 5"]
    rest_weight: Float[Array, " 5"]
    rest: Float[Array, " 5"]

    def __init__(self, plane: bool = True) -> None:
        """The published coefficients and rest pose; without `plane`, its slopes are zero."""
        table = published()
        self.constant = jnp.asarray(table["constant"], dtype=float)
        self.plane = jnp.asarray(table["plane"] if plane else np.zeros(5), dtype=float)
        self.elevation = jnp.asarray(table["elevation"], dtype=float)
        self.rest_weight = jnp.asarray(table["rest_weight"], dtype=float)
        self.rest = jnp.asarray(table["rest"], dtype=float)

    @property
    def n_in(self) -> int:
        return 2

    @property
    def n_out(self) -> int:
        return 5

    def __call__(self, q: Float[Array, " nq"]) -> Float[Array, " nj"]:
        self.check_coordinates(q)
        hanging = self.constant + self.rest_weight * self.rest
        return hanging + self.plane * q[0] + self.elevation * q[1]

    def jacobian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq"]:
        self.check_coordinates(q)
        return jnp.stack([self.plane, self.elevation], axis=1)

    def hessian(self, q: Float[Array, " nq"]) -> Float[Array, "nj nq nq"]:
        self.check_coordinates(q)
        return jnp.zeros((5, 2, 2), dtype=self.plane.dtype)

    def jet(self, q: Float[Array, " nq"], qd: Float[Array, " nq"]) -> Jet:
        return Jet(self(q), self.jacobian(q), jnp.zeros_like(self.constant))
