"""Building models: order, welds and chains, and a clear error for everything that is wrong."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb

ROD = {"mass": 1.0, "com": (0.0, -0.5, 0.0), "inertia": (0.1, 0.02, 0.1)}


def arm(**change):
    """Upper arm and forearm of the README, with some fields of the forearm changed."""
    fore = {
        "name": "fore",
        "parent": "upper",
        "joint": eb.Revolute(axis=(0, 0, 1), translation=(0, -0.3, 0)),
        "mass": 1.5,
        "com": (0, -0.12, 0),
        "inertia": (0.008, 0.001, 0.008),
    }
    upper = eb.Body("upper", joint=eb.Revolute(axis=(0, 0, 1)), **ROD)
    return [upper, eb.Body(**(fore | change))]


def build(bodies, coordinates=("shoulder", "elbow"), **options):
    return eb.Model.build(coordinates=coordinates, bodies=bodies, **options)


def test_names_and_sizes():
    model = build(arm())
    assert model.coordinate_names == ("shoulder", "elbow")
    assert model.joint_names == model.body_names == ("upper", "fore")
    assert model.muscle_names == ()
    assert (model.nq, model.nj, model.nb) == (2, 2, 2)


def test_bodies_may_be_listed_before_their_parents():
    q = jnp.array([0.3, -0.7])
    sorted_model, reversed_model = build(arm()), build(arm()[::-1], ("elbow", "shoulder"))
    expected = eb.body_transforms(sorted_model, q)
    found = eb.body_transforms(reversed_model, q[::-1])
    assert reversed_model.joint_names == ("fore", "upper")
    np.testing.assert_allclose(found[::-1], expected, atol=1e-15)


def test_chained_joints_count_their_variables():
    bodies = [
        eb.Body("pelvis", joint=eb.Free(), **ROD),
        eb.Body("thigh", "pelvis", eb.Ball(names=("flex", "abduct", "rotate")), **ROD),
        eb.Body("cart", joint=eb.Planar(), **ROD),
        eb.Body("piston", "cart", eb.Cylindrical(), **ROD),
        eb.Body("wrist", "thigh", eb.Universal(), **ROD),
    ]
    names = [f"q{i}" for i in range(6 + 3 + 3 + 2 + 2)]
    model = build(bodies, names)
    assert model.nj == 16
    assert model.joint_names[:2] == ("pelvis.1", "pelvis.2")
    assert model.joint_names[6:9] == ("flex", "abduct", "rotate")


def test_a_welded_body_moves_with_its_parent_and_adds_its_mass():
    q = jnp.array([0.4, 0.2])
    rotation = (0.3, -0.2, 0.5)
    weld = eb.Body("hand", "fore", eb.Weld((0.1, -0.2, 0.3), rotation), mass=0.5)
    model = build([*arm(), weld])
    fore, hand = eb.body_transforms(model, q)[1:]
    np.testing.assert_allclose(
        hand[:3, 3], fore[:3, :3] @ jnp.array([0.1, -0.2, 0.3]) + fore[:3, 3]
    )
    point = eb.point_position(model, q, "hand", (0.0, 0.0, 0.0))
    np.testing.assert_allclose(point, hand[:3, 3], atol=1e-15)
    extra = eb.mass_matrix(model, q) - eb.mass_matrix(build(arm()), q)
    jacobian = eb.point_jacobian(model, q, "hand", (0.0, 0.0, 0.0))
    np.testing.assert_allclose(extra, 0.5 * jacobian.T @ jacobian, atol=1e-14)


def test_numbers_are_leaves_and_structure_is_static():
    model = build(arm())
    heavier = eqx.tree_at(lambda m: m.mass, model, model.mass * 2)
    assert jax.tree.structure(heavier) == jax.tree.structure(model)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(model))


def test_a_length_can_be_differentiated_through_build():
    def height(length):
        joint = eb.Revolute(axis=(0, 0, 1), translation=jnp.stack([0.0, -length, 0.0]))
        model = build(arm(joint=joint))
        return eb.point_position(model, jnp.zeros(2), "fore", (0.0, 0.0, 0.0))[1]

    assert jax.grad(height)(0.3) == pytest.approx(-1.0)


def test_ranges_are_kept():
    model = build(arm(), ranges={"elbow": (-0.1, 2.5)})
    assert float(model.lower[1]) == -0.1
    assert np.isinf(model.upper[0])


NOT_A_BODY = [
    ({"parent": "uper"}, "parent 'uper' of body 'fore'.*did you mean"),
    ({"parent": "fore"}, "cyclic: fore -> fore"),
    ({"name": "upper", "parent": "ground"}, "body name 'upper' is used twice"),
    ({"name": "ground"}, "may not be called 'ground'"),
    ({"joint": None}, "body 'fore' has no joint"),
    ({"joint": eb.Revolute(axis=(0, 0, 0))}, "axis of joint 'fore' of body 'fore' is zero"),
    ({"joint": eb.Revolute(axis=(0, 3, 4))}, r"length 5, not 1; did you mean \[0.0, 0.6, 0.8\]"),
    ({"joint": eb.Revolute(axis=(0, 1))}, "axis of joint 'fore'.* needs 3 numbers"),
    (
        {"joint": eb.Prismatic(axis=(0, 0, 1), translation=(np.nan, 0, 0))},
        "translation of joint 'fore' of body 'fore' holds NaN",
    ),
    ({"joint": eb.Revolute(axis=(0, 0, 1), rotation=2 * np.eye(3))}, "not orthonormal"),
    ({"joint": eb.Revolute(axis=(0, 0, 1), rotation=-np.eye(3))}, "is a reflection"),
    ({"mass": -1.0}, "mass of body 'fore' is negative"),
    ({"mass": np.nan}, "mass of body 'fore' is nan"),
    ({"com": (0, np.inf, 0)}, "com of body 'fore' holds NaN or infinity"),
    ({"inertia": (1.0, 1.0, 3.0)}, "inertia of body 'fore' violates the triangle inequality"),
    ({"inertia": (-1.0, 1.0, 1.0)}, "inertia of body 'fore' has a negative principal moment"),
    ({"inertia": (1.0, 2.0)}, "inertia of body 'fore' needs 3 or 6 numbers"),
    ({"inertia": ((1, 2, 0), (0, 1, 0), (0, 0, 1))}, "inertia of body 'fore' is not symmetric"),
]


@pytest.mark.parametrize(("change", "message"), NOT_A_BODY)
def test_a_wrong_body_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        build(arm(**change))


def test_a_longer_cycle_is_spelled_out():
    bodies = [
        eb.Body("a", "c", eb.Revolute((0, 0, 1))),
        eb.Body("b", "a", eb.Revolute((0, 0, 1))),
        eb.Body("c", "b", eb.Revolute((0, 0, 1))),
    ]
    with pytest.raises(ValueError, match="a -> c -> b -> a"):
        build(bodies, ("x", "y", "z"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": ("one",)}, "1 coordinates for 2 joint variables"),
        ({"coordinates": ("one", "one")}, "coordinate name 'one' is used twice"),
        ({"coordinates": ()}, "at least one coordinate"),
        (
            {"rhythm": eb.rhythms.Affine(jnp.ones((3, 2)))},
            r"3 rhythm outputs for 2 joint variables \(upper, fore\)",
        ),
        (
            {"rhythm": eb.rhythms.Affine(jnp.ones((2, 1)))},
            "2 coordinates for a rhythm with 1 inputs",
        ),
        ({"ranges": {"knee": (0.0, 1.0)}}, "there is no coordinate 'knee'"),
        ({"ranges": {"elbow": (1.0, 0.0)}}, "range of coordinate 'elbow' is empty"),
        ({"gravity": (0.0, -9.81)}, "gravity needs 3 numbers"),
        ({"bodies": []}, "at least one body"),
        ({"bodies": [eb.Body("a", joint=eb.Weld())]}, "nothing can move"),
    ],
)
def test_a_wrong_model_says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        build(**({"bodies": arm()} | options))


def test_unknown_names_suggest_the_nearest():
    model = build(arm())
    with pytest.raises(ValueError, match="no body 'for'; did you mean one of"):
        eb.point_position(model, jnp.zeros(2), "for", (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="body 7 of a model with 2 bodies"):
        eb.point_position(model, jnp.zeros(2), 7, (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="a point needs 3 numbers"):
        eb.point_position(model, jnp.zeros(2), "fore", (0.0, 0.0))


def test_wrong_counts_of_axes_or_names_for_a_chain():
    with pytest.raises(ValueError, match="2 axes for a joint with 3"):
        eb.Ball(axes=((1, 0, 0), (0, 1, 0)))
    with pytest.raises(ValueError, match="1 names for a joint with 2"):
        eb.Universal(names=("only",))
