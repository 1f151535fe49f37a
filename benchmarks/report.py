"""Turns benchmarks/results/*.json into the tables and figures of docs/benchmarks.md.

Run from the project's folder: `.venv/bin/python benchmarks/report.py`. With `--measure` it
runs `empbody bench` and `benchmarks/growth.py` first. What each figure is, its target and why
a target is missed stand in benchmarks/targets.toml. Tables stand between markers in the page;
all else there is written by hand.
"""

import argparse
import json
import pathlib
import re
import string
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
TARGETS = HERE / "targets.toml"
_BLOCK = re.compile(r"<!-- (?P<name>[a-z]+: [a-z-]+) -->\n(?P<body>.*?)<!-- end -->\n", re.DOTALL)
_COMPARE = {
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}
_SIGNS = {"<=": "≤", ">=": "≥"}


def load(folder=RESULTS):
    """Figures of all files by key, content of growth.json, and each file's machine."""
    figures, machines, growth = {}, {}, None
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        machines[path.name] = content.get("machine", {})
        figures |= content.get("results", {})
        if path.name == "growth.json":
            growth = content
    return figures, growth, machines


def rows_of(targets, table):
    return [row for row in targets if row["table"] == table]


def number(value, unit=""):
    """Three digits, thousands apart, with the unit."""
    rounded = float(f"{value:.3g}")
    text = f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"
    return f"{text} {unit}".strip()


class _Words(string.Formatter):
    """Fields of a figure in words: {name:n} is `number`."""

    def format_field(self, value, format_spec):
        return number(value) if format_spec == "n" else super().format_field(value, format_spec)


_words = _Words()


def met(value, target):
    """Whether "<= 5" holds for a value."""
    sign, limit = target.split()
    return _COMPARE[sign](value, float(limit))


def target_words(row):
    if "target" not in row:
        return ""
    sign, limit = row["target"].split()
    return f"{_SIGNS.get(sign, sign)} {number(float(limit))}"


def line(row, figure):
    """One row of a table."""
    if figure is None:
        what, cells = row["what"], ["not measured", "", ""]
    elif figure["value"] is None:
        what, cells = row["what"], [f"none: {figure['reason']}", "", ""]
    else:
        what = row["what"]
        spread = figure.get("spread")
        cells = [
            number(figure["value"], row.get("unit", "")),
            "" if spread is None else number(spread),
            _peer(row, figure),
        ]
    verdict = "" if "target" not in row else _verdict(row, figure)
    return _row([f"`{row['key']}`", what, *cells, target_words(row), verdict])


def _peer(row, figure):
    if "peer" not in row:
        return ""
    try:
        return _words.format(row["peer"], **figure)
    except (KeyError, TypeError, ValueError):
        return figure.get("reason", "")


def _verdict(row, figure):
    if figure is None or figure["value"] is None:
        return ""
    return "met" if met(figure["value"], row["target"]) else "**missed**"


def _row(cells):
    return "| " + " | ".join(cells) + " |\n"


def _head(cells):
    return _row(cells) + _row(["---"] * len(cells))


def table(targets, figures, name):
    head = _head(["key", "what", "value", "spread", "beside it", "target", ""])
    rows = rows_of(targets, name)
    if not rows:
        raise ValueError(f"no figure of {TARGETS.name} belongs to the table {name!r}")
    return head + "".join(line(row, figures.get(row["key"])) for row in rows)


NO_REASON = "no reason is written down"


def busy(machines):
    """Whether other processes took much of the machine while the figures were measured."""
    return any((given.get("cores_of_others") or 0.0) > 0.3 for given in machines.values())


def missed(targets, figures, machines):
    """Targets that are missed, with their reasons."""
    text, usual = "", "the machine was busy" if busy(machines) else NO_REASON
    for row in targets:
        figure = figures.get(row["key"])
        if "target" in row and figure is not None and figure["value"] is not None:
            if met(figure["value"], row["target"]):
                continue
            value = number(figure["value"], row.get("unit", ""))
            reason = _words.format(row.get("missed", usual), **figure)
            text += f"- `{row['key']}`: {value}, target {target_words(row)}: {reason}.\n"
    if text and busy(machines):
        text = "Measured on a busy machine (see above), which alone makes some miss.\n\n" + text
    return text or "No target is missed.\n"


