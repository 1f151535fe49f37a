"""Makes the values of this folder with OpenSim; run it where `import opensim` works.

    python tests/reference/osim/make_values.py [name ...]

Every model of tests/osim is posed at random and OpenSim's own numbers are kept in
<name>.json. Written with OpenSim 4.6; needs nothing of empbody.

- Constraints (couplers, locked and prescribed coordinates, closed loops) are solved by
  Newton's method on OpenSim's constraint errors until nothing is left of them, and all
  numbers are reduced to the independent coordinates: with q(x), C = ∂q/∂x, M = Cᵀ M_all C.
  C and the accelerations come from OpenSim's constraint matrix and its bias.
- The speeds of ball-like joints are angular velocities in OpenSim; N of q̇ = N u turns them
  into rates of the coordinates.
- OpenSim 4.6 gives a MultivariatePolynomialFunction's first derivative where the second is
  asked for, so its inverse dynamics is wrong there. In files with such a function, Lagrange's
  equations are formed with differences of OpenSim's mass matrix and heights instead (sixth
  order; two steps must agree to 1e-10). In all other files both ways agree to 1e-8, which is
  checked.
- An axis that names a coordinate without a function means the identity, which is put there.
"""

import json
import pathlib
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import numpy as np
import opensim as osim

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[1] / "osim"
POSES = 6
PICKED = {"loop_30000": ["left_angle"], "weld_loop_30500": ["crank_angle"]}
"""Independent coordinates where loops leave a choice."""
PASSIVE = (
    "PathSpring",
    "Ligament",
    "CoordinateLimitForce",
    "SpringGeneralizedForce",
    "PointToPointSpring",
    "BushingForce",
)
LENGTHS = [0.55, 0.8, 1.0, 1.2, 1.45]
"""Fibre lengths over the optimal one at which curves are kept."""


def completed(source, target):
    """The model file with the functions that are missing from it."""
    tree = ElementTree.parse(source)
    for axis in tree.iter("TransformAxis"):
        named = (axis.findtext("coordinates") or "").strip()
        if named and len(axis) == 2:
            function = ElementTree.SubElement(axis, "function")
            linear = ElementTree.SubElement(function, "LinearFunction")
            ElementTree.SubElement(linear, "coefficients").text = "1 0"
    tree.write(target)


def array(values):
    return np.array([values.get(i) for i in range(values.size())])


def matrix(values):
    rows, columns = values.nrow(), values.ncol()
    return np.array([[values.get(i, j) for j in range(columns)] for i in range(rows)])


def vector(values):
    out = osim.Vector(len(values), 0.0)
    for i, value in enumerate(values):
        out.set(i, float(value))
    return out


