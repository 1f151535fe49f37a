"""Rhythm files: what is written is read, and what is wrong is named."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empbody as eb
from empbody.fitting import Coefficients, fit_population, fit_rhythm, make_family
from empbody.io import FileFormatError, read_rhythm_file
from empbody.rhythms import Affine, Compose, Identity, Named, Stack

X = np.radians([90.0, 150.0]) * np.random.default_rng(0).random((60, 2))
Q = jnp.asarray([0.4, 1.3])
FAMILIES = ("linear", "poly:3", "spline:2:3", "fourier:2", "mlp:4")


def filled(rhythm):
    codec = Coefficients(rhythm)
    numbers = np.random.default_rng(4).normal(size=codec.size)
    return codec.rhythm(jnp.asarray(numbers))


def kinds():
    for family in FAMILIES:
        yield filled(make_family(family, X, np.zeros((60, 2))))
    for family in ("spline:4", "fourier:3"):
        yield Stack([(filled(make_family(family, X[:, :1], np.zeros((60, 1)))), [0]),
                     (Affine([[0.3]], [0.1]), [1])], 2, order=(1, 0))  # fmt: skip
    yield Compose(Affine([[0.2, 0.1], [0.3, 0.4]]), Identity())
    yield Identity()


@pytest.mark.parametrize("rhythm", list(kinds()), ids=lambda r: type(r).__name__)
def test_every_family_comes_back_to_the_last_digit(rhythm, tmp_path) -> None:
    named = Named(rhythm, ("plane", "elevation"), ("a", "b"))
    path = tmp_path / "rhythm.json"
    eb.save_rhythm(named, path)
    again = eb.load_rhythm(path)
    assert isinstance(again, Named)
    assert (again.inputs, again.targets) == (named.inputs, named.targets)
    assert jax.tree.structure(again) == jax.tree.structure(named)
    np.testing.assert_array_equal(again(Q), named(Q))


def test_a_fit_brings_errors_and_ranges(tmp_path) -> None:
    y = 0.3 * X + 0.01 * np.random.default_rng(1).normal(size=X.shape)
    fit = fit_rhythm(
        X, y, "poly:2", input_names=("plane", "elevation"), target_names=("st_tilt", "b")
    )
    path = tmp_path / "fit.json"
    eb.save_rhythm(
        fit, path, maps={"plane": {"frontal": 0.0}}, fit={"rmse": 1.0}, provenance={"data": "x.csv"}
    )
    file = read_rhythm_file(path)
    assert file.family == "poly:2"
    assert file.prior is None
    np.testing.assert_array_equal(file.ranges, fit.ranges)
    assert file.maps == {"plane": {"frontal": 0.0}}
    assert file.fit == {"rmse": 1.0}
    assert file.provenance["data"] == "x.csv"
    table = json.loads(path.read_text())["coefficients"]
    assert table[2]["label"] == "st_tilt: elevation"
    np.testing.assert_allclose([row["sd"] for row in table], fit.spread)


def test_the_prior_of_a_population_comes_back(tmp_path) -> None:
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(6), 10)
    y = (0.3 + 0.1 * rng.normal(size=6))[who][:, None] * X + 0.01 * rng.normal(size=X.shape)
    found = fit_population(
        X, y, who, "linear", input_names=("p", "e"), target_names=("a", "b"), leave_one_out=None
    )
    path = tmp_path / "population.json"
    eb.save_rhythm(found, path)
    prior = read_rhythm_file(path).prior
    np.testing.assert_array_equal(prior.covariance, found.prior.covariance)
    np.testing.assert_array_equal(prior.noise, found.prior.noise)
    np.testing.assert_array_equal(prior.mean, found.prior.mean)


def damage(whole: dict, what: str) -> object:
    match what:
        case "format":
            whole["format"] = "other"
        case "version":
            whole["version"] = 99
        case "type":
            whole["rhythm"]["type"] = "Teapot"
        case "count":
            whole["coefficients"].pop()
        case "label":
            whole["coefficients"][0]["label"] = "z"
        case "number":
            whole["coefficients"][0]["value"] = "much"
        case "unit":
            whole["inputs"][0]["unit"] = "deg"
        case "missing":
            del whole["targets"]
        case "names":
            whole["inputs"].pop()
        case "list":
            return [whole]
    return whole


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("format", "not a rhythm file"),
        ("list", "not a rhythm file"),
        ("version", "version 99 of the format; this program reads 1"),
        ("type", "unknown type of rhythm 'Teapot'"),
        ("count", "5 coefficients; this rhythm has 6"),
        ("label", "coefficient 'z' where 'a: plane' is expected"),
        ("number", "not a finite number"),
        ("unit", "plane in deg; rad is expected"),
        ("missing", "'targets' is missing"),
        ("names", "1 names of inputs"),
    ],
)
def test_damage_is_named(what, message, tmp_path) -> None:
    named = Named(filled(Affine(np.zeros((2, 2)))), ("plane", "elevation"), ("a", "b"))
    path = tmp_path / "rhythm.json"
    eb.save_rhythm(named, path)
    path.write_text(json.dumps(damage(json.loads(path.read_text()), what)))
    with pytest.raises(FileFormatError, match=message) as caught:
        eb.load_rhythm(path)
    assert str(path) in str(caught.value)


def test_what_is_no_json_is_named(tmp_path) -> None:
    path = tmp_path / "rhythm.json"
    path.write_text('{"format": \n oops}')
    with pytest.raises(FileFormatError, match=r"line 2: not a rhythm file \(not JSON"):
        eb.load_rhythm(path)


def test_what_cannot_be_saved_says_so(tmp_path) -> None:
    fit = fit_rhythm(X, X, "linear")
    with pytest.raises(ValueError, match="needs names"):
        eb.save_rhythm(fit, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()
