"""Derivatives of a laned function that is defined by F(arguments, result) = 0.

With result = g(arguments) and K = ∂F/∂result symmetric, dg = -K⁻¹ ∂F/∂arguments. F is
cheaper than g (inverse dynamics against forward dynamics), and the solve is never
differentiated. What is linear in the tangents is one primitive of JAX's, so that also
derivatives reach the batch-last layout: `vmap` hands it the whole batch, and its transpose
(reverse mode) is the same rule run backwards.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from ._chunks import in_chunks

Flags = tuple[bool, ...]
"""Which of several arrays have a leading batch axis."""


class Laned(NamedTuple):
    """Array leaves of the arguments, those that differ by lane flagged, and the lane count."""

    leaves: Sequence[Array]
    flags: Flags
    size: int


class ImplicitRule(NamedTuple):
    """How a result is defined; both functions give and take results lanes last."""

    defect: Callable[[Laned, Array], tuple[Array, Array]]
    """F(arguments, result), and K (n, n, lanes)."""
    solve: Callable[[Array, Array], Array]
    """K⁻¹ times a right side."""
    varied: tuple[int, ...]
    """Leaves that have tangents."""
    batches_well: bool
    """Whether a batch goes through as lanes, or one sample's form is left to vmap."""


def pushforward(
    rule: ImplicitRule, leaves: Sequence[Array], result: Array, tangents: Sequence[Array]
) -> Array:
    """Tangent of the result of one sample."""
    inputs = (*leaves, result, *tangents)
    (out,) = _push_p.bind(*inputs, rule=rule, flags=(False,) * len(inputs), size=None)
    return out


def _parts(rule: ImplicitRule, inputs: Sequence[Any], kind: str) -> tuple[Any, Any, Any]:
    """Leaves, result, and the linear inputs."""
    n = len(inputs) - 1 - (len(rule.varied) if kind == "push" else 1)
    return list(inputs[:n]), inputs[n], list(inputs[n + 1 :])


def _spread(array: Array, flag: bool, size: int) -> Array:
    return array if flag else jnp.broadcast_to(array, (size, *array.shape))


def _lanes(array: Array, flag: bool) -> Array:
    return jnp.moveaxis(array, 0, -1) if flag else array[..., None]


def _push(*inputs: Any, rule: ImplicitRule, flags: Flags, size: int | None) -> list[Array]:
    lanes = 1 if size is None else size
    inputs = tuple(jnp.asarray(x) for x in inputs)  # constants may be NumPy's

    def run(inputs: Sequence[Array], lanes: int) -> list[Array]:
        leaves, result, tangents = _parts(rule, inputs, "push")
        of_leaves, of_result, of_tangents = _parts(rule, flags, "push")
        for k, i in enumerate(rule.varied):
            if of_leaves[i] or of_tangents[k]:
                leaves[i] = _spread(leaves[i], of_leaves[i], lanes)
                tangents[k] = _spread(tangents[k], of_tangents[k], lanes)
                of_leaves[i] = True
        known = tuple(of_leaves)
        answer = jnp.broadcast_to(_lanes(result, of_result), (*result.shape[-1:], lanes))

        def defect(*varied: Array) -> tuple[Array, Array]:
            return rule.defect(Laned(_replaced(leaves, rule, varied), known, lanes), answer)

        at = tuple(leaves[i] for i in rule.varied)
        _, change, slope = jax.jvp(defect, at, tuple(tangents), has_aux=True)
        out = _solved(rule, slope, -change)
        return [out[..., 0] if size is None else jnp.moveaxis(out, -1, 0)]

    if size is None:
        return run(inputs, 1)
    return in_chunks(run, inputs, flags, (True,), lanes)


