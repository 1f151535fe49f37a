"""A string on the ground whose second end slides along a line, to be swept over surfaces that
are placed anew for every scene."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import empbody as eb


def sliding_string(*surfaces):
    """The model; its coordinate runs from 0 to 1. `place` says where everything is."""
    slides = eb.rhythms.Affine([[1.0], [0.0], [0.0]], [0.0, 0.0, 0.0])
    points = [eb.PathPoint("ground", (0, 0, 0)), eb.MovingPoint("ground", slides, ("q",))]
    body = eb.Body("body", "ground", eb.Prismatic((1, 0, 0)), 1.0, (0, 0, 0), (1e-2, 1e-2, 1e-2))
    string = eb.Path("string", points, [eb.Wrap(surface.name) for surface in surfaces])
    return eb.Model.build(("q",), [body], muscles=[string], surfaces=list(surfaces))


def place(model, start, ends, centre, turned, size):
    """The string from `start` to the line between two `ends`, and the surfaces where they are."""
    line = ((ends[1] - ends[0])[:, None], ends[0])
    moving = eqx.tree_at(lambda f: (f.matrix, f.offset), model.paths.moving[0], line)
    return eqx.tree_at(
        lambda m: (
            m.paths.location,
            m.paths.moving[0],
            m.paths.surface_translation,
            m.paths.surface_rotation,
            m.paths.surface_size,
        ),
        model,
        (jnp.stack([start, ends[0]]), moving, centre, turned, size),
    )


def unexplained(length, slope):
    """What the slopes at both ends of a step leave of the change in length, per step; both are
    arrays of shape (sweeps, steps) over coordinates from 0 to 1."""
    step = 1 / (length.shape[1] - 1)
    explained = -0.5 * (slope[:, 1:] + slope[:, :-1]) * step
    spread = 0.5 * np.abs(np.diff(slope, axis=1)) * step
    return np.abs(np.diff(length, axis=1) - explained) - spread
