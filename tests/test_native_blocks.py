"""Blocks of lanes as machine code, and turns that are taken side by side, give what JAX gives."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from empbody.native import Program, refilled, side_by_side


def put(table, value, index):
    return lax.dynamic_update_index_in_dim(table, value, index, 0)


def column(table, k):
    start = (*[jnp.zeros_like(k)] * (table.ndim - 1), k)
    shape = (*table.shape[:-1], 1)
    return lax.dynamic_slice(table, start, shape, allow_negative_indices=False)[..., 0]


def put_column(table, k, new):
    start = (*[jnp.zeros_like(k)] * (table.ndim - 1), k)
    new = new.astype(table.dtype)[..., None]
    return lax.dynamic_update_slice(table, new, start, allow_negative_indices=False)


def in_blocks(sample, arguments, lanes, size):
    """Block by block with JAX alone, what is beyond the last lane being zero."""

    def part(x, first):
        here = x if x.shape[-1] == 1 else x[..., first : first + size]
        missing = 0 if x.shape[-1] == 1 else size - here.shape[-1]
        return jnp.pad(here, [(0, 0)] * (x.ndim - 1) + [(0, missing)])

    run, found = jax.jit(sample), []
    for first in range(0, lanes, size):
        here = jax.tree.map(lambda x, first=first: part(x, first), arguments)
        count = min(size, lanes - first)
        found.append(jax.tree.map(lambda x: x[..., :count], run(here, jnp.int32(count))))  # noqa: B023
    return jax.tree.map(lambda *x: jnp.concatenate(x, -1), *found)


def code_of_blocks(sample, block, *results):
    """As machine code or not at all; each result is given by a number of rows and a type."""
    shapes = [jax.ShapeDtypeStruct((rows,), dtype) for rows, dtype in results]
    made = Program(sample, lambda _: None, block, lambda _: shapes)

    def run(arguments, lanes):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return jax.jit(lambda x: made(x, lanes))(arguments)

    return run


def check_blocks(sample, arguments, lanes, *results, block=16, rtol=1e-13):
    found = code_of_blocks(sample, block, *results)(arguments, lanes)
    wanted = in_blocks(sample, arguments, lanes, 1 if lanes == 1 else block)
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
    return found


CONSTANT = np.linspace(-1.0, 1.0, 200)


def turns_side_by_side(given, count):
    """Loops and branches, some of them the same way in all turns, and places of all kinds."""
    x, whole, same = given

    def body(k, tables):
        numbers, others, truths = tables
        v, n = column(x, k), column(whole, k)[0]

        def grow(state):
            i, total, y = state
            # An inner loop that ends for all at once, by a number that goes on for all.
            y = lax.fori_loop(0, i % 3, lambda j, y: y * 0.5 + j, y)
            return i + 1, total + i, y + column(jnp.asarray(CONSTANT), i * 3 + n)

        i, total, y = lax.while_loop(lambda s: s[0] < n, grow, (jnp.int32(0), jnp.int32(0), v[0]))
        branch = lax.cond(
            v[1] > 0,
            lambda: lax.cond(same[0, 0] > 0, lambda: y, lambda: jnp.sin(v[1])),
            lambda: lax.while_loop(lambda z: z > 0.5, lambda z: z * 0.7, jnp.abs(v[1])),
        )
        way = lax.switch(n - 1, [lambda: v[0], lambda: y, lambda: v[0] * y + same[1, 0]])
        # The first of what is carried differs from the second turn on only.
        (a, b), each = lax.scan(
            lambda c, row: ((c[1], row + c[0]), (c[0] > row, c[1])), (1.0, y), v
        )
        # Of integers, as XLA has it also where the divisor is zero.
        divided = lax.div(total, n - 2) + lax.rem(total, n - 3)
        neighbour = column(x, (k * 7 + 1) % count)[0]
        own = column(jnp.stack([v[0], y, branch]), n - 1)
        row = jnp.stack([y, branch, way, a, b, each[1].sum(), neighbour, own])
        return (
            put_column(numbers, k, row),
            put_column(others, count - 1 - k, jnp.stack([i, total, divided])),
            put_column(truths, k, each[0]),
        )

    size = x.shape[-1]
    empty = jnp.zeros((8, size)), jnp.zeros((3, size), jnp.int32), jnp.zeros((3, size), bool)
    return side_by_side(count, body, empty)


TURNS = ((8, jnp.float64), (3, jnp.int32), (3, jnp.bool_))


def numbers_for_turns(lanes, seed=0):
    rng = np.random.default_rng(seed)
    whole = jnp.asarray(rng.integers(0, 7, (1, lanes)), jnp.int32)
    return jnp.asarray(rng.normal(size=(3, lanes))), whole, jnp.asarray([[0.3], [0.7]])


@pytest.mark.parametrize("lanes", [1, 2, 7, 33, 100])
def test_turns_side_by_side(lanes):
    check_blocks(turns_side_by_side, numbers_for_turns(lanes), lanes, *TURNS)


@pytest.mark.parametrize("width", [2, 4])
def test_narrow_vectors_without_vector_functions(width, monkeypatch):
    monkeypatch.setattr("empbody.native._loops.width", lambda: width)
    monkeypatch.setattr("empbody.native._emit.vector_function", lambda *_: None)
    check_blocks(turns_side_by_side, numbers_for_turns(23), 23, *TURNS)


def turns_of_different_length(x, count):
    def start(k):
        v = column(x, k)
        table = lax.fori_loop(0, 5, lambda j, t: put(t, v[0] * j, j), jnp.zeros(100))
        # What it was before, and what it is now.
        changed = put(table, v[1], jnp.int32(3))
        return jnp.int32(0), v, table[3] + changed[3]

    def step(state):
        i, v, kept = state
        v = lax.cond(v[0] > 0, lambda: v * 1.3 + 0.1, lambda: v * 1.1 - 0.1)
        return i + 1, v, kept

    def end(k, state, tables):
        i, v, kept = state
        numbers, steps = tables
        before = column(numbers, k)
        new = jnp.concatenate([v, kept[None]]) + before
        return put_column(numbers, k, new), put_column(steps, count - 1 - k, i[None])

    size = x.shape[-1]
    tables = jnp.ones((4, size)), jnp.zeros((1, size), jnp.int32)
    return refilled(count, start, lambda s: (s[0] < 40) & (abs(s[1][2]) < 9.0), step, end, tables)


@pytest.mark.parametrize("lanes", [1, 2, 7, 33, 100])
def test_turns_of_different_length(lanes):
    """Some of them end before the first step."""
    x = jnp.asarray(np.random.default_rng(lanes).normal(size=(3, lanes)) * 4.0)
    found = check_blocks(turns_of_different_length, x, lanes, (4, jnp.float64), (1, jnp.int32))
    assert lanes < 10 or len(np.unique(found[1])) > 3


def test_a_table_is_not_changed_while_its_old_form_is_needed():
    """It would have to be copied in every turn: better without machine code than wrong."""

    def end(k, state, table):
        new = put_column(table, k, state[1])
        return put_column(new, k, column(new, k) * 10.0 + column(table, k))

    def sample(x, count):
        begin, table = lambda k: (jnp.int32(0), column(x, k)), jnp.ones(x.shape)
        return [refilled(count, begin, lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), end, table)]

    with pytest.raises(RuntimeWarning, match="changed at different places"):
        code_of_blocks(sample, 16, (3, jnp.float64))(jnp.ones((3, 20)), 20)


def test_who_has_left_a_loop_keeps_what_it_had():
    """Small arrays and large ones, changed at places that go on for all."""
    x = jnp.asarray(np.random.default_rng(0).uniform(0.0, 6.0, (2, 20)))

    def sample(x, count):
        def turn(size, v):
            def change(state):
                i, table = state
                put_more = lambda j, t: put(t, v[1] + i, i + j)  # noqa: E731
                return i + 1, lax.fori_loop(0, 2, put_more, table)

            start = jnp.int32(0), jnp.broadcast_to(v[1], (size,))
            i, table = lax.while_loop(lambda s: s[0] < v[0].astype(jnp.int32), change, start)
            return jnp.concatenate([table[:6], i[None]])

        def body(k, found):
            v = column(x, k)
            return put_column(found, k, jnp.concatenate([turn(7, v), turn(100, v)]))

        return [side_by_side(count, body, jnp.zeros((14, x.shape[-1])))]

    check_blocks(sample, x, 20, (14, jnp.float64))


def test_who_has_left_a_loop_is_not_asked_again():
    """The condition is a loop itself, which would not end for those that have left."""
    x = jnp.asarray(np.random.default_rng(0).uniform(0.0, 6.0, (1, 20)))

    def sample(x, count):
        def body(k, found):
            limit = column(x, k)[0]

            def go_on(state):
                i, own = state
                reached = lax.while_loop(lambda z: z != own, lambda z: z + 1.0, i)
                return reached < limit

            def step(state):
                i, own = state
                return i + 1.0, jnp.where(limit > 0, i + 1.0, own)

            return put_column(found, k, jnp.stack(lax.while_loop(go_on, step, (0.0, 0.0 * limit))))

        return [side_by_side(count, body, jnp.zeros((2, x.shape[-1])))]

    check_blocks(sample, x, 20, (2, jnp.float64))


def test_places_beyond_the_ends_are_moved_back():
    """Also those of turns that follow each other; a table may have one place for all."""
    x, few = jnp.asarray(np.random.default_rng(0).normal(size=(3, 32))), np.arange(5.0)

    def sample(x, count):
        def body(k, tables):
            own, last, some = tables
            small = column(jnp.concatenate([column(x, k), jnp.ones(2)]), k + 1)
            found = [column(x, k + 3)[0], column(x, k + (-2))[1], column(jnp.asarray(few), k)]
            listed = side_by_side(k % 7, lambda j, t: put_column(t, j, few[0] + k), jnp.zeros(4))
            return (
                put_column(own, k, jnp.stack([*found, small, listed.sum()])),
                put_column(last, k, found[0][None]),
                put_column(some, k, column(x, k)),
            )

        size = x.shape[-1]
        empty = jnp.zeros((5, size)), jnp.zeros((1, 1)), jnp.zeros((3, 6))
        # So many turns are not known beforehand.
        own, last, some = side_by_side(jnp.minimum(count, 30), body, empty)
        return own, jnp.broadcast_to(last, (1, size)) + 0.0 * own[:1], put_rows(size, some)

    def put_rows(size, some):
        return side_by_side(
            jnp.int32(size), lambda k, t: put_column(t, k, column(some, k)), jnp.zeros((3, size))
        )

    # Blocks of eight are never cut: here turns look at their neighbours.
    check_blocks(sample, x, 32, (5, jnp.float64), (1, jnp.float64), (3, jnp.float64), block=8)


def test_lanes_do_not_see_each_other():
    """Neither the order of lanes nor what is none in others changes a bit, whoever works."""
    lanes = 3000
    x, _, _ = numbers_for_turns(lanes)
    spoilt = x.at[:, ::3].set(np.nan).at[0, 1::3].set(np.inf)
    order = np.random.default_rng(1).permutation(lanes)

    def sample(x, count):
        found, _ = turns_of_different_length(x, count)
        lengths = side_by_side(
            count,
            lambda k, t: put_column(t, k, jnp.sin(column(x, k)) / column(x, k)[0]),
            jnp.zeros(x.shape),
        )
        return found, lengths

    run = code_of_blocks(sample, 32, (4, jnp.float64), (3, jnp.float64))
    found, mixed, others = (run(y, lanes) for y in (x, x[:, order], spoilt))
    for y, z, w, again in zip(found, mixed, others, run(x, lanes), strict=True):
        np.testing.assert_array_equal(y, again)
        np.testing.assert_array_equal(y[:, order], z)
        np.testing.assert_array_equal(y[:, 2::3], w[:, 2::3])
    assert [y.shape for y in run(x[:, :0], 0)] == [(4, 0), (3, 0)]


def test_wrong_blocks_are_refused():
    with pytest.raises(ValueError, match="two at least"):
        code_of_blocks(lambda x, _: [x], 1, (3, jnp.float64))
    for told in ((2, jnp.float64), (3, jnp.float32)):
        with pytest.raises(ValueError, match="as was said"):
            code_of_blocks(lambda x, _: [x], 16, told)(jnp.ones((3, 20)), 20)
    with pytest.raises(TypeError, match="int32 or int64"):
        side_by_side(jnp.uint32(3), lambda k, t: t, jnp.zeros(3))
