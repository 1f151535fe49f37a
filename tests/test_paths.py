"""Paths over surfaces: contact, loss of contact, odd places, gradients, errors."""

import dataclasses
import re
import subprocess
import sys
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.paths._compact import work_list
from empbody.paths._squeeze import through_what_is_left
from empbody.paths._surfaces import Surfaces


def hinge(surfaces, wraps, begin=(-0.1, 0.02, 0.01), end=(0.12, 0.015, -0.02), **more):
    """A path from the ground to a link that turns about z through the origin."""
    points = [eb.PathPoint("ground", begin), eb.PathPoint("link", end)]
    return eb.Model.build(
        coordinates=("angle",),
        bodies=[eb.Body("link", joint=eb.Revolute((0, 0, 1)), mass=1.0, inertia=(1, 1, 1))],
        muscles=[eb.Path("string", points, wraps)],
        surfaces=surfaces,
        **more,
    )


SURFACES = {
    "cylinder": eb.WrapCylinder("s", "ground", 0.03),
    "short cylinder": eb.WrapCylinder("s", "ground", 0.03, length=0.02),
    "one-sided cylinder": eb.WrapCylinder("s", "ground", 0.03, quadrant="-y"),
    "sphere": eb.WrapSphere("s", "ground", 0.03),
    "ellipsoid": eb.WrapEllipsoid("s", "ground", (0.03, 0.02, 0.05), rotation=(0.3, 0.2, 0.1)),
    "torus": eb.WrapTorus(
        "s", "ground", 0.008, 0.03, translation=(0.02, 0.03, 0), rotation=(0, 1.5, 0)
    ),
}


QUICK = {"xla_backend_optimization_level": 0}  # compiling is most of the time
ROUND = ("cylinder", "short cylinder", "one-sided cylinder", "sphere")
GROUPS = [ROUND, pytest.param(("ellipsoid", "torus"), marks=pytest.mark.slow)]
"""Surfaces that are tested side by side in one model, a string over each."""
BEGIN, END = (-0.1, 0.02, 0.01), (0.12, 0.015, -0.02)


def side_by_side(kinds, begin=BEGIN, end=END):
    ends = [eb.PathPoint("ground", begin), eb.PathPoint("link", end)]
    surfaces = [dataclasses.replace(SURFACES[kind], name=kind) for kind in kinds]
    units = [eb.Path(kind, ends, [eb.Wrap(kind)]) for kind in kinds]
    return hinge([], []).with_muscles(units, surfaces)


class Sweep(NamedTuple):
    """A fine sweep over contact and lift-off; a column for each kind."""

    kinds: tuple[str, ...]
    q: np.ndarray
    lengths: np.ndarray
    arms: np.ndarray
    traced: int


@pytest.fixture(scope="module", params=GROUPS)
def swept(request):
    traced = 0

    def one(model, q):
        nonlocal traced
        traced += 1
        return eb.paths.lengths_and_arms(model, q)

    model = side_by_side(request.param)
    run = eqx.filter_jit(eqx.filter_vmap(one, in_axes=(None, 0)))
    # The ends of a path through a ring stay on either side of it.
    low, high = (-1.2, 1.2) if "torus" in request.param else (-1.5, 2.2)
    q = jnp.linspace(low, high, 4096)
    lengths, arms = run(model, q[:, None])
    # New numbers.
    run(
        eqx.tree_at(lambda m: m.paths.surface_size, model, replace_fn=lambda x: 1.1 * x), q[:, None]
    )
    return Sweep(request.param, *map(np.asarray, (q, lengths, arms[:, 0])), traced)


def test_length_never_jumps(swept):
    step = swept.q[1] - swept.q[0]
    assert np.all(np.isfinite(swept.lengths))
    assert np.all(np.isfinite(swept.arms))
    # From one sample to the next the length changes by something between what the slopes at
    # both ends say: also at corners, where the string changes sides.
    middle = -0.5 * (swept.arms[1:] + swept.arms[:-1]) * step
    spread = 0.5 * np.abs(np.diff(swept.arms, axis=0)) * step
    assert (np.abs(np.diff(swept.lengths, axis=0) - middle) - spread).max() < 1e-6


