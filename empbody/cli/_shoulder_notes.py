"""What a user of the shoulder should know about a run: jumps of moment arms, and rhythms that
leave their data or the model's anatomy."""

import numpy as np
from jaxtyping import Bool, Float

from ..io import read_rhythm_file
from ..kinematics import body_transforms
from ..model import Model
from ..models import shoulder
from ..rhythms import anatomical_name

_JUMP = 0.005  # m between rows
_STEEP = 5.0  # times the change of neighbouring rows
_FAR = 15.0  # degrees
_COORDINATES = {"plane": "elv_angle", "elevation": "shoulder_elv"}


def jumps(
    model: Model, time: Float[np.ndarray, " rows"], arms: Float[np.ndarray, "rows nq nm"]
) -> list[str]:
    """Muscles whose moment arm changes abruptly between two rows, at the largest change."""
    if time.size < 4:
        return []
    change = np.abs(np.diff(arms, axis=0))
    around = np.maximum(change[:-2], change[2:])
    sharp = np.where((change[1:-1] > _JUMP) & (change[1:-1] > _STEEP * around), change[1:-1], 0.0)
    found = []
    for m, name in enumerate(model.muscle_names):
        row, k = np.unravel_index(np.argmax(sharp[:, :, m]), sharp.shape[:2])
        if sharp[row, k, m]:
            old, new = 1e3 * arms[row + 1 : row + 3, k, m]
            found.append(
                f"the moment arm of {name} about {model.coordinate_names[k]} jumps from {old:.0f} "
                f"to {new:.0f} mm at {time[row + 1]:.2f} s, and forces with it: its path meets, "
                "leaves or enters a surface there (docs/paths.md)"
            )
    return found


def held_against(
    model: Model,
    time: Float[np.ndarray, " rows"],
    arms: Float[np.ndarray, "rows nq nm"],
    passive: Float[np.ndarray, "rows nm"],
    torques: Float[np.ndarray, "rows nq"],
    short: Bool[np.ndarray, " rows"],
) -> list[str]:
    """The muscle whose stretched fibres load a coordinate most, where muscles cannot give the
    torques and that load alone is larger than any torque asked for."""
    loads = np.abs(arms * passive[:, None]) * short[:, None, None]
    row, k, m = np.unravel_index(np.argmax(loads), loads.shape)
    if not loads[row, k, m] > np.max(np.abs(torques)):
        return []
    return [
        f"{model.muscle_names[m]} is stretched so far at {time[row]:.2f} s that it pulls with "
        f"{passive[row, m]:.0f} N without activation, which over a moment arm of "
        f"{1e3 * arms[row, k, m]:.0f} mm loads {model.coordinate_names[k]} by "
        f"{loads[row, k, m]:.0f} N m, more than the motion needs: look at its path and at its "
        "slack length"
    ]


def about_rhythm(
    model: Model, file: str, q: Float[np.ndarray, "rows nq"], *, aligned: bool
) -> list[str]:
    """Which angles a file gives, where the motion leaves its data, and how far the scapula
    starts from where the published rhythm has it."""
    rhythm = read_rhythm_file(file)
    named = rhythm.rhythm
    found = [f"{', '.join(named.targets)} from {file}, other angles by de Groot & Brand"]
    for name, ends in zip(named.inputs, rhythm.ranges or (), strict=False):
        coordinate = _COORDINATES.get(anatomical_name(name)[0])
        if coordinate is None:
            continue
        low, high = np.degrees(ends)
        values = np.degrees(q[:, model.coordinate_index(coordinate)])
        if values.min() < low - 0.5 or values.max() > high + 0.5:
            found.append(
                f"{coordinate} goes from {values.min():.0f} to {values.max():.0f}°, and {file} was "
                f"fitted to {name} from {low:.0f} to {high:.0f}°: the rhythm is extrapolated"
            )
    plain = shoulder(muscles=False)
    turns = [
        np.asarray(body_transforms(each, q[0]))[each.body_index("scapula"), :3, :3]
        for each in (model, plain)
    ]
    cosine = np.clip(0.5 * (np.sum(turns[0] * turns[1]) - 1.0), -1.0, 1.0)
    angle = float(np.degrees(np.arccos(cosine)))
    if angle > _FAR:
        found.append(
            f"the scapula starts {angle:.0f}° from where de Groot & Brand's rhythm has it: angles "
            "between other bone landmarks than theirs turn it as a whole"
            + ("" if aligned else "; --align takes that off (docs/shoulder.md)")
        )
    return found
