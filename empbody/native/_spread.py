"""Which values of a jaxpr differ between the turns of a loop that are taken side by side."""

import math
from collections.abc import Sequence
from typing import Any

from jax.extend import core

from ._values import SMALL

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
}
"""Primitives that are jaxprs of their own, and where these are."""


def plain(jaxpr: Any) -> Any:
    return jaxpr.jaxpr if hasattr(jaxpr, "jaxpr") else jaxpr


def spread(jaxpr: Any, given: Sequence[bool]) -> list[bool]:
    """Whether each result differs, if these of the arguments do."""
    jaxpr = plain(jaxpr)
    known: dict[Any, bool] = dict.fromkeys(jaxpr.constvars, False)
    known.update(zip(jaxpr.invars, given, strict=True))

    def read(atom: Any) -> bool:
        return False if isinstance(atom, core.Literal) else known[atom]

    for eqn in jaxpr.eqns:
        found = _equation(eqn, [read(atom) for atom in eqn.invars])
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _equation(eqn: Any, given: list[bool]) -> list[bool]:
    name, p = eqn.primitive.name, eqn.params
    if name in CALLS:
        return spread(p[CALLS[name]], given)
    if name == "while":
        m, n = p["cond_nconsts"], p["body_nconsts"]
        carried = carried_by_while(p, given)
        ends = spread(p["cond_jaxpr"], [*given[:m], *carried])[0]
        return [ends or x for x in carried]
    if name == "scan":
        n, k = p["num_consts"], p["num_carry"]
        carried = carried_by_scan(p, given)
        found = spread(p["jaxpr"], [*given[:n], *carried, *given[n + k :]])
        return [*found[:k], *([True] * (len(found) - k))]
    if name == "cond":
        if given[0]:
            return [True] * len(eqn.outvars)
        ways = [spread(branch, given[1:]) for branch in p["branches"]]
        return [any(way) for way in zip(*ways, strict=True)]
    # What is put together in memory is put there for each turn.
    in_memory = name in ("dynamic_update_slice", "empty") or any(
        math.prod(var.aval.shape) > SMALL for var in eqn.outvars
    )
    return [in_memory or any(given)] * len(eqn.outvars)


def carried_by_while(p: dict, given: Sequence[bool]) -> list[bool]:
    """What differs within a loop. A number that starts and goes on the same way in all turns
    does not, though they may leave the loop at different times."""
    m, n = p["cond_nconsts"], p["body_nconsts"]
    return _settled(
        list(given[m + n :]), lambda x: spread(p["body_jaxpr"], [*given[m : m + n], *x])
    )


def carried_by_scan(p: dict, given: Sequence[bool]) -> list[bool]:
    n, k = p["num_consts"], p["num_carry"]
    return _settled(
        list(given[n : n + k]),
        lambda x: spread(p["jaxpr"], [*given[:n], *x, *given[n + k :]])[:k],
    )


def _settled(carried: list[bool], once: Any) -> list[bool]:
    while True:
        new = [a or b for a, b in zip(carried, once(carried), strict=True)]
        if new == carried:
            return carried
        carried = new
