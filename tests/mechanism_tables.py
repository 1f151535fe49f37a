"""Tables of the three mechanisms' manifolds: our subset, and the full ones where present."""

import pathlib

import numpy as np

HERE = pathlib.Path(__file__).parent / "reference"
FULL = pathlib.Path(__file__).parents[2] / "shared" / "reference" / "mechanisms"
NAMES = {
    "four_bar": "fourbar_manifold_A.csv",
    "five_bar": "fivebar_manifold_neg.csv",
    "squeezer": "squeezer_manifold.csv",
}


def load(mechanism: str, full: bool = False):
    """q (n, nq), f (n, nf), gradients (n, nf, nq), Hessians (n, nf, nq, nq)."""
    folder = FULL if full else HERE
    with open(folder / NAMES[mechanism], encoding="utf-8") as file:
        header = file.readline().strip().split(",")
        rows = np.array([[float(x) for x in line.split(",")] for line in file])
    table = dict(zip(header, rows.T, strict=True))
    if mechanism == "five_bar":
        q = np.stack([table["theta1"], table["theta2"]], axis=1)
        f = np.stack([table["theta3"], table["theta4"]], axis=1)
        slope = np.stack([[table[f"dth{i}_{k}"] for k in (1, 2)] for i in (3, 4)])
        bend = np.stack(
            [[[table[f"d2th{i}_{k}"] for k in row] for row in (("11", "12"), ("12", "22"))]
             for i in (3, 4)]
        )  # fmt: skip
        return q, f, np.moveaxis(slope, -1, 0), np.moveaxis(bend, -1, 0)
    angles = range(1, 4) if mechanism == "four_bar" else range(2, 8)
    f, slope, bend = (
        np.stack([table[f"{kind}theta{i}"] for i in angles], axis=1) for kind in ("", "d", "d2")
    )
    return table["q"][:, None], f, slope[:, :, None], bend[:, :, None, None]
