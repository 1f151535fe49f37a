"""A file's document, to be written back with some of its numbers changed."""

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

import numpy as np

from ._xml import Node


class Document:
    """The elements of a file, found by the nodes that were read from them.

    Everything that is not set stays as it was, comments within the document too.
    """

    def __init__(self, content: bytes, root: Node):
        builder = ElementTree.TreeBuilder(insert_comments=True)
        # The bytes have been read safely before: no entities, no document type.
        self.root = ElementTree.fromstring(content, ElementTree.XMLParser(target=builder))
        elements = [e for e in self.root.iter() if isinstance(e.tag, str)]
        self._by_node = {id(n): e for n, e in zip(root.walk(), elements, strict=True)}

    def element(self, node: Node) -> ElementTree.Element:
        return self._by_node[id(node)]

    def set(self, node: Node | ElementTree.Element, tag: str, value: object) -> None:
        """Give an element's property a value, and the property itself where it is absent."""
        element = self.element(node) if isinstance(node, Node) else node
        child = element.find(tag)
        if child is None:
            child = ElementTree.SubElement(element, tag)
        for held in list(child):
            child.remove(held)
        child.text = text(value)

    def write(self) -> bytes:
        out = io.BytesIO()
        tree = ElementTree.ElementTree(self.root)
        tree.write(out, encoding="UTF-8", xml_declaration=True)
        return out.getvalue() + b"\n"


def text(value: object) -> str:
    """Numbers with all their digits, flags as the format spells them, words as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return " ".join(text(v) for v in value)
    if np.ndim(value):  # pyright: ignore[reportArgumentType]
        return text(list(np.ravel(np.asarray(value))))
    return repr(float(value))  # pyright: ignore[reportArgumentType]


def six_digits_hold(values: Iterable[float]) -> bool:
    """Whether numbers stay the same with six digits, which OpenSim 4 keeps of old elements."""
    return all(float(f"{x:.6g}") == float(x) for x in values)


def angles(rotation: np.ndarray) -> np.ndarray:
    """Body-fixed X, Y, Z angles of a rotation."""
    r = rotation
    y = np.arctan2(r[0, 2], np.hypot(r[0, 0], r[0, 1]))
    if np.hypot(r[0, 0], r[0, 1]) < 1e-12:  # only the sum of the other two is known
        return np.asarray([np.arctan2(r[2, 1], r[1, 1]), y, 0.0])
    return np.asarray([np.arctan2(-r[1, 2], r[2, 2]), y, np.arctan2(-r[0, 1], r[0, 0])])