def _pull(
    *inputs: Any, rule: ImplicitRule, flags: Flags, kept: Flags, size: int | None
) -> list[Array]:
    """Cotangents of the varied leaves; `kept` tells which stay apart by lane."""
    lanes = 1 if size is None else size
    inputs = tuple(jnp.asarray(x) for x in inputs)

    def run(inputs: Sequence[Array], lanes: int) -> list[Array]:
        leaves, result, (cotangent,) = _parts(rule, inputs, "pull")
        of_leaves, of_result, (of_cotangent,) = _parts(rule, flags, "pull")
        for i, keep in zip(rule.varied, kept, strict=True):
            if keep and not of_leaves[i]:
                leaves[i], of_leaves[i] = _spread(leaves[i], False, lanes), True
        known = tuple(of_leaves)
        shape = (*result.shape[-1:], lanes)
        answer = jnp.broadcast_to(_lanes(result, of_result), shape)
        right = jnp.broadcast_to(_lanes(cotangent, of_cotangent), shape)

        def defect(*varied: Array) -> tuple[Array, Array]:
            return rule.defect(Laned(_replaced(leaves, rule, varied), known, lanes), answer)

        _, pull, slope = jax.vjp(defect, *(leaves[i] for i in rule.varied), has_aux=True)
        outs = list(pull(_solved(rule, slope, -right)))
        for k, (i, keep) in enumerate(zip(rule.varied, kept, strict=True)):
            if known[i] and not keep:
                outs[k] = jnp.sum(outs[k], axis=0)
        return outs

    if size is None:
        return run(inputs, 1)
    return in_chunks(run, inputs, flags, kept, lanes)


def _solved(rule: ImplicitRule, slope: Array, right: Array) -> Array:
    """K⁻¹ times a right side, known to be linear in it however it is computed: elimination may
    put both into one array, which could not be transposed."""
    return jax.lax.custom_linear_solve(
        lambda x: jnp.sum(slope * x[None], axis=1),
        right,
        lambda _, right: rule.solve(slope, right),
        symmetric=True,
    )


def _replaced(leaves: Sequence[Array], rule: ImplicitRule, varied: Sequence[Array]) -> list[Array]:
    out = list(leaves)
    for i, value in zip(rule.varied, varied, strict=True):
        out[i] = value
    return out


_push_p, _pull_p = Primitive("laned_push"), Primitive("laned_pull")
_PLAIN = {_push_p: _push, _pull_p: _pull}


@functools.lru_cache(maxsize=64)
def _traced(plain: Callable, avals: tuple[Any, ...], params: tuple[tuple[str, Any], ...]) -> Any:
    """One trace for the shapes and for what is compiled."""
    return jax.make_jaxpr(functools.partial(plain, **dict(params)))(*avals)


def _shapes(plain: Callable, *avals: Any, **params: Any) -> list[Any]:
    return _traced(plain, avals, tuple(params.items())).out_avals


def _compiled(plain: Callable, *inputs: Any, **params: Any) -> list[Any]:
    """Arrays, and what JAX has found to be constant."""
    avals = tuple(jax.typeof(x) for x in inputs)
    return jaxpr_as_fun(_traced(plain, avals, tuple(params.items())))(*inputs)


