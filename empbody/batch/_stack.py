"""Models of one structure as one model whose arrays have a leading axis."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..model import Model


def stack_models(models: Sequence[Model]) -> Model:
    """One model whose arrays have a leading axis, one entry for each model.

    The models must have one structure: the same names, tree, joint types, kinds of rhythm,
    path layouts and sizes of arrays; all numbers may differ. The stack is what `jax.vmap`
    takes with `in_axes=0` for the model, or `eqx.filter_vmap` by itself:

        stack = eb.stack_models(models)
        arms = jax.vmap(eb.moment_arms)(stack, q)              # q: (runs, nq)
        arms = jax.vmap(eb.moment_arms, (0, None))(stack, q)   # one q for all

    `unstack_models` is the inverse; `stack_size` tells how many there are.

    **Raises:** `ValueError`, naming the first field that differs in structure.
    """
    models = list(models)
    if not models:
        raise ValueError("no models to stack: give at least one")
    first = models[0]
    for k, other in enumerate(models):
        if not isinstance(other, Model):
            raise TypeError(f"model {k} of the stack is a {type(other).__name__}, not a Model")
        difference = _difference(first, other, "model")
        if difference is not None:
            raise ValueError(
                f"models 0 and {k} cannot be stacked: {difference}; models of a stack may differ "
                "in numbers only"
            )
    # The first model's static fields stand for all: they are equal.
    arrays = [jax.tree.leaves(eqx.filter(model, eqx.is_array)) for model in models]
    stacked = [jnp.stack(same) for same in zip(*arrays, strict=True)]
    numbers, rest = eqx.partition(first, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(numbers), stacked), rest)


def unstack_models(stack: Model) -> list[Model]:
    """The models of a stack, in order."""
    size = stack_size(stack)
    if size is None:
        raise ValueError("this is one model, not a stack: its masses have no leading axis")
    return [take(stack, True, i) for i in range(size)]


def stack_size(model: Model) -> int | None:
    """How many models a stack holds; None for a single model."""
    return None if np.ndim(model.mass) == 1 else int(np.shape(model.mass)[0])


def varying_leaves(model: Model, axes: Any) -> Any:
    """Which arrays of a model have a leading axis of runs: a tree of booleans.

    `axes` is None (all arrays, if it is a stack), or the model's `in_axes` as `jax.vmap`
    takes them: a model with 0 and None in place of its arrays, or of whole parts of it.
    """
    if axes is None:
        stacked = stack_size(model) is not None
        return jax.tree.map(lambda leaf: stacked and eqx.is_array(leaf), model)

    def fill(axis: Any, part: Any) -> Any:
        if axis not in (0, None):
            raise ValueError(f"model_axes holds {axis!r}: 0 where runs differ, None elsewhere")
        return jax.tree.map(lambda leaf: axis == 0 and eqx.is_array(leaf), part)

    return jax.tree.map(fill, axes, model, is_leaf=lambda x: x is None)


def take(tree: Any, varying: Any, index: Any) -> Any:
    """One run's part of a tree; `varying` tells which arrays have a leading axis."""
    if isinstance(varying, bool):
        varying = jax.tree.map(lambda leaf: varying and eqx.is_array(leaf), tree)
    return jax.tree.map(lambda leaf, cut: leaf[index] if cut else leaf, tree, varying)


def _difference(a: Any, b: Any, where: str) -> str | None:
    """The first part in which two trees differ besides their numbers, in words."""
    if eqx.is_array(a) and eqx.is_array(b):
        if np.shape(a) != np.shape(b):
            return f"{where} has the shapes {np.shape(a)} and {np.shape(b)}"
        if a.dtype != b.dtype:
            return f"{where} holds {a.dtype} and {b.dtype}"
        return None
    if type(a) is not type(b):
        return f"{where} is a {type(a).__name__} and a {type(b).__name__}"
    if isinstance(a, eqx.Module):
        for field in dataclasses.fields(a):
            name = f"{where}.{field.name}"
            one, two = getattr(a, field.name, None), getattr(b, field.name, None)
            found = _static(one, two, name) if _is_static(field) else _difference(one, two, name)
            if found is not None:
                return found
        return None
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return f"{where} has {len(a)} and {len(b)} entries"
        parts = [(f"{where}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, dict):
        if a.keys() != b.keys():
            return f"{where} has the keys {sorted(a)} and {sorted(b)}"
        parts = [(f"{where}[{key!r}]", a[key], b[key]) for key in a]
    else:
        return _static(a, b, where)
    found = (_difference(x, y, name) for name, x, y in parts)
    return next((words for words in found if words is not None), None)


def _is_static(field: dataclasses.Field) -> bool:
    return bool(field.metadata.get("static", False))


def _static(a: Any, b: Any, where: str) -> str | None:
    return None if a is b or a == b else f"{where} is {_short(a)} and {_short(b)}"


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 80 else words[:77] + "..."
