# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""A jaxpr as machine code.

XLA runs a function as a chain of kernels, one for each group of array operations. Where arrays
are tiny and loops and branches many, starting kernels is nearly all that it does. Here every
small array is a handful of numbers in registers, loops are loops and branches are branches
(`_flow`). Larger arrays (inputs and tables of results) stay in memory (`_memory`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core
from llvmlite import ir

from ._elementwise import elementwise
from ._flow import branches, counted_loop, loop
from ._loops import loop_side_by_side
from ._memory import Store, lent
from ._side_by_side import MARK, REFILLED
from ._spread import CALLS
from ._structure import structural
from ._values import INDEX, SMALL, Element, Memory, Small, Unsupported, Value, type_of
from ._wide import assembled, element, element_type, is_wide, type_name, vector_function


class Emitter(Store):
    """Writes one function."""

    def finish(self) -> None:
        self.builder.ret_void()
        self._stack.branch(self._start)

    # Numbers

    def value(self, x: Element, dtype: Any) -> ir.Value:
        if isinstance(x, ir.Value):
            return x
        kind = type_of(dtype)
        number = float(x) if np.issubdtype(dtype, np.floating) else int(x)
        return ir.Constant(kind, number)

    def index(self, x: Element, dtype: Any = np.int64) -> ir.Value:
        found = self.value(x, dtype)
        if element_type(found.type).width == INDEX.width:
            return found
        target = ir.VectorType(INDEX, found.type.count) if is_wide(found) else INDEX
        unsigned = np.dtype(dtype).kind in "ub"
        new = (self.builder.zext if unsigned else self.builder.sext)(found, target)
        run = self.run_of(found)
        if run is not None:
            self.add_run(run._replace(vector=new, first=self.index(run.first, dtype)))
        return new

    def call(self, name: str, values: list[ir.Value]) -> ir.Value:
        """An LLVM intrinsic."""
        kind = values[0].type
        name = f"{name}.{type_name(kind)}"
        return self.builder.call(self.declared(name, kind, [kind] * len(values)), values)

    def declared(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        return found

    def saturated(self, x: ir.Value, target: ir.Type, unsigned: bool) -> ir.Value:
        """A whole number from a float: nothing is 0, and what is too large is the largest."""
        kinds = f"{type_name(target)}.{type_name(x.type)}"
        name = f"llvm.fpto{'ui' if unsigned else 'si'}.sat.{kinds}"
        return self.builder.call(self.declared(name, target, [x.type]), [x])

    def library(self, name: str, values: list[ir.Value]) -> ir.Value:
        """A function of the C library."""
        kind = values[0].type
        if not is_wide(values[0]):
            name = name if kind == ir.DoubleType() else name + "f"
            found = self.declared(name, kind, [kind] * len(values))
            found.attributes.add("nounwind")
            return self.builder.call(found, values)
        wide = vector_function(name, kind, len(values))
        if wide is not None:
            found = self.declared(wide, kind, [kind] * len(values))
            found.attributes.add("nounwind")
            return self.builder.call(found, values)
        b = self.builder
        parts = [self.library(name, [element(b, x, k) for x in values]) for k in range(kind.count)]
        return assembled(b, parts)

    # Jaxprs

    def run(self, jaxpr: Any, consts: Sequence[Value], arguments: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr."""
        known: dict[Any, Value] = {}
        known.update(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))
        last = _last_uses(jaxpr)

        def read(atom: Any, now: int) -> Value:
            if isinstance(atom, core.Literal):
                return Small.of(np.asarray(atom.val, atom.aval.dtype))
            value = known[atom]
            if isinstance(value, Memory) and value.owned and last[atom] > now:
                return lent(value)
            return value

        for now, eqn in enumerate(jaxpr.eqns):
            operands = [read(atom, now) for atom in eqn.invars]
            # Twice in one equation: nobody's own.
            names = [id(atom) for atom in eqn.invars]
            operands = [
                x if names.count(name) == 1 else lent(x)
                for x, name in zip(operands, names, strict=True)
            ]
            for var, value in zip(eqn.outvars, self.equation(eqn, operands), strict=True):
                known[var] = value
        end = len(jaxpr.eqns)
        return [read(atom, end) for atom in jaxpr.outvars]

    def equation(self, eqn: Any, operands: list[Value]) -> Sequence[Value]:
        name = eqn.primitive.name
        if name in CALLS:
            inner, consts = self.opened(eqn.params[CALLS[name]])
            own = str(eqn.params.get("name"))
            if own.startswith((MARK, REFILLED)) and not self.lanes:
                return loop_side_by_side(self, inner, consts, operands, own)
            return [self.fresh(x) for x in self.run(inner, consts, operands)]
        if name == "while":
            return loop(self, eqn, operands)
        if name == "scan":
            return counted_loop(self, eqn, operands)
        if name == "cond":
            return branches(self, eqn, operands)
        if name == "optimization_barrier":
            return [self.fresh(x) for x in operands]
        found = structural(self, eqn, operands)
        if found is not None:
            return found
        one = elementwise(self, eqn, [self.small(x) for x in operands])
        if one is None:
            raise Unsupported(f"primitive {name}")
        return [one]

    def opened(self, jaxpr: Any) -> tuple[Any, list[Value]]:
        if not hasattr(jaxpr, "consts"):
            return jaxpr, []
        return jaxpr.jaxpr, [constant_value(self, x) for x in jaxpr.consts]


def constant_value(emitter: Emitter, x: Any) -> Value:
    array = np.asarray(x)
    return Small.of(array) if array.size <= SMALL else emitter.constant(array)


def _last_uses(jaxpr: Any) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for now, eqn in enumerate(jaxpr.eqns):
        for atom in eqn.invars:
            if not isinstance(atom, core.Literal):
                last[atom] = now
    # Twice among the results: nobody's own.
    end, seen = len(jaxpr.eqns), set()
    for atom in jaxpr.outvars:
        if not isinstance(atom, core.Literal):
            last[atom] = end + (atom in seen)
            seen.add(atom)
    return last
