"""What is wrong with a file, and where."""

import os


class FileFormatError(ValueError):
    """A file is not what its format promises; the message names file, line and column.

    Lines and columns count from 1, as editors do. A column may also be given by its label.
    """

    path: str
    line: int | None
    column: int | str | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        problem: str,
        *,
        line: int | None = None,
        column: int | str | None = None,
    ):
        self.path = os.fspath(path)
        self.line = line
        self.column = column
        where = self.path
        if line is not None:
            where += f", line {line}"
        if column is not None:
            where += f", column {column!r}" if isinstance(column, str) else f", column {column}"
        super().__init__(f"{where}: {problem}")


class UnsupportedElementError(FileFormatError):
    """A file holds mechanics that cannot be honoured; the message names element and line.

    Not raised where the caller asked to skip such elements.
    """
