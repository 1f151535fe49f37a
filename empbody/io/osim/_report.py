"""What became of everything in a file."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .._errors import UnsupportedElementError
from ._xml import Node

Kind = Literal["read", "ignored", "approximated", "unsupported"]
KINDS: tuple[Kind, ...] = ("read", "ignored", "approximated", "unsupported")

_HEADINGS = {
    "read": "Read",
    "ignored": "Ignored (no mechanical meaning)",
    "approximated": "Approximated or interpreted",
    "unsupported": "Unsupported and left out",
}
_MOST_LINES = 20


@dataclass(frozen=True)
class Note:
    """One element of the file and what became of it."""

    element: str
    name: str
    line: int
    words: str

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        words = f": {self.words}" if self.words else ""
        return f"{self.element}{name} (line {self.line}){words}"


@dataclass
class Notes:
    """Notes while a file is read; `report` closes them."""

    by_kind: dict[Kind, list[Note]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    warnings: list[str] = field(default_factory=list)

    def add(self, kind: Kind, node: Node, words: str = "") -> None:
        self.by_kind[kind].append(Note(node.tag, node.name, node.line, words))

    def warn(self, words: str) -> None:
        self.warnings.append(words)

    def report(self, file: str, version: int, meshes: Iterable[tuple[str, str]]) -> "LoadReport":
        lists = {kind: tuple(notes) for kind, notes in self.by_kind.items()}
        return LoadReport(
            file=file,
            version=version,
            warnings=tuple(self.warnings),
            meshes=tuple(meshes),
            **lists,
        )


def refuse(notes: Notes, node: Node, words: str, skip: bool) -> None:
    """Raise `UnsupportedElementError`, or note it where skipping was asked for."""
    if not skip:
        raise UnsupportedElementError(
            node.file,
            f'{node.label}: {words}; load with unsupported="skip" to leave it out',
            line=node.line,
        )
    notes.add("unsupported", node, words)


@dataclass(frozen=True)
class LoadReport:
    """What was read from a file, ignored, approximated, or not supported.

    `warnings` are sentences about what was read and deserves a look, such as bodies
    without mass or with an inertia that no body of their mass has. `meshes` are pairs of
    body and file name of its drawing.
    """

    file: str
    version: int
    read: tuple[Note, ...]
    ignored: tuple[Note, ...]
    approximated: tuple[Note, ...]
    unsupported: tuple[Note, ...]
    warnings: tuple[str, ...]
    meshes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.file} (version {self.version})"]
        counts = Counter(note.element for note in self.read)
        lines += ["", f"{_HEADINGS['read']}:"]
        lines += [f"  {count:4d} {element}" for element, count in sorted(counts.items())]
        for kind in KINDS[1:]:
            lines += _section(_HEADINGS[kind], [str(note) for note in getattr(self, kind)])
        lines += _section("Worth a look", list(self.warnings))
        return "\n".join(lines) + "\n"


def _section(heading: str, entries: list[str]) -> list[str]:
    if not entries:
        return ["", f"{heading}: nothing"]
    lines = ["", f"{heading}: {len(entries)}"] + [f"  {entry}" for entry in entries[:_MOST_LINES]]
    if len(entries) > _MOST_LINES:
        lines.append(f"  ... and {len(entries) - _MOST_LINES} more")
    return lines
