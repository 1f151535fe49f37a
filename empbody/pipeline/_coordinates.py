"""Units and labels of a model's coordinates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io._matching import rotational as _rotational
from ..kinematics import joint_jacobian
from ..model import Model


def rotational(model: Model) -> tuple[bool, ...]:
    """Which coordinates are in degrees in OpenSim's files: those that it calls rotational."""
    return tuple(bool(each) for each in _rotational(model))


def turning(model: Model) -> tuple[bool, ...]:
    """Which coordinates are angles to a person: also those that OpenSim calls "coupled", if
    they turn any joint."""
    motions = getattr(model.source, "motions", ())
    found = list(rotational(model))
    coupled = [k for k, motion in enumerate(motions) if motion == "coupled"]
    if coupled:
        # A slope may vanish at one pose by chance; at three it does not.
        poses = np.asarray(model.default_q)[None] + np.array([0.0, 0.013, -0.029])[:, None]
        moves = np.any(np.asarray(_slopes(model, jnp.asarray(poses))) != 0.0, axis=0)
        turns = moves & np.array(model.topology.revolute)[:, None]
        for k in coupled:
            found[k] = bool(turns[:, k].any())
    return tuple(found)


@eqx.filter_jit
def _slopes(model: Model, poses: Float[Array, "n nq"]) -> Float[Array, "n nj nq"]:
    return jax.vmap(lambda q: joint_jacobian(model, q))(poses)


def moment_labels(model: Model) -> tuple[str, ...]:
    """OpenSim's labels of generalised forces: moments of rotational coordinates, and forces."""
    kinds = ("moment" if turns else "force" for turns in rotational(model))
    return tuple(f"{c}_{kind}" for c, kind in zip(model.coordinate_names, kinds, strict=True))