def others(targets, figures):
    """Figures that no table describes."""
    known = {row["key"] for row in targets}
    rest = {key: figure for key, figure in figures.items() if key not in known}
    if not rest:
        return "All figures stand in the tables above.\n"
    text = _head(["key", "value", "spread"])
    for key, figure in rest.items():
        figure = figure if isinstance(figure, dict) else {"value": figure}
        value, spread = figure.get("value"), figure.get("spread")
        words = f"none: {figure.get('reason', 'not measured')}" if value is None else value
        words = number(words) if isinstance(words, int | float) else str(words)
        text += _row([f"`{key}`", words, "" if spread is None else number(spread)])
    return text


def machine(machines):
    """What each file was measured on, and how busy that was."""
    text = ""
    for name, given in machines.items():
        if not given:
            continue
        text += (
            f"- `{name}` ({given.get('date', 'undated')}): {given['usable_cores']} cores of "
            f"{given['cpu']}, {given['memory_mb'] / 1000:.0f} GB; Python {given['python']}, "
            f"JAX {given['jax']}; "
            f"load {given['load_at_start'][0]} at the start and {given['load_at_end'][0]} at the "
            f"end; other processes kept {given['cores_of_others']} cores busy meanwhile, this "
            f"one {given['cores_of_this_process']}.\n"
        )
    return text


def growth_table(growth, axis):
    """Time per unit of work (µs) of every curve at every size, and what was left out."""
    points = [p for p in growth["points"] if p["axis"] == axis]
    sizes = sorted({p["size"] for p in points})
    curves = dict.fromkeys(p["curve"] for p in points)
    text = _head([f"µs, {axis}:", *(f"{size:,}" for size in sizes)])
    for curve in curves:
        at = {p["size"]: p["us"] for p in points if p["curve"] == curve}
        text += _row([curve, *(number(at[s]) if s in at else "" for s in sizes)])
    left = [p for p in growth["skipped"] if p["axis"] == axis]
    if left:
        words = (f"{p['work'].replace('_', ' ')} at {p['size']:,} ({p['reason']})" for p in left)
        text += f"\nLeft out: {'; '.join(words)}.\n"
    return text


def render(text, targets, figures, growth, machines):
    """The page with every block filled from the results."""

    def fill(found):
        kind, name = found["name"].split(": ")
        made = {
            "figures": lambda: table(targets, figures, name),
            "growth": lambda: growth_table(growth, name),
            "list": lambda: {
                "missed": lambda: missed(targets, figures, machines),
                "others": lambda: others(targets, figures),
                "machine": lambda: machine(machines),
            }[name](),
        }[kind]()
        return f"<!-- {found['name']} -->\n{made}<!-- end -->\n"

    return _BLOCK.sub(fill, text)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure all of it first")
    parser.add_argument("--check", action="store_true", help="change nothing; tell differences")
    arguments = parser.parse_args(argv)
    if arguments.measure:
        command = "import sys; from empbody.cli import main; sys.exit(main())"
        bench = [sys.executable, "-c", command, "bench", "--json", str(RESULTS / "bench.json")]
        for work in (bench, [sys.executable, str(HERE / "growth.py")]):
            subprocess.run(work, check=True)
    before = PAGE.read_text(encoding="utf-8")
    targets = tomllib.loads(TARGETS.read_text(encoding="utf-8"))["figure"]
    figures, growth, machines = load()
    after = render(before, targets, figures, growth, machines)
    if arguments.check:
        return 0 if after == before else f"{PAGE.name} is not what the results give: run report.py"
    from growth_plots import draw

    PAGE.write_text(after, encoding="utf-8")
    draw(growth, PAGE.parent / "figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
