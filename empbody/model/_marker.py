"""A point on a body that motion capture sees."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Marker:
    """A marker fixed to a body ("ground" too), `location` in the body frame (m)."""

    name: str
    body: str
    location: Any