def _jvp(primitive: Primitive, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
    rule: ImplicitRule = params["rule"]
    kind = "push" if primitive is _push_p else "pull"
    out = primitive.bind(*primals, **params)
    leaves, result, linear = _parts(rule, tangents, kind)
    changes = []
    if any(type(t) is not ad.Zero for t in linear):
        fixed = primals[: len(leaves) + 1]
        moved = [ad.instantiate_zeros(t) for t in linear]
        changes.append(primitive.bind(*fixed, *moved, **params))
    active = [k for k, t in enumerate([*leaves, result]) if type(t) is not ad.Zero]
    if active:

        def of_residuals(*values: Array) -> list[Array]:
            inputs = list(primals)
            for k, value in zip(active, values, strict=True):
                inputs[k] = value
            return _PLAIN[primitive](*inputs, **params)

        at, along = [primals[k] for k in active], [tangents[k] for k in active]
        changes.append(jax.jvp(of_residuals, tuple(at), tuple(along))[1])
    return out, [functools.reduce(jnp.add, each) for each in zip(*changes, strict=True)]


def _push_transposed(cotangents: Any, *inputs: Any, rule: Any, flags: Flags, size: Any) -> Any:
    leaves, result, linear = _parts(rule, inputs, "push")
    (ct,) = cotangents
    if type(ct) is ad.Zero:
        return [None] * len(inputs)
    known = len(leaves) + 1
    outs = _pull_p.bind(
        *leaves,
        result,
        ct,
        rule=rule,
        flags=(*flags[:known], size is not None),
        kept=flags[known:],
        size=size,
    )
    wanted = [o if ad.is_undefined_primal(t) else None for o, t in zip(outs, linear, strict=True)]
    return [None] * known + wanted


def _pull_transposed(
    cotangents: Any, *inputs: Any, rule: Any, flags: Flags, kept: Flags, size: Any
) -> Any:
    known = len(inputs) - 1
    if all(type(ct) is ad.Zero for ct in cotangents):
        return [None] * len(inputs)
    tangents = [ad.instantiate_zeros(ct) for ct in cotangents]
    (out,) = _push_p.bind(
        *inputs[:known], *tangents, rule=rule, flags=(*flags[:known], *kept), size=size
    )
    if size is not None and not flags[known]:
        out = jnp.sum(out, axis=0)
    return [None] * known + [out]


def _batch(primitive: Primitive, axis: Any, inputs: Any, dims: Any, **params: Any) -> Any:
    """One more batch axis: the first becomes the lanes, further ones are merged with them."""
    if all(dim is None for dim in dims):
        outs = primitive.bind(*inputs, **params)
        return outs, [None] * len(outs)
    if not params["rule"].batches_well:
        plain = functools.partial(_PLAIN[primitive], **params)
        outs = jax.vmap(plain, in_axes=tuple(dims), axis_size=axis.size)(*inputs)
        return outs, [0] * len(outs)
    outer, inner = axis.size, params["size"]
    flags: Flags = params["flags"]
    moved, merged = [], []
    for x, dim, flag in zip(inputs, dims, flags, strict=True):
        batched = dim is not None
        x = jnp.moveaxis(x, dim, 0) if batched else x
        if inner is not None and (batched or flag):
            x = x if batched else jnp.broadcast_to(x, (outer, *x.shape))
            x = x if flag else jnp.broadcast_to(x[:, None], (outer, inner, *x.shape[1:]))
            x = x.reshape(outer * inner, *x.shape[2:])
        moved.append(x)
        merged.append(batched or flag)
    size = outer if inner is None else outer * inner
    params = params | {"flags": tuple(merged), "size": size}
    apart: Flags = (inner is not None,)
    if primitive is _pull_p:
        apart = params["kept"]
        params["kept"] = (True,) * len(apart)
    outs = primitive.bind(*moved, **params)
    if inner is not None:
        outs = [o.reshape(outer, inner, *o.shape[1:]) for o in outs]
        outs = [o if keep else jnp.sum(o, axis=1) for o, keep in zip(outs, apart, strict=True)]
    return outs, [0] * len(outs)


for _primitive, _plain in _PLAIN.items():
    _primitive.multiple_results = True
    _primitive.def_impl(functools.partial(lambda f, *xs, **ps: f(*xs, **ps), _plain))
    _primitive.def_abstract_eval(functools.partial(_shapes, _plain))
    mlir.register_lowering(
        _primitive, mlir.lower_fun(functools.partial(_compiled, _plain), multiple_results=True)
    )
    ad.primitive_jvps[_primitive] = functools.partial(_jvp, _primitive)
    batching.fancy_primitive_batchers[_primitive] = functools.partial(_batch, _primitive)
ad.primitive_transposes[_push_p] = _push_transposed
ad.primitive_transposes[_pull_p] = _pull_transposed
