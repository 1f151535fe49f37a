"""Rhythms of many subjects at once."""

import numpy as np

from ..fitting import fit_population, fit_rhythm
from ..rhythms import Polynomial
from ._timing import Figure, interleaved

SUBJECTS = 1000
ROWS = 60
_REPEATS = 3
_FAMILY = "poly:3"


def population(
    subjects: int = SUBJECTS, rows: int = ROWS, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Synthetic subjects: inputs (plane, elevation), three angles with noise of half a degree
    (rad), and whose row it is."""
    rng = np.random.default_rng(seed)
    xs = np.radians([90.0, 150.0]) * rng.random((subjects * rows, 2))
    who = np.repeat(np.arange(subjects), rows)
    terms = np.asarray(Polynomial.total_degree(2, 3).exponents)
    x = xs / np.radians([45.0, 75.0]) - 1.0
    basis = np.prod(x[:, None, :] ** terms[None], axis=2)
    sizes = 0.15 / (1.0 + terms.sum(axis=1))
    own = sizes[None, :, None] * (rng.normal(size=(1, len(terms), 3)) * 2
                                  + rng.normal(size=(subjects, len(terms), 3)))  # fmt: skip
    ys = np.einsum("nt,ntk->nk", basis, own[who])
    return xs, ys + np.radians(0.5) * rng.normal(size=ys.shape), who


def run() -> dict[str, Figure]:
    xs, ys, who = population()
    first = who == 0

    def everyone() -> object:
        return fit_population(xs, ys, who, _FAMILY, leave_one_out=None).coefficients

    def one() -> object:
        return fit_rhythm(xs[first], ys[first], _FAMILY).coefficients

    many, single = interleaved([everyone, one], _REPEATS)
    return {
        "fit_subjects_per_s": Figure.of(
            [SUBJECTS / t for t in many], subjects=SUBJECTS, rows_each=ROWS, family=_FAMILY
        ),
        "fit_one_subject_us": Figure.of([1e6 * t for t in single], rows=ROWS, family=_FAMILY),
    }
