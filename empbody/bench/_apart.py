"""Groups that are measured in a process of their own, with a thread for each core.

A command gives XLA more threads than there are cores (jaxlib's batched LU may wait for ever
otherwise). Work that is shared out among all threads then often has two of them on one core,
which says nothing about a program that uses the package: there XLA has as many threads as cores.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import jax

from .._cores import usable_cores

_PROGRAM = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
from empbody.bench import GROUPS
from empbody.bench._timing import repeats_of
with repeats_of(json.loads(sys.argv[2])):
    found = GROUPS[sys.argv[1]].run()
print("\\n" + json.dumps(found))
"""


def crowded() -> bool:
    """Whether this process has more threads than cores."""
    return int(os.environ.get("NPROC", "0")) > usable_cores()


def measured_apart(name: str, repeats: int | None) -> Mapping[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "NPROC"}
    folder = jax.config.values["jax_compilation_cache_dir"]
    if folder is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    command = [sys.executable, "-c", _PROGRAM, name, json.dumps(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise RuntimeError(f"its own process failed: {lines[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
