"""Works of the growth sweeps: each makes a problem of a given size and something to time.

A work returns functions to be called without arguments, by name of the curve, each with the
number of units that one call does: evaluations, steps, frames or subjects.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import empbody as eb
from empbody.bench import _trees, shoulder_sized
from empbody.bench._fitting import population
from empbody.models._holzbaur import holzbaur

STEPS = 20
"""of a simulation, all of the same length"""
STEP = 1e-3
"""s"""


def rounds_of(batch, size=10):
    """Evaluations in one call, so that calling costs nothing beside them."""
    return max(10_000 // (size * batch), 10 // batch, 1)


def _free(bodies):
    """A chain with every joint a coordinate."""
    return eb.models.pendulum_chain(bodies, length=0.1, mass=0.5, axes="random")


def tree(bodies, coordinates, muscles=0):
    """A chain of bodies with joints about random axes that all follow a few coordinates, and
    muscles that run from a body over the next one to the one after it."""
    chain = _free(bodies)
    rng = np.random.default_rng(0)
    matrix = 0.05 * rng.normal(size=(bodies, coordinates)) / np.sqrt(coordinates)
    matrix[np.arange(bodies), np.arange(bodies) * coordinates // bodies] += 1.0
    links = [
        eb.Body(
            name,
            "ground" if i == 0 else chain.body_names[i - 1],
            eb.Revolute(chain.axis[i], chain.translation[i]),
            chain.mass[i],
            chain.com[i],
            chain.inertia[i],
        )
        for i, name in enumerate(chain.body_names)
    ]
    return eb.Model.build(
        [f"q{i}" for i in range(coordinates)],
        links,
        eb.rhythms.Affine(matrix),
        muscles=[_muscle(f"m{i}", chain.body_names, rng) for i in range(muscles)],
    )


def _muscle(name, bodies, rng):
    first = rng.integers(max(len(bodies) - 2, 1))
    places = rng.uniform((-0.04, -0.08, -0.04), (0.04, -0.02, 0.04), size=(3, 3))
    points = [
        eb.PathPoint(body, place)
        for body, place in zip(bodies[first : first + 3], places, strict=False)
    ]
    return eb.Muscle(
        name,
        points,
        max_isometric_force=100.0,
        optimal_fibre_length=0.1,
        tendon_slack_length=0.05,
        tendon="rigid",
    )


def _states(batch, nq):
    return jnp.asarray(0.3 * np.random.default_rng(1).normal(size=(2, batch, nq)))


def repeated(function, batch, nq, size=10):
    """A function of one q and one q̇, over a batch and often enough in one compiled loop; each
    round starts from a state that depends on the round before."""
    rounds = rounds_of(batch, size)
    q, qd = _states(batch, nq)

    @jax.jit
    def loop(q, qd):
        def turn(_, q):
            found = jax.vmap(function)(q, qd)
            return q + 1e-12 * jnp.sum(found.reshape(batch, -1), axis=1, keepdims=True)

        return jax.lax.fori_loop(0, rounds, turn, q)

    return (lambda: loop(q, qd)), rounds * batch


def _skeleton(bodies, coordinates, muscles):
    """The model of a sweep: a shoulder's size, unless the sizes are given."""
    return shoulder_sized() if bodies is None else tree(bodies, coordinates, muscles)


def rhs(batch=1, bodies=None, coordinates=None, muscles=0):
    model = _skeleton(bodies, coordinates, muscles)

    def acceleration(q, qd):
        push = eb.muscle_torques(model, q, qd, jnp.full(muscles, 0.3)) if muscles else None
        return eb.forward_dynamics(model, q, qd, push)

    return {"right-hand side": repeated(acceleration, batch, model.nq, model.nj)}


def chain(bodies):
    """Every joint a coordinate, beside peers on the same chain."""
    model = _free(bodies)
    works = {
        "right-hand side, all joints free": repeated(
            lambda q, qd: eb.forward_dynamics(model, q, qd), 1, model.nq, 3 * bodies
        )
    }
    for name, call in (
        ("Pinocchio, ABA", _trees._pinocchio_call(model)),
        ("MuJoCo, mj_forward", _trees.mujoco_call(model)),
    ):
        if call is not None:
            works[name] = call, _trees._CALLS
    return works


