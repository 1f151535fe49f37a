"""Two surfaces that do not overlap: the shortest string, found whichever of the several that pull
tight it is; and of cylinders with sides the one that passes both on the side that is given."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _sliding_string import place, sliding_string, unexplained

import empbody as eb
from empbody import autodiff
from empbody.native._call import SWITCH
from empbody.paths._effective import sample_strings

STEPS = 512
_MAKE = {
    "sphere": lambda name, side: eb.WrapSphere(name, "ground", 0.02, quadrant=side),
    "cylinder": lambda name, side: eb.WrapCylinder(name, "ground", 0.02, quadrant=side),
    "roll": lambda name, side: eb.WrapCylinder(name, "ground", 0.02, length=0.05, quadrant=side),
}
FREE = ("all", "all")


@functools.cache
def model(kinds, sides=FREE):
    both = zip(kinds, "ab", sides, strict=True)
    return sliding_string(*(_MAKE[kind](name, side) for kind, name, side in both))


def scene(rng, kinds):
    """Ends, radii, centres and axes, about a line along x, in each other's way."""
    while True:
        radius, centre = rng.uniform(0.01, 0.03, 2), rng.uniform(-0.015, 0.015, (2, 3))
        centre[:, 0] *= 4
        axis = rng.normal(size=(2, 3)) * [0.3, 1, 1]
        axis /= np.linalg.norm(axis, axis=1)[:, None]
        gap = centre[1] - centre[0]
        # The direction in which they are nearest to each other.
        if "sphere" not in kinds:
            across = np.cross(*axis)
            gap = (gap @ across) * across / (across @ across)
        elif "cylinder" in kinds:
            along = axis[kinds.index("cylinder")]
            gap = gap - (gap @ along) * along
        if np.linalg.norm(gap) > radius.sum():
            start = np.array([-0.13, *rng.uniform(-0.03, 0.03, 2)])
            ends = np.column_stack([[0.13, 0.13], rng.uniform(-0.04, 0.04, (2, 2))])
            return start, ends, radius, centre, axis


def placed(kinds, start, ends, radius, centre, axis, sides=FREE, base=None):
    base = model(kinds, sides) if base is None else base
    side = jnp.cross(axis, jnp.array([1.0, 0.0, 0.0]))
    side = side / jnp.linalg.norm(side, axis=1, keepdims=True)
    turned = jnp.stack([side, jnp.cross(axis, side), axis], axis=-1)
    size = base.paths.surface_size.at[:, 0].set(radius)
    return place(base, start, ends, centre, turned, size)


@functools.cache
def swept(kinds, sides=FREE, count=96):
    rng = np.random.default_rng(3)
    model(kinds, sides)  # outside of the trace
    drawn = [scene(rng, kinds) for _ in range(count)]
    scenes = [jnp.asarray(np.array(x)) for x in zip(*drawn, strict=True)]

    def one(*given):
        arm = placed(kinds, *given, sides)

        def at(q):
            touches = sample_strings(arm, q)[0].touches
            length, slope = eb.paths.lengths_and_arms(arm, q)
            return length[0], slope[0, 0], touches.on[:, 0], touches.converged[:, 0]

        return jax.vmap(at)(jnp.linspace(0.0, 1.0, STEPS)[:, None])

    found = jax.jit(jax.vmap(one))(*scenes)
    return [np.asarray(x) for x in scenes], [np.asarray(x) for x in found]


ALIKE = [("cylinder", "cylinder"), ("sphere", "sphere")]
SIDES = [("+x", "+x"), ("+x", "-x"), ("+x", "all")]


@pytest.mark.parametrize("kinds", ALIKE)
def test_lengths_do_not_jump(kinds):
    _, (length, slope, on, converged) = swept(kinds)
    assert np.max(unexplained(length, slope)) < 1e-7
    assert np.all(converged | ~on)
    # All of this says nothing unless many strings bear on both, and some change sides.
    assert np.mean(on.all(axis=2)) > 0.15
    assert np.sum(np.abs(np.diff(slope, axis=1)) > 5e-3) > 5


