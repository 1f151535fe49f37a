"""A synthetic population: invented subjects around the regression of de Groot and Brand."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..rhythms import Named, Polynomial
from ._de_groot import REGRESSED, DeGroot

INPUTS = ("plane", "elevation")
_TERMS = ((0, 0), (1, 0), (0, 1), (0, 2))
_TOP = np.radians(120.0)


class SyntheticPopulation(NamedTuple):
    """Rows of invented subjects, angles in rad, and the rhythms that they were made with.

    Nothing here was measured. Subjects are called "synthetic 1", "synthetic 2", …
    """

    inputs: Float[np.ndarray, "n 2"]
    targets: Float[np.ndarray, "n k"]
    subjects: np.ndarray
    """Whose row it is, (n,)."""
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    rhythms: dict[str, Named]
    """Every subject's own rhythm, without noise."""
    noise: float
    """Standard deviation that was added to every angle (rad)."""

    def of(self, subject: str) -> tuple[Float[np.ndarray, "m 2"], Float[np.ndarray, "m k"]]:
        """Inputs and targets of one subject."""
        if subject not in self.rhythms:
            raise ValueError(f"no subject {subject!r}; there are {', '.join(self.rhythms)}")
        rows = self.subjects == subject
        return self.inputs[rows], self.targets[rows]


def synthetic_population(
    subjects: int = 20,
    *,
    seed: int = 0,
    targets: Sequence[str] = REGRESSED,
    rest_spread_deg: float = 4.0,
    plane_spread: float = 0.04,
    elevation_spread: float = 0.06,
    curve_spread_deg: float = 3.0,
    noise_deg: float = 1.0,
    planes_deg: Sequence[float] = (0.0, 40.0, 90.0),
    elevations_deg: Any = None,
) -> SyntheticPopulation:
    """Invent subjects whose rhythms scatter about the published regression.

    Each angle of each subject is a + b plane + c elevation + d 4 s (1 - s) with s = elevation /
    120°. The first three are normal and independent about the coefficients of de Groot and
    Brand (2001) with standard deviations `rest_spread_deg` (a), `plane_spread` and
    `elevation_spread` (b and c, degrees per degree); the last bends the curve and is normal
    about 0 with `curve_spread_deg`. Every row gets normal noise of `noise_deg`. The spreads
    are a choice of ours; they were estimated from no data.

    Rows: all `elevations_deg` (default 15 to 120 in steps of 7.5) in each of `planes_deg` (0:
    abduction, 90: forward flexion). The same seed gives the same population.
    """
    if subjects < 1:
        raise ValueError(f"{subjects} subjects: at least 1 is needed")
    widths = {
        "rest_spread_deg": rest_spread_deg,
        "plane_spread": plane_spread,
        "elevation_spread": elevation_spread,
        "curve_spread_deg": curve_spread_deg,
        "noise_deg": noise_deg,
    }
    for name, value in widths.items():
        if not value >= 0:
            raise ValueError(f"{name} = {value}; at least 0 is expected")
    unknown = [name for name in targets if name not in REGRESSED]
    if unknown or not targets:
        raise ValueError(f"no angle {unknown[0] if unknown else ''!r}; there are {REGRESSED}")
    columns = [REGRESSED.index(name) for name in targets]
    mean = DeGroot()
    base = np.asarray(mean.constant + mean.rest_weight * mean.rest)[columns]
    slopes = np.stack([np.asarray(mean.plane), np.asarray(mean.elevation)], axis=1)[columns]
    rng = np.random.default_rng(seed)
    steps = np.arange(15.0, 120.1, 7.5) if elevations_deg is None else elevations_deg
    grid = np.stack(np.meshgrid(planes_deg, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = np.radians(grid)
    rhythms, rows = {}, []
    for number in range(1, subjects + 1):
        offset = base + np.radians(rest_spread_deg) * rng.normal(size=base.shape)
        own = slopes + np.array([plane_spread, elevation_spread]) * rng.normal(size=slopes.shape)
        bend = 4 * np.radians(curve_spread_deg) * rng.normal(size=base.shape) / _TOP
        numbers = [offset, own[:, 0], own[:, 1] + bend, -bend / _TOP]
        name = f"synthetic {number}"
        curve = Polynomial(_TERMS, np.stack(numbers, axis=1))
        rhythms[name] = Named(curve, INPUTS, tuple(targets))
        exact = np.asarray(jax.vmap(rhythms[name])(jnp.asarray(grid)))
        rows.append(exact + np.radians(noise_deg) * rng.normal(size=exact.shape))
    return SyntheticPopulation(
        inputs=np.tile(grid, (subjects, 1)),
        targets=np.concatenate(rows),
        subjects=np.repeat(list(rhythms), len(grid)),
        input_names=INPUTS,
        target_names=tuple(targets),
        rhythms=rhythms,
        noise=float(np.radians(noise_deg)),
    )
