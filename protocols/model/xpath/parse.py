"""From the text of an XPath interest to a pattern.

    path      = ("/" | "//") step {("/" | "//") step}
    step      = ("*" | NAME) {"[" condition {"and" condition} "]"}
    condition = ["." "/" | ".//"] step {("/" | "//") step} ["/" last] ["=" LITERAL] | last ["=" LITERAL]
    last      = "@" NAME | "text()" | "."

A path may end in `/@name`. `text()` and `.` stand only before `=`; both mean the text of the element as a whole (for an
element without children they are the same in XPath too). Everything else that XPath has (axes by name, functions,
numbers, `or`, positions, prefixes) is refused with its position: containment of two interests could not be decided.

`XPathError` is a `FilterError`: to a subscriber, an XPath interest is a filter in another language.
"""

import re
from functools import lru_cache
from typing import Final

from protocols.model.filter import FilterError
from protocols.model.xpath.normal import normalised
from protocols.model.xpath.pattern import ANY, CHILD, DESCENDANT, NODES_MAX, PATTERN_MAX, Axis, Node, text

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<axis>//|/)|(?P<self>\.//|\./|\.(?!\.))|(?P<text>text\(\s*\))|(?P<name>@?[^\W\d][\w.-]*)"""
    r"""|(?P<star>\*)|(?P<literal>'[^']*'|"[^"]*")|(?P<mark>[\[\]=]))\s*"""
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""No character: such a text could not be sent to anybody."""
_END: Final = ("end", "")


class XPathError(FilterError):
    """An XPath interest that cannot be used."""


@lru_cache(maxsize=4096)
def parse(source: str) -> Node:
    """The normalised pattern behind the text; `XPathError` if there is none."""
    if len(source) > PATTERN_MAX:
        raise XPathError(f"longer than {PATTERN_MAX} characters", PATTERN_MAX)
    if (alone := _SURROGATE.search(source)) is not None:
        raise XPathError("not Unicode text: half of a surrogate pair", alone.start())
    reader = _Reader(source)
    axis = reader.axis()
    if axis is None:
        raise reader.wrong("an XPath interest begins with / or //")
    pattern = reader.path(axis)
    if reader.kind != "end":
        raise reader.wrong("only steps, predicates and equality with a literal are understood")
    pattern = normalised(pattern)
    if len(text(pattern)) > PATTERN_MAX:
        raise XPathError(f"longer than {PATTERN_MAX} characters when written out", 0)
    return pattern


class _Reader:
    """Reads tokens, one ahead. `kind` and `token` are the next one."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._steps = 0
        self.at = 0
        self.kind, self.token = _END
        self._advance()

    def wrong(self, reason: str) -> XPathError:
        return XPathError(reason, self.at)

    def _advance(self) -> str:
        """Step over the next token, and say which it was."""
        former = self.token
        self.at = self._position
        if self._position == len(self._source):
            self.kind, self.token = _END
            return former
        found = _TOKEN.match(self._source, self._position)
        if found is None:
            raise self.wrong(f"unexpected {self._source[self._position]!r}")
        self.kind = str(found.lastgroup)
        self.token = found[self.kind]
        self.at = found.start(self.kind)
        self._position = found.end()
        return former

    def _expect(self, mark: str) -> None:
        if self.token != mark or self.kind != "mark":
            raise self.wrong(f"expected {mark}")
        self._advance()

    def axis(self) -> Axis | None:
        if self.kind != "axis":
            return None
        return DESCENDANT if self._advance() == "//" else CHILD

    def path(self, axis: Axis) -> Node:
        """A step with everything after it, hung below."""
        self._steps += 1
        if self._steps > NODES_MAX:  # before the next one is read: predicates within predicates are calls within calls
            raise XPathError(f"a pattern has at most {NODES_MAX} steps", 0)
        label = self._label(axis)
        if label.startswith("@"):
            return Node(label, axis, self._equality())
        branches, value = self._predicates()
        if (following := self.axis()) is not None:
            if self.kind == "text":
                value = self._both(value, self._text(following))
            else:
                branches.append(self.path(following))
        elif self.token == "=" and self.kind == "mark":
            value = self._both(value, self._equality())
        return Node(label, axis, value, tuple(branches))

    def _label(self, axis: Axis) -> str:
        if self.kind == "star":
            self._advance()
            return ANY
        if self.kind != "name":
            raise self.wrong("expected the name of an element, or *")
        if self.token.startswith("@") and axis == DESCENDANT:
            raise self.wrong("write //*[@name] for an attribute anywhere")
        return self._advance()

    def _text(self, axis: Axis) -> str | None:
        if axis == DESCENDANT:
            raise self.wrong("text() may only follow a single /")
        self._advance()
        if self.token != "=":
            raise self.wrong("text() has to be compared with a literal")
        return self._equality()

    def _equality(self) -> str | None:
        if self.kind != "mark" or self.token != "=":
            return None
        self._advance()
        if self.kind != "literal":
            raise self.wrong("expected a literal in quotes")
        return self._advance()[1:-1]

    def _both(self, value: str | None, other: str | None) -> str | None:
        if value is not None and other is not None and value != other:
            raise self.wrong("nothing can match this: two different texts for one element")
        return other if value is None else value

    def _predicates(self) -> tuple[list[Node], str | None]:
        branches: list[Node] = []
        value: str | None = None
        while self.token == "[" and self.kind == "mark":
            self._advance()
            while True:
                found = self._condition()
                if isinstance(found, Node):
                    branches.append(found)
                else:
                    value = self._both(value, found)
                if self.kind != "name" or self.token != "and":
                    break
                self._advance()
            self._expect("]")
        _refuse_contradiction(branches, self)
        return branches, value

    def _condition(self) -> Node | str:
        """A branch, or the text that the element itself must have."""
        if self.kind == "text" or (self.kind == "self" and self.token == "."):
            self._advance()
            value = self._equality()
            if value is None:
                raise self.wrong("expected = and a literal")
            return value
        if self.kind == "self":
            return self.path(DESCENDANT if self._advance() == ".//" else CHILD)
        if self.kind == "axis":
            raise self.wrong("a condition is relative: write .// for a descendant")
        return self.path(CHILD)


def _refuse_contradiction(branches: list[Node], reader: _Reader) -> None:
    values: dict[str, str] = {}
    for each in branches:
        if each.is_attribute and each.value is not None and values.setdefault(each.label, each.value) != each.value:
            raise reader.wrong(f"nothing can match this: two different values of {each.label}")


def canonical(source: str) -> str:
    """The canonical text of an XPath interest."""
    return text(parse(source))
