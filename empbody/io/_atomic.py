"""Files appear whole or not at all."""

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Path of a temporary file beside `path` that takes its place when the block ends well.

    An error inside the block removes the temporary file and leaves `path` as it was.
    """
    target = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = pathlib.Path(name)
    try:
        yield part
        _usual_permissions(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_files(folder: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A temporary folder whose files move into `folder` when the block ends well.

    `folder` is made only then, with its parents. Files there with the same names are
    replaced and others stay. The temporary folder stands on the same disk, beside the
    nearest folder that exists, so that a full or write-protected disk shows at once.
    """
    target = pathlib.Path(folder).absolute()
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file, not a folder")
    nearest = target
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file, not a folder")
    stage = pathlib.Path(tempfile.mkdtemp(prefix=".empbody-", suffix=".part", dir=nearest))
    try:
        yield stage
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(stage.iterdir()):
            file.replace(target / file.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _usual_permissions(path: pathlib.Path) -> None:
    """mkstemp makes files for their owner alone; give them what open() would have."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
