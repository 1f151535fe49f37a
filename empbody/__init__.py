"""Differentiable multibody and musculoskeletal dynamics with coupled joints as a plain ODE.

Angles in radians, SI units. Functions take one sample; batch with `jax.vmap`.

The names of the package are listed in `__init__.pyi` and imported when they are first used:
`empbody --help` need not wait for JAX.
"""

import pathlib

from ._lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__ = attach(__name__, str(pathlib.Path(__file__).with_suffix(".pyi")))
