"""Differentiable multibody and musculoskeletal dynamics with coupled joints as a plain ODE.

Angles in radians, SI units. Functions take one sample; batch with `jax.vmap`.

The names of the package are listed in `__init__.pyi` and imported when they are first used:
`empbody --help` need not wait for JAX.
"""

import pathlib as _pathlib

from ._lazy import attach as _attach

__version__ = "0.1.0"

_stub = str(_pathlib.Path(__file__).with_suffix(".pyi"))
__getattr__, __dir__, __all__ = _attach(__name__, _stub)
