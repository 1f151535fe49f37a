"""Computed-torque tracking: errors die out as designed, torques are those of the motion."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.control import (
    MANUSCRIPT_GAINS,
    ComputedTorque,
    FunctionReference,
    as_reference,
    manuscript_reference,
    track_dae,
)
from empbody.forces import CoordinateSpring

GAINS = (8.0, 12.0)
TS = np.linspace(0.0, 1.5, 31)


def swing(t):
    return jnp.stack([0.3 * jnp.sin(2.0 * t), 0.5 * jnp.cos(3.0 * t)])


class Swing(eqx.Module):
    """The same with numbers to vary."""

    size: jax.Array
    speed: jax.Array

    def __call__(self, t):
        return self.size * jnp.sin(self.speed * t)


@pytest.fixture(scope="module")
def arm():
    """Two links, one with a spring and a damper: torques must make up for them."""
    model = eb.models.pendulum_chain(2, 0.4, 1.2)
    return model.with_forces([CoordinateSpring("q2", stiffness=2.0, rest=0.3, damping=0.4)])


@pytest.fixture(scope="module")
def followed(arm):
    return eb.track(arm, swing, TS, gains=GAINS)


@pytest.fixture(scope="module")
def shoulder():
    return eb.models.shoulder(muscles=False)


@pytest.fixture(scope="module")
def raised(shoulder):
    """The manuscript's case, at a start that does not quite fit."""
    ts = np.linspace(0.0, 3.0, 301)
    return eb.track(
        shoulder, manuscript_reference(), ts, gains=MANUSCRIPT_GAINS, qd0=[0.0, 0.02, 0.0]
    )


def needed(model, tracking, elements):
    """Inverse dynamics of the realised motion, and the rate of its mechanical energy."""

    @jax.vmap
    def rows(t, q, qd, qdd):
        rate = jax.jvp(lambda x, v: eb.mechanical_energy(model, x, v), (q, qd), (qd, qdd))[1]
        return eb.inverse_dynamics(model, q, qd, qdd, t=t, elements=elements), rate

    return jax.jit(rows)(tracking.ts, tracking.q, tracking.qd, tracking.qdd)


def test_the_manuscripts_case(shoulder, raised):
    assert bool(raised.succeeded)
    errors = np.max(np.abs(raised.errors), axis=0)
    rates = np.max(np.abs(raised.rate_errors), axis=0)
    assert errors[0] < 1e-14
    assert errors[2] < 1e-12
    assert 1e-5 < errors[1] <= 2e-4
    assert rates[1] <= 0.02 + 1e-12
    # closed form of a critically damped error
    t = np.asarray(raised.ts)
    late = 0.02 * t * np.exp(-100.0 * t)
    np.testing.assert_allclose(raised.errors[:, 1], late, rtol=0, atol=1e-8)
    torques, rate = needed(shoulder, raised, False)
    np.testing.assert_allclose(raised.torques, torques, rtol=0, atol=1e-10)
    np.testing.assert_allclose(raised.power, rate, rtol=0, atol=1e-10)


def test_the_manuscripts_case_with_a_consistent_start(shoulder):
    ts = np.linspace(0.0, 3.0, 301)
    found = eb.track(shoulder, manuscript_reference(), ts, gains=MANUSCRIPT_GAINS)
    assert np.max(np.abs(found.errors)) < 1e-10
    assert np.max(np.abs(found.rate_errors)) < 1e-8


def test_the_manuscripts_case_as_a_dae(shoulder, raised):
    """All joint variables as unknowns, the rhythm as constraints: same motion, same torques."""
    ts = raised.ts[:31]
    found = track_dae(
        shoulder,
        manuscript_reference(),
        ts,
        gains=MANUSCRIPT_GAINS,
        qd0=[0.0, 0.02, 0.0],
        stabilisation="baumgarte",
        rtol=1e-7,
        atol=1e-7,
    )
    assert found.f.shape == (31, shoulder.nj)
    np.testing.assert_allclose(found.q, raised.q[:31], atol=1e-7)
    np.testing.assert_allclose(found.torques, raised.torques[:31], atol=1e-3)
    joints = jax.vmap(shoulder.rhythm)(raised.q[:31])
    np.testing.assert_allclose(found.f, joints, atol=1e-6)
    assert np.max(found.drift) < 1e-6