def test_moment_arm_is_the_slope_of_the_length(swept):
    h, lengths = swept.q[1] - swept.q[0], swept.lengths
    slope = (lengths[:-4] - 8 * lengths[1:-3] + 8 * lengths[3:-1] - lengths[4:]) / (12 * h)
    error = np.abs(slope + swept.arms[2:-2])
    # Not across the corners where contact begins or the string changes sides.
    assert np.quantile(error, 0.97, axis=0).max() < 1e-7


def test_path_touches_somewhere_and_not_everywhere(swept):
    (x, y, z), (c, s) = END, (np.cos(swept.q), np.sin(swept.q))
    end = np.stack([c * x - s * y, s * x + c * y, z + 0 * c], axis=1)
    straight = np.linalg.norm(end - np.array(BEGIN)[None], axis=1)[:, None]
    lifted = swept.lengths > straight + 1e-9
    assert lifted.any(axis=0).all()
    assert not lifted.all(axis=0).any()
    assert (swept.lengths >= straight - 1e-12).all()


def test_new_numbers_do_not_compile_again(swept):
    assert swept.traced == 1


ODD = {
    "end inside": ((-0.1, 0.02, 0.01), (0.01, 0.005, 0.0)),
    "end at the centre": ((-0.1, 0.02, 0.01), (0.0, 0.0, 0.0)),
    "end on the surface": ((-0.1, 0.0, 0.0), (0.03, 0.0, 0.0)),
    "ends coincide": ((0.05, 0.0, 0.0), (0.05, 0.0, 0.0)),
    "through the centre": ((-0.1, 0.0, 0.0), (0.1, 0.0, 0.0)),
    "both inside": ((0.01, 0.0, 0.0), (-0.01, 0.0, 0.0)),
    "grazing": ((-0.1, 0.03, 0.0), (0.1, 0.03, 0.0)),
}


@pytest.fixture(scope="module", params=GROUPS)
def slopes(request):
    """The kinds; and lengths, moment arms and the gradient of their sum (moment arms times a
    factor) to all numbers of a model and to q, for a batch of models, poses and factors."""
    _, rest = eqx.partition(side_by_side(request.param), eqx.is_inexact_array)

    def run(arrays, q, factor):
        def total(arrays, q):
            lengths, arms = eb.paths.lengths_and_arms(eqx.combine(arrays, rest), q)
            return lengths.sum() + factor * arms.sum(), (lengths, arms)

        return jax.grad(total, has_aux=True, argnums=(0, 1))(arrays, q)

    return request.param, jax.jit(jax.vmap(run), compiler_options=QUICK)


def stacked(models):
    parts = [eqx.filter(model, eqx.is_inexact_array) for model in models]
    return jax.tree.map(lambda *x: jnp.stack(x), *parts)


def test_odd_places_give_numbers(slopes):
    """No NaN in lengths, moment arms or gradients to any number of the model."""
    kinds, run = slopes
    models = [side_by_side(kinds, *ends) for ends in ODD.values()]
    models += [models[0]] * (POSES - len(models))
    out = run(stacked(models), jnp.zeros((POSES, 1)), jnp.ones(POSES))
    for leaf in jax.tree.leaves(out):
        assert jnp.all(jnp.isfinite(leaf)), leaf


POSES = 41


def test_gradients_to_size_and_points_around_lift_off(slopes):
    kinds, run = slopes
    model = side_by_side(kinds)
    places = lambda m: (m.paths.surface_size, m.paths.location, m.paths.surface_translation)  # noqa: E731
    q, none = jnp.linspace(-0.9, 0.9, POSES)[:, None], jnp.zeros(POSES)

    def at(numbers):
        moved = eqx.tree_at(places, eqx.filter(model, eqx.is_inexact_array), numbers)
        return run(jax.tree.map(lambda x: jnp.tile(x, (POSES,) + x.ndim * (1,)), moved), q, none)

    numbers = places(model)
    grads = places(at(numbers)[0][0])
    h = 1e-6
    for k, leaf in enumerate(numbers):
        for index in np.ndindex(leaf.shape):
            if not np.isfinite(leaf[index]):
                continue
            moved = [
                tuple(x.at[index].add(d) if j == k else x for j, x in enumerate(numbers))
                for d in (-h, h)
            ]
            less, more = (np.asarray(at(x)[1][0]).sum(axis=1) for x in moved)
            slope, got = (more - less) / (2 * h), grads[k][(slice(None), *index)]
            # Contact starts smoothly: at the corner of the curvature the difference is O(h).
            np.testing.assert_allclose(got, slope, rtol=0, atol=2e-5)
            assert np.quantile(np.abs(got - slope), 0.9) < 1e-7


