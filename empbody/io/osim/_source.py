"""What a loaded model remembers of its file."""

from dataclasses import dataclass, field
from typing import Any

from ._context import Context
from ._expressions import Expression
from ._report import LoadReport
from ._spec import ModelSpec


@dataclass(frozen=True)
class Source:
    """The file behind a model. Equal for equal content and options, so that a model that
    is loaded twice is compiled once."""

    content: str
    """SHA-256 of the file's bytes."""
    options: tuple
    spec: ModelSpec = field(compare=False, repr=False)
    context: Context = field(compare=False, repr=False)
    variables: dict[str, Expression] = field(compare=False, repr=False)
    """Joint variables by name, as expressions of the coordinates."""
    report: LoadReport = field(compare=False, repr=False)
    document: bytes = field(default=b"", compare=False, repr=False)
    """The file's bytes."""
    pristine: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """"model": the model as it was loaded."""

    @property
    def clamped(self) -> tuple[bool, ...]:
        """For each coordinate of the model, whether the file keeps it in its range."""
        names = self.context.coordinate_names
        return tuple(self.spec.coordinates[name].clamped for name in names)

    @property
    def motions(self) -> tuple[str, ...]:
        """For each coordinate of the model: "rotational", "translational" or "coupled"."""
        names = self.context.coordinate_names
        return tuple(self.spec.coordinates[name].motion for name in names)
