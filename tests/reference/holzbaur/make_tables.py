"""Makes the tables of this folder with OpenSim; run it where `import opensim` works.

    python tests/reference/holzbaur/make_tables.py upper_limb_model.osim

The argument is the public OpenSim file (version 10902) of the upper limb model of Holzbaur
et al. 2005, which is not part of this repository. Written with OpenSim 4.6; needs nothing of
empbody. 79 axes of that file name a coordinate but no function: the identity is meant and
is put there. Coordinates that depend on others are set exactly from their couplers.
"""

import csv
import json
import math
import pathlib
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import opensim as osim

HERE = pathlib.Path(__file__).parent
FIGURES = HERE.parents[2] / "empbody" / "models" / "_shoulder.json"
MUSCLES = tuple(json.loads(FIGURES.read_text())["muscles"])
COORDINATES = ("elv_angle", "shoulder_elv", "shoulder_rot")

ELEVATION = [(0.0, float(deg), 0.0) for deg in range(0, 181, 5)]
POSES = [
    *[(0.0, float(deg), 0.0) for deg in range(0, 181, 15)],
    *[(float(deg), 0.0, 0.0) for deg in range(-90, 131, 55)],
    *[(float(deg), 60.0, -30.0) for deg in range(-90, 131, 20)],
    *[(25.0, float(deg), rot) for deg in (35, 100, 155) for rot in (-85.0, -50.0, 10.0, 19.0)],
]


def completed(source, target):
    """The model file with the functions that are missing from it."""
    tree = ElementTree.parse(source)
    for axis in tree.iter("TransformAxis"):
        named = (axis.findtext("coordinates") or "").strip()
        if named and axis.find("function") is None:
            function = ElementTree.SubElement(axis, "function")
            linear = ElementTree.SubElement(function, "LinearFunction")
            ElementTree.SubElement(linear, "coefficients").text = "1 0"
    tree.write(target)


class Shoulder:
    """The model in OpenSim, with or without wrapping."""

    def __init__(self, path, wrapping):
        self.model = osim.Model(str(path))
        if not wrapping:
            for name in MUSCLES:
                self._path(name).updWrapSet().clearAndDestroy()
        self.state = self.model.initSystem()
        self.coordinates = self.model.getCoordinateSet()
        constraints = self.model.getConstraintSet()
        self.couplers = [
            osim.CoordinateCouplerConstraint.safeDownCast(constraints.get(i))
            for i in range(constraints.getSize())
        ]

    def _path(self, name):
        return osim.GeometryPath.safeDownCast(self.model.getMuscles().get(name).updPath())

    def pose(self, degrees):
        values = dict(zip(COORDINATES, map(math.radians, degrees), strict=True))
        for i in range(self.coordinates.getSize()):
            coordinate = self.coordinates.get(i)
            coordinate.setValue(self.state, values.get(coordinate.getName(), 0.0), False)
        for coupler in self.couplers:
            driver = coupler.getIndependentCoordinateNames().get(0)
            value = coupler.getFunction().calcValue(osim.Vector(1, values.get(driver, 0.0)))
            name = coupler.getDependentCoordinateName()
            self.coordinates.get(name).setValue(self.state, value, False)
        self.model.realizePosition(self.state)

    def lengths(self):
        return [self._path(name).getLength(self.state) for name in MUSCLES]

    def moment_arms(self, coordinate):
        about = self.coordinates.get(coordinate)
        return [self._path(name).computeMomentArm(self.state, about) for name in MUSCLES]

    def contacts(self, name):
        """Names of the surfaces that the path lies on, in order."""
        points = self._path(name).getCurrentPath(self.state)
        found = []
        for k in range(points.getSize()):
            wrapped = osim.PathWrapPoint.safeDownCast(points.get(k))
            if wrapped is not None:
                found.append(wrapped.getWrapObject().getName())
        return found[::2]


def write(name, shoulder, poses):
    columns = [*(f"{c}_deg" for c in COORDINATES), *(f"len_{m}" for m in MUSCLES)]
    columns += [f"ma_{c}_{m}" for c in COORDINATES for m in MUSCLES]
    lines = [",".join(columns)]
    for degrees in poses:
        shoulder.pose(degrees)
        row = [*degrees, *shoulder.lengths()]
        for coordinate in COORDINATES:
            # Moment arms move the state; each starts from the exact pose.
            shoulder.pose(degrees)
            row += shoulder.moment_arms(coordinate)
        lines.append(",".join(f"{value:.17g}" for value in row))
    (HERE / name).write_text("\n".join(lines) + "\n")


def write_contacts(name, shoulder, poses):
    with (HERE / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(f"{c}_deg" for c in COORDINATES), *MUSCLES])
        for degrees in poses:
            shoulder.pose(degrees)
            touched = ["+".join(shoulder.contacts(muscle)) for muscle in MUSCLES]
            writer.writerow([*(f"{value:g}" for value in degrees), *touched])


def main(source):
    osim.Logger.setLevelString("error")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "completed.osim"
        completed(source, path)
        write("nowrap.csv", Shoulder(path, wrapping=False), POSES)
        wrapping = Shoulder(path, wrapping=True)
        write("wrap.csv", wrapping, ELEVATION)
        write_contacts("contacts.csv", wrapping, ELEVATION)


if __name__ == "__main__":
    main(sys.argv[1])
