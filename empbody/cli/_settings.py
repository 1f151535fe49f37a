"""What the command line sets in JAX: double precision and a cache of compiled functions."""

import os
import pathlib
import sys

CACHE_VARIABLE = "EMPBODY_CACHE_DIR"
_THREADS = 8


def configure_jax(own: bool = False) -> None:
    """Double precision; compiled functions are kept in the user's cache folder.

    EMPBODY_CACHE_DIR names another folder, or none when it is empty. A folder that JAX was
    already told to use (JAX_COMPILATION_CACHE_DIR) is left alone.

    In a process that runs nothing but a command (`own`), checks inside compiled functions
    give NaN instead of raising: JAX does not cache functions that can call back into Python,
    and a check that raises is one. The commands look at their numbers and explain a NaN
    themselves. A user's EQX_ON_ERROR stands.
    """
    import equinox  # imported here, so that help comes at once
    import jax

    if own and "EQX_ON_ERROR" not in os.environ and hasattr(equinox._errors, "EQX_ON_ERROR"):
        equinox._errors.EQX_ON_ERROR = "nan"  # pyright: ignore[reportPrivateImportUsage]
    jax.config.update("jax_enable_x64", True)
    folder = cache_folder()
    if folder is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # no place to keep them: compile every time
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def own_process() -> None:
    """Give XLA threads. Only for a process that runs nothing but a command."""
    # jaxlib's batched LU waits on a thread of XLA's pool for others of that pool: as many at
    # once as there are threads wait for ever. Two cores make two threads, unless NPROC says
    # otherwise before the first computation.
    os.environ.setdefault("NPROC", str(max(_THREADS, os.cpu_count() or 1)))


def cache_folder() -> pathlib.Path | None:
    """Where compiled functions are kept; None if that is switched off."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None:
        return pathlib.Path(chosen) if chosen else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", str(pathlib.Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = str(pathlib.Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    return pathlib.Path(base) / "empbody" / "jax"


def cache_in_use() -> str | None:
    import jax

    return jax.config.values["jax_compilation_cache_dir"] or None
