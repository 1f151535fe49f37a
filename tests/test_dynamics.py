"""The fast path: against Pinocchio, under every transformation, and its conservation laws.

Agreement with the two reference implementations is in test_kronecker.py.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _random_trees import SHAPES, cases

import empbody as eb
from empbody.bench import shoulder_sized
from empbody.dynamics import _assemble
from empbody.dynamics._bodies import LaneBodies
from empbody.kinematics._arguments import coordinates
from empbody.kinematics._links import motion_of


def relative(found, expected):
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def chain(axes, n, seed=0):
    """A chain with random placements and inertias; `axes` are joint axes in turn."""
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(n):
        half = rng.uniform(0.05, 0.1, 3)
        inertia = (half[1] + half[2], half[0] + half[2], half[0] + half[1])
        kind = eb.Prismatic if i % 4 == 3 else eb.Revolute
        joint = kind(axes[i % len(axes)], rng.normal(size=3) / 3, rng.normal(size=3))
        parent = f"link{i - 1 if i % 3 else max(i - 3, 0)}" if i else "ground"
        mass = float(rng.uniform(0.5, 2.0))
        bodies.append(eb.Body(f"link{i}", parent, joint, mass, rng.normal(size=3) / 5, inertia))
    return eb.Model.build([f"q{i}" for i in range(n)], bodies, gravity=(0.3, -9.81, 0.2))


def test_mass_matrix_and_bias_equal_pinocchios():
    pin = pytest.importorskip("pinocchio", reason="the peer Pinocchio (pip: pin) is missing")
    axes = np.eye(3)
    model = chain(axes, 9)
    peer = pin.Model()
    peer.gravity.linear = np.asarray(model.gravity)
    names = "XYZ"
    for i in range(model.nj):
        kind = "R" if model.topology.revolute[i] else "P"
        joint = getattr(pin, f"JointModel{kind}{names[int(np.argmax(model.axis[i]))]}")()
        place = pin.SE3(np.asarray(model.rotation[i]), np.asarray(model.translation[i]))
        index = peer.addJoint(model.topology.parents[i] + 1, joint, place, model.joint_names[i])
        inertia = pin.Inertia(
            float(model.mass[i]), np.asarray(model.com[i]), np.asarray(model.inertia[i])
        )
        peer.appendBodyToJoint(index, inertia, pin.SE3.Identity())
    data = peer.createData()
    rng = np.random.default_rng(1)
    q, qd, qdd = rng.normal(size=(3, model.nq))
    mass = pin.crba(peer, data, q).copy()
    mass = np.triu(mass) + np.triu(mass, 1).T
    zero = np.zeros_like(q)
    weight = pin.rnea(peer, data, q, zero, zero)
    drift = pin.rnea(peer, data, q, qd, zero) - weight
    assert relative(eb.mass_matrix(model, q), mass) < 1e-10
    assert relative(eb.bias(model, q, qd), drift) < 1e-10
    assert relative(-eb.gravity(model, q), weight) < 1e-10
    need = pin.rnea(peer, data, q, qd, qdd)
    assert relative(eb.inverse_dynamics(model, q, qd, qdd), need) < 1e-10
    assert relative(eb.forward_dynamics(model, q, qd, need), qdd) < 1e-10


@pytest.mark.parametrize("name", ["twelve_bodies", "free_body"])
def test_both_ways_of_assembly_agree(name):
    case = cases(name)

    def both(model, q, qd):
        motion, bodies = motion_of(model, q, qd), LaneBodies.of(model)
        return _assemble.by_body_jacobians(bodies, motion), _assemble.by_composites(bodies, motion)

    one, two = eqx.filter_jit(eqx.filter_vmap(both))(case.models, case.q, case.qd)
    assert relative(one[0], two[0]) < 1e-12
    assert relative(one[1], two[1]) < 1e-12


@pytest.fixture(scope="module")
def coupled():
    """One model with a rhythm of few coordinates, and forces, and some states."""
    model = shoulder_sized()
    topology = model.topology
    assert not _assemble.composite_is_cheaper(topology, model.nq, identity=False)
    spring = eb.forces.PointSpring(
        "ground", (0.1, 0, 0.2), model.body_names[-1], (0, 0.1, 0), 20.0, 0.3, 0.5
    )
    model = model.with_forces([spring, eb.forces.CoordinateSpring("plane", 3.0, 0.2, 0.1)])
    rng = np.random.default_rng(5)
    states = jnp.asarray(rng.normal(size=(5, 3, model.nq)))
    return model, states


def test_batching_goes_through_the_lanes_and_agrees(coupled):
    model, states = coupled
    q, qd, tau = states[:, 0], states[:, 1], states[:, 2]
    one_by_one = jnp.stack(
        [eb.forward_dynamics(model, *row) for row in zip(q, qd, tau, strict=True)]
    )
    batched = jax.vmap(eb.forward_dynamics, in_axes=(None, 0, 0, 0))(model, q, qd, tau)
    assert relative(batched, one_by_one) < 1e-12
    twice = jax.vmap(jax.vmap(eb.forward_dynamics, (None, 0, 0, 0)), (None, 0, 0, 0))(
        model, q[None], qd[None], tau[None]
    )
    assert relative(twice[0], one_by_one) < 1e-12


def test_large_batches_are_cut_into_chunks(coupled):
    model, states = coupled
    few = states[:, 0]
    expected = jax.vmap(lambda q: eb.forward_dynamics(model, q, q))(few)
    many = jnp.tile(few, (211, 1))  # two chunks and a rest
    found = jax.jit(jax.vmap(lambda q: eb.forward_dynamics(model, q, q)))(many)
    np.testing.assert_allclose(found, jnp.tile(expected, (211, 1)), rtol=1e-12)


def test_models_can_differ_in_every_number(coupled):
    model, states = coupled
    scale = jnp.linspace(1.0, 1.2, 5)
    models = jax.tree.map(lambda x: x[None] * scale.reshape(-1, *[1] * x.ndim), model)
    q, qd = states[0, 0], states[0, 1]
    batched = eqx.filter_vmap(lambda m: eb.forward_dynamics(m, q, qd))(models)
    for i in range(5):
        one = eb.forward_dynamics(jax.tree.map(lambda x, i=i: x[i], models), q, qd)
        assert relative(batched[i], one) < 1e-12


def test_gradients_in_both_modes_equal_differences(coupled):
    model, states = coupled
    q, qd, direction = states[0]

    def loss(q):
        return jnp.sum(eb.forward_dynamics(model, q, qd) ** 2)

    reverse = jax.grad(loss)(q) @ direction
    forward = jax.jvp(loss, (q,), (direction,))[1]
    step = 1e-6
    difference = (loss(q + step * direction) - loss(q - step * direction)) / (2 * step)
    assert forward == pytest.approx(float(reverse), rel=1e-10)
    assert difference == pytest.approx(float(reverse), rel=1e-6)
    batch = jax.grad(lambda qs: jnp.sum(jax.vmap(loss)(qs)))(states[:, 0])
    np.testing.assert_allclose(batch, jax.vmap(jax.grad(loss))(states[:, 0]), rtol=1e-9)


def test_every_leaf_has_a_finite_gradient(coupled):
    model, states = coupled
    q, qd, tau = states[0]
    grad = eqx.filter_grad(lambda m: jnp.sum(eb.forward_dynamics(m, q, qd, tau)))(model)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(grad))
    assert float(jnp.abs(grad.mass).max()) > 0.0


def test_new_numbers_do_not_compile_again(coupled):
    model, states = coupled
    traces = []

    @eqx.filter_jit
    def run(model, q, qd):
        traces.append(1)
        return eb.forward_dynamics(model, q, qd)

    run(model, *states[0, :2])
    heavier = eqx.tree_at(lambda m: m.mass, model, model.mass * 1.1)
    run(heavier, *states[1, :2])
    assert len(traces) == 1


def test_energy_rate_is_the_power_of_the_torques(coupled):
    model, states = coupled
    model = model.with_forces(
        [eb.forces.PointSpring("ground", (0.1, 0, 0.2), model.body_names[-1], (0, 0.1, 0), 20.0)]
    )
    q, qd, tau = states[0]
    qdd = eb.forward_dynamics(model, q, qd, tau)
    _, rate = jax.jvp(lambda q, qd: eb.mechanical_energy(model, q, qd), (q, qd), (qd, qdd))
    assert float(rate) == pytest.approx(float(tau @ qd), rel=1e-9)


def test_massless_bodies_take_no_part():
    model = jax.tree.map(lambda x: x[0], cases("twelve_bodies").models)
    assert len(model.topology.massive) == model.nb - len(SHAPES["twelve_bodies"].massless)


def test_wrong_shapes_are_counted():
    model = chain(np.eye(3), 2)
    short, batch = jnp.array([0.1]), jnp.ones((5, 2))
    for call in (eb.mass_matrix, eb.gravity, eb.joint_jacobian, eb.body_transforms):
        with pytest.raises(ValueError, match=r"q has shape \(1,\) for 2 coordinates \(q0, q1\)"):
            call(model, short)
    # Here the checks of the annotations would come first, which users do not run.
    with pytest.raises(ValueError, match=r"tau has shape \(1,\) for 2 coordinates"):
        coordinates(model, qd=jnp.zeros(2), tau=short)
    with pytest.raises(ValueError, match=r"q has shape \(5, 2\).*; batch with jax.vmap"):
        coordinates(model, q=batch)
    with pytest.raises(ValueError, match=r"q has shape \(\) for 2"):
        coordinates(model, q=0.1)
    assert coordinates(model, q=[1, 2])[0].dtype == float


def test_without_mass_there_are_kinematics_but_no_dynamics():
    model = eb.Model.build(("x",), [eb.Body("a", joint=eb.Revolute((0, 0, 1)))])
    assert eb.body_transforms(model, jnp.zeros(1)).shape == (1, 4, 4)
    with pytest.raises(ValueError, match="no moving body of the model has mass"):
        eb.forward_dynamics(model, jnp.zeros(1), jnp.zeros(1))


def test_far_from_the_origin_nothing_is_lost():
    near = chain(np.eye(3), 5)
    far = eqx.tree_at(lambda m: m.translation, near, near.translation.at[0].add(1e3))
    q, qd = jnp.asarray(np.random.default_rng(2).normal(size=(2, 5)))
    there, here = (eb.forward_dynamics(m, q, qd) for m in (far, near))
    assert relative(there, here) < 1e-10


def test_inverse_dynamics_can_take_the_elements_off(coupled):
    model, states = coupled
    q, qd, tau = states[0]
    qdd = eb.forward_dynamics(model, q, qd, tau)
    assert relative(eb.inverse_dynamics(model, q, qd, qdd, elements=True), tau) < 1e-10
    skeleton = eb.forward_dynamics(model, q, qd, tau, elements=False)
    assert relative(eb.inverse_dynamics(model, q, qd, skeleton), tau) < 1e-10
