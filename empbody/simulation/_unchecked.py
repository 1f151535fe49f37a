"""Takes Equinox's error checks out of a function, and with them its calls back to Python.

Diffrax checks at run time that times increase and that the first step points forwards,
even with `throw=False`. Each check is a call from the compiled program to Python, and a
program with such calls cannot be exported or kept in JAX's compilation cache. `simulate`
reports the same mistakes by its status, so it needs none of them.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun, jaxprs_in_params


def unchecked(function: Callable) -> Callable:
    """The same function without the checks that stand outside its loops.

    A failed check then has no effect: the value goes on as it is. All that is traced must
    come in by the arguments, which like the results are pytrees.
    """

    def without(*args: Any) -> Any:
        closed, shapes, rest = eqx.filter_make_jaxpr(function)(*args)
        program = ClosedJaxpr(_rewritten(closed.jaxpr), closed.consts)
        found = jaxpr_as_fun(program)(*jax.tree.leaves(eqx.filter(args, eqx.is_array)))
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), found), rest)

    return without


def _rewritten(jaxpr: Jaxpr) -> Jaxpr:
    """The program with every check replaced by what it lets pass."""
    same: dict[Any, Any] = {}

    def now(atom: Any) -> Any:
        return atom if isinstance(atom, Literal) else same.get(atom, atom)

    equations = []
    for equation in jaxpr.eqns:
        invars = [now(atom) for atom in equation.invars]
        passed = _passed(equation)
        if passed is not None:
            same.update(zip(equation.outvars, (invars[k] for k in passed), strict=True))
            continue
        params = equation.params
        if equation.primitive.name == "jit" and _raises(params["jaxpr"].jaxpr):
            inner = params["jaxpr"]
            params = params | {"jaxpr": ClosedJaxpr(_rewritten(inner.jaxpr), inner.consts)}
        equations.append(equation.replace(invars=invars, params=params))
    return jaxpr.replace(eqns=equations, outvars=[now(atom) for atom in jaxpr.outvars])


def _passed(equation: JaxprEqn) -> list[int] | None:
    """Which of its inputs an error check hands on; None where the equation is none."""
    if equation.primitive.name != "custom_jvp_call":
        return None
    jaxpr = equation.params["call_jaxpr"].jaxpr
    last = jaxpr.eqns[-1] if jaxpr.eqns else None
    if last is None or last.primitive.name != "cond" or jaxpr.outvars != last.outvars:
        return None
    good, bad = last.params["branches"][0].jaxpr, last.params["branches"][-1].jaxpr
    if good.eqns or not _raises(bad):
        return None
    given = dict(zip(good.invars, last.invars[1:], strict=True))
    handed = [given.get(atom) for atom in good.outvars]
    if not all(atom in jaxpr.invars for atom in handed):
        return None
    return [jaxpr.invars.index(atom) for atom in handed]


def _raises(jaxpr: Jaxpr) -> bool:
    """Whether a program calls Equinox's function that raises, outside of loops."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "pure_callback":
            function = getattr(params["callback"], "callback_func", None)
            if getattr(function, "__module__", None) == "equinox._errors":
                return True
        elif name not in ("while", "scan") and any(map(_raises, jaxprs_in_params(params))):
            return True
    return False
