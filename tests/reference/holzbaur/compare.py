"""Prints where lengths with wrapping differ from OpenSim's, muscle by muscle, as in docs/paths.md.

    python tests/reference/holzbaur/compare.py

Reads `wrap.csv` and `contacts.csv` of this folder; takes a minute, most of it to compile.
"""

import csv
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from empbody.models._holzbaur import COORDINATES, figures, holzbaur
from empbody.paths._effective import sample_strings
from empbody.paths._string import unit_lengths

HERE = pathlib.Path(__file__).parent
MUSCLES = tuple(figures()["muscles"])


def rows(name):
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def ours(q):
    """Lengths (poses, muscles), and for each pose and muscle the surfaces in contact."""
    model = holzbaur(wrapping=True)
    layout, plans = model.paths.layout, []

    def one(q):
        found, _ = sample_strings(model, q)
        plans.append(found.plan)
        return unit_lengths(model.paths.layout, found)[:, 0], found.touches.on[:, 0]

    lengths, on = jax.jit(lambda q: jax.lax.map(one, q))(q)
    surfaces = [[set() for _ in MUSCLES] for _ in q]
    for pose, slot in np.argwhere(on):
        where = plans[0].slots[slot]
        surfaces[pose][layout.unit_of(where.stretch)].add(layout.surfaces[where.surface].name)
    return np.asarray(lengths), surfaces


def main():
    jax.config.update("jax_enable_x64", True)
    table, contacts = rows("wrap.csv"), rows("contacts.csv")
    degrees = np.array([[float(row[f"{c}_deg"]) for c in COORDINATES] for row in table])
    lengths, surfaces = ours(jnp.radians(degrees))
    print("| muscle | most (mm) | at elevation (°) | same surfaces at | most there (mm) |")
    print("| --- | --- | --- | --- | --- |")
    for k, muscle in enumerate(MUSCLES):
        theirs = np.array([float(row[f"len_{muscle}"]) for row in table])
        difference = 1e3 * (lengths[:, k] - theirs)
        same = [
            set(filter(None, row[muscle].split("+"))) == surfaces[i][k]
            for i, row in enumerate(contacts)
        ]
        worst = np.abs(difference).argmax()
        alike = np.abs(difference)[same].max(initial=0.0)
        print(
            f"| {muscle} | {difference[worst]:.2g} | {degrees[worst, 1]:g} "
            f"| {sum(same)} of {len(same)} | {alike:.2g} |"
        )


if __name__ == "__main__":
    main()