@pytest.mark.parametrize("sides", SIDES)
def test_strings_keep_to_the_sides_of_two_cylinders(sides):
    """Whichever of them alone would make the string longer."""
    scenes, (length, slope, on, converged) = swept(("cylinder", "cylinder"), sides)
    assert np.max(unexplained(length, slope)) < 1e-6
    assert np.all(converged | ~on)
    assert np.mean(on.all(axis=2)) > 0.3
    # Without sides the string is never longer.
    free = swept(("cylinder", "cylinder"))[1][0]
    assert np.all(length > free - 1e-9)
    assert np.mean(length > free + 1e-4) > 0.2
    # Chains that are laid past each on its side and pulled tight: mostly the same string. Where a
    # side lets go of a line far off, it is shorter.
    if "all" not in sides:
        start, ends, radius, centre, axis = (x[:32] for x in scenes)
        side = np.cross(axis, [1.0, 0.0, 0.0])
        side /= np.linalg.norm(side, axis=2)[..., None]
        side *= np.array([1.0 if name == "+x" else -1.0 for name in sides])[:, None]
        for q in (0, STEPS - 1):
            end = ends[:, 0] + q / (STEPS - 1) * (ends[:, 1] - ends[:, 0])
            chain = laid(start, end, centre + 2.5 * radius[..., None] * side)
            found = pulled_tight(chain, radius, centre, axis)
            assert np.all(length[:32, q] < found + 5e-4)
            assert np.quantile(np.abs(found - length[:32, q]), 0.75) < 5e-4


def test_ends_of_cylinders_that_keep_to_their_sides():
    """Past an end face as much is left of them beside another one as alone; only where that is
    next to nothing it lies on the straight line instead of on the string."""
    _, (length, slope, on, converged) = swept(("roll", "roll"), SIDES[0])
    jump = np.max(unexplained(length, slope), axis=1)
    assert np.sum(jump > 1e-6) <= 3
    assert jump.max() < 8e-4
    assert np.all(converged | ~on)
    assert np.mean(on.all(axis=2)) > 0.3


def lengths_over(kinds, sides, dtype=jnp.float64, count=24):
    """Lengths, and whether strings lie on both, at some poses of the sweeps, compiled anew."""
    scenes, _ = swept(kinds, sides)
    arrays, rest = eqx.partition(model(kinds, sides), eqx.is_array)

    def one(*given):
        arm = eqx.combine(arrays, rest)
        arm = placed(kinds, *given, sides, arm)
        cast = lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x  # noqa: E731
        arm = jax.tree.map(cast, arm)

        def at(q):
            return eb.path_lengths(arm, q)[0], sample_strings(arm, q)[0].touches.on[:, 0]

        return jax.vmap(at)(jnp.linspace(0.0, 1.0, 64, dtype=dtype)[:, None])

    found = jax.jit(jax.vmap(one))(*(jnp.asarray(x[:count]) for x in scenes))
    return [np.asarray(x) for x in found]


@pytest.mark.parametrize("sides", [SIDES[1], ("all", "all")])
def test_in_single_precision(sides):
    """Rounds find a balance there, too."""
    kinds = ("cylinder", "cylinder")
    length, on = lengths_over(kinds, sides)
    rough, on_rough = lengths_over(kinds, sides, jnp.float32)
    assert np.mean(on.all(axis=2)) > 0.15
    assert np.mean(on.all(axis=2) == on_rough.all(axis=2)) > 0.98
    assert np.quantile(np.abs(rough - length), 0.95) < 1e-5


@pytest.mark.parametrize("kinds", [("cylinder", "cylinder"), ("roll", "roll")])
def test_cylinders_with_sides_without_machine_code(kinds, monkeypatch):
    length, on = lengths_over(kinds, SIDES[0])
    monkeypatch.setenv(SWITCH, "0")
    jax.clear_caches()
    other, on_other = lengths_over(kinds, SIDES[0])
    np.testing.assert_array_equal(on, on_other)
    np.testing.assert_allclose(other, length, rtol=0.0, atol=1e-9)


