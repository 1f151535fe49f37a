"""What the readers of forces and paths ask about the model around them."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from ...rhythms import AbstractRhythm
from ._expressions import Expression, rhythm_of
from ._frames import FrameTable
from ._functions import Function, read_function
from ._report import Kind, Notes, refuse
from ._spec import ModelSpec
from ._xml import Node


class Context:
    """A file's frames and coordinates, and the notes for the report.

    `coordinate_names` are the independent, free coordinates. `values` gives every
    coordinate of the file as an expression of these.
    """

    def __init__(
        self,
        spec: ModelSpec,
        frames: FrameTable,
        coordinate_names: Sequence[str],
        values: Mapping[str, Expression],
        notes: Notes,
        unsupported: Literal["raise", "skip"] = "raise",
        wrapping: bool = True,
    ):
        self.spec = spec
        self.frames = frames
        self.coordinate_names = tuple(coordinate_names)
        self.values = dict(values)
        self.notes = notes
        self.skip = unsupported == "skip"
        self.wrapping = wrapping
        self.path_nodes: dict[str, list[Node]] = {}
        """Elements of the points of each path, for writing them back."""
        self.wrap_nodes: dict[str, Node] = {}
        """Elements of the surfaces by the names that they have in the model."""

    def body_of(self, frame: str, node: Node | None = None) -> tuple[str, np.ndarray]:
        """Body name ("ground" too) and 4×4 placement in it of a frame.

        `frame` is a name or a path as the file writes it; `node` is the element that
        names it, for relative paths and for the line in an error.
        """
        return self.frames.find(frame, node or self.spec.model)

    def coordinate_name(self, name: str, node: Node | None = None) -> str:
        """The bare name of a coordinate of the file, given as a name or as a path."""
        bare = name.strip().rsplit("/", 1)[-1]
        if bare not in self.values:
            (node or self.spec.model).fail(f"there is no coordinate {name!r}")
        return bare

    def coordinate(
        self, name: str, node: Node | None = None
    ) -> tuple[AbstractRhythm, tuple[str, ...]]:
        """Any coordinate of the file as a rhythm (one output) of independent ones.

        The inputs are empty for a constant one, whose rhythm is then of one unused input:
        see `constant`.
        """
        return self.rhythm([self.values[self.coordinate_name(name, node)]])

    def constant(self, name: str, node: Node | None = None) -> float | None:
        """The value of a coordinate that cannot move (locked), else None."""
        value = self.values[self.coordinate_name(name, node)]
        return value.offset if value.is_constant else None

    def independent(self, name: str, node: Node | None = None) -> str | None:
        """The independent coordinate that a coordinate is, else None."""
        return self.values[self.coordinate_name(name, node)].coordinate

    def expression(
        self, function: Function | Node, coordinates: Sequence[str], node: Node | None = None
    ) -> Expression:
        """A function of the file, applied to coordinates of the file."""
        if isinstance(function, Node):
            node = node or function
            read = read_function(function)
            if read is None:
                function.fail(f"<{function.tag}> holds no function")
            function = read
        return function.of([self.values[self.coordinate_name(c, node)] for c in coordinates])

    def rhythm(self, expressions: Sequence[Expression]) -> tuple[AbstractRhythm, tuple[str, ...]]:
        """Expressions as one rhythm, and the independent coordinates that drive it.

        Where none does, the inputs are empty and the rhythm takes one unused coordinate.
        """
        used = set().union(*(e.inputs() for e in expressions))
        inputs = tuple(name for name in self.coordinate_names if name in used)
        return rhythm_of(expressions, inputs or ("(none)",)), inputs

    def note(self, kind: Kind, node: Node, words: str) -> None:
        """A line for the report: "read", "ignored", "approximated" or "unsupported"."""
        self.notes.add(kind, node, words)

    def refuse(self, node: Node, words: str) -> None:
        """Mechanics that cannot be honoured: an error, or a note where skipping is allowed."""
        refuse(self.notes, node, words, self.skip)