def moment_arms(batch=1, bodies=None, coordinates=None, muscles=0):
    model = holzbaur() if bodies is None else tree(bodies, coordinates, muscles)
    return {"moment arms": _arms(model, batch, max(model.nj, model.nm))}


def wrapped_moment_arms(batch=1):
    return {"moment arms, wrapping": _arms(holzbaur(wrapping=True), batch, 500)}


def _arms(model, batch, size=20):
    # Poses where the shoulder's couplers and moving points are within their ranges.
    return repeated(lambda q, _: eb.moment_arms(model, 0.5 + 0.3 * q), batch, model.nq, size)


def _rollout(model, muscles):
    ts = jnp.linspace(0.0, STEPS * STEP, 2)
    excitation = jnp.full(muscles, 0.3) if muscles else None

    def end(rhythm, q, qd):
        moved = eqx.tree_at(lambda m: m.rhythm, model, rhythm)
        found = eb.simulate(
            moved, q, qd, ts, excitation=excitation, fixed_step=STEP, max_steps=STEPS, throw=False
        )
        return found.q[-1]

    return end


def simulation(batch=1, bodies=None, coordinates=None, muscles=0):
    model = _skeleton(bodies, coordinates, muscles)
    end = _rollout(model, muscles)
    run = jax.jit(jax.vmap(lambda q, qd: end(model.rhythm, q, qd)))
    q, qd = _states(batch, model.nq)
    return {"simulation, per step": (lambda: run(q, qd), STEPS * batch)}


def gradient(batch=1, bodies=None, coordinates=None, muscles=0):
    """Reverse mode, to all numbers of the rhythm."""
    model = _skeleton(bodies, coordinates, muscles)
    end = _rollout(model, muscles)
    numbers, rest = eqx.partition(model.rhythm, eqx.is_inexact_array)
    slope = jax.grad(lambda n, q, qd: jnp.sum(end(eqx.combine(n, rest), q, qd) ** 2))
    run = jax.jit(jax.vmap(functools.partial(slope, numbers)))
    q, qd = _states(batch, model.nq)
    return {"gradient, per step": (lambda: run(q, qd), STEPS * batch)}


def sharing(batch=1, coordinates=3, muscles=15):
    """Torques that the muscles can give, with random moment arms."""
    rng = np.random.default_rng(2)
    arms = 0.02 * rng.normal(size=(coordinates, muscles))
    capacity = jnp.asarray(rng.uniform(200.0, 1200.0, size=muscles))
    active = rng.uniform(0.0, 0.6, size=(batch, muscles))
    tau = jnp.asarray((active * np.asarray(capacity)) @ arms.T)
    arms, rounds = jnp.asarray(arms), rounds_of(batch, max(muscles, 10))

    @jax.jit
    def loop(tau):
        def turn(_, tau):
            found = jax.vmap(lambda t: eb.sharing.share(arms, capacity, 0.0, t).activations)(tau)
            return tau + 1e-12 * jnp.sum(found, axis=1, keepdims=True)

        return jax.lax.fori_loop(0, rounds, turn, tau)

    return {"force sharing": (lambda: loop(tau), rounds * batch)}


def fitting_subjects(batch):
    """A cubic rhythm of three angles, 60 rows for each subject, all subjects in one call."""
    xs, ys, who = population(batch)

    def fit():
        return eb.fit_population(xs, ys, who, "poly:3", leave_one_out=None).coefficients

    return {"fitting, per subject": (fit, batch)}


def fitting_rhythm(bodies=30, coordinates=3):
    """An affine rhythm of all joints of one subject, 600 rows."""
    rng = np.random.default_rng(3)
    xs = rng.uniform(-1.0, 1.0, size=(600, coordinates))
    ys = 0.3 * xs @ rng.normal(size=(coordinates, bodies)) / np.sqrt(coordinates)
    ys = ys + 0.01 * rng.normal(size=ys.shape)
    return {"fitting": (lambda: eb.fit_rhythm(xs, ys, "linear").coefficients, 1)}
