"""Settings for all tests: double precision, and mistakes in shapes are errors."""

import os
import pathlib

import hypothesis
import jax
import jaxlib

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Most functions here run once or a few times, so compiling costs more than optimising gains:
# code that is made plainly compiles in a quarter of the time. Read when the first function is
# compiled, here and in the processes that tests start. A user's XLA_FLAGS stand; a jaxlib that
# does not know a flag would stop, so newer ones than were tried go without.
if "XLA_FLAGS" not in os.environ and jaxlib.version.__version_info__ < (0, 11):
    os.environ["XLA_FLAGS"] = (
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    )

# jaxlib's batched LU waits on XLA's threads for XLA's threads, and two of them for ever on a
# machine with two cores; see empbody.cli._settings.own_process. Read with the first computation.
os.environ.setdefault("NPROC", "8")

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
