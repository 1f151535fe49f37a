"""An arm of two links with two muscles, one of which slides over a cylinder: small, with all
there is; and an environment of it."""

import equinox as eqx
import jax.numpy as jnp

import empbody as eb


def arm():
    """Coordinates `shoulder` and `elbow`; rigid tendons."""
    upper = eb.Body(
        "upper",
        joint=eb.Revolute((0, 0, 1)),
        mass=2.0,
        com=(0, -0.15, 0),
        inertia=(0.01, 0.002, 0.01),
    )
    fore = eb.Body(
        "fore",
        "upper",
        eb.Revolute((0, 0, 1), translation=(0, -0.3, 0)),
        mass=1.5,
        com=(0, -0.12, 0),
        inertia=(0.008, 0.001, 0.008),
    )
    numbers = {
        "max_isometric_force": 800.0,
        "optimal_fibre_length": 0.12,
        "tendon_slack_length": 0.18,
        "tendon": "rigid",
    }
    front = [eb.PathPoint("ground", (0.03, 0, 0)), eb.PathPoint("fore", (0.015, -0.04, 0))]
    back = [eb.PathPoint("upper", (-0.02, -0.05, 0)), eb.PathPoint("fore", (-0.02, -0.03, 0))]
    return eb.Model.build(
        ("shoulder", "elbow"),
        [upper, fore],
        muscles=[
            eb.Muscle("flexor", front, **numbers),
            eb.Muscle("extensor", back, wraps=[eb.Wrap("pulley")], **numbers),
        ],
        surfaces=[eb.WrapCylinder("pulley", "upper", 0.02, translation=(0, -0.3, 0))],
    )


def reach(drive="muscles", horizon=10):
    """An environment of the arm."""
    model = arm()
    ranged = eqx.tree_at(lambda m: (m.lower, m.upper), model, [-jnp.ones(2), 2.0 * jnp.ones(2)])
    number = jnp.asarray
    return eb.environments.Reach(
        ranged,
        torques=number([5.0, 5.0]),
        box=number([[0.2, 0.2], [1.0, 1.0]]),
        dt=number(0.02),
        margin=number(0.2),
        fastest=number(50.0),
        speed_weight=number(0.01),
        effort_weight=number(0.01),
        failure_cost=number(10.0),
        drive=drive,
        substeps=2,
        horizon=horizon,
    )