def test_a_ball_beside_a_cylinder_that_keeps_to_its_side():
    """The shortest of the strings that pass the cylinder there; rounds over both may not settle on
    others, nor find no balance at all."""
    _, (length, slope, on, converged) = swept(("cylinder", "sphere"), ("+x", "all"))
    jump = np.max(unexplained(length, slope), axis=1)
    assert np.sum(jump > 1e-6) <= 6
    assert jump.max() < 2e-4
    assert np.mean(on.all(axis=2)) > 0.2
    assert np.all(converged | ~on)


@pytest.mark.parametrize("kinds", ALIKE)
def test_no_way_past_both_is_shorter(kinds):
    """Chains of points that were pulled tight from many sides, pushed out of the surfaces."""
    scenes, (length, *_) = swept(kinds)
    start, ends, radius, centre, axis = (x[:32] for x in scenes)
    length = length[:32]
    straight = np.zeros((len(start), 2)) if kinds[0] == "sphere" else np.ones((len(start), 2))
    for q in (0, STEPS - 1):
        end = ends[:, 0] + q / (STEPS - 1) * (ends[:, 1] - ends[:, 0])
        found = shortest_chain(start, end, radius, centre, axis * straight[..., None])
        # Links cut corners, by less than this.
        assert np.all(length[:, q] < found + 2e-4)
        # And they are real ways past, mostly the same one.
        assert np.quantile(np.abs(found - length[:, q]), 0.9) < 5e-4


@pytest.mark.parametrize(
    ("kinds", "sides"), [*((kinds, FREE) for kinds in ALIKE), (ALIKE[0], SIDES[1])]
)
def test_derivatives_are_of_the_string_that_is_found(kinds, sides):
    scenes, (_, slope, *_) = swept(kinds, sides)
    some = np.arange(STEPS * len(slope))[::97]
    which, step = some // STEPS, some % STEPS

    def slopes(q, *given):
        return autodiff.moment_arms(placed(kinds, *given, sides), q)[0, 0]

    given = [jnp.asarray(x)[which] for x in scenes]
    found = jax.jit(jax.vmap(slopes))(jnp.asarray(step / (STEPS - 1))[:, None], *given)
    # Tangent points have settled to 1e-8 m.
    np.testing.assert_allclose(found, slope[which, step], rtol=0.0, atol=5e-8)


def laid(start, end, past, links=48):
    """Chains over two places, whichever comes first along x."""
    order = np.argsort(past[:, :, 0], axis=1)
    past = np.take_along_axis(past, order[..., None], axis=1)
    corners = np.concatenate([start[:, None], past, end[:, None]], axis=1)
    at = np.linspace(0, 3, links + 1)
    piece = np.minimum(at.astype(int), 2)
    part = (at - piece)[:, None]
    return corners[:, piece] * (1 - part) + corners[:, piece + 1] * part


def pulled_tight(x, radius, centre, axis, rounds=2500):
    """(scenes,): length of chains, each link drawn between its neighbours and pushed out of the
    surfaces."""
    for _ in range(rounds):
        x[:, 1:-1] = 0.5 * x[:, 1:-1] + 0.25 * (x[:, 2:] + x[:, :-2])
        for k in range(2):
            away = x - centre[:, None, k]
            along = np.sum(away * axis[:, None, k], axis=-1, keepdims=True)
            away = away - along * axis[:, None, k]
            reach = np.linalg.norm(away, axis=-1, keepdims=True)
            lift = np.maximum(radius[:, None, k, None] / reach - 1.0, 0.0)
            lift[:, [0, -1]] = 0.0
            x = x + lift * away
    return np.linalg.norm(np.diff(x, axis=1), axis=-1).sum(axis=1)


def shortest_chain(start, end, radius, centre, axis, links=48):
    """(scenes,): least length of chains that begin on six sides of the line."""
    t = np.linspace(0, 1, links + 1)[:, None]
    best = np.full(len(start), np.inf)
    for angle in np.arange(6) * np.pi / 3:
        side = 0.05 * np.array([0, np.cos(angle), np.sin(angle)])
        x = start[:, None] + t * (end - start)[:, None] + np.sin(np.pi * t) * side
        best = np.minimum(best, pulled_tight(x, radius, centre, axis))
    return best