def test_two_surfaces_on_one_stretch_bear_the_string_together():
    """Against a brute-force shortest string over both, in the plane."""
    step, model = 1e-5, hinge([], []).with_muscles([two_pulleys()], PULLEYS)
    run = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))
    (minus, length, plus), arms = (x[..., 0] for x in run(jnp.array([[-step], [0.0], [step]])))

    def tangent_pieces(a, b, ra, rb):
        """Outer tangent of two circles: straight part."""
        return np.sqrt(np.sum((b - a) ** 2) - (rb - ra) ** 2)

    a, b = np.array([-0.15, 0.0]), np.array([0.15, 0.005])
    left, right = np.array([-0.05, 0.0]), np.array([0.05, 0.0])
    angle = lambda v: np.arctan2(v[1], v[0])  # noqa: E731
    ta = np.sqrt(np.sum((a - left) ** 2) - 0.02**2)
    tb = np.sqrt(np.sum((b - right) ** 2) - 0.03**2)
    middle = tangent_pieces(left, right, 0.02, 0.03)
    # Direction of the normal to the common upper tangent.
    tilt = np.pi / 2 + np.arcsin((0.03 - 0.02) / 0.1)
    down = angle(a - left) - np.arccos(0.02 / np.linalg.norm(a - left))
    up = angle(b - right) + np.arccos(0.03 / np.linalg.norm(b - right))
    exact = ta + 0.02 * (down - tilt) + middle + 0.03 * (tilt - up) + tb
    np.testing.assert_allclose(length, exact, rtol=0, atol=1e-11)
    np.testing.assert_allclose(arms[1, 0], (minus - plus) / (2 * step), rtol=0, atol=1e-8)


PULLEYS = [
    eb.WrapCylinder("left", "ground", 0.02, translation=(-0.05, 0.0, 0)),
    eb.WrapCylinder("right", "ground", 0.03, translation=(0.05, 0.0, 0)),
]


def two_pulleys():
    ends = [eb.PathPoint("ground", (-0.15, 0, 0)), eb.PathPoint("link", (0.15, 0.005, 0))]
    return eb.Path("string", ends, [eb.Wrap("right"), eb.Wrap("left")])


def test_what_is_doubtful_is_reported(monkeypatch):
    """A point inside a surface, and a string that was not found: one round is not enough."""
    monkeypatch.setattr("empbody.paths._rounds._ROUNDS", 1)
    ends = [eb.PathPoint("ground", BEGIN), eb.PathPoint("link", (0.05, 0.0, 0.0))]
    units = [eb.Path("sunk", ends, [eb.Wrap("right")]), two_pulleys()]
    inside, lost = eb.check_paths(hinge([], []).with_muscles(units, PULLEYS), [0.0])
    assert inside == "point 2 of 'sunk' is inside wrap surface 'right'"
    assert lost.startswith("no shortest string was found for 'string' over wrap surface 'right'")


def test_nothing_doubtful():
    assert eb.check_paths(side_by_side(["sphere"]), [0.0]) == ()


def test_a_string_over_ball_and_egg_keeps_both():
    """Neighbouring poses find the same string, one by one."""
    egg = eb.WrapEllipsoid("egg", "ground", (0.025, 0.04, 0.03), translation=(-0.015, -0.2, 0))
    ball = eb.WrapSphere("ball", "ground", 0.03, translation=(0, -0.3, 0.002))
    points = [
        eb.PathPoint("ground", (-0.02, -0.05, 0.01)),
        eb.PathPoint("fore", (-0.015, -0.12, 0.005)),
    ]
    fore = eb.Body(
        "fore", "ground", eb.Revolute((0, 0, 1), (0, -0.3, 0)), 1.5, (0, -0.1, 0), (0.1, 0.1, 0.1)
    )
    path = eb.Path("string", points, [eb.Wrap("ball"), eb.Wrap("egg")])
    model = eb.Model.build(("angle",), [fore], muscles=[path], surfaces=[ball, egg])
    angles = jnp.arange(0.0, 0.2, 1e-4)[:, None]
    length = jax.jit(jax.vmap(lambda q: eb.path_lengths(model, q)))(angles)[:, 0]
    assert jnp.abs(jnp.diff(length, 2)).max() < 1e-8


