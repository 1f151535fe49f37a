"""Bodies moved on their links with `eqx.tree_at`: springs, bushings, forces, strings and muscles
go with them, as if the model had been built there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.forces import BodyForce, BodyTorque, Bushing, PointSpring
from empbody.paths import PathForce, string_lengths
from empbody.paths._tension import ElasticTension

POINT, OTHER = (0.1, -0.2, 0.05), (-0.1, 0.15, 0.2)
PUSH = (1.5, -2.0, 0.5)
Q, QD = jnp.array([0.4, -0.3]), jnp.array([1.2, 0.7])
STILL = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
ARM, TOOL = ((0.05, -0.02, 0.1), (0.3, -0.2, 0.1)), ((0.2, 0.1, -0.1), (-0.4, 0.5, 0.2))

FORCES = {
    "force": lambda: BodyForce("arm", PUSH, POINT),
    "force in body axes": lambda: BodyForce("tool", PUSH, POINT, frame="body"),
    "torque in body axes": lambda: BodyTorque("tool", PUSH, frame="body"),
    "spring": lambda: PointSpring("arm", POINT, "tool", OTHER, 50.0, 0.1, damping=2.0),
    "spring to ground": lambda: PointSpring("ground", POINT, "arm", OTHER, 20.0),
    "bushing": lambda: Bushing(
        "arm", "tool", (1.0, 2.0, 3.0), (30.0, 20.0, 10.0), 0.1, 0.2,
        translation_a=POINT, rotation_b=(0.1, 0.2, 0.3),
    ),
    "string": lambda: PathForce(
        [eb.Path("cord", PATH, [eb.Wrap("ball")])], [ElasticTension(100.0, 0.1, 0.05)], [BALL]
    ),
}  # fmt: skip
PATH = [
    eb.PathPoint("ground", (0.3, 0.2, 0.0)),
    eb.PathPoint("arm", (0.0, -0.25, 0.02)),
    eb.PathPoint("tool", POINT),
]
BALL = eb.WrapSphere("ball", "arm", 0.08, translation=(0.1, -0.05, 0.0))


def built(forces, arm=STILL, tool=STILL):
    """Arm and forearm on hinges, a tool welded on; where the arm's and the tool's frames stand."""

    def body(name, parent, joint):
        return eb.Body(name, parent, joint, 1.0, (0.0, -0.1, 0.02), (0.02, 0.01, 0.02))

    place = {"translation": arm[0], "rotation": arm[1]}
    elbow = eb.Revolute((0, 0.6, 0.8), (0.0, -0.3, 0.0))
    model = eb.Model.build(
        ("a", "b"),
        [
            body("arm", "ground", eb.model.Chain((eb.Revolute((0, 0, 1)),), **place)),
            body("fore", "arm", elbow),
            body("tool", "fore", eb.Weld(*tool)),
        ],
        forces=forces,
        muscles=[eb.Path("line", PATH, [eb.Wrap("ball")])],
        surfaces=[BALL],
    )
    if arm is STILL:
        return model
    # The elbow stays where it was on the arm's link.
    base = built(())
    return eqx.tree_at(
        lambda m: (m.translation, m.rotation), model, (base.translation, base.rotation)
    )


def placed(model, like):
    return eqx.tree_at(
        lambda m: (m.body_translation, m.body_rotation),
        model,
        (like.body_translation, like.body_rotation),
    )


@eqx.filter_jit
def everything(model):
    strings = string_lengths(model, Q)
    return (
        eb.applied_forces(model, Q, QD),
        eb.potential_energy(model, Q),
        eb.forward_dynamics(model, Q, QD),
        strings,
    )


@pytest.mark.parametrize("kind", FORCES)
def test_forces_follow_their_bodies(kind):
    there = built([FORCES[kind]()], ARM, TOOL)
    before = built([FORCES[kind]()])
    moved = placed(before, there)
    for a, b in zip(*(jax.tree.leaves(everything(m)) for m in (moved, there)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    assert np.max(np.abs(eb.applied_forces(moved, Q, QD) - eb.applied_forces(before, Q, QD))) > 1e-3


def test_forces_can_be_bound_again():
    """Forces of one model given to another mean the same there."""
    model = built([make() for make in FORCES.values()], ARM, TOOL)
    again = model.with_forces(model.forces)
    np.testing.assert_allclose(
        eb.applied_forces(again, Q, QD), eb.applied_forces(model, Q, QD), rtol=1e-14
    )


@eqx.filter_jit
def lengths_and_arms(model):
    return eb.path_lengths(model, Q), eb.moment_arms(model, Q)


def test_muscles_follow_their_bodies():
    there = built((), ARM, TOOL)
    before = built(())
    moved = placed(before, there)
    for a, b in zip(*(lengths_and_arms(m) for m in (moved, there)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    assert abs(float(eb.path_lengths(moved, Q)[0] - eb.path_lengths(before, Q)[0])) > 1e-3


@pytest.mark.slow
def test_subjects_differ_in_where_bodies_stand():
    """Only translations batched; rotations shared: lengths and accelerations of each subject."""
    model = built([make() for make in FORCES.values()], ARM, TOOL)
    shifts = model.body_translation[None] + jnp.linspace(0.0, 0.05, 3)[:, None, None]

    def of(shift):
        moved = eqx.tree_at(lambda m: m.body_translation, model, shift)
        return eb.path_lengths(moved, Q), eb.forward_dynamics(moved, Q, QD)

    together = jax.jit(jax.vmap(of))(shifts)
    apart = jax.jit(lambda s: jax.lax.map(of, s))(shifts)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert np.ptp(np.asarray(together[0])) > 1e-3
    slope = jax.jit(jax.grad(lambda s: jnp.sum(of(s)[1])))(shifts[0])
    assert np.all(np.isfinite(slope))
    assert np.max(np.abs(slope)) > 1e-3
