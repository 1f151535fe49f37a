"""XML as a plain tree that knows its lines, read without entities, DTDs or other files."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from .._errors import FileFormatError, UnsupportedElementError

MAX_BYTES = 100_000_000
MAX_DEPTH = 200
MAX_ELEMENTS = 2_000_000

_TRUE, _FALSE = ("true", "1", "t", "yes"), ("false", "0", "f", "no")
_SPELLINGS = {"1.#inf": "inf", "-1.#inf": "-inf", "1.#ind": "nan", "-1.#ind": "nan"}


class Node:
    """One element. Values are looked up by tag, with errors that name file and line.

    A property that the element does not hold is taken from the file's <defaults> for this
    kind of element, as OpenSim does.
    """

    __slots__ = (
        "asked",
        "attributes",
        "children",
        "defaults",
        "file",
        "line",
        "parent",
        "tag",
        "text",
    )

    def __init__(
        self,
        tag: str,
        attributes: Mapping[str, str],
        line: int,
        file: str,
        parent: "Node | None",
        defaults: dict[str, "Node"],
    ):
        self.tag = tag
        self.attributes = attributes
        self.line = line
        self.file = file
        self.parent = parent
        self.defaults = defaults
        self.children: list[Node] = []
        self.text = ""
        self.asked: set[str] = set()
        """Tags that a reader has looked for."""

    def __repr__(self) -> str:
        return f"<{self.label}, line {self.line}>"

    @property
    def name(self) -> str:
        """The attribute `name`, or ""."""
        return self.attributes.get("name", "").strip()

    @property
    def label(self) -> str:
        """How messages call this element: tag and name."""
        return f"{self.tag} {self.name!r}" if self.name else self.tag

    @property
    def path(self) -> str:
        """Names from the outermost element to this one, for messages."""
        above = "" if self.parent is None else self.parent.path + "/"
        return above + (self.name or self.tag)

    def child(self, *tags: str) -> "Node | None":
        """The first child with one of these tags, or the file's default for it."""
        self.asked.update(tags)
        for tag in tags:
            for node in self.children:
                if node.tag == tag:
                    return node
        default = self.defaults.get(self.tag)
        return None if default is None or default is self else default.child(*tags)

    def need(self, *tags: str) -> "Node":
        """As `child`, but an error where it is absent."""
        found = self.child(*tags)
        if found is None:
            self.fail(f"{self.label} has no <{tags[0]}>")
        return found

    def all(self, *tags: str) -> list["Node"]:
        """All children with one of these tags, in the order of the file."""
        self.asked.update(tags)
        return [node for node in self.children if node.tag in tags]

    def objects(self, tag: str) -> list["Node"]:
        """Members of a set: the children of <tag><objects>."""
        holder = self.child(tag)
        if holder is None:
            return []
        outside = holder.attributes.get("file", "").strip()
        if outside and outside.lower() != "unassigned":
            holder.fail(
                f"<{tag}> is kept in another file ({outside!r}), which is not read; "
                "open and save the model once in OpenSim so that all is in one file"
            )
        within = holder.child("objects")
        return [] if within is None else list(within.children)

    def walk(self) -> Iterator["Node"]:
        """This element and all below it, in the order of the file."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def words(self, tag: str) -> list[str]:
        """Words of <tag>; none where it is absent."""
        node = self.child(tag)
        return [] if node is None else node.text.split()

    def word(self, tag: str, default: str = "") -> str:
        """The whole text of <tag>."""
        node = self.child(tag)
        return default if node is None or not node.text else node.text

    def number(self, tag: str, default: float | None = None) -> float:
        """One finite or infinite number of <tag>; an error where it is absent without default."""
        node = self.child(tag)
        if node is None or not node.text:
            if default is None:
                self.fail(f"{self.label} has no <{tag}>")
            return default
        values = node.numbers()
        if len(values) != 1:
            node.fail(f"<{tag}> of {self.label} holds {len(values)} numbers; 1 is expected")
        return values[0]

    def integer(self, tag: str, default: int | None = None) -> int:
        """One whole number of <tag>."""
        value = self.number(tag, None if default is None else float(default))
        if not abs(value) < 2**31 or value != int(value):
            self.fail(f"<{tag}> of {self.label} is {value:g}; a whole number is expected")
        return int(value)

    def vector(self, tag: str, n: int | None = None, default: Any = None) -> tuple[float, ...]:
        """`n` numbers of <tag>, or any count; an error where it is absent without default."""
        node = self.child(tag)
        if node is None or not node.text:
            if default is None:
                self.fail(f"{self.label} has no <{tag}>")
            return tuple(default)
        values = node.numbers()
        if n is not None and len(values) != n:
            node.fail(f"<{tag}> of {self.label} holds {len(values)} numbers; {n} are expected")
        return tuple(values)

    def flag(self, tag: str, default: bool = False) -> bool:
        """true or false of <tag>."""
        node = self.child(tag)
        if node is None or not node.text:
            return default
        word = node.text.split()[0].lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        node.fail(f"<{tag}> of {self.label} is {node.text!r}; true or false is expected")

    def numbers(self) -> list[float]:
        """All numbers of this element's own text; NaN is refused."""
        out = []
        for word in self.text.replace("(", " ").replace(")", " ").split():
            try:
                value = float(_SPELLINGS.get(word.lower(), word))
            except ValueError:
                self.fail(f"<{self.tag}> holds {word[:40]!r}, which is not a number")
            if value != value or "_" in word:
                self.fail(f"<{self.tag}> holds {word[:40]!r}, which is not a number")
            out.append(value)
        return out

    def error(self, problem: str) -> FileFormatError:
        return FileFormatError(self.file, problem, line=self.line)

    def unsupported(self, problem: str) -> NoReturn:
        """Raise `UnsupportedElementError`: what is here makes sense, but is not known."""
        raise UnsupportedElementError(self.file, problem, line=self.line)

    def fail(self, problem: str) -> NoReturn:
        """Raise `FileFormatError` with this element's file and line."""
        raise self.error(problem)