def test_gradients_are_of_the_string_that_is_found():
    """Past the centre of an ellipsoid the string stays on one side though the other has become
    shorter, and a one-sided ball holds it where a little more would slip off."""
    egg = eb.WrapEllipsoid("egg", "ground", (0.02, 0.03, 0.025), translation=(0.005, -0.09, 0))
    ball = eb.WrapSphere("ball", "ground", 0.018, translation=(0.005, -0.3, 0), quadrant="+x")
    points = [
        eb.PathPoint("ground", (0.01, 0, 0.002)),
        eb.PathPoint("fore", (0.012, -0.05, 0.003)),
    ]
    fore = eb.Body(
        "fore", "ground", eb.Revolute((0, 0, 1), (0, -0.3, 0)), 1, (0, -0.1, 0), (0.1, 0.1, 0.1)
    )
    path = eb.Path("string", points, [eb.Wrap("egg"), eb.Wrap("ball")])
    model = eb.Model.build(("angle",), [fore], muscles=[path], surfaces=[egg, ball])
    q, h = jnp.array([-0.2]), 1e-6

    def length(place):
        moved = model.paths.location.at[1].set(place)
        return eb.path_lengths(eqx.tree_at(lambda m: m.paths.location, model, moved), q)[0]

    place = model.paths.location[1]
    around = place[None] + h * jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
    more, less = jax.jit(jax.vmap(length))(around).reshape(2, 3)
    got = jax.jit(jax.grad(length))(place)
    np.testing.assert_allclose(got, (more - less) / (2 * h), rtol=0, atol=1e-6)
    assert jnp.linalg.norm(got) == pytest.approx(1.0, abs=1e-9)


def test_a_string_over_one_ellipsoid_does_not_flicker():
    """Where it may slip to either side of a ridge it takes the shorter way: it does not change
    to and fro between poses, nor between one pose alone and many together."""
    egg = eb.WrapEllipsoid(
        "egg",
        "ground",
        (0.0173, 0.0263, 0.0279),
        translation=(0.03927, 0.10133, -0.01042),
        rotation=(0.117, 0.129, -0.348),
    )
    begin, end = (0.012, 0.22, 0.002), (0.008, -0.07, -0.003)
    model = hinge([egg], [eb.Wrap("egg")], begin, end)
    q = jnp.radians(jnp.linspace(123.0, 125.0, 2001))[:, None]
    length, arm = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))(q)
    length, arm = np.asarray(length[:, 0]), np.asarray(arm[:, 0, 0])
    jump = np.diff(length) + 0.5 * (arm[1:] + arm[:-1]) * float(q[1, 0] - q[0, 0])
    assert np.abs(jump).max() < 1e-6  # the shorter way may change sides, with a corner
    alone = [float(eb.path_lengths(model, x)[0]) for x in q[::200]]
    np.testing.assert_allclose(alone, length[::200], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["cylinder", "sphere"])
def test_an_end_that_sinks_into_a_one_sided_surface_keeps_its_side(kind):
    """As the surface grows past the end of the path, and as the end moves into it: the length
    is continuous, and slopes are those of the length."""
    place = {"translation": (0.004, 0.0, 0.0), "quadrant": "-x"}
    make = {
        "cylinder": lambda: eb.WrapCylinder("s", "ground", 0.0235, length=0.08, **place),
        "sphere": lambda: eb.WrapSphere("s", "ground", 0.0235, **place),
    }[kind]
    model = hinge([make()], [eb.Wrap("s")], (-0.02, 0.2, 0.003), (-0.023, 0.008, -0.004))
    q = jnp.radians(jnp.linspace(100.0, 140.0, 801))[:, None]
    length, arm = jax.jit(jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q)))(q)
    length, arm = np.asarray(length[:, 0]), np.asarray(arm[:, 0, 0])
    inside = [eb.check_paths(model, x) != () for x in (q[0], q[-1])]
    assert inside == [False, True]
    steps, slopes = np.diff(length), -arm * float(q[1, 0] - q[0, 0])
    least = np.minimum(slopes[1:], slopes[:-1])
    most = np.maximum(slopes[1:], slopes[:-1])
    assert np.all(steps > least - 1e-7)
    assert np.all(steps < most + 1e-7)

    def grown(radius):
        edited = model.paths.surface_size.at[0, 0].set(radius)
        larger = eqx.tree_at(lambda m: m.paths.surface_size, model, edited)
        return eb.path_lengths(larger, q[500])[0]

    radii = jnp.linspace(0.022, 0.03, 401)
    by_radius = np.asarray(jax.jit(jax.vmap(grown))(radii))
    assert np.abs(np.diff(by_radius)).max() < 20 * float(radii[1] - radii[0])


