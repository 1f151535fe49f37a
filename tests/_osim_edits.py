"""Models of .osim files with most of their numbers changed."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import empbody as eb
from empbody.io.osim._frames import placement

PLACEMENTS = ("translation", "rotation", "body_translation", "body_rotation")


def edited(model: eb.Model) -> eb.Model:
    """Most numbers changed somewhat; placements of joints too, where they can be written."""
    chance = np.random.default_rng(0)

    def near(x, size=1e-2):
        return x * (1 + size * chance.uniform(-1, 1, x.shape))

    def apart(x, size=1e-2):
        return x + size * chance.uniform(-1, 1, x.shape)

    def turned(x):
        return x @ np.stack([placement(np.zeros(3), apart(np.zeros(3)))[:3, :3] for _ in x])

    owners = [name.rpartition(".")[0] for name in model.joint_names]
    first = [k for k, owner in enumerate(owners) if owner not in owners[:k]]
    # A loop closes with the placements that it was loaded with.
    if not model.source.spec.constraints:
        placed = {name: np.array(getattr(model, name)) for name in PLACEMENTS}
        placed["translation"][first] = apart(placed["translation"][first])
        placed["rotation"][first] = turned(placed["rotation"][first])
        placed["body_translation"] = apart(placed["body_translation"])
        placed["body_rotation"] = turned(placed["body_rotation"])
        model = eqx.tree_at(
            lambda m: [getattr(m, name) for name in PLACEMENTS],
            model,
            [jnp.asarray(x) for x in placed.values()],
        )
    parts = {
        "mass": near(model.mass),
        "com": near(model.com),
        "inertia": model.inertia * 1.01,
        "gravity": apart(model.gravity),
        "default_q": model.default_q * 0.98,
        "marker_positions": apart(model.marker_positions),
    }
    model = eqx.tree_at(lambda m: [getattr(m, part) for part in parts], model, list(parts.values()))
    if model.nm:
        moving = [k for k, _ in model.paths.layout.moving]
        location = np.array(apart(model.paths.location))
        location[moving] = 0.0
        model = eqx.tree_at(
            lambda m: [m.paths.location, m.paths.surface_size, m.paths.surface_translation],
            model,
            [
                jnp.asarray(location),
                model.paths.surface_size * 1.001,
                apart(model.paths.surface_translation),
            ],
        )
    if model.muscles is not None:
        names = ("max_isometric_force", "optimal_fibre_length", "tendon_slack_length", "pennation")
        old = model.muscles.parameters
        model = eqx.tree_at(
            lambda m: [getattr(m.muscles.parameters, n) for n in names],
            model,
            [near(getattr(old, n)) for n in names],
        )
    return model
