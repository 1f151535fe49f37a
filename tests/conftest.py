"""Settings for all tests: double precision, and mistakes in shapes are errors."""

import os
import pathlib

import hypothesis
import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiled functions are kept between runs, since compiling is most of a test's time.
# JAX_COMPILATION_CACHE_DIR names another folder, or none when it is empty.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _cache = pathlib.Path(__file__).parents[1] / ".cache" / "jax"
    jax.config.update("jax_compilation_cache_dir", str(_cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# Every run draws the same examples, so that a failure is never news from the dice.
# `pytest --hypothesis-profile=thorough` draws many fresh ones.
_common = {"deadline": None, "print_blob": True}
hypothesis.settings.register_profile(
    "repeatable", max_examples=25, derandomize=True, database=None, **_common
)
hypothesis.settings.register_profile("thorough", max_examples=500, **_common)
hypothesis.settings.load_profile("repeatable")