@pytest.mark.parametrize("body", ["ground", "link"])
def test_an_extensor_over_a_cylinder_about_the_hinge(body):
    """It bears the string at all angles on the proximal body, and up to 130 degrees on the distal
    one, whose side turns away from the arc; there it lets go, and says so."""
    surface = eb.WrapCylinder("s", body, 0.02, quadrant="-x")
    ends = (-0.025, 0.15, 0.0), (-0.025, -0.03, 0.0)
    model = hinge([surface], [eb.Wrap("s")], *ends)
    q = jnp.radians(jnp.arange(30.0, 146.0, 1.0))
    arm = np.asarray(jax.jit(jax.vmap(lambda q: eb.moment_arms(model, q[None])[0, 0]))(q))
    holds = len(q) if body == "ground" else 101
    np.testing.assert_allclose(arm[:holds], -0.02, rtol=1e-12)
    said = [eb.check_paths(model, [x]) for x in np.radians([60.0, 120.0, 136.0])]
    assert said[:2] == [(), ()]
    if body == "link":
        assert re.match(
            r"wrap surface 's' is letting go of 'string', .*turn the surface", said[2][0]
        )
    else:
        assert said[2] == ()


def test_what_cannot_be_is_reported():
    """A pose that is no number, and a size that was edited to none."""
    model = side_by_side(["sphere"])
    (nothing,) = eb.check_paths(model, [float("nan")])
    assert nothing.startswith("'angle' is nan, which is no pose")
    with pytest.raises(ValueError, match="'angle' is nan, which is no pose"):
        eb.moment_arms(model, jnp.array([jnp.nan]))
    (surface,) = model.paths.layout.surfaces
    edited = eqx.tree_at(lambda m: m.paths.surface_size, model, -model.paths.surface_size)
    (first, *_) = eb.check_paths(edited, [0.0])
    assert first.startswith(f"wrap surface {surface.name!r} has the size -")


def test_the_size_of_a_sphere_is_its_radius():
    path = eb.Path(
        "string",
        [eb.PathPoint("ground", (0.0, 0.2, 0.01)), eb.PathPoint("link", (0.01, -0.2, 0.0))],
        [eb.Wrap("ball")],
    )
    small, large = (
        hinge([], []).with_muscles([path], [eb.WrapSphere("ball", "ground", radius)])
        for radius in (0.03, 0.036)
    )
    edited = eqx.tree_at(
        lambda m: m.paths.surface_size, small, replace_fn=lambda x: x.at[0, 0].set(0.036)
    )
    q = jnp.array([0.1])
    lengths = [float(eb.path_lengths(model, q)[0]) for model in (small, large, edited)]
    assert lengths[1] > lengths[0] + 1e-4
    assert lengths[2] == lengths[1]


def test_a_batch_of_poses_is_refused():
    with pytest.raises(ValueError, match="check poses one by one"):
        eb.check_paths(hinge([], []), np.zeros((5, 1)))


