"""Stored moment arms of the shoulder by OpenSim, to compare with."""

import csv
import functools
import importlib.resources
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..model import Model
from ..paths import moment_arms

LEADERS = ("LAT1", "PECM3", "DELT1", "PECM1", "SUBSC", "DELT2")
"""Leaders of the groups of muscles in Table 5 of Ehsani (2016)."""
MOMENT_ARMS_ABOUT = {"elv_angle": "shoulder_elv", "shoulder_elv": "shoulder_rot"}
"""Coordinate that is swept, and the one that moment arms are about: Figures 14 and 15."""


class MomentArmSweep(NamedTuple):
    """Moment arms of `LEADERS` while one coordinate is swept and the others are zero."""

    degrees: Float[np.ndarray, " n"]
    arms: Float[np.ndarray, "n 6"]
    """m, about the coordinate `MOMENT_ARMS_ABOUT[sweep]`; minus the slope of length."""


def opensim_moment_arms(
    sweep: Literal["elv_angle", "shoulder_elv"], wrapping: bool = False
) -> MomentArmSweep:
    """OpenSim 4.6 on the model of Holzbaur et al. (2005), by 1 degree over the whole range."""
    table = _tables().get((sweep, wrapping))
    if table is None:
        there = ", ".join(f"{s} with wrapping={w}" for s, w in _tables())
        raise ValueError(
            f"no stored sweep of {sweep!r} with wrapping={wrapping}; there are {there}"
        )
    return table


def sweep_moment_arms(model: Model, sweep: Literal["elv_angle", "shoulder_elv"]) -> MomentArmSweep:
    """The same of a model of ours, at the same poses."""
    degrees = _tables()[(sweep, False)].degrees
    q = np.zeros((len(degrees), model.nq))
    q[:, model.coordinate_index(sweep)] = np.radians(degrees)
    arms = jax.jit(jax.vmap(lambda q: moment_arms(model, q)))(jnp.asarray(q))
    units = np.array([model.muscle_index(name) for name in LEADERS])
    about = model.coordinate_index(MOMENT_ARMS_ABOUT[sweep])
    return MomentArmSweep(degrees, np.asarray(arms)[:, about, units])


@functools.cache
def _tables() -> dict[tuple[str, bool], MomentArmSweep]:
    file = importlib.resources.files("empbody.models") / "_opensim_moment_arms.csv"
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    blocks: dict[tuple[str, bool], list[list[float]]] = {}
    for row in csv.DictReader(lines):
        numbers = [float(row["deg"]), *(float(row[name]) for name in LEADERS)]
        blocks.setdefault((row["sweep"], row["wrapping"] == "1"), []).append(numbers)
    return {
        key: MomentArmSweep(np.array(rows)[:, 0], np.array(rows)[:, 1:])
        for key, rows in blocks.items()
    }
