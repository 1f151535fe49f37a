"""An arm in .osim syntax, small enough to compile in a moment.

Shoulder and elbow are free, the wrist follows the elbow, the base slides but is locked. A pair
of muscles with rigid tendons at each free joint; markers on all bodies.
"""

import pathlib

_BODY = """<Body name="{name}"><mass>{mass}</mass><mass_center>0 -0.12 0</mass_center>
<inertia>0.01 0.002 0.01 0 0 0</inertia></Body>"""

_JOINT = """<{kind} name="{name}_joint">
<socket_parent_frame>{name}_p</socket_parent_frame>
<socket_child_frame>{name}_c</socket_child_frame>
<coordinates><Coordinate name="{coordinate}"><default_value>{default}</default_value>
<range>{range}</range><clamped>true</clamped><locked>{locked}</locked></Coordinate></coordinates>
<frames><PhysicalOffsetFrame name="{name}_p"><socket_parent>{parent}</socket_parent>
<translation>{place}</translation><orientation>0 0 0</orientation></PhysicalOffsetFrame>
<PhysicalOffsetFrame name="{name}_c"><socket_parent>/bodyset/{name}</socket_parent>
<translation>0 0 0</translation><orientation>0 0 0</orientation></PhysicalOffsetFrame></frames>
</{kind}>"""

_POINT = """<PathPoint name="{name}"><socket_parent_frame>/bodyset/{body}</socket_parent_frame>
<location>{place}</location></PathPoint>"""

_MUSCLE = """<Millard2012EquilibriumMuscle name="{name}">
<GeometryPath name="path"><PathPointSet><objects>{points}</objects></PathPointSet></GeometryPath>
<max_isometric_force>{force}</max_isometric_force><optimal_fiber_length>0.1</optimal_fiber_length>
<tendon_slack_length>{slack}</tendon_slack_length>
<pennation_angle_at_optimal>0</pennation_angle_at_optimal>
<ignore_tendon_compliance>true</ignore_tendon_compliance>
<fiber_damping>0.1</fiber_damping></Millard2012EquilibriumMuscle>"""

_MARKER = """<Marker name="{name}"><socket_parent_frame>/bodyset/{body}</socket_parent_frame>
<location>{place}</location><fixed>true</fixed></Marker>"""

_COUPLER = """<CoordinateCouplerConstraint name="wrist_follows"><isEnforced>true</isEnforced>
<coupled_coordinates_function><LinearFunction><coefficients>0.5 0.1</coefficients></LinearFunction>
</coupled_coordinates_function>
<independent_coordinate_names>elbow</independent_coordinate_names>
<dependent_coordinate_name>wrist</dependent_coordinate_name></CoordinateCouplerConstraint>"""

_BODIES = (("base", 1.0), ("upper", 2.0), ("fore", 1.5), ("hand", 0.5))
_JOINTS = (
    ("SliderJoint", "base", "/ground", "lift", 0.1, "-1 1", "true", "0 0 0"),
    ("PinJoint", "upper", "/bodyset/base", "shoulder", 0.2, "-1.5 1.5", "false", "0 0 0"),
    ("PinJoint", "fore", "/bodyset/upper", "elbow", 0.5, "0 2.3", "false", "0 -0.3 0"),
    ("PinJoint", "hand", "/bodyset/fore", "wrist", 0.35, "-1 2", "false", "0 -0.25 0"),
)
_MUSCLES = (
    ("front", 600, 0.03, (("base", "0.06 0.05 0"), ("upper", "0.04 -0.08 0"))),
    ("back", 600, 0.03, (("base", "-0.06 0.05 0"), ("upper", "-0.04 -0.08 0"))),
    ("flexor", 500, 0.13, (("upper", "0.03 -0.05 0"), ("fore", "0.04 -0.05 0"))),
    ("extensor", 500, 0.16, (("upper", "-0.03 -0.05 0"), ("fore", "-0.03 0.02 0"))),
)
_MARKERS = (
    ("base_m", "base", "0 0.1 0"),
    ("upper_1", "upper", "0.03 -0.1 0.05"),
    ("upper_2", "upper", "-0.03 -0.25 0"),
    ("fore_1", "fore", "0.03 -0.05 0.02"),
    ("fore_2", "fore", "0 -0.2 -0.03"),
    ("hand_1", "hand", "0.02 -0.1 0"),
)

MARKERS = tuple(name for name, _, _ in _MARKERS)
MUSCLES = tuple(name for name, *_ in _MUSCLES)


def text() -> str:
    """The file."""
    bodies = "".join(_BODY.format(name=name, mass=mass) for name, mass in _BODIES)
    keys = ("kind", "name", "parent", "coordinate", "default", "range", "locked", "place")
    joints = "".join(_JOINT.format(**dict(zip(keys, row, strict=True))) for row in _JOINTS)
    muscles = ""
    for name, force, slack, points in _MUSCLES:
        route = "".join(
            _POINT.format(name=f"{name}-{i}", body=body, place=place)
            for i, (body, place) in enumerate(points)
        )
        muscles += _MUSCLE.format(name=name, force=force, slack=slack, points=route)
    markers = "".join(_MARKER.format(name=n, body=b, place=p) for n, b, p in _MARKERS)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<OpenSimDocument Version="40000"><Model name="tiny_arm"><Ground name="ground"/>
<gravity>0 -9.80665 0</gravity>
<BodySet name="bodyset"><objects>{bodies}</objects></BodySet>
<JointSet name="jointset"><objects>{joints}</objects></JointSet>
<ConstraintSet name="constraintset"><objects>{_COUPLER}</objects></ConstraintSet>
<ForceSet name="forceset"><objects>{muscles}</objects></ForceSet>
<MarkerSet name="markerset"><objects>{markers}</objects></MarkerSet>
</Model></OpenSimDocument>
"""


def write(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "tiny_arm.osim"
    path.write_text(text(), encoding="utf-8")
    return path