def test_moving_point_out_of_range_names_the_unit():
    points = [
        eb.PathPoint("ground", (0.0, 0.1, 0.0)),
        eb.MovingPoint(
            "link",
            eb.rhythms.Affine([[0.01], [0.0], [0.0]], [0.1, 0.0, 0.0]),
            ("angle",),
            ranges={"angle": (-1.0, 1.0)},
        ),
    ]
    model = hinge([], []).with_muscles([eb.Path("mover", points)])
    assert jnp.isfinite(eb.path_lengths(model, jnp.array([0.9]))).all()
    far = jnp.array([1.2])
    for function, more in (
        (eb.path_lengths, ()),
        (eb.moment_arms, ()),
        (eb.lengthening_speeds, (far,)),
        (eb.paths.lengths_and_arms, ()),
    ):
        with pytest.raises(ValueError, match="point 2 of 'mover' moves with 'angle'"):
            function(model, far, *more)
    assert len(eb.check_paths(model, [1.2])) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: eb.WrapCylinder("s", "ground", -0.1),
            "radius of wrap surface 's' of 'string' is -0.1",
        ),
        (lambda: eb.WrapSphere("s", "ground", 0.0), "radius of wrap surface 's' of 'string' is 0"),
        (lambda: eb.WrapSphere("s", "ground", "2cm"), "'string' is '2cm'; it needs numbers"),
        (lambda: eb.WrapCylinder("s", "ground", 0.1, length=-1), "length .* must be positive"),
        (lambda: eb.WrapSphere("s", "ground", 0.1, (0, np.nan, 0)), "translation of .* NaN"),
        (lambda: eb.WrapEllipsoid("s", "ground", (1, -1, 1)), "semi-axis 2 of wrap surface 's'"),
        (lambda: eb.WrapTorus("s", "ground", 0.2, 0.1), "the tube must be thinner than the ring"),
        (lambda: eb.WrapCylinder("s", "ground", 0.1, quadrant="w"), "quadrant 'w'"),
        (lambda: eb.WrapCylinder("s", "ground", 0.1, quadrant="z"), "along z"),
        (lambda: eb.WrapSphere("s", "nowhere", 0.1), "wrap surface 's': there is no body"),
    ],
)
def test_bad_surfaces(make, message):
    with pytest.raises(ValueError, match=message):
        hinge([make()], [eb.Wrap("s")])


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (eb.Wrap("other"), "wrap of 'string' over 'other': there is no wrap surface"),
        (eb.Wrap("s", first=2, last=5), "runs from point 2 to point 5 of a path with 2 points"),
        (eb.Wrap("s", first=0), "from point 0 to point 2 of a path with 2 points; count .* from 1"),
        (eb.Wrap("s", method="guess"), "method 'guess'"),
    ],
)
def test_bad_wraps(wrap, message):
    with pytest.raises(ValueError, match=message):
        hinge([SURFACES["sphere"]], [wrap])


STAYS, ENDS = eb.PathPoint("ground", (0, 0.1, 0)), eb.PathPoint("link", (0.1, 0, 0))
WAVES = eb.rhythms.Affine([[0.01], [0.0], [0.0]])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([STAYS] * 3, "all 3 points of 'bad' are one point of 'ground': the path has no length"),
        ([STAYS], "path of 'bad' has 1 point; it needs an origin and an insertion"),
        ([STAYS, eb.PathPoint("lnk", (0, 0, 0))], "point 2 of 'bad': .* no body 'lnk'.*link"),
        ([STAYS, eb.PathPoint("Ground", (0, 0, 0))], "no body 'Ground'; did you .*'ground'"),
        ([STAYS, eb.PathPoint("link", (0, np.nan, 0))], "location of point 2 of 'bad' holds NaN"),
        ([STAYS, eb.PathPoint("link", (0, 0))], "location of point 2 of 'bad' needs 3 numbers"),
        ([STAYS, eb.PathPoint("link", "origin")], "point 2 of 'bad' is 'origin'; it needs numbers"),
        ([STAYS, eb.MovingPoint("link", WAVES, "angle")], "point 2 of 'bad': .* is a string"),
        ([STAYS, eb.MovingPoint("link", WAVES, ("angel",))], "no coordinate 'angel'.*'angle'"),
        (
            [STAYS, eb.MovingPoint("link", WAVES, ("angle",), {"angle": (1.0, 0.0)})],
            r"point 2 of 'bad': range of 'angle' is empty: 1 ... 0; give \(lower, upper\)",
        ),
        (
            [STAYS, eb.ConditionalPoint("link", (0, 0, 0), "angle", (0, 1))],
            "the last point of 'bad' is conditional",
        ),
        (
            [STAYS, eb.ConditionalPoint("link", (0, 0, 0), "angle", ("low", 1)), ENDS],
            r"point 2 of 'bad': range of 'angle' is \('low', 1\); it needs numbers",
        ),
    ],
)
def test_bad_points(points, message):
    with pytest.raises(ValueError, match=message):
        hinge([], []).with_muscles([eb.Path("good", [STAYS, ENDS]), eb.Path("bad", points)])


def test_bad_lists():
    path = eb.Path("p", [STAYS, ENDS])
    with pytest.raises(ValueError, match="musculotendon unit name 'p' is used twice"):
        hinge([], []).with_muscles([path, path])
    with pytest.raises(ValueError, match="wrap surface name 's' is used twice"):
        hinge([SURFACES["sphere"]] * 2, [])
    with pytest.raises(ValueError, match="no wrap surface 's'; the model has no wrap surfaces"):
        hinge([], [eb.Wrap("s")])