def parse(path: str | os.PathLike[str]) -> Node:
    """The root element of a file.

    **Raises:** `FileFormatError` for what is not well-formed XML, for a DTD or an entity of
    its own, and for files beyond 100 MB, 200 levels or 2 million elements. `OSError` where
    the file cannot be read.
    """
    return parse_bytes(read_bytes(path), os.fspath(path))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """A file's content, refused where it is beyond 100 MB."""
    file = os.fspath(path)
    if not Path(file).exists():
        raise FileNotFoundError(f"there is no file {file}")
    size = Path(file).stat().st_size
    if size > MAX_BYTES:
        raise FileFormatError(
            file, f"the file has {size / 1e6:.0f} MB; at most {MAX_BYTES / 1e6:.0f} MB are read"
        )
    with open(file, "rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:  # a pipe or a device has no size beforehand
        raise FileFormatError(file, f"the file has more than {MAX_BYTES / 1e6:.0f} MB")
    return content


def parse_bytes(content: bytes, file: str = "<bytes>") -> Node:
    """The root element of a document in memory; `file` is for messages."""
    if not content.strip():
        raise FileFormatError(file, "the file is empty")
    return _Parser(file).run(content)


class _Parser:
    """Handlers of expat; everything that could expand or read elsewhere is refused."""

    def __init__(self, file: str):
        self.file = file
        self.root: Node | None = None
        self.at: Node | None = None
        self.depth = 0
        self.count = 0
        self.pieces: list[list[str]] = []
        self.defaults: dict[str, Node] = {}
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse
        self.parser = parser

    def run(self, content: bytes) -> Node:
        try:
            self.parser.Parse(content, True)
        except expat.ExpatError as error:
            words = expat.ErrorString(error.code) or "error"
            raise FileFormatError(
                self.file,
                f"not well-formed XML: {words}, so it is no OpenSim model",
                line=error.lineno,
            ) from None
        except (LookupError, UnicodeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(self.file, f"cannot be decoded: {error}", line=1) from None
        if self.root is None:
            raise FileFormatError(self.file, "the file holds no XML element")
        return self.root

    def _fail(self, problem: str) -> NoReturn:
        raise FileFormatError(self.file, problem, line=self.parser.CurrentLineNumber)

    def _refuse(self, *_: Any) -> NoReturn:
        self._fail("document type declarations and entities are not read")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH:
            self._fail(f"elements are nested deeper than {MAX_DEPTH} levels")
        if self.count > MAX_ELEMENTS:
            self._fail(f"the file has more than {MAX_ELEMENTS} elements")
        line = self.parser.CurrentLineNumber
        node = Node(tag, attributes, line, self.file, self.at, self.defaults)
        if self.at is None:
            self.root = node
        else:
            self.at.children.append(node)
            if self.at.tag == "defaults":
                self.defaults.setdefault(tag, node)
        self.at = node
        self.pieces.append([])

    def _end(self, _: str) -> None:
        assert self.at is not None
        self.at.text = "".join(self.pieces.pop()).strip()
        self.at = self.at.parent
        self.depth -= 1

    def _text(self, data: str) -> None:
        self.pieces[-1].append(data)
