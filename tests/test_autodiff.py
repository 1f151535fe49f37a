"""The autodiff reference against closed forms, finite differences and energy balances."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _random_trees import cases, evaluate, largest_error

from empbody import autodiff
from empbody.calculus import matrix_derivative
from empbody.model import Body, Model, Revolute

M1, M2, L1, C1, C2, I1, I2, G = 2.0, 1.5, 0.3, 0.15, 0.12, 0.01, 0.008, 9.81


@pytest.fixture(scope="module")
def arm():
    """Two links in a plane that hang down at q = 0."""
    return Model.build(
        coordinates=("shoulder", "elbow"),
        bodies=[
            Body("upper", joint=Revolute((0, 0, 1)), mass=M1, com=(0, -C1, 0), inertia=(I1,) * 3),
            Body(
                "fore",
                parent="upper",
                joint=Revolute((0, 0, 1), translation=(0, -L1, 0)),
                mass=M2,
                com=(0, -C2, 0),
                inertia=(I2,) * 3,
            ),
        ],
        gravity=(0, -G, 0),
    )


def test_double_pendulum(arm):
    """M, N and G of the textbook's two-link arm."""
    a, b = 0.4, 0.9
    q, qd = jnp.array([a, b]), jnp.array([1.3, -0.7])
    coupling = M2 * L1 * C2
    own = I2 + M2 * C2**2
    mixed = own + coupling * np.cos(b)
    first = I1 + M1 * C1**2 + own + M2 * L1**2 + 2 * coupling * np.cos(b)
    np.testing.assert_allclose(
        autodiff.mass_matrix(arm, q), [[first, mixed], [mixed, own]], rtol=1e-13
    )
    h = -coupling * np.sin(b)
    np.testing.assert_allclose(
        autodiff.coriolis(arm, q, qd),
        [[h * qd[1], h * (qd[0] + qd[1])], [-h * qd[0], 0]],
        rtol=1e-13,
        atol=1e-15,
    )
    lower = M2 * G * C2 * np.sin(a + b)
    upper = (M1 * C1 + M2 * L1) * G * np.sin(a) + lower
    np.testing.assert_allclose(autodiff.gravity(arm, q), [-upper, -lower], rtol=1e-13)


def test_point_of_the_arm(arm):
    a, b, c = 0.4, 0.9, 0.25
    position = autodiff.point_position(arm, jnp.array([a, b]), "fore", jnp.array([0, -c, 0]))
    expected = [L1 * np.sin(a) + c * np.sin(a + b), -L1 * np.cos(a) - c * np.cos(a + b), 0]
    np.testing.assert_allclose(position, expected, atol=1e-15)


@functools.cache
def along_a_path(shape):
    """Positions, and kinetic and potential energy, on q(t) = q + q̇ t + ½ q̈ t²."""

    def one(model, q, qd, qdd, points):
        def at(t):
            x, v = q + qd * t + qdd * t**2 / 2, qd + qdd * t
            position = autodiff.point_position(model, x, model.nb - 1, points[-1])
            kinetic = autodiff.kinetic_energy(model, x, v)
            return position, kinetic, autodiff.potential_energy(model, x)

        return jax.vmap(at)(STEP * jnp.arange(-3, 4))

    return jax.jit(jax.vmap(one))(*cases(shape))


STEP = 2e-3
FIRST = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60 / STEP
SECOND = np.array([2, -27, 270, -490, 270, -27, 2]) / 180 / STEP**2


@pytest.mark.parametrize("shape", ["branched", "neural", "free_body"])
def test_finite_differences(shape):
    """Velocity and acceleration from positions; power of τ from the change of energy."""
    found = evaluate("autodiff", shape)
    position, kinetic, potential = along_a_path(shape)
    velocity = jnp.einsum("t,nti->ni", FIRST, position)
    assert largest_error(found["point_velocity"], velocity) < 1e-6
    acceleration = jnp.einsum("t,nti->ni", SECOND, position)
    assert largest_error(found["point_acceleration"], acceleration) < 1e-5
    power = (kinetic + potential) @ FIRST
    supplied = jnp.einsum("ni,ni->n", found["inverse_dynamics"], cases(shape).qd)
    scale = jnp.max(jnp.abs(found["inverse_dynamics"]), axis=1)
    np.testing.assert_array_less(jnp.abs(supplied - power) / scale, 1e-6)
    energy = 0.5 * jnp.einsum(
        "ni,nij,nj->n", cases(shape).qd, found["mass_matrix"], cases(shape).qd
    )
    np.testing.assert_allclose(energy, kinetic[:, 3], rtol=1e-12)


def test_derivatives_are_arranged_by_definition_1(arm):
    q = jnp.array([0.4, 0.9])
    for order, found in (
        (1, autodiff.transform_derivatives(arm, q)),
        (2, autodiff.transform_second_derivatives(arm, q)),
    ):
        for b in range(2):
            expected = matrix_derivative(
                lambda x, b=b: autodiff.body_transforms(arm, x)[b].T, q, order
            )
            np.testing.assert_allclose(found[b], expected, atol=1e-15)


def test_reverse_mode(arm):
    """Gradients to every number of the model exist and are finite, also at q = 0."""

    def effort(model):
        return jnp.sum(
            autodiff.inverse_dynamics(model, jnp.zeros(2), jnp.ones(2), jnp.ones(2)) ** 2
        )

    slope = jax.jit(jax.grad(effort))(arm)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
    assert float(jnp.abs(slope.mass).max()) > 0