MISTAKES = """
import empbody as eb
link = eb.Body("link", joint=eb.Revolute((0, 0, 1)), mass=1.0, inertia=(1, 1, 1))
ball = eb.WrapSphere("s", "ground", 0.03)
path = lambda *wraps: eb.Path("p", [eb.PathPoint("ground", (0, 0.1, 0)), eb.PathPoint("link", (0.1, 0, 0))], wraps)
for muscles, surfaces in (path(), []), ([], ball), ([path("s")], [ball]), ([path(ball)], [ball]), ([path(eb.Wrap(ball))], [ball]):
    try:
        eb.Model.build(("angle",), [link], muscles=muscles, surfaces=surfaces)
    except ValueError as error:
        print(error)
"""  # noqa: E501


def test_objects_in_place_of_lists_and_names():
    """As users meet them: without the run-time checks of types that these tests have."""
    told = subprocess.run([sys.executable, "-c", MISTAKES], capture_output=True, text=True)
    assert told.stdout.splitlines() == [
        "muscles is a Path; give a list: [Muscle or Path]",
        "surfaces is a WrapSphere; give a list: [WrapCylinder, WrapSphere, ...]",
        "wrap 1 of 'p' is a str; use Wrap('s')",
        "wrap 1 of 'p' is a WrapSphere; use Wrap('s')",
        "wrap 1 of 'p' is given a WrapSphere; give its name: Wrap('s')",
    ]


def test_unknown_convention():
    with pytest.raises(ValueError, match="convention 'simm'"):
        eb.moment_arms(hinge([], []), jnp.zeros(1), convention="simm")


@pytest.mark.parametrize("size", [3, 64, 5000])
def test_work_list_holds_those_that_need_work(size):
    needed = np.random.default_rng(size).random(size) < 0.4
    work = work_list(jnp.asarray(needed), 8)
    members = np.flatnonzero(needed)
    assert int(work.total) == len(members)
    np.testing.assert_array_equal(work.order[: len(members)], members)
    np.testing.assert_array_equal(np.asarray(work.place)[members], np.arange(len(members)))


def test_written_slopes_of_what_is_left_are_those_of_differentiation():
    """Cylinders and round surfaces with and without sides, ends inside and outside."""
    rng, n = np.random.default_rng(0), 2000
    cylinder, ball = rng.random(n) < 0.5, rng.random(n) < 0.5
    size = rng.uniform(0.5, 1.5, (3, n))
    size[1], size[2] = np.where(cylinder, size[0], size[1]), np.where(cylinder, 1.0, size[2])
    side = np.zeros((3, n))
    side[rng.integers(0, 2, n), np.arange(n)] = rng.choice([-1, 0, 1], n)
    surfaces = Surfaces(
        centre=jnp.zeros((3, n)),
        rotation=jnp.broadcast_to(jnp.eye(3)[:, :, None], (3, 3, n)),
        size=jnp.asarray(size),
        half=jnp.asarray(rng.uniform(0.2, 2.0, n)),
        side=jnp.asarray(side),
        cylinder=jnp.asarray(cylinder),
        ellipsoid=jnp.asarray(~cylinder & ~ball),
        torus=jnp.zeros(n, bool),
        has=("cylinder", "sphere", "ellipsoid", "side"),
    )
    x = jnp.asarray(rng.normal(size=(3, 2, n)) * rng.choice([0.4, 2.0], (1, 2, n)))
    push = jnp.asarray(rng.normal(size=(3, n)))

    def remainder(x):
        left = surfaces.left(x[:, 0], x[:, 1], held)
        return jnp.sum(push * left.shift) + jnp.sum(push[0] * left.scale)

    @jax.jit
    def written(x):
        return through_what_is_left(surfaces, x, held, push, lambda *_: push[0])

    ways = surfaces.ways(x[:, 0], x[:, 1])
    held = (ways.second | ways.kept) & (jnp.abs(surfaces.side).sum(axis=0) > 0)
    assert 50 < (ways.kept & ~ways.second).sum() < n
    assert 100 < held.sum() < n
    exact = jax.jit(jax.grad(remainder))(x)
    assert (jnp.abs(exact) > 0).mean() > 0.2
    np.testing.assert_allclose(written(x), exact, rtol=1e-9, atol=1e-9)
