"""A Diffrax solver that ends each of another solver's steps on the constraint."""

from collections.abc import Callable
from typing import Any

import diffrax
from jaxtyping import PyTree


class Projecting(diffrax.AbstractAdaptiveSolver, diffrax.AbstractWrappedSolver):
    """Any Diffrax solver with `project` applied to the state after every step.

    The slope that some solvers carry over to the next step is left as it is: it is off by
    what the projection moved, which is of the order of the step's own error, and enters
    multiplied by the next step size.
    """

    solver: diffrax.AbstractSolver
    project: Callable[[PyTree], PyTree]

    @property
    def term_structure(self):
        return self.solver.term_structure

    @property
    def interpolation_cls(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.solver.interpolation_cls

    @property
    def term_compatible_contr_kwargs(self):
        return self.solver.term_compatible_contr_kwargs

    @property
    def root_finder(self):
        """Of an implicit solver; Diffrax sets its tolerances."""
        return self.solver.root_finder  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def scan_kind(self):
        """Of a Runge-Kutta solver; some adjoints set it."""
        return self.solver.scan_kind  # pyright: ignore[reportAttributeAccessIssue]

    def order(self, terms: PyTree[diffrax.AbstractTerm]) -> int | None:
        return self.solver.order(terms)

    def error_order(self, terms: PyTree[diffrax.AbstractTerm]):
        return self.solver.error_order(terms)

    def init(self, terms: PyTree[diffrax.AbstractTerm], t0: Any, t1: Any, y0: PyTree, args: PyTree):
        return self.solver.init(terms, t0, t1, y0, args)

    def step(
        self,
        terms: PyTree[diffrax.AbstractTerm],
        t0: Any,
        t1: Any,
        y0: PyTree,
        args: PyTree,
        solver_state: Any,
        made_jump: Any,
    ) -> tuple[PyTree, PyTree, dict[str, PyTree], Any, diffrax.RESULTS]:
        """One step, see `diffrax.AbstractSolver.step`."""
        y1, error, dense_info, solver_state, result = self.solver.step(
            terms, t0, t1, y0, args, solver_state, made_jump
        )
        y1 = self.project(y1)
        return y1, error, {**dense_info, "y1": y1}, solver_state, result

    def func(self, terms: PyTree[diffrax.AbstractTerm], t0: Any, y0: PyTree, args: PyTree):
        return self.solver.func(terms, t0, y0, args)
