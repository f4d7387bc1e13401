"""From what an application wants, a filter or an XPath, to what a peer routes and matches by.

The longest filters take a tenth of a second and more to work out, and an event loop that is busy with one of them
delivers nothing meanwhile. A short one is compiled on the spot: to hand it to somebody else would cost more. A long one
is compiled in a thread, one at a time. Threads of one interpreter take turns, so the loop still waits for a turn
(`sys.setswitchinterval`, which the daemon sets) whenever it wakes up, but never for the whole filter.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Final, TypeAlias

from msgspec import UNSET

from peerd import registry
from peerd.documents import NewSubscription
from peerd.service.refusals import InvalidSubscription
from protocols.model.index import VECTOR_FROM
from protocols.model.lint import CompiledFilter, compile_filter
from protocols.model.schema import Schema
from protocols.model.xpath.compiled import CompiledXPath, compile_xpath
from protocols.peer import Peer

Compiled: TypeAlias = CompiledFilter | CompiledXPath

SHORT: Final = 512
"""Characters of a text that is compiled on the spot: some milliseconds at the worst."""
FEW: Final = VECTOR_FROM // 2
"""Subscriptions that a new one is compared with on the spot."""
SWITCH_S: Final = 0.001
"""How long a thread computes while the event loop waits. Python's own choice is 5 ms, which a delivery would notice."""
WARNED_MAX: Final = 20
"""Subscriptions that a new one's warnings name as containing it, at the most; other warnings are all shown. Our
choice."""

_CONTAINED: Final = "contained in subscription "
"""How such a warning begins (protocols/model/lint.py)."""


class Interests:
    """Made inside or outside of an event loop; `compile` needs one."""

    def __init__(self, peer: Peer, overlay: str) -> None:
        self._peer = peer
        self._overlay = overlay
        self._turn = asyncio.Lock()

    @property
    def takes_patterns(self) -> bool:
        return registry.kind(self._overlay).patterns

    async def compile(self, wanted: NewSubscription, others: Mapping[str, Compiled]) -> Compiled:
        """`FilterError`, `XPathError` or `InvalidSubscription` if it cannot be used. `others`: this peer's others."""
        text = wanted.xpath if wanted.filter is UNSET else wanted.filter
        if text is UNSET or (len(text) <= SHORT and len(others) <= FEW):
            return self.compile_now(wanted, others)
        async with self._turn:
            return await asyncio.to_thread(self._compile_aside, wanted, others)

    def _compile_aside(self, wanted: NewSubscription, others: Mapping[str, Compiled]) -> Compiled:
        compiled = self.compile_now(wanted, others)
        if len(compiled.boxes) + sum([len(other.boxes) for other in others.values()]) >= VECTOR_FROM // 2:
            import_module("numpy")  # the index of subscriptions is about to want it, and would load it in the loop
        return compiled

    def compile_now(self, wanted: NewSubscription, others: Mapping[str, Compiled]) -> Compiled:
        schema: Schema = self._peer.schema
        if wanted.xpath is not UNSET:
            if not self.takes_patterns:
                raise InvalidSubscription(f"the overlay {self._overlay} takes no xpath; state a filter")
            if wanted.filter is not UNSET:
                raise InvalidSubscription("a subscription has a filter or an xpath, not both")
            of_xpath = {key: each for key, each in others.items() if isinstance(each, CompiledXPath)}
            return compile_xpath(wanted.xpath, schema, of_xpath)
        if wanted.filter is UNSET:
            raise InvalidSubscription("a subscription needs a filter")
        of_filters = {key: each for key, each in others.items() if isinstance(each, CompiledFilter)}
        return compile_filter(wanted.filter, schema, of_filters)


def texts(compiled: Compiled) -> dict[str, str]:
    """What a record says of a subscription's language: a filter, or XPath."""
    if isinstance(compiled, CompiledXPath):
        return {"filter": "", "xpath": compiled.text}
    return {"filter": compiled.text, "xpath": ""}


def pattern_of(compiled: Compiled) -> str:
    return compiled.pattern if isinstance(compiled, CompiledXPath) else ""


def is_the_same(compiled: Compiled, wanted: NewSubscription) -> bool:
    """Whether this is what is wanted already."""
    if isinstance(compiled, CompiledXPath):
        return wanted.xpath == compiled.text and wanted.filter is UNSET
    return wanted.filter == compiled.text and wanted.xpath is UNSET


def shown_warnings(compiled: Compiled) -> list[str]:
    """All warnings but those beyond measure, one for each subscription that contains this one."""
    containing = [line for line in compiled.warnings if line.startswith(_CONTAINED)]
    return [line for line in compiled.warnings if not line.startswith(_CONTAINED)] + containing[:WARNED_MAX]
