"""Hill-type muscles: states, their rates, forces and everything that can be looked at."""

from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import AbstractMuscles
from ..model._checks import is_concrete
from ._activation import AbstractActivation, SmoothActivation, within
from ._curves import AbstractCurves
from ._de_groote_fregly import DeGrooteFregly
from ._fibre import (
    Equilibrium,
    Fibre,
    balanced_velocity,
    equilibrium,
    fibre_forces,
    fibre_of_length,
    fibre_of_tension,
    rigid,
    tendon_length,
    tension,
    tension_residual,
    top_speed,
)
from ._parameters import HillParameters

PerUnit: TypeAlias = Float[Array, " nm"]


class HillState(eqx.Module):
    """State of the muscles, or its time derivative; of one sample or of many."""

    activation: Float[Array, "*samples nm"] | None = None
    """None where the activation is the excitation."""
    fibre: Float[Array, "*samples nm"] | None = None
    """Fibre length over optimal length (explicit) or tendon force over maximum isometric force
    (implicit); None with a rigid tendon."""


class MuscleState(eqx.Module):
    """What the muscles do at an instant. SI units; lengthening is positive."""

    activation: PerUnit
    fibre_length: PerUnit
    fibre_velocity: PerUnit
    normalised_fibre_length: PerUnit
    """Over the optimal fibre length."""
    normalised_fibre_velocity: PerUnit
    """Over the maximum shortening speed."""
    pennation: PerUnit
    """rad"""
    tendon_length: PerUnit
    tendon_velocity: PerUnit
    tendon_strain: PerUnit
    active_force: PerUnit
    """Along the fibre, as are the next three."""
    passive_force: PerUnit
    damping_force: PerUnit
    fibre_force: PerUnit
    """Sum of the three above, except for a fibre at its shortest length (see `HillMuscles`)."""
    tendon_force: PerUnit
    """Force of the musculotendon unit on the skeleton."""
    fibre_power: PerUnit
    """Given off by the fibre, -fibre_force · fibre_velocity."""
    tendon_power: PerUnit
    """Given off by the tendon, -tendon_force · tendon_velocity."""
    musculotendon_power: PerUnit
    """Given to the skeleton, -tendon_force · v_mt: the sum of the two above."""
    fibre_stiffness: PerUnit
    """Slope of the fibre's force along the tendon over its projection, at fixed speed (N/m)."""
    tendon_stiffness: PerUnit
    """N/m; infinite for a rigid tendon."""


