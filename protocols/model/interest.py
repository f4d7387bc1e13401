"""Interests: what a participant routes by, in either of the two languages.

An interest is a box and, where an overlay takes them (`Kind.patterns`), perhaps an XPath pattern that the event's XML
document has to match as well. A subscription in the filter language has boxes and no pattern; one in XPath has the
unbounded box and a pattern. What encloses both has a box and no pattern: interests, like boxes, only ever err outward.

The pattern travels as its canonical text; empty is none. A text that is no pattern, which only a remote peer that does
not validate can send, is found out by `is_sound`, and nothing else here may be asked about it.
"""

from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec

from protocols.model import box as boxes
from protocols.model.box import EMPTY, Box
from protocols.model.event import Event
from protocols.model.xpath import contain
from protocols.model.xpath.document import MATCHING_MAX, Document, document_of
from protocols.model.xpath.embed import Test, matcher
from protocols.model.xpath.normal import joined
from protocols.model.xpath.parse import XPathError, parse
from protocols.model.xpath.pattern import PATTERN_MAX, text

PatternText: TypeAlias = Annotated[str, msgspec.Meta(max_length=PATTERN_MAX)]


class Interest(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    box: Box = EMPTY
    pattern: PatternText = ""


NOTHING = Interest()
"""Of a participant without a subscription."""


def is_empty(interest: Interest) -> bool:
    return boxes.is_empty(interest.box)


def is_sound(interest: Interest) -> bool:
    """Whether the pattern is one, in its canonical text."""
    return not interest.pattern or _is_canonical(interest.pattern)


@lru_cache(maxsize=4096)
def _is_canonical(pattern: str) -> bool:
    try:
        return text(parse(pattern)) == pattern
    except XPathError:
        return False


@lru_cache(maxsize=4096)
def pattern_test(pattern: str) -> Test:
    """The test behind a pattern's canonical text."""
    return matcher(parse(pattern))


def matches_document(pattern: str, document: Document | None) -> bool:
    """Whether a document matches; the answer is kept with it, for whoever asks next."""
    if document is None or document.fault:
        return False
    found = document.matching.get(pattern)
    if found is None:
        found = pattern_test(pattern)(document)
        if len(document.matching) < MATCHING_MAX:
            document.matching[pattern] = found
    return found


def matches(interest: Interest, event: Event) -> bool:
    """Whether an event is of interest."""
    if not boxes.match(interest.box, event.point):
        return False
    return not interest.pattern or matches_document(interest.pattern, document_of(event.body))


def contains(outer: Interest, inner: Interest) -> bool:
    """Whether all that is of interest to `inner` is so to `outer`. Never wrongly True."""
    if not boxes.contains(outer.box, inner.box):
        return False
    if not outer.pattern or outer.pattern == inner.pattern or is_empty(inner):
        return True
    return bool(inner.pattern) and _pattern_contains(outer.pattern, inner.pattern)


@lru_cache(maxsize=1 << 16)
def _pattern_contains(outer: str, inner: str) -> bool:
    return contain.contains(parse(outer), parse(inner))


def equivalent(a: Interest, b: Interest) -> bool:
    return a == b or (contains(a, b) and contains(b, a))


def intersects(a: Interest, b: Interest) -> bool:
    """Whether an event may be of interest to both; of two patterns that is always supposed."""
    return boxes.intersects(a.box, b.box)


def enclosing(a: Interest, b: Interest) -> Interest:
    """An interest that contains both."""
    if is_empty(a):
        return b
    if is_empty(b):
        return a
    box = boxes.enclosing(a.box, b.box)
    if not a.pattern or not b.pattern:
        return Interest(box)
    if a.pattern == b.pattern:
        return Interest(box, a.pattern)
    return Interest(box, text(joined(parse(a.pattern), parse(b.pattern))))


def intersection(a: Interest, b: Interest) -> Interest:
    """An interest that both contain: all that they share, or (of two patterns, neither within the other) nothing."""
    box = boxes.intersection(a.box, b.box)
    if not a.pattern or not b.pattern or a.pattern == b.pattern:
        return Interest(box, a.pattern or b.pattern) if not boxes.is_empty(box) else NOTHING
    if _pattern_contains(a.pattern, b.pattern):
        return Interest(box, b.pattern)
    return Interest(box, a.pattern) if _pattern_contains(b.pattern, a.pattern) else NOTHING
