"""The summary of `empbody run shoulder` in words."""

from collections.abc import Mapping
from typing import Any

from ..model import Model
from ..pipeline import turning
from ._shoulder_dae import words as dae_words
from ._shoulder_file import rhythm_line


def lines_of(model: Model, summary: Mapping[str, Any]) -> tuple[str, ...]:
    errors, rates = (summary["tracking"][k] for k in summary["tracking"])
    steps, walls, checks = (summary[k] for k in ("steps", "wall_times_s", "checks"))
    width = max(len(n) for n in model.coordinate_names)
    followed = rhythm_line(summary.get("followers", {}))
    lines = [] if followed is None else [followed]
    lines.append("largest tracking error, and torque")
    for n, turns in zip(model.coordinate_names, turning(model), strict=True):
        unit, push = ("rad", "N m") if turns else ("m", "N")
        lines.append(
            f"  {n:<{width}}  {errors[n]:.1e} {unit}  {rates[n]:.1e} {unit}/s  "
            f"{summary['peak_torque_N_m'][n]:7.2f} {push}"
        )
    own = ""
    if summary["force_elements"]:
        most = summary["force_elements_power_max_W"]
        own = f" with that of the model's {summary['force_elements']} force elements ({most:.2g} W)"
    lines.append(
        f"ODE     {steps['accepted']} steps ({steps['rejected']} rejected), "
        f"{1e3 * walls['run']:.1f} ms after {walls['compile']:.1f} s of compiling; torques are "
        f"inverse dynamics to {checks['torques_minus_inverse_dynamics_N_m']:.0e} N m, power{own} "
        f"is the rate of energy to {checks['power_minus_energy_rate_W']:.0e} W"
    )
    if "dae" in summary:
        lines.append(dae_words(summary["dae"]))
    if "moment_arms_against_opensim" in summary:
        most = max(summary["moment_arms_against_opensim"].values())
        lines.append(
            f"        (Figs. 14, 15: moment arms with Holzbaur's rhythm and straight paths are "
            f"OpenSim's to {most:.0e} m)"
        )
    if "muscles" in summary:
        lines += _muscle_words(summary["muscles"], summary["rows"])
    lines += [f"note: {note}" for note in summary["notes"]]
    return tuple(lines)


def _muscle_words(muscles: Mapping[str, Any], rows: int) -> list[str]:
    peak = sorted(muscles["peak_activation"].items(), key=lambda item: -item[1])[:4]
    busy = ", ".join(f"{n} {a:.2f} ({muscles['peak_force_N'][n]:.0f} N)" for n, a in peak)
    lines = [f"muscles most active: {busy}"]
    short = rows - muscles["outcomes"].get("balanced", 0)
    if short:
        reserves = ", ".join(f"{n} {v:.3g}" for n, v in muscles["largest_reserve_N_m"].items())
        lines.append(
            f"        in {short} of {rows} rows the muscles cannot give the torques: reserves of "
            f"at most {reserves} N m fill in"
        )
    return lines