class HillMuscles(AbstractMuscles):
    """nm musculotendon units with curves of one family.

    `tendon` is "elastic" or "rigid". An elastic tendon adds one state per unit: with
    `formulation` "explicit" the fibre length, with "implicit" the tendon force, for which
    `residual` gives the equation without solving it. `activation_dynamics=None` makes the
    activation equal to the excitation.

    A fibre does not become shorter than 0.05 optimal lengths along its tendon: there it stops,
    and if the path is shorter still, the tendon is slack and bears nothing.

    Units of several families in one model: use `MixedCurves`, which holds one family for each
    group of units; time constants, strains and damping are numbers of each unit anyway.
    """

    parameters: HillParameters
    curves: AbstractCurves = eqx.field(default_factory=DeGrooteFregly)
    activation_dynamics: AbstractActivation | None = eqx.field(default_factory=SmoothActivation)
    tendon: Literal["elastic", "rigid"] = eqx.field(static=True, default="elastic")
    formulation: Literal["explicit", "implicit"] = eqx.field(static=True, default="explicit")

    def __check_init__(self) -> None:
        if self.tendon not in ("elastic", "rigid"):
            raise ValueError(f"tendon is {self.tendon!r}; use 'elastic' or 'rigid'")
        if self.formulation not in ("explicit", "implicit"):
            raise ValueError(f"formulation is {self.formulation!r}; use 'explicit' or 'implicit'")
        held = (self.parameters.damping, self.parameters.minimum_activation)
        if self.tendon == "elastic" and is_concrete(held):
            loose = np.flatnonzero((np.asarray(held[0]) <= 0.0) & (np.asarray(held[1]) <= 0.0))
            if loose.size:
                name = self.parameters.names[int(loose[0])]
                raise ValueError(
                    f"muscle {name!r} has neither damping nor a minimum activation, so the speed "
                    "of its fibre is not determined at rest; give one of them or tendon='rigid'"
                )

    @property
    def names(self) -> tuple[str, ...]:
        return self.parameters.names

    @property
    def size(self) -> int:
        """Number of musculotendon units."""
        return self.parameters.size

    @property
    def n_states(self) -> int:
        """Number of state variables of all units."""
        per_unit = int(self.activation_dynamics is not None) + int(self.tendon == "elastic")
        return per_unit * self.size

    def activation(self, state: HillState, excitation: PerUnit | None = None) -> PerUnit:
        """Activation, held in [minimum, 1]."""
        if state.activation is not None:
            level = state.activation
        elif excitation is not None:
            level = excitation
        else:
            raise ValueError("these muscles have no activation state: give the excitation")
        return within(level, self.parameters.minimum_activation)

    def equilibrium(
        self, activation: PerUnit, l_mt: PerUnit, v_mt: PerUnit | None = None
    ) -> Equilibrium:
        """Balance of fibre and elastic tendon, see `empbody.muscles.equilibrium`."""
        level = within(activation, self.parameters.minimum_activation)
        return equilibrium(self.parameters, self.curves, level, l_mt, v_mt)

    def initial_state(
        self, l_mt: PerUnit, v_mt: PerUnit | None = None, activation: PerUnit | None = None
    ) -> HillState:
        """State in balance at a path length (m) and, if given, its speed (m/s).

        The activation is the minimum one unless given.
        """
        least = self.parameters.minimum_activation
        level = least if activation is None else within(activation, least)
        fibre = None
        if self.tendon == "elastic":
            balance = equilibrium(self.parameters, self.curves, level, l_mt, v_mt)
            explicit = self.formulation == "explicit"
            fibre = balance.fibre_length if explicit else balance.tendon_force
        return HillState(None if self.activation_dynamics is None else level, fibre)

    def _activation_rate(self, state: HillState, excitation: PerUnit) -> PerUnit | None:
        if self.activation_dynamics is None or state.activation is None:
            return None
        p = self.parameters
        return self.activation_dynamics.rate(
            state.activation,
            excitation,
            p.activation_time,
            p.deactivation_time,
            p.minimum_activation,
        )

    def _elastic(
        self, fibre: PerUnit, activation: PerUnit, l_mt: PerUnit, v_mt: PerUnit
    ) -> tuple[Fibre, PerUnit, PerUnit, PerUnit, PerUnit]:
        """Fibre, its speed, tendon length and force, and the rate of the state."""
        p, curves = self.parameters, self.curves
        if self.formulation == "explicit":
            placed = fibre_of_length(p, fibre)
            stretched = tendon_length(p, placed, l_mt)
            force = tension(p, curves, stretched)
            velocity = balanced_velocity(p, curves, placed, force, activation)
            return placed, velocity, stretched, force, velocity * p.max_contraction_velocity
        placed, stretched, compliance = fibre_of_tension(p, curves, fibre, l_mt)
        force = jnp.maximum(fibre, 0.0)
        velocity = balanced_velocity(p, curves, placed, force, activation)
        v_tendon = v_mt - velocity * top_speed(p) / placed.cosine
        rate = v_tendon / (p.tendon_slack_length * jnp.maximum(compliance, 1e-12))
        return placed, velocity, stretched, force, rate

    def derivative(
        self, state: HillState, excitation: PerUnit, l_mt: PerUnit, v_mt: PerUnit
    ) -> HillState:
        """Time derivative of the state (1/s)."""
        rate = None
        if state.fibre is not None:
            activation = self.activation(state, excitation)
            rate = self._elastic(state.fibre, activation, l_mt, v_mt)[4]
        return HillState(self._activation_rate(state, excitation), rate)

    def residual(
        self,
        state: HillState,
        rate: HillState,
        excitation: PerUnit,
        l_mt: PerUnit,
        v_mt: PerUnit,
    ) -> HillState:
        """Zero where `rate` is the derivative of `state`; for implicit solvers, collocation.

        The activation's entry is a rate (1/s), the fibre's a force over the maximum isometric
        one.
        """
        wanted = self._activation_rate(state, excitation)
        late = None
        if wanted is not None and rate.activation is not None:
            late = rate.activation - wanted
        if state.fibre is None or rate.fibre is None:
            return HillState(late, None)
        p, level = self.parameters, self.activation(state, excitation)
        if self.formulation == "implicit":
            miss = tension_residual(p, self.curves, state.fibre, rate.fibre, level, l_mt, v_mt)
        else:
            placed = fibre_of_length(p, state.fibre)
            velocity = rate.fibre / p.max_contraction_velocity
            forces = fibre_forces(p, self.curves, placed.length, velocity, level)
            force = tension(p, self.curves, tendon_length(p, placed, l_mt))
            miss = forces.total * placed.cosine - force
        return HillState(late, miss)

    def force(
        self,
        state: HillState,
        l_mt: PerUnit,
        v_mt: PerUnit,
        excitation: PerUnit | None = None,
    ) -> PerUnit:
        """Musculotendon force (N). The excitation is needed only for a rigid tendon without
        activation dynamics."""
        p, curves = self.parameters, self.curves
        if state.fibre is None:
            placed, velocity, taut = rigid(p, l_mt, v_mt)
            level = self.activation(state, excitation)
            forces = fibre_forces(p, curves, placed.length, velocity, level)
            return p.max_isometric_force * forces.total * placed.cosine * taut
        if self.formulation == "implicit":
            return p.max_isometric_force * jnp.maximum(state.fibre, 0.0)
        stretched = tendon_length(p, fibre_of_length(p, state.fibre), l_mt)
        return p.max_isometric_force * tension(p, curves, stretched)

    def outputs(
        self,
        state: HillState,
        l_mt: PerUnit,
        v_mt: PerUnit,
        excitation: PerUnit | None = None,
    ) -> MuscleState:
        """Lengths, speeds, forces, powers and stiffnesses of all units."""
        p, curves = self.parameters, self.curves
        level = self.activation(state, excitation)
        if state.fibre is None:
            placed, velocity, taut = rigid(p, l_mt, v_mt)
            stretched = jnp.where(taut > 0.0, 1.0, tendon_length(p, placed, l_mt))
            total = fibre_forces(p, curves, placed.length, velocity, level).total * taut
            force = total * placed.cosine
            k_tendon = jnp.full_like(l_mt, jnp.inf)
        else:
            placed, velocity, stretched, force, _ = self._elastic(state.fibre, level, l_mt, v_mt)
            total = force / placed.cosine
            k_tendon = _slope(lambda x: tension(p, curves, x), stretched)
            k_tendon = k_tendon * p.max_isometric_force / p.tendon_slack_length
        forces = fibre_forces(p, curves, placed.length, velocity, level)

        def along_tendon(along: PerUnit) -> PerUnit:
            length = jnp.sqrt(along**2 + jnp.sin(p.pennation) ** 2)
            return fibre_forces(p, curves, length, velocity, level).total * along / length

        speed = velocity * top_speed(p)
        tendon_speed = v_mt - speed / placed.cosine
        newton = p.max_isometric_force
        return MuscleState(
            activation=level,
            fibre_length=placed.length * p.optimal_fibre_length,
            fibre_velocity=speed,
            normalised_fibre_length=placed.length,
            normalised_fibre_velocity=velocity,
            pennation=jnp.arctan2(jnp.sin(p.pennation), placed.along),
            tendon_length=stretched * p.tendon_slack_length,
            tendon_velocity=tendon_speed,
            tendon_strain=stretched - 1.0,
            active_force=forces.active * newton,
            passive_force=forces.passive * newton,
            damping_force=forces.damping * newton,
            fibre_force=total * newton,
            tendon_force=force * newton,
            fibre_power=-total * newton * speed,
            tendon_power=-force * newton * tendon_speed,
            musculotendon_power=-force * newton * v_mt,
            fibre_stiffness=_slope(along_tendon, placed.along) * newton / p.optimal_fibre_length,
            tendon_stiffness=k_tendon,
        )


def _slope(function, x: PerUnit) -> PerUnit:
    return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]
