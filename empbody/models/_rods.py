"""Bars of linkages and pendulums as bodies."""

from ..model import Body, Revolute


def rod(
    name: str,
    parent: str,
    joint: Revolute,
    length: float,
    density: float,
    centre: float | None = None,
) -> Body:
    """A slender uniform rod along the body's x axis from its origin.

    `density` in kg/m. `centre` moves the centre of mass along the rod, the inertia about
    it being left as it is.
    """
    mass = density * length
    inertia = mass * length**2 / 12.0
    com = 0.5 * length if centre is None else centre
    return Body(name, parent, joint, mass, (com, 0.0, 0.0), (0.0, inertia, inertia))
