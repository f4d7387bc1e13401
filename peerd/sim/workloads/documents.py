"""XML documents and tree patterns, drawn from a description (paper 2, section 5).

Documents grow from the root: every child that may be there is, with a probability that falls with its rank; down to
`depth_max` levels. Patterns are paths drawn from the same description: at each step a child is chosen by Zipf's law
over the ranks, and the step may become `*`, its edge `//`, may get a branch of its own, or, at a leaf, a value.

The paper does not describe its generator. The defaults are chosen so that three peers in four do not want a document,
as it says of its own ("on average, and independently of the consumer population, the percentage of uninterested peers
in the system is 75 %").
"""

from dataclasses import dataclass
from random import Random
from typing import ClassVar
from xml.sax.saxutils import quoteattr

from peerd.sim.workloads.dtd import Dtd, Element
from peerd.sim.workloads.workload import Document, Interest
from peerd.sim.workloads.zipf import zipf
from protocols.model.schema import Schema
from protocols.model.xpath.parse import canonical

SCHEMA = Schema.from_toml('[attributes.type]\ntype = "string"\n')
"""Documents have one attribute beside, the name of their description; no interest asks for it."""


@dataclass(frozen=True)
class Documents:
    PARAMETERS: ClassVar[tuple[str, ...]] = (
        "depth_max",
        "presence",
        "repeat",
        "steps_max",
        "alpha",
        "star",
        "descendant",
        "branch",
        "value",
    )

    name: str
    dtd: Dtd
    depth_max: int = 6
    presence: float = 0.6
    """The probability that the first optional child of an element is there; the next ones are a little rarer each."""
    repeat: float = 0.6
    """The probability of one more where there may be any number."""
    steps_max: int = 5
    alpha: float = 1.0
    star: float = 0.1
    descendant: float = 0.1
    branch: float = 0.1
    value: float = 0.2

    @property
    def schema(self) -> Schema:
        return SCHEMA

    def subscriptions(self, rng: Random, count: int) -> list[Interest]:
        """`count` interests, in the order in which they should join."""
        return [self.interest(self._pattern(rng)) for _ in range(count)]

    def interest(self, xpath: str) -> Interest:
        return Interest(xpath, (SCHEMA.space.unbounded,), canonical(xpath))

    def documents(self, rng: Random, count: int) -> list[Document]:
        return [Document(self._element(rng, self.dtd.root, 1), {"type": self.name}) for _ in range(count)]

    # --- documents ----------------------------------------------------------------------------------------------------

    def _element(self, rng: Random, name: str, depth: int) -> str:
        element = self.dtd.elements[name]
        start = name
        for key, values in element.attributes:
            if rng.random() < self.presence:
                start += f" {key}={quoteattr(values[zipf(len(values), 1.0).draw(rng)])}"
        inner = self._text(rng, element)
        if depth < self.depth_max:
            for rank, part in enumerate(element.children):
                inner += "".join(
                    self._element(rng, part.name, depth + 1) for _ in range(self._count(rng, part.occurs, rank))
                )
        return f"<{start}>{inner}</{name}>" if inner else f"<{start}/>"

    def _text(self, rng: Random, element: Element) -> str:
        return element.values[zipf(len(element.values), 1.0).draw(rng)] if element.values else ""

    def _count(self, rng: Random, occurs: str, rank: int) -> int:
        count = 1
        if occurs in ("?", "*"):
            count = int(rng.random() < self.presence * 0.93**rank)
        while count and occurs in ("*", "+") and rng.random() < self.repeat:
            count += 1
        return count

    # --- patterns -----------------------------------------------------------------------------------------------------

    def _pattern(self, rng: Random) -> str:
        steps = rng.randint(1, self.steps_max)
        xpath, element = "/" + self.dtd.root, self.dtd.elements[self.dtd.root]
        for _ in range(steps):
            if not element.children:
                break
            axis = "//" if rng.random() < self.descendant else "/"
            if axis == "//":
                element = self._skip(rng, element)
            if rng.random() < self.branch and len(element.children) > 1:
                xpath += f"[{self._child(rng, element).name}]"
            element = self._child(rng, element)
            xpath += axis + ("*" if rng.random() < self.star else element.name)
        return xpath + self._condition(rng, element)

    def _skip(self, rng: Random, element: Element) -> Element:
        """Where a descendant edge leads: perhaps a level further down."""
        child = self._child(rng, element)
        return child if child.children and rng.random() < 0.5 else element

    def _child(self, rng: Random, element: Element) -> Element:
        rank = zipf(len(element.children), self.alpha).draw(rng)
        return self.dtd.elements[element.children[rank].name]

    def _condition(self, rng: Random, element: Element) -> str:
        if rng.random() >= self.value:
            return ""
        if element.values:
            return f"[.='{element.values[zipf(len(element.values), 1.0).draw(rng)]}']"
        if element.attributes:
            key, values = rng.choice(element.attributes)
            return f"[@{key}='{rng.choice(values)}']"
        return ""
