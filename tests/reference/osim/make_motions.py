"""Makes motions of models in tests/osim with OpenSim; run it where `import opensim` works.

    python tests/reference/osim/make_motions.py

Each model of `STARTS` moves for one second under gravity and its passive elements; muscles
are taken out. OpenSim integrates with couplers as constraints, at accuracy 1e-10 and again
at 1e-11, and the two must agree to 1e-8. <name>_motion.json holds times, and values and
speeds of the independent coordinates. Written with OpenSim 4.6; needs nothing of empbody.
"""

import json
import pathlib

import numpy as np
import opensim as osim

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[1] / "osim"
STARTS = {
    "leg_30000": {
        "hip_flexion": (0.6, 0.5),
        "hip_adduction": (-0.1, 0.3),
        "hip_rotation": (0.05, -0.4),
        "knee_angle": (-1.1, 0.8),
    },
    "passive_40600": {"arm_flex": (0.9, 0.0), "elbow_flex": (0.5, -1.0)},
}
"""Values and speeds at the start."""
TIMES = np.linspace(0.0, 1.0, 21)


def motion(name, start, accuracy):
    model = osim.Model(str(MODELS / f"{name}.osim"))
    forces = model.updForceSet()
    for force in [f.getName() for f in forces if osim.Muscle.safeDownCast(f) is not None]:
        forces.remove(forces.getIndex(force))
    state = model.initSystem()
    coordinates = model.getCoordinateSet()
    for coordinate, (value, _) in start.items():
        coordinates.get(coordinate).setValue(state, value, False)
    model.assemble(state)
    for coordinate, (_, speed) in start.items():
        coordinates.get(coordinate).setSpeedValue(state, speed)
    model.realizeVelocity(state)
    # Speeds of coupled coordinates follow from those of the others.
    state = consistent(model, state, list(start))
    manager = osim.Manager(model)
    manager.setIntegratorAccuracy(accuracy)
    manager.initialize(state)
    values, speeds = [], []
    for time in TIMES:
        state = manager.integrate(float(time)) if time else state
        values.append([coordinates.get(c).getValue(state) for c in start])
        speeds.append([coordinates.get(c).getSpeedValue(state) for c in start])
    return np.array(values), np.array(speeds)


def consistent(model, state, given):
    """Coupled speeds by Pq u = 0; positions were assembled, and are made exact the same way."""
    matter = model.getMatterSubsystem()
    names = [c.getName() for c in model.getCoordinateSet()]
    rest = [i for i, n in enumerate(names) if n not in given]
    if not rest:
        return state
    for _ in range(4):
        error = np.array([state.getQErr().get(i) for i in range(state.getQErr().size())])
        slopes = osim.Matrix()
        matter.calcPq(state, slopes)
        P = np.array([[slopes.get(i, j) for j in range(slopes.ncol())]
                      for i in range(slopes.nrow())])  # fmt: skip
        q = np.array([state.getQ().get(i) for i in range(state.getNQ())])
        q[rest] -= np.linalg.solve(P[:, rest], error)
        state.setQ(osim.Vector(q.tolist()))
        model.realizePosition(state)
    u = np.array([state.getU().get(i) for i in range(state.getNU())])
    others = [i for i in range(len(names)) if i not in rest]
    u[rest] = np.linalg.solve(P[:, rest], -P[:, others] @ u[others])
    state.setU(osim.Vector(u.tolist()))
    model.realizeVelocity(state)
    return state


def main():
    osim.Logger.setLevelString("off")
    for name, start in STARTS.items():
        found, finer = (motion(name, start, accuracy) for accuracy in (1e-10, 1e-11))
        apart = [np.abs(a - b).max() for a, b in zip(found, finer, strict=True)]
        print(name, "agrees with itself to", apart, flush=True)
        assert max(apart) < 1e-8
        out = {
            "coordinates": list(start),
            "version": osim.GetVersion(),
            "time": TIMES.tolist(),
            "q": finer[0].tolist(),
            "qd": finer[1].tolist(),
        }
        text = json.dumps(out, separators=(",", ":"), allow_nan=False)
        (HERE / f"{name}_motion.json").write_text(text.replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
