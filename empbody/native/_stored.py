# llvmlite has no types of its own, and what is read out of its code is often wrong.
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false
"""Machine code kept from process to process, beside what XLA keeps."""

import contextlib
import hashlib
import os
import pathlib
import tempfile

import jax
import llvmlite
from llvmlite import binding

_HASH = hashlib.sha256().digest_size


class Stored:
    """The code of one text, in the folder where JAX keeps compiled programs (if it does so).

    A file holds a hash of its code before the code: half a file, or another one, is not used.
    """

    def __init__(self, text: str, quick: bool) -> None:
        self._path = _path(text, quick)
        self.known: bytes | None = None
        """The code, if it was found."""
        with contextlib.suppress(OSError):
            if self._path is not None:
                whole = self._path.read_bytes()
                code = whole[_HASH:]
                if hashlib.sha256(code).digest() == whole[:_HASH]:
                    self.known = code

    def keep(self, code: bytes) -> None:
        if self._path is None:
            return
        # Who reads meanwhile sees all of it or nothing.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(name, self._path)


def _path(text: str, quick: bool) -> pathlib.Path | None:
    folder = jax.config.jax_compilation_cache_dir
    if not folder or "://" in str(folder) or not jax.config.jax_enable_compilation_cache:
        return None
    features = binding.get_host_cpu_features().flatten()
    parts = [text, str(quick), binding.get_host_cpu_name(), features, llvmlite.__version__]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return pathlib.Path(folder) / f"empbody_{name}.o"