class Oracle:
    """A model in OpenSim that can be posed by its independent coordinates."""

    def __init__(self, path, wrapping=True):
        self.multivariate = "<MultivariatePolynomialFunction" in pathlib.Path(path).read_text()
        self.model = osim.Model(str(path))
        if not wrapping:
            for force in self.model.getForceSet():
                path = geometry(force)
                if path is not None:
                    path.updWrapSet().clearAndDestroy()
        self.state = self.model.initSystem()
        self.matter = self.model.getMatterSubsystem()
        self.coordinates = list(self.model.getCoordinateSet())
        self.names = [c.getName() for c in self.coordinates]
        for force in self.model.getForceSet():
            force.setAppliesForce(self.state, False)
        self.rows = self._rows()
        picked = PICKED.get(pathlib.Path(self.model.getInputFileName()).stem)
        free = [not c.isConstrained(self.state) for c in self.coordinates]
        self.independent = picked or [n for n, ok in zip(self.names, free, strict=True) if ok]
        self.x = [self.names.index(n) for n in self.independent]
        self.y = [i for i in range(len(self.names)) if i not in self.x]

    def _rows(self):
        """Where each coordinate stands in OpenSim's vector of them."""
        rows, start = [], array(self.state.getQ())
        for i in range(len(start)):
            moved = start.copy()
            moved[i] += 0.01
            self.state.setQ(vector(moved))
            now = [c.getValue(self.state) for c in self.coordinates]
            self.state.setQ(vector(start))
            was = [c.getValue(self.state) for c in self.coordinates]
            rows.append([n for n, a, b in zip(self.names, now, was, strict=True) if a != b])
        found = {names[0]: i for i, names in enumerate(rows) if names}
        return [found[name] for name in self.names]

    def q(self):
        return array(self.state.getQ())[self.rows]

    def set_q(self, values):
        full = array(self.state.getQ())
        full[self.rows] = values
        self.state.setQ(vector(full))
        self.model.realizePosition(self.state)

    def pose(self, x, steps=12):
        """Takes the independent coordinates there; the others follow."""
        start = self.q()[self.x]
        for step in range(1, steps + 1):
            q = self.q()
            q[self.x] = start + (np.asarray(x) - start) * step / steps
            self.set_q(q)
            for _ in range(8):
                error = array(self.state.getQErr())
                if not error.size or np.abs(error).max() < 1e-16:
                    break
                slopes = self.constraint_matrix()
                q[self.y] -= np.linalg.lstsq(slopes[:, self.y], error, rcond=1e-9)[0]
                self.set_q(q)
        error = array(self.state.getQErr())
        assert not error.size or np.abs(error).max() < 1e-14, error

    def constraint_matrix(self):
        out = osim.Matrix()
        self.matter.calcPq(self.state, out)
        return matrix(out)[:, self.rows] if out.nrow() else np.zeros((0, len(self.names)))

    def tangent(self):
        """C = ∂q/∂x, all coordinates by independent ones."""
        out = np.zeros((len(self.names), len(self.x)))
        out[self.x] = np.eye(len(self.x))
        slopes = self.constraint_matrix()
        if self.y:
            rest = np.linalg.lstsq(slopes[:, self.y], -slopes[:, self.x], rcond=1e-9)[0]
            out[self.y] = rest
        return out

    def rates(self):
        """N: rates of the coordinates by OpenSim's speeds."""
        n = self.state.getNU()
        columns = []
        for i in range(n):
            out = osim.Vector(self.state.getNQ(), 0.0)
            self.matter.multiplyByN(self.state, False, vector(np.eye(n)[i]), out)
            columns.append(array(out)[self.rows])
        return np.array(columns).T

    def mass_matrix(self):
        out = osim.Matrix()
        self.matter.calcM(self.state, out)
        return matrix(out)

    def motion(self, xd, xdd):
        """Sets the speeds; returns rates and accelerations of all coordinates, and u̇."""
        C, N = self.tangent(), self.rates()
        qd = C @ xd
        u = np.linalg.solve(N, qd)
        self.state.setU(vector(u))
        self.model.realizeVelocity(self.state)
        qdd = np.zeros(len(self.names))
        qdd[self.x] = xdd
        slopes = self.constraint_matrix()
        if self.y:
            bias = osim.Vector()
            self.matter.calcBiasForAccelerationConstraints(self.state, bias)
            right = -array(bias) - slopes[:, self.x] @ xdd
            qdd[self.y] = np.linalg.lstsq(slopes[:, self.y], right, rcond=1e-9)[0]
        turning = osim.Vector(self.state.getNQ(), 0.0)
        self.matter.multiplyByNDot(self.state, False, vector(u), turning)
        return qd, qdd, np.linalg.solve(N, qdd - array(turning)[self.rows])

    def need(self, ud):
        """Forces on OpenSim's speeds that this motion needs."""
        self.model.realizeDynamics(self.state)
        return array(osim.InverseDynamicsSolver(self.model).solve(self.state, vector(ud)))

    def energy_terms(self, x):
        """C, reduced mass matrix and potential energy at a pose."""
        self.pose(x, steps=1)
        C = self.tangent()
        to_u = np.linalg.solve(self.rates(), C)
        down = [self.model.getGravity().get(i) for i in range(3)]
        height = 0.0
        for body in self.model.getBodySet():
            there = body.findStationLocationInGround(self.state, body.getMassCenter())
            height -= body.getMass() * np.dot(down, [there.get(i) for i in range(3)])
        return C, to_u.T @ self.mass_matrix() @ to_u, np.array(height)

    def slopes(self, x, along, step):
        """Directional derivatives of the energy terms, of sixth order in the step."""
        out = 0.0
        for factor, weight in ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60)):
            right = self.energy_terms(x + factor * step * along)
            left = self.energy_terms(x - factor * step * along)
            terms = [weight * (a - b) / step for a, b in zip(right, left, strict=True)]
            out = terms if factor == 1 else [a + b for a, b in zip(out, terms, strict=True)]
        self.pose(x)
        return out

    def lagrange(self, x, xd, xdd, step=2e-3):
        """Accelerations of all coordinates and the forces on the independent ones."""
        C, M, _ = self.energy_terms(x)
        C_dot, M_dot, _ = self.slopes(x, xd, step)
        by_x = [self.slopes(x, unit, step) for unit in np.eye(len(x))]
        potential = np.array([height - 0.5 * xd @ mass @ xd for _, mass, height in by_x])
        return C @ xdd + C_dot @ xd, M @ xdd + M_dot @ xd + potential


