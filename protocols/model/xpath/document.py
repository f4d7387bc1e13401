"""The XML document of an event, read once and kept as arrays.

Whoever publishes it is a stranger, so reading has limits: no document type and hence no entities of its own, nothing is
fetched, at most `DEPTH_MAX` levels, `ELEMENTS_MAX` elements and `ATTRIBUTES_MAX` attributes of one; the length is
bounded with the event's. What is not well-formed, or beyond a limit, is a document with a `fault`, which matches
nothing.

An event has a document if its content type says so: `application/xml`, `text/xml`, or `…+xml`.

Reading is a pure function of the bytes, so results are kept: the participants of a peer share them, and the peers of a
simulated swarm too.
"""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from protocols.model.event import Body, decode_body

DEPTH_MAX: Final = 64
"""Elements within one another. Our choice: as deep as a JSON payload may be."""
ELEMENTS_MAX: Final = 4096
"""Our choice: matching costs microseconds for each; the documents of the workloads have about fifty."""
ATTRIBUTES_MAX: Final = 256
"""Attributes of one element. lxml reads them in quadratic time: 6,000, which fit into an event, take 70 ms."""
KEPT_MAX: Final = 256
"""Documents kept. A guess: a second of a busy peer."""
MATCHING_MAX: Final = 4096
"""Answers kept with a document: as many as there are patterns of which the tests are kept."""

_DOCTYPE: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.DOTALL)


class Document(msgspec.Struct, frozen=True, gc=False):
    """Elements in document order: `parents[i] < i` (-1 for the first), labels, where their texts begin and end in the
    text of all, and attributes."""

    labels: tuple[str, ...] = ()
    parents: tuple[int, ...] = ()
    text: str = ""
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    attributes: dict[int, dict[str, str]] = {}
    names: frozenset[str] = frozenset()
    """Every label that occurs, attributes as `@name`."""
    fault: str = ""
    matching: dict[str, bool] = {}
    """Which patterns it matches, as far as that has been found out."""

    def text_of(self, number: int) -> str:
        """The text of an element as a whole, that of its descendants included."""
        return self.text[self.begins[number] : self.ends[number]]


def is_xml(content_type: str) -> bool:
    essence = content_type.partition(";")[0].strip().lower()
    return essence in ("application/xml", "text/xml") or essence.endswith("+xml")


@lru_cache(maxsize=KEPT_MAX)
def document_of(body: bytes) -> Document | None:
    """The document in an event's encoded body; None if it carries none."""
    try:
        decoded = decode_body(body)
    except msgspec.DecodeError:
        return None
    return document_in(decoded)


def document_in(body: Body) -> Document | None:
    if not is_xml(body.content_type):
        return None
    payload = body.payload
    if isinstance(payload, str):
        try:
            payload = payload.encode()
        except UnicodeEncodeError:
            return Document(fault="the XML payload is not Unicode text")
    if not isinstance(payload, bytes):
        return Document(fault="an XML payload is a string, or bytes")
    return read(payload)


def read(source: bytes) -> Document:
    """Read a document from UTF-8. Whatever is wrong with it stands in `fault`."""
    from lxml import etree

    if _DOCTYPE.match(source):
        return Document(fault="the XML payload declares a document type, which is not allowed")
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(source, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        return Document(fault=f"the XML payload is not well-formed: {str(error)[:200]}")
    return _flat(root)


def _flat(root: Any) -> Document:
    """The tree as arrays, if it is within the limits."""
    from lxml import etree

    labels: list[str] = []
    parents: list[int] = []
    begins: list[int] = []
    ends: list[int] = []
    attributes: dict[int, dict[str, str]] = {}
    pieces: list[str] = []
    length = 0
    path = [-1]  # the elements that are open, and the document itself
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            label = element.tag
            if not isinstance(label, str):
                return Document(fault="the XML payload refers to an entity, which is not allowed")
            if len(path) > DEPTH_MAX or len(labels) >= ELEMENTS_MAX:
                return Document(fault=f"the XML payload has more than {DEPTH_MAX} levels or {ELEMENTS_MAX} elements")
            if len(element.attrib) > ATTRIBUTES_MAX:
                return Document(fault=f"an element of the XML payload has more than {ATTRIBUTES_MAX} attributes")
            number, piece = len(labels), element.text
            labels.append(label)
            parents.append(path[-1])
            begins.append(length)
            ends.append(length)
            if element.attrib:
                attributes[number] = {f"@{name}": value for name, value in element.attrib.items()}
            path.append(number)
        else:
            ends[path.pop()] = length
            piece = element.tail
        if piece:
            pieces.append(piece)
            length += len(piece)
    names = {*labels, *(name for each in attributes.values() for name in each)}
    return Document(
        tuple(labels), tuple(parents), "".join(pieces), tuple(begins), tuple(ends), attributes, frozenset(names)
    )
