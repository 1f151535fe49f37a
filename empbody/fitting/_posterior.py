"""The posterior of a fit by the No-U-Turn sampler (Hoffman and Gelman 2014), through BlackJAX."""

import importlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._checks import as_table, as_weights
from ._coefficients import Coefficients
from ._fit import _aims
from ._parameter_problem import ParameterProblem
from ._parameters import ParameterFit
from ._problem import Problem
from ._result import Band, RhythmFit
from ._solving import make_problem

_MOST_CURVES = 1000


class Posterior(eqx.Module):
    """Draws from the posterior of a fit.

    `draws` are of the rhythm's coefficients, or of the fitted parameters, named by `labels`.
    `rhat` compares chains (Gelman and Rubin 1992): above 1.01 they have not met. `ess` is how
    many independent draws the dependent ones are worth. A divergence is a step that the
    sampler could not follow: with more than a few the draws are not to be trusted.
    """

    draws: Float[Array, "chains draws p"]
    noise: Float[Array, "chains draws k"] | None
    """Standard deviation of a measurement, where it was not taken for known."""
    rhat: Float[Array, " p"]
    ess: Float[Array, " p"]
    divergences: int = eqx.field(static=True)
    acceptance: float = eqx.field(static=True)
    """Mean acceptance rate: about 0.8 if the step size was found well."""
    labels: tuple[str, ...] = eqx.field(static=True)
    _codec: Coefficients | None
    _known: Float[np.ndarray, " k"] | None

    @property
    def mean(self) -> Float[Array, " p"]:
        return jnp.mean(self.draws, axis=(0, 1))

    @property
    def covariance(self) -> Float[Array, "p p"]:
        flat = self.draws.reshape(-1, self.draws.shape[2])
        apart = flat - jnp.mean(flat, axis=0)[None, :]
        return apart.T @ apart / (len(flat) - 1)

    @property
    def trustworthy(self) -> bool:
        """Chains that met, enough draws, and no divergences to speak of."""
        count = self.draws.shape[0] * self.draws.shape[1]
        met = bool((self.rhat < 1.05).all()) and bool((self.ess > 100).all())
        return met and self.divergences <= 0.001 * count

    def interval(self, level: float = 0.95) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Bounds between which every coefficient lies with this probability (equal tails)."""
        low, high = _tails(level)
        flat = self.draws.reshape(-1, self.draws.shape[2])
        bounds = jnp.quantile(flat, jnp.asarray([low, high]), axis=0)
        return bounds[0], bounds[1]

    def band(self, inputs: Any, level: float = 0.95, *, noise: bool = False) -> Band:
        """The mean curve at inputs (rad) and its pointwise credible band.

        With `noise`, where a new measurement falls. At most 1000 draws are used.
        """
        if self._codec is None:
            raise ValueError("a band needs the posterior of a rhythm; this one is of parameters")
        low, high = _tails(level)
        flat = np.asarray(self.draws).reshape(-1, self.draws.shape[2])
        pick = np.linspace(0, len(flat) - 1, min(len(flat), _MOST_CURVES)).astype(int)
        curves = _curves(self._codec, jnp.asarray(flat[pick]), jnp.asarray(inputs, dtype=float))
        middle = jnp.mean(curves, axis=0)
        if noise:
            if self.noise is not None:
                sigma = np.asarray(self.noise).reshape(-1, self.noise.shape[2])[pick]
            else:
                assert self._known is not None
                sigma = np.broadcast_to(self._known[None, :], (len(pick), len(self._known)))
            if sigma.shape[1] != curves.shape[2]:
                raise ValueError("noise is known of residuals, which are not the targets here")
            extra = np.random.default_rng(0).normal(size=curves.shape)
            curves = curves + jnp.asarray(sigma[:, None, :] * extra)
        bounds = jnp.quantile(curves, jnp.asarray([low, high]), axis=0)
        return Band(middle, bounds[0], bounds[1])


def sample_posterior(
    fit: RhythmFit | ParameterFit,
    inputs: Any = None,
    targets: Any = None,
    *,
    weights: Any = None,
    chains: int = 4,
    draws: int = 500,
    warmup: int = 300,
    known_noise: bool | None = None,
    key: int = 0,
) -> Posterior:
    """Draw from the posterior of a fit, with NUTS; needs the extra `bayes` (BlackJAX).

    **Arguments:**

    - `fit`: of `fit_rhythm`, with the same `inputs`, `targets` and `weights` that it was
      fitted to; or of `fit_parameters` to residuals, which holds its data.
    - `chains`, `draws`, `warmup`: number of chains, draws of each, and steps before that in
      which step size and scales are found.
    - `known_noise`: whether the standard deviation of the noise is the fit's. Default: yes
      with a prior, which knows it; otherwise it is drawn too, with density 1/σ before data.

    Residuals are taken for normal and independent. Before data, coefficients are normal as
    the fit's prior says, or anything is equally likely; parameters of a model are equally
    likely in the fit's transformed scale (a positive one: in its logarithm). A robust loss
    and a smoothness penalty of the fit play no part here.

    **Raises:** ImportError without BlackJAX; ValueError where the data leave a direction
    open, so that there is no posterior.
    """
    if min(chains, draws, warmup) < 1:
        raise ValueError("chains, draws and warmup must be at least 1")
    jax_nuts = _blackjax()
    if isinstance(fit, ParameterFit):
        return _of_parameters(jax_nuts, fit, bool(known_noise), chains, draws, warmup, key)
    if fit.covariance is None:
        raise ValueError("a fit to a scalar loss has no likelihood, and so no posterior")
    if inputs is None or targets is None:
        raise ValueError("give the inputs and targets that the rhythm was fitted to")
    xs = as_table("inputs", inputs, fit.input_names)
    aims = _aims(targets, fit.rhythm, fit.target_names, True)
    if aims.shape[0] != len(xs):
        raise ValueError(f"{len(xs)} rows of inputs for {aims.shape[0]} rows of targets")
    rows = as_weights(weights, *aims.shape, fit.target_names)
    problem = make_problem(fit._codec, aims, xs, rows, fit.prior, 0.0, None)
    known = fit.prior is not None if known_noise is None else known_noise
    if fit.prior is not None and not known:
        raise ValueError("a prior knows the noise; known_noise=False does not go with it")
    matrix = np.asarray(problem.map, dtype=np.float64)
    middle, *_ = np.linalg.lstsq(matrix, np.asarray(fit.coefficients - problem.start), rcond=None)
    sigma = np.ones(aims.shape[1]) if fit.prior is not None else np.asarray(fit.noise)
    used = np.asarray(rows > 0).sum(axis=0)
    found = _sample(
        jax_nuts, problem, _rhythm_residuals, jnp.asarray(middle, dtype=float), sigma, used, known,
        chains, draws, warmup, key,
    )  # fmt: skip
    coefficients = problem.start[None, None, :] + found.z @ problem.map.T
    return _gather(
        jax_nuts, found, coefficients, fit.labels, fit._codec, None if found.noise is not None
        else np.asarray(fit.noise),
    )  # fmt: skip


def _of_parameters(
    nuts: Any, fit: ParameterFit, known: bool, chains: int, draws: int, warmup: int, key: int
) -> Posterior:
    if fit.covariance is None:
        raise ValueError("a fit to a scalar loss has no likelihood, and so no posterior")
    used = np.array([fit.freedom + len(fit._z)])
    sigma = np.array([1.0 if known else fit.sigma])
    found = _sample(
        nuts, fit._problem, _parameter_residuals, fit._z, sigma, used, known, chains, draws,
        warmup, key,
    )  # fmt: skip
    selection = fit._problem.selection

    def flat(z: Array) -> Array:
        return jnp.concatenate([v.ravel() for v in selection.values(z).values()])

    values = jax.jit(jax.vmap(jax.vmap(flat)))(found.z)
    return _gather(nuts, found, values, fit.labels, None, None)


def _rhythm_residuals(problem: Problem, z: Array) -> tuple[Array, Array]:
    """Weighted residuals (rows, targets), and what the prior adds."""
    rows = jnp.sqrt(problem.weights) * problem.plain(z)
    return rows, z if problem.has_prior else jnp.zeros(0, dtype=z.dtype)


def _parameter_residuals(problem: ParameterProblem, z: Array) -> tuple[Array, Array]:
    return problem.vector(z, forward=False)[:, None], jnp.zeros(0, dtype=z.dtype)


class _Draws(eqx.Module):
    z: Float[Array, "chains draws r"]
    noise: Float[Array, "chains draws k"] | None
    diverging: Array
    acceptance: Array


def _sample(
    nuts: Any,
    problem: Any,
    residuals: Callable[[Any, Array], tuple[Array, Array]],
    middle: Float[Array, " r"],
    sigma: np.ndarray,
    counts: np.ndarray,
    known: bool,
    chains: int,
    draws: int,
    warmup: int,
    key: int,
) -> _Draws:
    """NUTS in coordinates in which the Gauss-Newton posterior is round and of unit size."""
    arrays, rest = eqx.partition(problem, eqx.is_array)
    level, size = jnp.asarray(sigma, dtype=float), middle.shape[0]
    number = jnp.asarray(counts, dtype=float)
    shape = _whitening(problem, residuals, middle, level)
    spread = 1.0 / jnp.sqrt(2.0 * number)

    def unpack(u: Array) -> tuple[Array, Array]:
        z = middle + shape @ u[:size]
        return z, jnp.log(level) + (spread * u[size:] if not known else 0.0)

    def density(arrays: Any, u: Array) -> Array:
        z, log_noise = unpack(u)
        rows, extra = residuals(eqx.combine(arrays, rest), z)
        rows = rows * jnp.exp(-log_noise)[None, :]
        value = -0.5 * (jnp.sum(rows**2) + jnp.sum(extra**2))
        return value if known else value - jnp.sum(number * log_noise)

    width = size + (0 if known else len(sigma))

    @jax.jit
    def run(arrays: Any, keys: Array) -> Any:
        def log_density(u: Array) -> Array:
            return density(arrays, u)

        def chain(key: Array) -> Any:
            first, second, third = jax.random.split(key, 3)
            start = jax.random.normal(first, (width,), dtype=middle.dtype)
            adapt = nuts.window_adaptation(nuts.nuts, log_density)
            (state, parameters), _ = adapt.run(second, start, num_steps=warmup)
            kernel = nuts.nuts(log_density, **parameters)

            def step(state: Any, key: Array) -> Any:
                state, info = kernel.step(key, state)
                return state, (state.position, info.is_divergent, info.acceptance_rate)

            return jax.lax.scan(step, state, jax.random.split(third, draws))[1]

        return jax.vmap(chain)(keys)

    u, diverging, acceptance = run(arrays, jax.random.split(jax.random.key(key), chains))
    z, log_noise = jax.vmap(jax.vmap(unpack))(u)
    noise = None if known else jnp.exp(log_noise)
    return _Draws(z, noise, diverging, acceptance)


def _whitening(problem: Any, residuals: Any, middle: Array, sigma: Array) -> Float[Array, "r r"]:
    """A with A Aᵀ the Gauss-Newton covariance of z."""

    @eqx.filter_jit
    def slope(problem: Any, z: Array, sigma: Array) -> Array:
        def rows(z: Array) -> Array:
            data, extra = residuals(problem, z)
            return jnp.concatenate([(data / sigma[None, :]).ravel(), extra])

        return jax.jacrev(rows)(z)

    matrix = np.asarray(slope(problem, middle, sigma), dtype=np.float64)
    size = np.linalg.norm(matrix, axis=0)
    if not (np.isfinite(matrix).all() and (size > 0).all()):
        raise ValueError("the data leave a coefficient open, so there is no posterior; use a prior")
    _, singular, vectors = np.linalg.svd(matrix / size, full_matrices=False)
    if singular[-1] < 1e-8 * singular[0]:
        raise ValueError("the data leave a direction open, so there is no posterior; use a prior")
    return jnp.asarray((vectors.T / singular[None, :]) / size[:, None], dtype=float)


def _gather(
    nuts: Any, found: _Draws, draws: Array, labels: Any, codec: Any, known: Any
) -> Posterior:
    diagnostics = nuts.diagnostics
    # Halves of chains, so that one chain is compared with itself too.
    half = draws.shape[1] // 2
    halves = jnp.concatenate([draws[:, :half], draws[:, half : 2 * half]], axis=0)
    constant = jnp.ptp(draws, axis=(0, 1)) == 0
    rhat = diagnostics.potential_scale_reduction(halves)
    ess = diagnostics.effective_sample_size(draws)
    return Posterior(
        draws=draws,
        noise=found.noise,
        rhat=jnp.where(constant, 1.0, rhat),
        ess=jnp.where(constant, jnp.asarray(float(draws.shape[0] * draws.shape[1])), ess),
        divergences=int(found.diverging.sum()),
        acceptance=float(found.acceptance.mean()),
        labels=tuple(labels),
        _codec=codec,
        _known=known,
    )


@eqx.filter_jit
def _curves(codec: Coefficients, draws: Float[Array, "s p"], inputs: Float[Array, "n nq"]) -> Array:
    return jax.lax.map(lambda c: jax.vmap(codec.rhythm(c))(inputs), draws)


def _tails(level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level = {level}; between 0 and 1 is expected")
    return 0.5 - level / 2, 0.5 + level / 2


def _blackjax() -> Any:
    try:
        return importlib.import_module("blackjax")
    except ImportError as error:
        raise ImportError("the posterior needs BlackJAX: pip install 'empbody[bayes]'") from error
