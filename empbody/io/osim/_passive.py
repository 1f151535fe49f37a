"""Curves of a muscle whose fibres bear no passive force."""

from ...muscles._curves import AbstractCurves, Normalised


class WithoutPassive(AbstractCurves):
    """Other curves, with the passive force left out."""

    curves: AbstractCurves

    def active_force_length(self, length: Normalised) -> Normalised:
        return self.curves.active_force_length(length)

    def passive_force_length(self, length: Normalised) -> Normalised:
        return 0.0 * length

    def force_velocity(
        self, velocity: Normalised, activation: Normalised | None = None
    ) -> Normalised:
        return self.curves.force_velocity(velocity, activation)

    def tendon_force(self, length: Normalised, strain: Normalised) -> Normalised:
        return self.curves.tendon_force(length, strain)

    def tendon_length(self, force: Normalised, strain: Normalised) -> Normalised:
        return self.curves.tendon_length(force, strain)

    def _solve_velocity(
        self, active: Normalised, damping: Normalised, force: Normalised, activation: Normalised
    ) -> Normalised:
        return self.curves._solve_velocity(active, damping, force, activation)
