"""Forward dynamics of free joints by articulated bodies, against a mass matrix and a solve."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.kinematics._walk import inwards, over_ancestors, walk
from empbody.model import Chain, Weld

JOINTS = {"r": eb.Revolute, "p": eb.Prismatic}


def tree(parents, joints, massless=(), welds=()):
    """Bodies with random numbers; `joints` are letters of `JOINTS`, several a chain."""
    rng = np.random.default_rng(len(parents))
    bodies = []
    for i, (parent, letters) in enumerate(zip(parents, joints, strict=True)):
        links = []
        for kind in letters:
            axis, move, turn = rng.normal(size=(3, 3))
            axis = axis / np.linalg.norm(axis)
            links.append(JOINTS[kind](axis=axis, translation=move, rotation=turn))
        joint = links[0] if len(links) == 1 else Chain(tuple(links))
        above = "ground" if parent < 0 else f"b{parent}"
        mass = 0.0 if i in massless else rng.uniform(0.5, 2.0)
        moments = 0.0 if i in massless else rng.uniform(1.0, 1.5, size=3)
        inertia = moments * np.ones(3)
        bodies.append(
            eb.Body(f"b{i}", above, joint, mass=mass, com=rng.normal(size=3), inertia=inertia)
        )
    for k, carrier in enumerate(welds):
        bodies.append(
            eb.Body(
                f"w{k}",
                f"b{carrier}",
                Weld(translation=rng.normal(size=3)),
                mass=0.7,
                inertia=(0.1, 0.2, 0.15),
            )
        )
    count = sum(map(len, joints))
    return eb.Model.build(tuple(f"q{i}" for i in range(count)), bodies, eb.rhythms.Identity())


TREES = {
    "chain": lambda: eb.models.pendulum_chain(12, axes="random"),
    "deep": lambda: eb.models.pendulum_chain(40, axes="random"),
    "branches": lambda: tree((-1, 0, 1, 1, 0, 4, 5, 4, 2, 8), ("r",) * 10),
    "mixed": lambda: tree((-1, 0, 0, -1, 3, 4, 4), ("rp", "r", "pr", "rrr", "p", "rp", "r")),
    "massless": lambda: tree((-1, 0, 1, 0, 3), ("rrr", "r", "rr", "r", "rrr"), (0, 3), (0, 2, 2)),
    "children first": lambda: tree((2, 0, 3, -1, 0, 1), ("r", "rr", "p", "rrr", "r", "r")),
}


def relative(found, expected):
    return float(jnp.max(jnp.abs(found - expected)) / jnp.max(jnp.abs(expected)))


@pytest.fixture(scope="module", params=TREES)
def case(request):
    model = TREES[request.param]()
    if model.nq > 12:  # a gentle posture: a long chain's mass matrix is ill-conditioned
        states = np.random.default_rng(0).normal(scale=0.1, size=(3, 3, model.nq))
    else:
        states = np.random.default_rng(0).normal(size=(3, 3, model.nq))
    return model, jnp.asarray(states)


def dense(model, q, qd, tau):
    need = eb.inverse_dynamics(model, q, qd, jnp.zeros_like(q))
    return jnp.linalg.solve(eb.mass_matrix(model, q), tau - need)


def test_equals_a_dense_solve(case):
    model, states = case
    expected = jax.vmap(lambda x: dense(model, *x))(states)
    scale = 1e3 if model.topology.is_deep else 1.0  # the dense one's own error
    for x, one in zip(states, expected, strict=True):
        assert relative(eb.forward_dynamics(model, *x), one) < 1e-12 * scale
    batched = jax.vmap(lambda x: eb.forward_dynamics(model, *x))(states)
    assert relative(batched, expected) < 1e-12 * scale


def test_inverse_dynamics_undoes_it(case):
    model, states = case
    for q, qd, tau in states:
        qdd = eb.forward_dynamics(model, q, qd, tau)
        size = jnp.max(jnp.abs(eb.mass_matrix(model, q))) * jnp.max(jnp.abs(qdd))
        found = eb.inverse_dynamics(model, q, qd, qdd)
        assert float(jnp.max(jnp.abs(found - tau)) / size) < 1e-13


def test_batches_of_models_and_of_states(case):
    model, states = case

    def scaled(by):
        numbers = (model.mass, model.com, model.inertia, model.translation, model.gravity)
        return eqx.tree_at(
            lambda m: (m.mass, m.com, m.inertia, m.translation, m.gravity),
            model,
            tuple(by * x for x in numbers),
        )

    scale = jnp.linspace(1.0, 1.1, 3)
    models = eqx.filter_vmap(scaled)(scale)
    found = eqx.filter_vmap(lambda m, x: eb.forward_dynamics(m, *x))(models, states)
    for i in range(3):
        one = dense(scaled(scale[i]), *states[i])
        assert relative(found[i], one) < (1e-9 if model.topology.is_deep else 1e-12)


def test_derivatives_in_both_modes(case):
    model, states = case

    def loss(mass, q, qd, tau):
        heavier = eqx.tree_at(lambda m: m.mass, model, mass)
        return jnp.sum(jnp.sin(0.1 * eb.forward_dynamics(heavier, q, qd, tau)))

    def plain(mass, q, qd, tau):
        heavier = eqx.tree_at(lambda m: m.mass, model, mass)
        return jnp.sum(jnp.sin(0.1 * dense(heavier, q, qd, tau)))

    at = (model.mass, *states[0])
    found, expected = (jax.jit(jax.grad(f, argnums=(0, 1, 2, 3)))(*at) for f in (loss, plain))
    for a, b in zip(found, expected, strict=True):
        assert relative(a, b) < 1e-8
    batch = jax.jit(jax.vmap(jax.grad(loss, argnums=1), in_axes=(None, 0, 0, 0)))
    assert relative(batch(model.mass, *jnp.moveaxis(states, 1, 0))[0], expected[1]) < 1e-8


def test_large_batches_are_cut_into_chunks():
    model = TREES["branches"]()
    few = jnp.asarray(np.random.default_rng(1).normal(size=(5, model.nq)))
    expected = jax.vmap(lambda q: eb.forward_dynamics(model, q, q))(few)
    many = jnp.tile(few, (61, 1))  # two chunks and a rest
    found = jax.jit(jax.vmap(lambda q: eb.forward_dynamics(model, q, q)))(many)
    np.testing.assert_allclose(found, jnp.tile(expected, (61, 1)), rtol=1e-11)


def test_force_elements_act():
    model = TREES["branches"]()
    spring = eb.forces.PointSpring(
        "ground", (0.1, 0, 0.2), model.body_names[-1], (0, 0.1, 0), 20.0, 0.3, 0.5
    )
    model = model.with_forces([spring])
    q, qd = jnp.asarray(np.random.default_rng(2).normal(size=(2, model.nq)))
    expected = dense(model, q, qd, eb.dynamics.applied_forces(model, q, qd))
    assert relative(eb.forward_dynamics(model, q, qd), expected) < 1e-12


def test_walks_have_parents_first_and_few_slots(case):
    model, _ = case
    topology = model.topology
    way = walk(topology)
    turns = {int(link): turn for turn, link in enumerate(way.order)}
    assert sorted(turns) == list(range(topology.n_links))
    for link, parent in enumerate(topology.parents):
        if parent >= 0:
            assert turns[parent] < turns[link]
            assert way.above[turns[link]] == way.own[turns[parent]]
    branches = any(topology.parents.count(parent) > 1 for parent in topology.parents)
    assert way.slots == 1 or branches
    assert way.slots <= 1 + np.log2(topology.n_links)


def test_sums_along_walks(case):
    model, _ = case
    topology = model.topology
    values = jnp.asarray(np.random.default_rng(4).normal(size=(topology.n_links, 2)))
    above = over_ancestors(topology, values)
    np.testing.assert_allclose(above, topology.ancestors @ values, atol=1e-13)

    def add(below, own):
        return below + own, below + own

    below = inwards(topology, add, jnp.zeros(2), values)
    np.testing.assert_allclose(below, topology.ancestors.T @ values, atol=1e-13)
