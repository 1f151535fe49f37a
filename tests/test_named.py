"""Names on a rhythm: found by any usual spelling, everything else delegated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.rhythms import Affine, Identity, Named, Polynomial, anatomical_name


@pytest.fixture(scope="module")
def named() -> Named:
    coefficients = np.random.default_rng(0).normal(size=(3, 6))
    inner = Polynomial.total_degree(2, 2, coefficients)
    return Named(inner, ("plane", "elevation"), ("st_protraction", "st_medial_rotation", "st_tilt"))


def test_everything_is_delegated(named: Named) -> None:
    q, qd = jnp.array([0.3, 1.1]), jnp.array([-0.4, 0.9])
    inner = named.rhythm
    np.testing.assert_array_equal(named(q), inner(q))
    np.testing.assert_array_equal(named.jacobian(q), inner.jacobian(q))
    np.testing.assert_array_equal(named.hessian(q), inner.hessian(q))
    for ours, theirs in zip(named.jet(q, qd), inner.jet(q, qd), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (named.n_in, named.n_out) == (2, 3)


@pytest.mark.parametrize(
    ("name", "known", "sign"),
    [
        ("ST_medRotation_deg", "st_medial_rotation", 1.0),
        ("Upward Rotation", "st_medial_rotation", -1.0),
        ("elv_angle", "plane", 1.0),
        ("Shoulder_elv", "elevation", 1.0),
        ("SC_elevation_deg", "sc_elevation", 1.0),
        ("knee_angle", "knee_angle", 1.0),
    ],
)
def test_other_names(name: str, known: str, sign: float) -> None:
    assert anatomical_name(name) == (known, sign)


def test_names_are_found_by_any_spelling(named: Named) -> None:
    assert named.input_index("shoulder_elv") == 1
    assert named.target_index("st_upward_rotation") == (1, -1.0)
    assert named.target_index("ST_tilt") == (2, 1.0)
    with pytest.raises(ValueError, match=r"no target 'sc_elevation'.*st_protraction"):
        named.target_index("sc_elevation")


def test_numbers_stay_leaves_and_names_static(named: Named) -> None:
    halves = jax.tree.map(lambda x: 0.5 * x, named.rhythm.coefficients)
    half = eqx.tree_at(lambda n: n.rhythm.coefficients, named, halves)
    q = jnp.array([0.3, 1.1])
    np.testing.assert_allclose(eqx.filter_jit(half)(q), 0.5 * named(q), rtol=1e-14)


def test_wrong_names_are_refused() -> None:
    flat = Affine(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"1 names of inputs \(a\) for a rhythm with 2"):
        Named(flat, ("a",), ("x", "y"))
    with pytest.raises(ValueError, match="the same quantity"):
        Named(flat, ("plane", "elv_angle"), ("x", "y"))
    with pytest.raises(TypeError, match="sequence of names"):
        Named(flat, "ab", ("x", "y"))
    assert Named(Identity(), ("a", "b"), ("a", "b")).n_in == 2
    assert eb.rhythms.Named is Named
