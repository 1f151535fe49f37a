"""Strings that pull by themselves: ligaments, springs along paths, and cables.

They are no muscles: nothing excites them, so they stand among a model's forces and not in
its list of musculotendon units. Their paths have all that muscles' paths have.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..kinematics import Motion
from ..kinematics._lanes import mix
from ..model import AbstractForce, Model, Path, Surface
from ..rhythms import Identity
from ._geometry import LanePaths, body_frames
from ._rows import path_rows

PerString = Float[Array, " n"]


def _numbers(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, dtype=float)


def _tuple(value: Any) -> Any:
    return None if value is None else tuple(value)


class AbstractTension(eqx.Module):
    """Tension of n strings by their lengths (m) and lengthening speeds (m/s)."""

    @abc.abstractmethod
    def __call__(self, length: PerString, speed: PerString) -> PerString:
        """Tension (N); pulling is positive."""

    @abc.abstractmethod
    def energy(self, length: PerString) -> PerString:
        """Stored energy (J)."""


class ElasticTension(AbstractTension):
    """k x (1 + d v) for stretch x ≥ 0 over the rest length and lengthening speed v; slack below.

    `stiffness` N/m, `rest_length` m, `dissipation` s/m. OpenSim's PathSpring.
    """

    stiffness: Float[Array, "..."] = eqx.field(converter=_numbers)
    rest_length: Float[Array, "..."] = eqx.field(converter=_numbers)
    dissipation: Float[Array, "..."] = eqx.field(converter=_numbers, default=0.0)

    def __call__(self, length: PerString, speed: PerString) -> PerString:
        stretch = jnp.maximum(length - self.rest_length, 0.0)
        return self.stiffness * stretch * (1.0 + self.dissipation * speed)

    def energy(self, length: PerString) -> PerString:
        return 0.5 * self.stiffness * jnp.maximum(length - self.rest_length, 0.0) ** 2


class CurveTension(AbstractTension):
    """force · c(length / rest length) where stretched, 0 below the rest length; one string.

    c is a piecewise polynomial: `pieces` (n + 1, terms) of the distance from the break at
    their left, the first one left of all `breaks` (n,) and counted from the first.
    OpenSim's Ligament and, with `damping` (N s: force per strain rate, while it lengthens),
    its Blankevoort1991Ligament.
    """

    rest_length: Float[Array, "..."] = eqx.field(converter=_numbers)
    force: Float[Array, "..."] = eqx.field(converter=_numbers)
    breaks: Float[Array, " n"] = eqx.field(converter=_numbers)
    pieces: Float[Array, "m terms"] = eqx.field(converter=_numbers)
    damping: Float[Array, "..."] = eqx.field(converter=_numbers, default=0.0)

    def _sum(self, x: PerString, terms: Float[Array, "m k"], constant: Any = 0.0) -> PerString:
        at = jnp.searchsorted(self.breaks, x, side="right")
        u = x - self.breaks[jnp.maximum(at - 1, 0)]
        piece = terms[at]
        total = piece[..., -1]
        for k in range(terms.shape[1] - 2, -1, -1):
            total = total * u + piece[..., k]
        return total + (constant[at] if isinstance(constant, Array) else constant)

    def __call__(self, length: PerString, speed: PerString) -> PerString:
        x = length / self.rest_length
        elastic = self.force * self._sum(x, self.pieces)
        # Damping fades in over the first percent of strain.
        u = jnp.clip((x - 1.0) / 0.01, 0.0, 1.0)
        fade = u * u * u * (10.0 - u * (15.0 - 6.0 * u))
        drag = self.damping * fade * jnp.maximum(speed / self.rest_length, 0.0)
        return jnp.where(x > 1.0, elastic + drag, 0.0)

    def energy(self, length: PerString) -> PerString:
        # ∫ Σ c_k u^k du = u Σ c_k u^k / (k + 1), and what the pieces before have added.
        order = jnp.arange(1.0, self.pieces.shape[1] + 1.0, dtype=self.pieces.dtype)
        terms = jnp.concatenate(
            [jnp.zeros_like(self.pieces[:, :1]), self.pieces / order[None]], axis=1
        )
        width = self.breaks[1:] - self.breaks[:-1]
        powers = width[:, None] ** jnp.arange(terms.shape[1], dtype=terms.dtype)[None]
        steps = jnp.sum(terms[1:-1] * powers, axis=1)
        zero = jnp.zeros(1, dtype=steps.dtype)
        before = jnp.concatenate([zero, zero, jnp.cumsum(steps)])
        x = jnp.maximum(length / self.rest_length, 1.0)
        start = self._sum(jnp.ones_like(x), terms, before)
        return self.force * self.rest_length * (self._sum(x, terms, before) - start)


class GivenTension(AbstractTension):
    """A tension (N) that is set from outside, zero unless changed; a cable without a law."""

    force: Float[Array, "..."] = eqx.field(converter=_numbers, default=0.0)

    def __call__(self, length: PerString, speed: PerString) -> PerString:
        return jnp.broadcast_to(self.force, length.shape)

    def energy(self, length: PerString) -> PerString:
        return jnp.zeros_like(length)


class PathForce(AbstractForce):
    """Strings along paths, over surfaces if they wrap, each with a law for its tension.

    `paths` and `laws` go together, one law each; `surfaces` are those that the paths name.
    """

    paths: tuple[Path, ...] | None = eqx.field(converter=_tuple)
    laws: tuple[AbstractTension, ...] = eqx.field(converter=_tuple)
    surfaces: tuple[Surface, ...] | None = eqx.field(converter=_tuple, default=())
    carrier: Model | None = None
    """The model's structure with these paths; made by `bind`, which drops the descriptions.
    Where its bodies stand is taken from the motion, never from here."""

    def __check_init__(self) -> None:
        if self.paths is not None and len(self.paths) != len(self.laws):
            raise ValueError(f"{len(self.paths)} paths for {len(self.laws)} laws of tension")

    @property
    def names(self) -> tuple[str, ...]:
        if self.carrier is not None:
            return self.carrier.muscle_names
        return tuple(path.name for path in self.paths or ())

    def bind(self, model: Model) -> "PathForce":
        if self.paths is None or self.surfaces is None:
            return self
        made = model.with_muscles(self.paths, self.surfaces)
        # Only frames and structure are needed: rhythm and forces would be copies without use.
        values = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
        carrier = Model(**(values | {"rhythm": Identity(), "forces": ()}))
        return dataclasses.replace(self, paths=None, surfaces=None, carrier=carrier)

    def _strings(self, motion: Motion) -> tuple[PerString, Float[Array, "nq n"]]:
        """Lengths and moment arms."""
        carrier = self.carrier
        if carrier is None:
            raise ValueError(f"the strings {', '.join(self.names)} do not belong to a model yet")
        carrier = eqx.tree_at(
            lambda m: (m.body_rotation, m.body_translation),
            carrier,
            (motion.bodies[:, :, :3], motion.bodies[:, :, 3]),
        )
        frames = body_frames(carrier, motion.transform[..., None])
        per_joint = motion.screw[:, :, None, None] * motion.jacobian[:, None, :, None]
        moved = mix(carrier.topology.ancestors, per_joint)
        paths, q = LanePaths.of(carrier.paths), motion.q[:, None]
        rows = path_rows(carrier, paths, frames, q, True, moved, motion.origin[:, None])[..., 0]
        return rows[0], rows[1:]

    def lengths(self, motion: Motion) -> PerString:
        """Length of every string (m)."""
        return self._strings(motion)[0]

    def tensions(self, motion: Motion) -> PerString:
        """Tension of every string (N)."""
        length, arms = self._strings(motion)
        return self._pull(length, -(motion.qd @ arms))

    def _pull(self, length: PerString, speed: PerString) -> PerString:
        each = [law(length[k : k + 1], speed[k : k + 1]) for k, law in enumerate(self.laws)]
        return jnp.concatenate(each)

    def generalised_force(self, motion: Motion, t: Float[Array, ""]) -> Float[Array, " nq"]:
        length, arms = self._strings(motion)
        return arms @ self._pull(length, -(motion.qd @ arms))

    def potential_energy(self, motion: Motion) -> Float[Array, ""]:
        length = self._strings(motion)[0]
        stored = [law.energy(length[k : k + 1]) for k, law in enumerate(self.laws)]
        return jnp.sum(jnp.concatenate(stored))


def string_lengths(model: Model, q: Float[Array, " nq"]) -> dict[str, Float[Array, ""]]:
    """Length (m) of every ligament, spring or cable along a path among the model's forces."""
    motion = Motion.of(model, q)
    found: dict[str, Float[Array, ""]] = {}
    for force in model.forces:
        if isinstance(force, PathForce):
            found |= dict(zip(force.names, force.lengths(motion), strict=True))
    return found