def geometry(force):
    for kind in (osim.PathActuator, osim.PathSpring, osim.Ligament):
        found = kind.safeDownCast(force)
        if found is not None:
            path = found.updPath() if hasattr(found, "updPath") else found.upd_GeometryPath()
            return osim.GeometryPath.safeDownCast(path)
    return None


def transform(frame, state):
    there = frame.getTransformInGround(state)
    R, p = there.R(), there.p()
    rows = [[R.get(i, j) for j in range(3)] + [p.get(i)] for i in range(3)]
    return rows


def curves(oracle):
    """Active and passive force-length curves of the muscles, by the way that each kind allows."""
    out, state = {}, oracle.state
    for force in oracle.model.getForceSet():
        name, kind = force.getName(), force.getConcreteClassName()
        if "Muscle" not in kind:
            continue
        active, passive = [], []
        for length in LENGTHS:
            at = vector([length])
            if kind == "Thelen2003Muscle":
                muscle = osim.Thelen2003Muscle.safeDownCast(force)
                muscle.setFiberLength(state, length * muscle.get_optimal_fiber_length())
                oracle.model.realizeVelocity(state)
                active.append(muscle.getActiveForceLengthMultiplier(state))
                passive.append(muscle.getPassiveForceMultiplier(state))
            elif kind == "Millard2012EquilibriumMuscle":
                muscle = osim.Millard2012EquilibriumMuscle.safeDownCast(force)
                active.append(muscle.get_ActiveForceLengthCurve().calcValue(at))
                passive.append(muscle.get_FiberForceLengthCurve().calcValue(at))
            elif kind == "DeGrooteFregly2016Muscle":
                muscle = osim.DeGrooteFregly2016Muscle.safeDownCast(force)
                active.append(muscle.calcActiveForceLengthMultiplier(length))
                passive.append(muscle.calcPassiveForceMultiplier(length))
            elif kind == "Schutte1993Muscle_Deprecated":
                # It keeps its multipliers until the state is made anew.
                muscle = osim.Muscle.safeDownCast(force)
                fresh = oracle.model.initializeState()
                here = f"{force.getAbsolutePathString()}/fiber_length"
                fibre = length * muscle.get_optimal_fiber_length()
                oracle.model.setStateVariableValue(fresh, here, fibre)
                oracle.model.realizeDynamics(fresh)
                active.append(muscle.getActiveForceLengthMultiplier(fresh))
                passive.append(muscle.getPassiveForceMultiplier(fresh))
            else:
                # A rigid tendon of the right length gives the fibre its length.
                again = osim.Model(oracle.model)
                muscle = osim.Muscle.safeDownCast(again.updForceSet().get(name))
                route = muscle.getGeometryPath().getLength(again.initSystem())
                fibre = length * muscle.get_optimal_fiber_length()
                muscle.set_tendon_slack_length(route - fibre)
                fresh = again.initSystem()
                again.realizeDynamics(fresh)
                assert abs(muscle.getNormalizedFiberLength(fresh) - length) < 1e-12
                active.append(muscle.getActiveForceLengthMultiplier(fresh))
                passive.append(muscle.getPassiveForceMultiplier(fresh))
        out[name] = {"active": active, "passive": passive}
    return out