def test_force_elements_are_made_up_for(arm, followed):
    assert np.max(np.abs(followed.errors)) < 1e-9
    torques, _ = needed(arm, followed, True)
    np.testing.assert_allclose(followed.torques, torques, rtol=0, atol=1e-10)
    desired = jax.vmap(jax.jacfwd(jax.jacfwd(swing)))(jnp.asarray(TS))
    np.testing.assert_allclose(followed.desired.qdd, desired, atol=1e-12)
    np.testing.assert_allclose(followed.qdd, desired, atol=1e-6)


def test_torques_act_through_a_plant(arm, followed):
    """The same model again: what Eq. 200 says about q̈ is what the torques bring about."""
    found = eb.track(arm, swing, TS, gains=GAINS, plant=arm, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.q, followed.q, atol=1e-8)
    np.testing.assert_allclose(found.torques, followed.torques, atol=1e-5)


def test_torques_at_every_stage_change_nothing(arm, followed):
    found = eb.track(arm, swing, TS, gains=GAINS, every_stage=True)
    assert int(found.stats["num_steps"]) == int(followed.stats["num_steps"])
    np.testing.assert_allclose(found.q, followed.q, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.torques, followed.torques, rtol=0, atol=1e-12)


def test_a_pose_that_a_loop_does_not_have_is_refused():
    bars = eb.models.four_bar()
    anywhere = jnp.full(1, jnp.inf)
    bars = eqx.tree_at(lambda m: (m.lower, m.upper), bars, (-anywhere, anywhere))
    ts = np.linspace(0.0, 1.0, 11)
    with pytest.raises(eb.SimulationError, match="at t = "):
        eb.track(bars, lambda t: jnp.stack([2.5 * t]), ts, gains=20.0)


@pytest.mark.parametrize("solver", ["tsit5", "dopri8", "kvaerno5"])
def test_other_solvers_follow_as_well(arm, followed, solver):
    found = eb.track(arm, swing, TS, gains=GAINS, solver=solver, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.q, followed.q, atol=1e-6)


def test_references_of_every_kind_agree(arm, followed, tmp_path):
    fine = np.linspace(0.0, 1.5, 301)
    samples = np.asarray(jax.vmap(swing)(fine))
    motion = eb.Motion.of(arm, fine, samples)
    path = tmp_path / "swing.mot"
    eb.write_motion(path, motion, degrees=True)
    spline = eb.rhythms.Spline.fit(fine, samples)
    kinds = {
        "module": FunctionReference(swing),
        "spline": spline,
        "motion": motion,
        "file": path,
        "smoothing": eb.signals.smoothing_spline(fine, samples, smoothing=0.0),
        "path": diffrax.CubicInterpolation(
            fine, diffrax.backward_hermite_coefficients(fine, samples)
        ),
    }
    middle = jnp.linspace(0.2, 1.3, 7)
    for name, kind in kinds.items():
        found = jax.vmap(as_reference(arm, kind))(middle)
        places = 1e-3 if name == "path" else 1e-7
        np.testing.assert_allclose(found.q, jax.vmap(swing)(middle), atol=places, err_msg=name)
        slope = jax.vmap(jax.jacfwd(swing))(middle)
        np.testing.assert_allclose(found.qd, slope, atol=30 * places, err_msg=name)
    # columns are found by name, and a motion brings its own times
    turned = eb.Motion(fine, samples[:, ::-1], ("q2", "q1"), (True, True))
    found = eb.track(arm, turned, gains=GAINS)
    assert found.ts.shape == (301,)
    np.testing.assert_allclose(found.q[::10], followed.q, atol=1e-6)
    assert found.motion(arm).coordinates == ("q1", "q2")
    assert found.dynamics(arm).table().labels == ("q1_moment", "q2_moment")


def test_noisy_samples_are_smoothed_on_request(arm):
    fine = np.linspace(0.0, 1.5, 301)
    clean = np.asarray(jax.vmap(swing)(fine))
    noisy = clean + 1e-3 * np.random.default_rng(0).normal(size=clean.shape)
    motion = eb.Motion.of(arm, fine, noisy)
    exact = np.asarray(jax.vmap(as_reference(arm, swing))(fine).qdd)[30:-30]
    for how in ({"spline": "auto"}, {"spline": 4.0}, {"lowpass": 4.0}):
        found = np.asarray(jax.vmap(as_reference(arm, motion, **how))(fine).qdd)[30:-30]
        raw = np.asarray(jax.vmap(as_reference(arm, motion))(fine).qdd)[30:-30]
        assert np.std(found - exact) < 0.05 * np.std(raw - exact)


