"""Events as a client writes them: one at a time, or many as lines of JSON in few requests.

Each has an id, so that one whose answer was lost can be sent again without being published twice.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec

from peerd import documents
from peerd.documents import NewEvent

BATCH_EVENTS: Final = 500
BATCH_BYTES: Final = 512 * 1024
"""Events in one request. A guess: some 10 ms of the peer's time."""

T = TypeVar("T")

encode: Final = msgspec.json.Encoder().encode


def new_event(
    attributes: Mapping[str, documents.Scalar],
    *,
    payload: Any = None,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    ttl_s: float | None = None,
    id: str | None = None,
) -> NewEvent:
    """An event to publish. A payload of bytes travels as such."""
    raw = None
    if isinstance(payload, (bytes, bytearray, memoryview)):
        payload, raw = None, msgspec.to_builtins(bytes(payload))
    return NewEvent(dict(attributes), id, payload, raw, content_type, dict(headers or {}), ttl_s)


async def batches(
    events: Iterable[NewEvent | Mapping[str, Any]] | AsyncIterable[NewEvent | Mapping[str, Any]],
) -> AsyncIterator[list[bytes]]:
    """The events as lines of JSON, each with an id, in batches of a sensible size."""
    lines: list[bytes] = []
    size = 0
    async for event in _each(events):
        line = _line(event)
        if lines and (len(lines) >= BATCH_EVENTS or size + len(line) > BATCH_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


async def _each(events: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    else:
        for event in events:
            yield event


def _line(event: NewEvent | Mapping[str, Any]) -> bytes:
    if isinstance(event, NewEvent):
        return encode(event if event.id is not None else msgspec.structs.replace(event, id=uuid4().hex))
    return encode({"id": uuid4().hex, **event})