def values(path):
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder) / path.name
        completed(path, whole)
        oracle, bare = Oracle(whole), Oracle(whole, wrapping=False)
    draw = np.random.default_rng(sum(path.stem.encode()))
    poses = [one_pose(oracle, bare, draw) for _ in range(POSES)]
    out = {
        "coordinates": oracle.names,
        "independent": oracle.independent,
        "version": osim.GetVersion(),
        "poses": poses,
    }
    shapes = curves(oracle)
    if shapes:
        out["curves"] = {"length": LENGTHS, **shapes}
    return out


def one_pose(oracle, bare, draw):
    state = oracle.state
    limits = [(oracle.coordinates[i].getRangeMin(), oracle.coordinates[i].getRangeMax())
              for i in oracle.x]  # fmt: skip
    x = np.array([draw.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low))
                  for low, high in limits])  # fmt: skip
    for one in (oracle, bare):
        one.pose(x)
    C = oracle.tangent()
    xd, xdd = draw.normal(size=len(x)), draw.normal(size=len(x))
    qd, qdd, ud = oracle.motion(xd, xdd)
    to_u = np.linalg.solve(oracle.rates(), C)
    need = oracle.need(ud)
    tau = to_u.T @ need
    qdd_2, tau_2 = oracle.lagrange(x, xd, xdd)
    if oracle.multivariate:
        _, other = oracle.lagrange(x, xd, xdd, step=1e-3)
        assert np.abs(other - tau_2).max() < 1e-10, (other, tau_2)
        qdd, tau = qdd_2, tau_2
    assert np.abs(np.r_[qdd - qdd_2, tau - tau_2]).max() < 1e-8, (tau, tau_2)
    oracle.motion(xd, xdd)
    need = oracle.need(ud)
    pose = {
        "q": oracle.q().tolist(),
        "qd": qd.tolist(),
        "qdd": qdd.tolist(),
        "tangent": C.tolist(),
        "mass_matrix": (to_u.T @ oracle.mass_matrix() @ to_u).tolist(),
        "inverse_dynamics": tau.tolist(),
        "transforms": {b.getName(): transform(b, state) for b in oracle.model.getBodySet()},
        "markers": {
            m.getName(): [m.getLocationInGround(state).get(i) for i in range(3)]
            for m in oracle.model.getMarkerSet()
        },
    }
    forces = list(oracle.model.getForceSet())
    if any(f.getConcreteClassName() in PASSIVE for f in forces):
        pose["forces"] = {}
    for force, other in zip(forces, bare.model.getForceSet(), strict=True):
        name = force.getName()
        route, plain = geometry(force), geometry(other)
        if route is not None:
            pose.setdefault("length", {})[name] = route.getLength(state)
            pose.setdefault("length_without_wrapping", {})[name] = plain.getLength(bare.state)
            pose.setdefault("moment_arm", {})[name] = arms(oracle, route)
            pose.setdefault("moment_arm_without_wrapping", {})[name] = arms(bare, plain)
        if force.getConcreteClassName() in PASSIVE and force.get_appliesForce():
            force.setAppliesForce(state, True)
            pose["forces"][name] = (to_u.T @ (need - oracle.need(ud))).tolist()
            force.setAppliesForce(state, False)
            oracle.model.realizeDynamics(state)
    return pose


def arms(oracle, route):
    """OpenSim's moment arms about the independent coordinates."""
    state = osim.State(oracle.state)
    return [route.computeMomentArm(state, oracle.coordinates[i]) for i in oracle.x]


def main(names):
    osim.Logger.setLevelString("off")
    for path in sorted(MODELS.glob("*.osim")):
        if names and path.stem not in names:
            continue
        print(path.stem, flush=True)
        text = json.dumps(values(path), separators=(",", ":"), allow_nan=False)
        (HERE / f"{path.stem}.json").write_text(text.replace(',"', ',\n"') + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