def test_batches_and_gradients():
    """Over references, gains and models, with a plant that the controller does not know."""
    model = eb.models.pendulum_chain(1, 0.4, 1.2)
    ts = np.linspace(0.0, 0.5, 6)

    def run(x):
        size, speed, gain, scale = x
        plant = eqx.tree_at(lambda m: m.mass, model, scale * model.mass)
        reference = Swing(size[None], speed)
        return eb.track(model, reference, ts, gains=gain, plant=plant, solver="tsit5", throw=False)

    def loss(x):
        return jnp.sum(run(x).errors ** 2)

    x = jnp.asarray([0.3, 2.0, 8.0, 1.3])
    step = 1e-4
    rows = jnp.concatenate([x[None], x[None] + step * jnp.eye(4), x[None] - step * jnp.eye(4)])
    many = jax.jit(jax.vmap(run))(rows)
    assert many.torques.shape == (9, 6, 1)
    assert bool(jnp.all(many.succeeded))
    losses = np.sum(np.asarray(many.errors) ** 2, axis=(1, 2))
    assert losses[0] > 1e-4  # the plant is heavier than believed
    alone, slope = jax.jit(jax.value_and_grad(loss))(x)
    np.testing.assert_allclose(alone, losses[0], rtol=1e-6)
    np.testing.assert_allclose(slope, (losses[1:5] - losses[5:]) / (2 * step), rtol=1e-4)


def test_the_law_itself(arm):
    controller = ComputedTorque(arm, as_reference(arm, swing), jnp.asarray(GAINS))
    q, qd, t = jnp.asarray([0.1, 0.4]), jnp.asarray([-0.5, 0.7]), 0.3
    wanted = controller.acceleration(t, q, qd)
    found = eb.forward_dynamics(arm, q, qd, controller(t, q, qd), t=t)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gains": (1.0, 2.0, 3.0)}, r"shape \(3,\) for 2 coordinates \(q1, q2\)"),
        ({"gains": np.eye(2)}, "diagonal of K"),
        ({"gains": (1.0, -2.0)}, "gain of 'q2' is -2"),
        ({"reference": lambda t: jnp.stack([t, t, t])}, r"shape \(3,\) for 2 coordinates"),
        ({"reference": lambda t: np.array([np.sin(float(t)), 0.0])}, "jax.numpy"),
        ({"reference": 3.0}, "reference is a float"),
        ({"reference": eb.rhythms.Identity()}, "for 2 coordinates"),
        ({"lowpass": 6.0}, "smooth samples"),
        ({"ts": None}, "ts is needed"),
        ({"method": "euler"}, "does not know the options method"),
        ({"solver": "magic"}, "no solver 'magic'"),
        ({"q0": [0.0]}, "q0 has shape"),
    ],
)
def test_bad_input_is_refused_in_words(arm, change, words):
    given = {"reference": swing, "ts": TS, "gains": GAINS} | change
    with pytest.raises(ValueError, match=words):
        eb.track(arm, given.pop("reference"), given.pop("ts"), **given)


def test_bad_references_are_refused_in_words(arm, shoulder):
    fine = np.linspace(0.0, 1.0, 21)
    samples = np.stack([fine, fine], 1)
    with pytest.raises(ValueError, match="lacks 1 of 2 coordinates: q2"):
        eb.track(arm, eb.Motion(fine, samples[:, :1], ("q1",), (True,)), gains=1.0)
    extra = eb.Motion(fine, np.stack([fine] * 3, 1), ("q1", "q2", "wrist"), (True,) * 3)
    with pytest.raises(ValueError, match="no coordinates of the model: wrist"):
        eb.track(arm, extra, gains=1.0)
    with pytest.raises(ValueError, match=r"reaches t = 2 s, and the reference .* 0 to 1 s"):
        eb.track(arm, eb.Motion.of(arm, fine, samples), [0.0, 2.0], gains=1.0)
    ts = np.linspace(0.0, 3.0, 31)
    high = manuscript_reference(high=np.radians(200.0))
    with pytest.raises(ValueError, match=r"'shoulder_elv' to .* at t = .* range 0 to 3.14"):
        eb.track(shoulder, high, ts, gains=MANUSCRIPT_GAINS)
    with pytest.raises(ValueError, match="not finite at t = 0 s"):
        eb.track(arm, lambda t: jnp.stack([jnp.sqrt(t), t]), TS, gains=1.0)
