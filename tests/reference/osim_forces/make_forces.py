"""Values for tests/test_osim_forces.py, made with OpenSim 4.6 from the .osim files beside.

Run with a Python that has `opensim` and NumPy: python make_forces.py
Writes forces.json: states of muscles with their forces, and generalised forces of springs.
"""

import json
import pathlib

import numpy as np
import opensim as osim

HERE = pathlib.Path(__file__).parent
osim.Logger.setLevelString("Error")


def elastic():
    """Muscles on a slider, with path length, activation and fibre length set."""
    model = osim.Model(str(HERE / "elastic.osim"))
    state = model.initSystem()
    slide = model.getCoordinateSet().get("slide")
    rows = []
    muscles = model.getMuscles()
    for number in range(muscles.getSize()):
        muscle = muscles.get(number)
        path = muscle.getAbsolutePathString()
        kind = muscle.getConcreteClassName()
        old = kind.endswith("_Deprecated")
        for length in (0.29, 0.3, 0.31):
            for activation in (0.05, 0.4, 1.0):
                for strain in (0.005, 0.02, 0.035):
                    slide.setValue(state, length)
                    slide.setSpeedValue(state, 0.0)
                    name = "activation"
                    model.setStateVariableValue(state, f"{path}/{name}", activation)
                    tendon = 0.2 * (1.0 + strain)
                    along = length - tendon
                    height = 0.1 * np.sin(muscle.get_pennation_angle_at_optimal())
                    fibre = float(np.hypot(along, height))
                    if kind.startswith("DeGroote"):
                        dgf = osim.DeGrooteFregly2016Muscle.safeDownCast(muscle)
                        force = dgf.calcTendonForceMultiplier(1.0 + strain)
                        name = "normalized_tendon_force"
                        model.setStateVariableValue(state, f"{path}/{name}", force)
                    else:
                        model.setStateVariableValue(state, f"{path}/fiber_length", fibre)
                    model.realizeAcceleration(state)
                    row = {
                        "muscle": muscle.getName(),
                        "length": length,
                        "activation": activation,
                        "fibre_length": fibre,
                        "tendon_force": muscle.getActuation(state),
                    }
                    if old:
                        row["fibre_velocity"] = model.getStateVariableDerivativeValue(
                            state, f"{path}/fiber_length"
                        )
                        row["passive_force"] = (
                            muscle.getPassiveFiberForce(state) if not old else None
                        )
                    else:
                        row["fibre_velocity"] = muscle.getFiberVelocity(state)
                        row["active_force"] = muscle.getActiveFiberForce(state)
                        row["passive_force"] = muscle.getPassiveFiberForce(state)
                    row["activation_rate"] = {}
                    for excitation in (0.02, 0.9):
                        controls = osim.Vector(model.getNumControls(), excitation)
                        model.realizeVelocity(state)
                        model.setControls(state, controls)
                        model.realizeAcceleration(state)
                        row["activation_rate"][str(excitation)] = (
                            model.getStateVariableDerivativeValue(state, f"{path}/activation")
                        )
                    rows.append(row)
    return rows


def stiff():
    """Muscles with rigid tendons, by length, speed and activation."""
    model = osim.Model(str(HERE / "stiff.osim"))
    state = model.initSystem()
    slide = model.getCoordinateSet().get("slide")
    rows = []
    muscles = model.getMuscles()
    for number in range(muscles.getSize()):
        muscle = muscles.get(number)
        path = muscle.getAbsolutePathString()
        for length in (0.26, 0.29, 0.3, 0.33):
            for activation in (0.05, 0.4, 1.0):
                for speed in (-0.8, -0.1, 0.0, 0.2, 0.7):
                    slide.setValue(state, length)
                    slide.setSpeedValue(state, speed)
                    if muscle.getName() == "rigid":
                        controls = osim.Vector(model.getNumControls(), activation)
                        model.realizeVelocity(state)
                        model.setControls(state, controls)
                    else:
                        model.setStateVariableValue(state, f"{path}/activation", activation)
                    model.realizeDynamics(state)
                    rows.append(
                        {
                            "muscle": muscle.getName(),
                            "length": length,
                            "activation": activation,
                            "speed": speed,
                            "fibre_length": muscle.getFiberLength(state),
                            "tendon_force": muscle.getActuation(state),
                        }
                    )
    return rows


def acceleration_force(model, state, active):
    """Mass matrix times accelerations with one force acting; the coupler is off."""
    forces = model.getForceSet()
    for other in range(forces.getSize()):
        forces.get(other).setAppliesForce(state, other == active)
    model.realizeAcceleration(state)
    force = osim.Vector()
    model.getMatterSubsystem().multiplyByM(state, state.getUDot(), force)
    return np.asarray([force.get(i) for i in range(3)])


def elements():
    """Generalised force of each element on (slide, turn), projected on the coupler."""
    model = osim.Model(str(HERE / "elements.osim"))
    state = model.initSystem()
    names = ("slide", "turn", "follow")
    coordinates = [model.getCoordinateSet().get(name) for name in names]
    coupler = osim.CoordinateCouplerConstraint.safeDownCast(model.getConstraintSet().get(0))
    function = coupler.getFunction()
    coupler.setIsEnforced(state, False)
    one = osim.StdVectorInt()
    one.append(0)
    forces = model.getForceSet()
    chosen = [k for k in range(forces.getSize()) if forces.get(k).getName() != "off"]
    rng = np.random.default_rng(4)
    rows = []
    for _ in range(12):
        slide, turn = float(rng.uniform(0.1, 0.6)), float(rng.uniform(-1.4, 1.4))
        slide_speed, turn_speed = (float(x) for x in rng.normal(size=2))
        at = osim.Vector(1, turn)
        slope = function.calcDerivative(one, at)
        values = (slide, turn, function.calcValue(at))
        speeds = (slide_speed, turn_speed, slope * turn_speed)
        for coordinate, value, speed in zip(coordinates, values, speeds, strict=True):
            coordinate.setValue(state, value, False)
            coordinate.setSpeedValue(state, speed)
        row = {"q": [slide, turn], "qd": [slide_speed, turn_speed], "forces": {}}
        for k in chosen:
            u = acceleration_force(model, state, k) - acceleration_force(model, state, None)
            row["forces"][forces.get(k).getName()] = [u[0], u[1] + slope * u[2]]
        rows.append(row)
    return rows


if __name__ == "__main__":
    found = {"elastic": elastic(), "stiff": stiff(), "elements": elements()}
    text = json.dumps(found, indent=None)
    (HERE / "forces.json").write_text(text.replace("}, {", "},\n{") + "\n")
