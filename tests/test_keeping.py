"""Which cylinders are clear of what else is on their stretch."""

import jax.numpy as jnp
import numpy as np
import pytest

from empbody.paths._keeping import clear
from empbody.paths._surfaces import Surfaces


def surface(kind, centre, size, axis=(0.0, 0.0, 1.0), half=1.0):
    side = np.cross(axis, (0.3, 0.5, 0.8))
    turned = np.stack([side, np.cross(axis, side), axis], axis=-1)
    turned = turned / np.linalg.norm(turned, axis=0)
    return Surfaces(
        centre=jnp.asarray(centre, float)[:, None],
        rotation=jnp.asarray(turned)[:, :, None],
        size=jnp.asarray(size, float)[:, None],
        half=jnp.full((1,), half),
        side=jnp.zeros((3, 1)),
        cylinder=jnp.full((1,), kind == "cylinder"),
        ellipsoid=jnp.full((1,), kind == "ellipsoid"),
        torus=jnp.full((1,), kind == "torus"),
        has=("cylinder", "sphere", "ellipsoid", "torus"),
    )


ROUND, BALL, X = (0.02, 0.02, 1.0), (0.03, 0.03, 0.03), (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        (surface("sphere", (0.051, 0.0, 0.3), BALL), True),
        (surface("sphere", (0.049, 0.0, 0.3), BALL), False),
        # Nothing is left of a cylinder a radius beyond its end.
        (surface("sphere", (0.0, 0.0, 1.051), BALL), True),
        (surface("sphere", (0.0, 0.0, 1.049), BALL), False),
        (surface("ellipsoid", (0.049, 0.0, 0.0), (0.01, 0.03, 0.01)), False),
        (surface("torus", (0.059, 0.0, 0.0), (0.01, 0.03, 1.0)), False),
        (surface("torus", (0.061, 0.0, 0.0), (0.01, 0.03, 1.0)), True),
        (surface("cylinder", (0.041, 0.0, 0.5), ROUND), True),
        (surface("cylinder", (0.039, 0.0, 0.5), ROUND), False),
        (surface("cylinder", (0.0, 0.041, 0.5), ROUND, X), True),
        (surface("cylinder", (0.0, 0.039, 0.5), ROUND, X), False),
        # It crosses where one of them has ended.
        (surface("cylinder", (0.0, 0.0, 1.07), ROUND, X), True),
        (surface("cylinder", (0.2, 0.0, 0.5), ROUND, X, half=0.13), True),
        (surface("cylinder", (0.2, 0.0, 0.5), ROUND, X, half=0.15), False),
    ],
)
def test_clear(other, apart):
    assert bool(clear(surface("cylinder", (0.0, 0.0, 0.0), ROUND), other)[0]) == apart
