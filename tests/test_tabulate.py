"""Lengths and moment arms from tables, beside the paths that they were made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

RANGES = {"shoulder": (-0.5, 1.5), "elbow": (0.1, 2.2)}


def build(radius=0.02, ranges=RANGES):
    upper = eb.Body(
        "upper", "ground", eb.Revolute((0, 0, 1)), 2.0, (0, -0.15, 0), (0.02, 0.002, 0.02)
    )
    fore = eb.Body(
        "fore",
        "upper",
        eb.Revolute((0, 0, 1), (0, -0.3, 0)),
        1.5,
        (0, -0.12, 0),
        (0.02, 0.002, 0.02),
    )
    numbers = dict(
        max_isometric_force=800.0,
        optimal_fibre_length=0.15,
        tendon_slack_length=0.18,
        tendon="rigid",
    )
    units = [
        eb.Muscle(
            "straight",
            [eb.PathPoint("upper", (0.03, -0.05, 0.0)), eb.PathPoint("fore", (0.01, -0.05, 0.0))],
            **numbers,
        ),
        eb.Muscle(
            "one_joint",
            [eb.PathPoint("upper", (-0.02, -0.1, 0.0)), eb.PathPoint("fore", (-0.022, 0.01, 0.0))],
            wraps=[eb.Wrap("trochlea")],
            **numbers,
        ),
        eb.Muscle(
            "two_joint",
            [eb.PathPoint("ground", (-0.06, 0.03, 0.0)), eb.PathPoint("fore", (-0.022, 0.01, 0.0))],
            wraps=[eb.Wrap("trochlea")],
            **numbers,
        ),
    ]
    trochlea = eb.WrapCylinder("trochlea", "upper", radius, translation=(0, -0.3, 0), quadrant="-x")
    return eb.Model.build(
        ("shoulder", "elbow"), [upper, fore], muscles=units, surfaces=[trochlea], ranges=ranges
    )


def poses(count, low=(-0.5, 0.1), high=(1.5, 2.2)):
    return jnp.asarray(np.random.default_rng(1).uniform(low, high, size=(count, 2)))


@eqx.filter_jit
def both(model, q):
    return jax.vmap(lambda q: eb.paths.lengths_and_arms(model, q))(q)


@pytest.fixture(scope="module")
def exact():
    return build()


@pytest.fixture(scope="module")
def tabulated(exact):
    return eb.tabulate_paths(exact, step=0.05)


def test_only_wrapped_paths_are_tabulated_by_what_moves_them(tabulated):
    tables = {table.units: table.coordinates for table in tabulated.model.paths.tables}
    assert tables == {(1,): (1,), (2,): (0, 1)}
    assert [e.name for e in tabulated.errors] == ["one_joint", "two_joint"]
    assert tabulated.errors[0].coordinates == ("elbow",)


def test_tables_are_as_near_as_they_say(exact, tabulated):
    q = poses(700)
    (length, arms), (true, true_arms) = both(tabulated.model, q), both(exact, q)
    np.testing.assert_allclose(length[:, 0], true[:, 0], atol=1e-15)
    for k, e in enumerate(tabulated.errors, start=1):
        # The same distribution at other poses.
        assert np.abs(length - true)[:, k].max() < 3.0 * e.length[2] + 1e-12
        assert np.abs(arms - true_arms)[:, :, k].max() < 3.0 * e.arm[2] + 1e-12
        assert e.length[2] < 5e-5
        assert e.arm[1] < 1e-3
    assert "two_joint" in str(tabulated)


def test_a_finer_grid_is_nearer_where_paths_are_smooth(exact):
    smooth = {"shoulder": (0.2, 0.9), "elbow": (1.2, 2.0)}
    coarse, fine = (
        eb.tabulate_paths(exact, step=step, ranges=smooth, muscles=["two_joint"])
        for step in (0.1, 0.05)
    )
    assert fine.errors[0].arm[1] < coarse.errors[0].arm[1] / 5.0


def test_moment_arms_are_slopes_of_lengths(tabulated):
    model = tabulated.model
    inside, outside = jnp.array([0.3, 1.1]), jnp.array([1.8, 2.6])
    for q in (inside, outside):
        arms = jax.jit(lambda q: eb.moment_arms(model, q))(q)
        for slopes in (jax.jacfwd, jax.jacrev):
            found = slopes(lambda q: eb.path_lengths(model, q))(q)
            np.testing.assert_allclose(arms, -found.T, atol=1e-15)
    speeds = eb.lengthening_speeds(model, inside, jnp.array([0.5, -1.0]))
    expected = -jnp.array([0.5, -1.0]) @ eb.moment_arms(model, inside)
    np.testing.assert_allclose(speeds, expected, atol=1e-16)


def test_beyond_the_grid_lengths_go_on_linearly(tabulated):
    model = tabulated.model
    lengths = jax.jit(jax.vmap(lambda q: eb.path_lengths(model, q)))
    row = lengths(jnp.array([[0.5, 2.2], [0.5, 2.4], [0.5, 2.6]]))[:, 1:]
    np.testing.assert_allclose(row[2] - row[1], row[1] - row[0], atol=1e-15)


def test_numbers_that_can_be_seen_must_be_on_the_grid(tabulated):
    with pytest.raises(ValueError, match=r"tabulated for 'elbow' within 0\.1 \.\.\. 2\.2"):
        eb.moment_arms(tabulated.model, jnp.array([0.5, 2.3]))


def test_stacked_tables_and_chunks(exact, tabulated):
    other = eb.tabulate_paths(build(radius=0.025), step=0.05).model
    stacked = jax.tree.map(
        lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], tabulated.model, other
    )
    q = poses(2)
    found = eqx.filter_vmap(lambda m, q: eb.path_lengths(m, q))(stacked, q)
    for k, model in enumerate((tabulated.model, other)):
        np.testing.assert_allclose(found[k], eb.path_lengths(model, q[k]), atol=1e-16)
    many = poses(1100)
    length, arms = both(tabulated.model, many)
    for k in (0, 600, 1099):
        np.testing.assert_allclose(length[k], eb.path_lengths(tabulated.model, many[k]), atol=1e-15)
        np.testing.assert_allclose(arms[k], eb.moment_arms(tabulated.model, many[k]), atol=1e-15)


def test_paths_without_tables_stay_live(tabulated):
    def length(location):
        model = eqx.tree_at(lambda m: m.paths.location, tabulated.model, location)
        return eb.path_lengths(model, jnp.array([0.3, 1.1]))

    slopes = jax.jacrev(length)(tabulated.model.paths.location)
    assert jnp.any(slopes[0, :2] != 0.0)
    assert not jnp.any(slopes[1:])


@pytest.mark.slow
def test_muscles_drive_a_tabulated_model(exact, tabulated):
    ts = jnp.linspace(0.0, 0.3, 7)
    q, qd = jnp.array([0.2, 0.8]), jnp.zeros(2)

    def end(model):
        return eb.simulate(
            model, q, qd, ts, excitation=lambda t, q, qd: jnp.array([0.06, 0.05, 0.08])
        ).q[-1]

    np.testing.assert_allclose(end(tabulated.model), end(exact), atol=2e-4)


def test_refusals(exact):
    with pytest.raises(ValueError, match=r"'shoulder' has no range; give ranges="):
        eb.tabulate_paths(build(ranges={"elbow": (0.1, 2.2)}))
    with pytest.raises(ValueError, match=r"would have .* points"):
        eb.tabulate_paths(exact, step=1e-4)
    with pytest.raises(ValueError, match="positive distance"):
        eb.tabulate_paths(exact, step={"elbow": -0.1})
    with pytest.raises(ValueError, match="nope"):
        eb.tabulate_paths(exact, muscles=["nope"])
    with pytest.raises(ValueError, match="range of coordinate 'elbow' is empty"):
        eb.tabulate_paths(exact, ranges={"elbow": (1.0, 1.0)})
    straight = exact.with_muscles(
        [eb.Path("p", [eb.PathPoint("ground", (0, 0, 0)), eb.PathPoint("fore", (0.1, 0, 0))])]
    )
    with pytest.raises(ValueError, match="no path of the model slides"):
        eb.tabulate_paths(straight)
