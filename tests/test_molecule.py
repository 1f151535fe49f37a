"""Numerical differentiation on the computational molecule."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mechanism_tables as tables
import numpy as np
import pytest

from empbody.models._loops import FiveBarLoop
from empbody.rhythms import Identity, Implicit, Molecule


@pytest.fixture(scope="module")
def five_bar():
    torus = {"lower": -np.pi, "upper": np.pi, "periodic": True}
    return Implicit.build(FiveBarLoop(), [0.0, 0.0], [1.9, -2.8], **torus)


@eqx.filter_jit
def evaluate(rhythm, q):
    return jax.vmap(lambda x: (rhythm.jacobian(x), rhythm.hessian(x)))(q)


@pytest.mark.parametrize(("order", "tolerances"), [(2, (1e-7, 1e-6)), (4, (1e-8, 1e-7))])
def test_meets_the_five_bar_table(five_bar, order, tolerances):
    q, _, slope, bend = tables.load("five_bar")
    jacobian, hessian = evaluate(Molecule(five_bar, order=order), jnp.asarray(q))
    assert np.max(np.abs(jacobian - slope)) < tolerances[0]
    assert np.max(np.abs(hessian - bend)) < tolerances[1]


@pytest.mark.parametrize("order", [2, 4])
def test_order_of_convergence(five_bar, order):
    """Halving a large step divides the error by 2^order."""
    q, _, slope, bend = tables.load("five_bar")
    errors = []
    for step in (0.04, 0.02):
        molecule = Molecule(five_bar, steps=[step, step], order=order)
        jacobian, hessian = evaluate(molecule, jnp.asarray(q))
        errors.append([np.max(np.abs(jacobian - slope)), np.max(np.abs(hessian - bend))])
    rates = np.log2(np.array(errors[0]) / np.array(errors[1]))
    np.testing.assert_allclose(rates, order, atol=0.3)


def test_value_and_jet_agree_with_the_pieces(five_bar):
    molecule = Molecule(five_bar)
    q, qd = jnp.asarray([0.4, -1.0]), jnp.asarray([0.7, 2.0])
    jet, value = eqx.filter_jit(lambda r, x, v: (r.jet(x, v), r(x)))(molecule, q, qd)
    jacobian, hessian = (x[0] for x in evaluate(molecule, q[None]))
    np.testing.assert_allclose(jet.value, value, rtol=1e-14)
    np.testing.assert_allclose(jet.jacobian, jacobian, rtol=1e-12)
    np.testing.assert_allclose(jet.curvature, jnp.einsum("iab,a,b", hessian, qd, qd), rtol=1e-9)


def test_refuses_bad_arguments(five_bar):
    with pytest.raises(ValueError, match="2 or 4"):
        Molecule(five_bar, order=3)
    with pytest.raises(ValueError, match="positive"):
        Molecule(five_bar, steps=[0.0, 1e-3])
    with pytest.raises(ValueError, match="one step for each coordinate"):
        Molecule(Identity())
