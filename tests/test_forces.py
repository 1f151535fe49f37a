"""Force elements: springs are gradients of their potential, and all forces balance power."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empbody import (
    applied_forces,
    body_transforms,
    joint_jacobian,
    joint_variables,
    point_position,
    point_velocity,
    potential_energy,
)
from empbody.forces import (
    BodyForce,
    BodyTorque,
    CoordinateForce,
    CoordinateSpring,
    JointForce,
    JointSpring,
    PointSpring,
)
from empbody.model import Body, Model, Prismatic, Revolute, Weld
from empbody.rhythms import Polynomial

TIME = 0.7
POINT, OTHER = (0.1, -0.2, 0.3), (-0.3, 0.2, 0.1)
PUSH = np.array([1.5, -2.0, 0.5])


def ramp(t):
    return 3.0 * t


def turning(t):
    return jnp.stack([jnp.sin(t), jnp.cos(t), t])


SPRINGS = {
    "joint": JointSpring("slide", stiffness=30.0, rest=0.2),
    "coordinate": CoordinateSpring("b", stiffness=12.0, rest=-0.4),
    "bodies": PointSpring("arm", POINT, "tip", OTHER, stiffness=50.0, rest_length=0.3),
    "to ground": PointSpring("ground", (1.0, 1.0, 0.0), "tool", POINT, stiffness=20.0),
}
DAMPERS = {
    "joint": JointSpring("slide", damping=2.0),
    "coordinate": CoordinateSpring("b", damping=3.0),
    "bodies": PointSpring("arm", POINT, "tip", OTHER, stiffness=0.0, damping=4.0),
}
PUSHES = {
    "joint": JointForce("slide", 7.0),
    "joint by time": JointForce("slide", ramp),
    "coordinate": CoordinateForce("a", -2.0),
    "coordinate by time": CoordinateForce("a", ramp),
    "body": BodyForce("tool", PUSH, POINT),
    "body axes": BodyForce("tool", PUSH, POINT, frame="body"),
    "body by time": BodyForce("tip", turning),
    "torque": BodyTorque("tool", PUSH),
    "torque in body axes": BodyTorque("tool", PUSH, frame="body"),
    "torque by time": BodyTorque("tip", turning, frame="body"),
    "on the ground": BodyForce("ground", PUSH, POINT),
    "torque on the ground": BodyTorque("ground", PUSH, frame="body"),
}


@pytest.fixture(scope="module")
def model():
    """Two coordinates drive three joints by polynomials; a tool is welded on, turned."""
    rng = np.random.default_rng(5)
    rhythm = Polynomial(
        exponents=((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)),
        coefficients=rng.normal(size=(3, 6)) * 0.4,
    )
    bodies = [
        Body("arm", joint=Revolute((0, 0, 1), rotation=(0.3, 0.2, 0.1)), mass=1.0),
        Body("tip", "arm", Prismatic((1, 0, 0), (0.2, 0.1, 0.3), name="slide"), mass=1.0),
        Body("hand", "tip", Revolute((0, 0.6, 0.8), (0.1, 0, 0)), 1.0, inertia=(1, 1, 1)),
        Body("tool", "hand", Weld((0.1, 0.2, 0.0), (0.5, -0.4, 0.3)), mass=0.5),
    ]
    return Model.build(("a", "b"), bodies, rhythm=rhythm, gravity=(0, 0, 0))


@pytest.fixture(scope="module")
def states():
    return jnp.asarray(np.random.default_rng(7).normal(size=(2, 4, 2)))


@pytest.fixture(scope="module")
def elements(model, states):
    """Generalised force of every element, gradients of the springs' potentials, the springs'
    force together, and the gradient of what all others store."""
    every = {"spring": SPRINGS, "damper": DAMPERS, "push": PUSHES}
    named = {(kind, name): one for kind, group in every.items() for name, one in group.items()}

    def one(q, qd):
        alone = {name: model.with_forces([element]) for name, element in named.items()}
        forces = {name: applied_forces(held, q, qd, TIME) for name, held in alone.items()}
        slope = jax.grad(potential_energy, argnums=1)
        slopes = {name: slope(alone["spring", name], q) for name in SPRINGS}
        together = model.with_forces(list(SPRINGS.values()))
        idle = model.with_forces([*DAMPERS.values(), *PUSHES.values()])
        return forces, slopes, applied_forces(together, q, qd, TIME), slope(idle, q)

    return jax.jit(jax.vmap(one))(*states)


@pytest.fixture(scope="module")
def motion(model, states):
    """What the points and joints do, by the functions of kinematics."""

    def one(q, qd):
        return {
            "f": joint_variables(model, q),
            "fd": joint_jacobian(model, q) @ qd,
            "tool": point_velocity(model, q, qd, "tool", POINT),
            "tip": point_velocity(model, q, qd, "tip", (0.0, 0.0, 0.0)),
            "poses": body_transforms(model, q)[:, :3, :3],
            "turning": jax.jvp(lambda x: body_transforms(model, x)[:, :3, :3], (q,), (qd,))[1],
            "rate": jax.jvp(
                lambda x: jnp.linalg.norm(
                    point_position(model, x, "arm", POINT) - point_position(model, x, "tip", OTHER)
                ),
                (q,),
                (qd,),
            )[1],
        }

    return jax.jit(jax.vmap(one))(*states)


@pytest.mark.parametrize("name", SPRINGS)
def test_springs_are_gradients_of_their_potential(elements, name):
    force, slope = elements[0]["spring", name], elements[1][name]
    assert np.abs(force).max() > 0.1
    np.testing.assert_allclose(force, -slope, rtol=1e-12, atol=1e-12)


def test_elements_add(elements):
    alone, _, together, _ = elements
    total = sum(alone["spring", name] for name in SPRINGS)
    np.testing.assert_allclose(together, total, rtol=1e-12, atol=1e-12)


def test_energies_of_springs(model, states, motion):
    q = states[0]
    held = model.with_forces([SPRINGS["joint"], SPRINGS["coordinate"]])
    expected = 15.0 * (motion["f"][:, 1] - 0.2) ** 2 + 6.0 * (q[:, 1] + 0.4) ** 2
    np.testing.assert_allclose(
        jax.vmap(lambda x: potential_energy(held, x))(q), expected, rtol=1e-12
    )


def test_dampers_take_power(elements, states, motion):
    qd = states[1]
    lost = {
        "joint": 2.0 * motion["fd"][:, 1] ** 2,
        "coordinate": 3.0 * qd[:, 1] ** 2,
        "bodies": 4.0 * motion["rate"] ** 2,
    }
    for name, expected in lost.items():
        force = elements[0]["damper", name]
        np.testing.assert_allclose(np.sum(force * qd, axis=1), -expected, rtol=1e-11)


def test_pushes_give_power(elements, states, motion):
    """Force times velocity of its point, torque times angular velocity."""
    qd = states[1]
    poses = motion["poses"]
    spin = motion["turning"] @ np.swapaxes(poses, 2, 3)  # skew matrix of ω, in ground axes
    omega = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=-1)
    tool, tip = 3, 1
    swinging = np.asarray(turning(TIME))
    given = {
        "joint": 7.0 * motion["fd"][:, 1],
        "joint by time": 3.0 * TIME * motion["fd"][:, 1],
        "coordinate": -2.0 * qd[:, 0],
        "coordinate by time": 3.0 * TIME * qd[:, 0],
        "body": motion["tool"] @ PUSH,
        "body axes": np.sum(motion["tool"] * (poses[:, tool] @ PUSH), axis=1),
        "body by time": motion["tip"] @ swinging,
        "torque": omega[:, tool] @ PUSH,
        "torque in body axes": np.sum(omega[:, tool] * (poses[:, tool] @ PUSH), axis=1),
        "torque by time": np.sum(omega[:, tip] * (poses[:, tip] @ swinging), axis=1),
        "on the ground": np.zeros(4),
        "torque on the ground": np.zeros(4),
    }
    assert given.keys() == PUSHES.keys()
    for name, expected in given.items():
        force = elements[0]["push", name]
        np.testing.assert_allclose(
            np.sum(force * qd, axis=1), expected, rtol=1e-11, atol=1e-13, err_msg=name
        )


def test_only_springs_store_energy(elements):
    np.testing.assert_array_equal(elements[3], 0.0)


def test_spring_between_points_that_meet(model):
    """Where the points coincide there is no direction: no force and no NaN."""
    spring = PointSpring("arm", POINT, "arm", POINT, stiffness=5.0, rest_length=0.3, damping=1.0)
    held = model.with_forces([spring])

    @jax.jit
    def force_and_slope(q, qd):
        slope = jax.jacfwd(lambda x: applied_forces(held, x, qd))(q)
        return applied_forces(held, q, qd), slope

    for out in force_and_slope(jnp.array([0.3, 0.1]), jnp.array([1.0, -1.0])):
        np.testing.assert_array_equal(out, 0.0)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (JointSpring("slid"), "there is no joint 'slid'; did you mean .*'slide'"),
        (JointForce("elbow", 1.0), "there is no joint 'elbow'"),
        (CoordinateSpring("c"), "there is no coordinate 'c'; .*'a', 'b'"),
        (CoordinateForce("A", 1.0), "there is no coordinate 'A'"),
        (BodyForce("tol", PUSH), "there is no body 'tol'; did you mean .*'tool'"),
        (BodyTorque("Tip", PUSH), "there is no body 'Tip'; did you mean .*'tip'"),
        (PointSpring("ground", POINT, "palm", OTHER, 1.0), "there is no body 'palm'"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_unknown_names(model, element, message):
    with pytest.raises(ValueError, match=message):
        model.with_forces([element])
