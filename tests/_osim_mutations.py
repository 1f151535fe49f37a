"""Damaged .osim files: each number of a series stands for one file, always the same."""

import functools
import pathlib
import random
import xml.etree.ElementTree as ElementTree

FILES = sorted((pathlib.Path(__file__).parent / "osim").glob("*.osim"))
LOOPS = [path for path in FILES if "loop" in path.stem]
"""Closing a loop takes seconds, so these have a series of their own."""
OPEN = [path for path in FILES if path not in LOOPS]
NUMBERS = (
    *("nan", "-nan", "inf", "-inf", "1e308", "-1e308", "1e999", "5e-324", "0", "-0", "-1"),
    *("1e6", "-1e6", "1,5", "0x10", "1e", "--1", "abc", "½", "1_000", "9" * 400, "true"),
)
NAMES = ("", " ", "nowhere", "ground", "/", "..", "../..", "/bodyset", "/ground/ground", "a b", "é")
VERSIONS = ("0", "-1", "10902", "20303", "30000", "30500", "40000", "40600", "99999", "4.0", "")


@functools.cache
def _text(path: pathlib.Path) -> str:
    return path.read_text()


@functools.cache
def _tags() -> tuple[str, ...]:
    found = {e.tag for path in FILES for e in ElementTree.fromstring(_text(path)).iter()}
    return tuple(sorted(found))


def _pick(root, draw):
    """An element that is not the root, its parent and its place there."""
    parents = [e for e in root.iter() if len(e)]
    parent = draw.choice(parents)
    place = draw.randrange(len(parent))
    return parent, place, parent[place]


def _leaf(root, draw, numeric: bool | None = None):
    leaves = [e for e in root.iter() if not len(e)]
    if numeric is not None:
        leaves = [e for e in leaves if _numeric(e.text) == numeric] or leaves
    return draw.choice(leaves)


def _numeric(text: str | None) -> bool:
    try:
        return bool([float(word) for word in (text or "").split()])
    except ValueError:
        return False


def _delete(root, draw):
    parent, _, element = _pick(root, draw)
    parent.remove(element)


def _duplicate(root, draw):
    parent, place, element = _pick(root, draw)
    parent.insert(place, ElementTree.fromstring(ElementTree.tostring(element)))


def _retype(root, draw):
    _pick(root, draw)[2].tag = draw.choice(_tags())


def _rename_tag(root, draw):
    element = _pick(root, draw)[2]
    element.tag = draw.choice((element.tag + "x", element.tag.lower(), "x", "objects"))


def _move(root, draw):
    parent, _, element = _pick(root, draw)
    inside = set(element.iter())
    targets = [e for e in root.iter() if e not in inside]
    parent.remove(element)
    target = draw.choice(targets)
    target.insert(draw.randint(0, len(target)), element)


def _graft(root, draw):
    """An element of another file."""
    other = ElementTree.fromstring(_text(draw.choice(FILES)))
    parent, place, _ = _pick(root, draw)
    parent.insert(place, _pick(other, draw)[2])


def _number(root, draw):
    leaf = _leaf(root, draw, numeric=True)
    words = (leaf.text or "").split() or [""]
    words[draw.randrange(len(words))] = draw.choice(NUMBERS)
    leaf.text = " ".join(words)


def _count(root, draw):
    """A number too many or too few."""
    leaf = _leaf(root, draw, numeric=True)
    words = (leaf.text or "").split() or ["1"]
    leaf.text = " ".join(words[:-1] if draw.random() < 0.5 else [*words, words[-1]])


def _reference(root, draw):
    leaf = _leaf(root, draw, numeric=False)
    others = [e.get("name") or "" for e in root.iter() if e.get("name")]
    leaf.text = draw.choice([*NAMES, *others])


def _text_of(root, draw):
    leaf = _leaf(root, draw)
    leaf.text = draw.choice((None, "", "x" * 10_000, *NUMBERS[:4], "\u200b", "<&>"))


def _attribute(root, draw):
    element = draw.choice([e for e in root.iter() if e.attrib])
    key = draw.choice(sorted(element.attrib))
    if key == "Version":
        element.set(key, draw.choice(VERSIONS))
    elif draw.random() < 0.3:
        del element.attrib[key]
    else:
        others = [e.get("name") or "" for e in root.iter() if e.get("name")]
        element.set(key, draw.choice([*NAMES, *others]))


_OF_TREE = (
    *(_delete, _duplicate, _retype, _rename_tag, _move, _graft),
    *(_number, _number, _number, _count, _reference, _reference, _text_of, _attribute),
)


def _cut(data, draw):
    return data[: draw.randrange(len(data))]


def _flip(data, draw):
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def _insert(data, draw):
    place = draw.randrange(len(data))
    what = (b"\0", b"&x;", b"]]>", b"<!--", b"<![CDATA[", b"<a>", b"\xff\xfe", b"&#0;", b"&#x41;")
    return data[:place] + draw.choice(what) + data[place:]


def _lines(data, draw):
    lines = data.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place : place + 1] = [lines[place]] * draw.choice((0, 2, 3))
    return b"\n".join(lines)


def _encoding(data, draw):
    text = data.decode(errors="replace")
    if draw.random() < 0.5:
        return text.encode(draw.choice(("utf-16", "utf-8-sig", "utf-32")))
    return data.replace(b"UTF-8", draw.choice((b"latin-1", b"no-such", b"utf-16", b"UTF-7")), 1)


_OF_BYTES = (_cut, _flip, _flip, _insert, _lines, _lines, _encoding)


def damaged(number: int, loops: bool = False) -> bytes:
    """File `number` of the series: one of ours with one to three things wrong in it."""
    draw = random.Random(number)
    text = _text(draw.choice(LOOPS if loops else OPEN))
    of_tree = draw.random() < 0.75
    data = text.encode()
    if of_tree:
        root = ElementTree.fromstring(text)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            if len(root):
                draw.choice(_OF_TREE)(root, draw)
        data = ElementTree.tostring(root)
    if not of_tree or draw.random() < 0.1:
        data = draw.choice(_OF_BYTES)(data, draw)
    return data
