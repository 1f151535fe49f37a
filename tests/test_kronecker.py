"""The literal equations against autodiff on random trees, and their parts one by one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _random_trees import IMPLEMENTATIONS, SHAPES, cases, evaluate, largest_error

from empbody import autodiff, kronecker
from empbody.model import Body, Model, Revolute, Weld

OTHERS = [name for name in IMPLEMENTATIONS if name != "autodiff"]
TOLERANCE = 1e-10

every_shape = pytest.mark.parametrize("shape", SHAPES)


def test_shapes_cover_what_they_should():
    assert sum(len(shape.seeds) for shape in SHAPES.values()) >= 20
    assert {shape.nq for shape in SHAPES.values()} == set(range(1, 7))
    assert max(shape.nb for shape in SHAPES.values()) == 12
    assert any(shape.massless for shape in SHAPES.values())
    kinds = {kind for shape in SHAPES.values() for kind in shape.joints}
    assert {"r", "p", "w"} < kinds
    assert any(len(kind) > 1 for kind in kinds)
    parents = [np.array(shape.parents) for shape in SHAPES.values()]
    assert any((p > np.arange(len(p))).any() for p in parents), "no parent comes later"


@every_shape
@pytest.mark.parametrize("name", OTHERS)
def test_agrees_with_autodiff(name, shape):
    expected = evaluate("autodiff", shape)
    found = evaluate(name, shape)
    errors = {key: largest_error(found[key], expected[key]) for key in found}
    assert not {key: error for key, error in errors.items() if not error < TOLERANCE}


@every_shape
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_physics(name, shape):
    found = evaluate(name, shape)
    M, N = found["mass_matrix"], found["coriolis"]
    assert largest_error(M.swapaxes(1, 2), M) < 1e-13
    eigenvalues = np.linalg.eigvalsh(np.asarray(M))
    assert (eigenvalues[:, 0] > 1e-8 * eigenvalues[:, -1]).all(), "not positive definite"
    # Ṁ - 2N is skew where Ṁ = N + Nᵀ.
    assert largest_error(N + N.swapaxes(1, 2), evaluate("autodiff", shape)["mass_rate"]) < 1e-12
    assert largest_error(found["forward_dynamics"], cases(shape).qdd) < TOLERANCE
    assert largest_error(jnp.einsum("nij,nj->ni", N, cases(shape).qd), found["bias"]) < 1e-13


def test_parameter_gradients_agree_with_autodiff():
    """Rotations and inertias are left out: off the rotations and the symmetric matrices a
    gradient means nothing. So does that of an axis along itself, which is taken away."""
    batch = cases("one_coordinate")

    def slope(library):
        def work(model, q, qd, qdd):
            return library.inverse_dynamics(model, q, qd, qdd) @ qd

        grad = jax.jit(jax.vmap(jax.grad(work)))(*batch[:4])
        axis = batch.models.axis
        turn = grad.axis - jnp.sum(grad.axis * axis, axis=2, keepdims=True) * axis
        fixed = (grad.translation, grad.body_translation, grad.mass, grad.com, grad.gravity)
        return (turn, fixed, grad.rhythm)

    for found, expected in zip(
        jax.tree.leaves(slope(kronecker)), jax.tree.leaves(slope(autodiff)), strict=True
    ):
        assert largest_error(found, expected) < TOLERANCE


def test_joint_matrices_differentiate_the_joint_transforms():
    model, q, *_ = jax.tree.map(lambda leaf: leaf[0], cases("uncoupled"))
    slope = jax.jacfwd(lambda x: kronecker.joint_transforms(model, x))(q)
    own = slope[jnp.arange(3), :, :, jnp.arange(3)]  # with an identity rhythm f_i = q_i
    expected = kronecker.joint_transforms(model, q) @ kronecker.joint_matrices(model)
    np.testing.assert_allclose(own, expected, atol=1e-14)


def test_weights_are_derivatives_to_joint_variables():
    """W_ji and W̄_sji against autodiff in f; W̄ does not depend on the order of s and j."""
    model, q, *_ = jax.tree.map(lambda leaf: leaf[0], cases("uncoupled"))
    links = kronecker.links(model, q)
    leaf = max(range(model.nj), key=lambda i: len(model.topology.chain(i)))
    upper, lower = model.topology.chain(leaf)[0], leaf
    pose = links.pose[leaf]

    def moved(x):
        return kronecker.links(model, x).pose[leaf]

    first = jax.jacfwd(moved)(q)
    second = jax.jacfwd(jax.jacfwd(moved))(q)
    found = kronecker.first_weight(links, upper, pose)
    np.testing.assert_allclose(found, first[:, :, upper], atol=1e-14)
    found = kronecker.second_weight(links, upper, lower, pose)
    np.testing.assert_allclose(found, second[:, :, upper, lower], atol=1e-14)
    np.testing.assert_allclose(found, second[:, :, lower, upper], atol=1e-14)


def test_pseudo_inertia_of_a_cloud_of_points():
    rng = np.random.default_rng(0)
    r, m = rng.normal(size=(5, 3)), rng.uniform(1, 2, size=5)
    com = m @ r / m.sum()
    inertia = sum(
        mk * (x @ x * np.eye(3) - np.outer(x, x)) for mk, x in zip(m, r - com, strict=True)
    )
    extended = np.column_stack([r, np.ones(5)])
    found = kronecker.pseudo_inertia(jnp.asarray(m.sum()), jnp.asarray(com), jnp.asarray(inertia))
    np.testing.assert_allclose(found, (extended.T * m) @ extended, rtol=1e-13)


@functools.cache
def pendulum(mass=2.0):
    """A point mass on a rod, with a hook welded to the ground."""
    return Model.build(
        coordinates=("angle",),
        bodies=[
            Body("hook", joint=Weld(translation=(1.0, 2.0, 3.0)), mass=9.0),
            Body("bob", joint=Revolute((0, 0, 1)), mass=mass, com=(0, -0.5, 0)),
        ],
        gravity=(0, -10, 0),
    )


@pytest.mark.parametrize("library", [kronecker, autodiff], ids=lambda x: x.__name__)
class TestPendulum:
    q, qd, qdd = jnp.array([0.3]), jnp.array([2.0]), jnp.array([-1.0])
    point = jnp.array([0.1, 0.2, 0.3])

    def test_closed_form(self, library):
        model = pendulum()
        np.testing.assert_allclose(library.mass_matrix(model, self.q), [[0.5]], rtol=1e-14)
        np.testing.assert_allclose(library.gravity(model, self.q), [-10 * np.sin(0.3)], rtol=1e-14)
        np.testing.assert_allclose(library.coriolis(model, self.q, self.qd), [[0]], atol=1e-15)
        tau = library.inverse_dynamics(model, self.q, self.qd, self.qdd)
        np.testing.assert_allclose(tau, [-0.5 + 10 * np.sin(0.3)], rtol=1e-14)

    @pytest.mark.parametrize("body", ["ground", -1])
    def test_ground(self, library, body):
        model, q, qd, qdd, point = pendulum(), self.q, self.qd, self.qdd, self.point
        np.testing.assert_array_equal(library.point_position(model, q, body, point), point)
        assert not library.point_velocity(model, q, qd, body, point).any()
        assert not library.point_acceleration(model, q, qd, qdd, body, point).any()

    def test_welded_to_the_ground(self, library):
        model, q, qd, qdd, point = pendulum(), self.q, self.qd, self.qdd, self.point
        found = library.point_position(model, q, "hook", point)
        np.testing.assert_allclose(found, point + jnp.array([1.0, 2.0, 3.0]))
        assert not library.point_velocity(model, q, qd, "hook", point).any()
        assert not library.point_acceleration(model, q, qd, qdd, 0, point).any()
        assert not library.transform_derivatives(model, q)[0].any()

    def test_without_mass(self, library):
        model = pendulum(mass=0.0)
        assert not library.mass_matrix(model, self.q).any()
        assert not library.coriolis(model, self.q, self.qd).any()
        assert not library.gravity(model, self.q).any()

    def test_unknown_body(self, library):
        with pytest.raises(ValueError, match="no body 'bobb'; did you mean"):
            library.point_position(pendulum(), self.q, "bobb", self.point)
        with pytest.raises(ValueError, match="body 2 of a model with 2 bodies"):
            library.point_position(pendulum(), self.q, 2, self.point)


def test_unknown_form():
    for function in (kronecker.transform_derivatives, kronecker.transform_second_derivatives):
        # A TypeError comes from the run-time check of annotations, where it is on.
        with pytest.raises((ValueError, TypeError), match=r"'recursive'.*'closed'"):
            function(pendulum(), jnp.zeros(1), "open")
