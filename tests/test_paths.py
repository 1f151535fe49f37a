"""Paths over surfaces: contact, loss of contact, odd places, gradients, errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb


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


@eqx.filter_jit
def lengths_and_arms(model, q):
    return jax.vmap(lambda x: eb.paths.lengths_and_arms(model, x))(q)


QUICK = ("one-sided cylinder", "sphere")
"""The others take long to compile."""


def kinds(names):
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.fixture(scope="module", params=kinds(SURFACES))
def swept(request):
    """A fine sweep over contact and lift-off, with one kind of surface."""
    model = hinge([SURFACES[request.param]], [eb.Wrap("s")])
    # The ends of a path through a ring stay on either side of it.
    low, high = (-1.2, 1.2) if request.param == "torus" else (-1.5, 2.2)
    q = jnp.linspace(low, high, 4096)[:, None]
    lengths, arms = lengths_and_arms(model, q)
    return request.param, model, q[:, 0], lengths[:, 0], arms[:, 0, 0]


def test_length_never_jumps(swept):
    _, _, q, lengths, arms = swept
    step = q[1] - q[0]
    assert jnp.all(jnp.isfinite(lengths))
    assert jnp.all(jnp.isfinite(arms))
    # From one sample to the next the length changes by something between what the slopes at
    # both ends say: also at corners, where the string changes sides.
    middle = -0.5 * (arms[1:] + arms[:-1]) * step
    spread = 0.5 * jnp.abs(jnp.diff(arms)) * step
    assert (jnp.abs(jnp.diff(lengths) - middle) - spread).max() < 1e-6


def test_moment_arm_is_the_slope_of_the_length(swept):
    _, _, q, lengths, arms = swept
    h = q[1] - q[0]
    slope = (lengths[:-4] - 8 * lengths[1:-3] + 8 * lengths[3:-1] - lengths[4:]) / (12 * h)
    error = jnp.abs(slope + arms[2:-2])
    # Not across the corners where contact begins or the string changes sides.
    assert jnp.quantile(error, 0.97) < 1e-7


def test_path_touches_somewhere_and_not_everywhere(swept):
    _, _, q, lengths, _ = swept
    straight = lengths_and_arms(hinge([], []), q[:, None])[0][:, 0]
    lifted = lengths > straight + 1e-9
    assert lifted.any()
    assert not lifted.all()
    assert (lengths >= straight - 1e-12).all()


ODD = {
    "end inside": ((-0.1, 0.02, 0.01), (0.01, 0.005, 0.0)),
    "end at the centre": ((-0.1, 0.02, 0.01), (0.0, 0.0, 0.0)),
    "end on the surface": ((-0.1, 0.0, 0.0), (0.03, 0.0, 0.0)),
    "ends coincide": ((0.05, 0.0, 0.0), (0.05, 0.0, 0.0)),
    "through the centre": ((-0.1, 0.0, 0.0), (0.1, 0.0, 0.0)),
    "both inside": ((0.01, 0.0, 0.0), (-0.01, 0.0, 0.0)),
    "grazing": ((-0.1, 0.03, 0.0), (0.1, 0.03, 0.0)),
}


@pytest.mark.parametrize("kind", kinds(SURFACES))
def test_odd_places_give_numbers(kind):
    """No NaN in lengths, moment arms or gradients to any number of the model."""
    models = [hinge([SURFACES[kind]], [eb.Wrap("s")], a, b) for a, b in ODD.values()]
    _, rest = eqx.partition(models[0], eqx.is_array)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *(eqx.filter(m, eqx.is_array) for m in models))

    @jax.jit
    @jax.vmap
    def run(arrays):
        def total(arrays, q):
            model = eqx.combine(arrays, rest)
            lengths, arms = eb.paths.lengths_and_arms(model, q)
            return lengths.sum() + arms.sum(), (lengths, arms)

        return jax.value_and_grad(total, has_aux=True, argnums=(0, 1), allow_int=True)(
            arrays, jnp.zeros(1)
        )

    out = run(stacked)
    for leaf in jax.tree.leaves(out):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert jnp.all(jnp.isfinite(leaf)), (kind, leaf)


@pytest.mark.parametrize("kind", kinds(["cylinder", "sphere", "ellipsoid"]))
def test_gradients_to_size_and_points_around_lift_off(kind):
    model = hinge([SURFACES[kind]], [eb.Wrap("s")])
    places = lambda m: (m.paths.surface_size, m.paths.location, m.paths.surface_translation)  # noqa: E731

    @jax.jit
    def length(numbers, q):
        return eb.path_lengths(eqx.tree_at(places, model, numbers), q)[0]

    numbers = places(model)
    q = jnp.linspace(-0.9, 0.9, 41)[:, None]
    grads = jax.jit(jax.vmap(jax.grad(length), in_axes=(None, 0)))(numbers, q)
    h = 1e-6
    batched = jax.jit(jax.vmap(length, in_axes=(None, 0)))
    for k, leaf in enumerate(numbers):
        for index in np.ndindex(leaf.shape):
            if not np.isfinite(leaf[index]):
                continue
            moved = [
                tuple(x.at[index].add(d) if j == k else x for j, x in enumerate(numbers))
                for d in (-h, h)
            ]
            slope = (batched(moved[1], q) - batched(moved[0], q)) / (2 * h)
            got = grads[k][(slice(None), *index)]
            # Contact starts smoothly: at the corner of the curvature the difference is O(h).
            np.testing.assert_allclose(got, slope, rtol=0, atol=2e-5)
            assert np.quantile(np.abs(got - slope), 0.9) < 1e-7


def test_two_surfaces_on_one_stretch_bear_the_string_together():
    """Against a brute-force shortest string over both, in the plane."""
    surfaces = [
        eb.WrapCylinder("left", "ground", 0.02, translation=(-0.05, 0.0, 0)),
        eb.WrapCylinder("right", "ground", 0.03, translation=(0.05, 0.0, 0)),
    ]
    model = hinge(
        surfaces, [eb.Wrap("right"), eb.Wrap("left")], (-0.15, 0.0, 0.0), (0.15, 0.005, 0.0)
    )
    length = eb.path_lengths(model, jnp.zeros(1))[0]

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
    step = 1e-5
    plus, minus = (eb.path_lengths(model, jnp.array([d]))[0] for d in (step, -step))
    arm = eb.moment_arms(model, jnp.zeros(1))[0, 0]
    np.testing.assert_allclose(arm, (minus - plus) / (2 * step), rtol=0, atol=1e-8)


def test_points_inside_are_reported():
    model = hinge([SURFACES["sphere"]], [eb.Wrap("s")], end=(0.01, 0.0, 0.0))
    (sentence,) = eb.check_paths(model, [0.0])
    assert "point 2 of 'string'" in sentence
    assert "'s'" in sentence
    assert eb.check_paths(hinge([SURFACES["sphere"]], [eb.Wrap("s")]), [0.0]) == ()


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
    for function in (eb.path_lengths, eb.moment_arms):
        with pytest.raises(ValueError, match="point 2 of 'mover' moves with 'angle'"):
            function(model, jnp.array([1.2]))
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
        ([STAYS], "path of 'bad' has 1 point; it needs an origin and an insertion"),
        ([STAYS, eb.PathPoint("lnk", (0, 0, 0))], "point 2 of 'bad': .* no body 'lnk'.*link"),
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


def test_unknown_convention():
    with pytest.raises(ValueError, match="convention 'simm'"):
        eb.moment_arms(hinge([], []), jnp.zeros(1), convention="simm")


def test_new_numbers_do_not_compile_again():
    count = 0

    @eqx.filter_jit
    def run(model, q):
        nonlocal count
        count += 1
        return eb.moment_arms(model, q)

    model = hinge([SURFACES["cylinder"]], [eb.Wrap("s")])
    run(model, jnp.zeros(1))
    thicker = eqx.tree_at(lambda m: m.paths.surface_size, model, model.paths.surface_size * 1.1)
    run(thicker, jnp.ones(1))
    assert count == 1
