"""From a motion of the arm to muscle forces, and what the shoulder rhythm has to do with them."""

import jax
import jax.numpy as jnp

import empbody as eb


def main(rows: int = 61, wrapping: bool = True) -> dict:
    model = eb.models.shoulder(wrapping=wrapping)  # rhythm of de Groot & Brand, 14 muscles
    motion = eb.control.manuscript_reference()  # raise the arm forwards to 100° and lower it
    ts = jnp.linspace(0.0, 3.0, rows)

    followed = eb.track(model, motion, ts, gains=eb.control.MANUSCRIPT_GAINS)
    shared = eb.sharing.share_frames(model, followed.q, followed.qd, followed.torques, reserves=1.0)
    for name, force in zip(model.muscle_names, jnp.max(shared.forces, axis=0), strict=True):
        print(f"{name:6} {force:6.1f} N at most")
    outcomes = eb.sharing.outcomes(shared.status)
    print(f"elevation: {jnp.max(jnp.abs(followed.errors[:, 1])):.1e} rad off at most; {outcomes}")

    # The same pose with the same rhythm, but deaf to the plane of elevation (here 90°).
    deaf = eb.models.shoulder("de_groot_elevation", muscles=False)
    q = followed.q[rows // 2]
    turn = jnp.rad2deg(eb.models.shoulder_angles(model, q) - eb.models.shoulder_angles(deaf, q))
    print("what the plane of elevation turns, arm raised:")
    for name, angle in zip(eb.rhythms.ANATOMICAL_ANGLES, turn, strict=True):
        print(f"{name:18} {angle:6.1f}°")
    return {"q": followed.q, "forces": shared.forces, "torques": followed.torques, "turn": turn}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
