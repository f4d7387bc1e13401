"""Events: what is published, routed and delivered.

An event is split by who reads it. Every hop reads the head: id, where it falls, how long it lives. Only the edge that
delivers it reads the body, so the body travels as one opaque string of bytes and a relay never decodes it.
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from protocols.model.bounds import BODY_BYTES_MAX, EVENT_ATTRIBUTES_MAX, INT_MAX, Count, Finite, Text
from protocols.model.box import Point
from protocols.model.ids import EventId

Scalar: TypeAlias = Text | int | Finite | bool
Attributes: TypeAlias = Annotated[dict[Text, Scalar], msgspec.Meta(max_length=EVENT_ATTRIBUTES_MAX)]

LIFETIME_MS: Final = 60_000
"""How long an event lives (specification, section 1). Its id is remembered twice as long."""

Lifetime: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LIFETIME_MS)]
"""An event that outlived the memory of its id would be taken for a new one."""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    id: EventId
    point: Point
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)] = b""
    ttl_ms: Lifetime = LIFETIME_MS


class Body(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the application sees of an event. `payload` is any JSON value, or raw bytes."""

    attributes: Attributes
    published_us: Count
    payload: Any = None
    content_type: Text = ""
    headers: dict[str, str] = {}


class Copy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One copy of an event on its way: how many hops it has made, and how long it was held at them in all."""

    event: Event
    hops: Count = 0
    age_ms: Count = 0


_encoder = msgspec.msgpack.Encoder()
_body_decoder = msgspec.msgpack.Decoder(Body)


def encode_body(body: Body) -> bytes:
    return _encoder.encode(body)


def decode_body(raw: bytes) -> Body:
    """The body of an event; `msgspec.DecodeError` (or its child `ValidationError`) if a remote peer sent nonsense."""
    try:
        return _body_decoder.decode(raw)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError("text is not UTF-8") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def onward(copy: Copy, held_ms: int = 0) -> Copy:
    """The copy that leaves a participant which held this one for `held_ms`."""
    hops = copy.hops + 1 if copy.hops < INT_MAX else INT_MAX  # whoever says so lies, and must not make us send nonsense
    return Copy(copy.event, hops, copy.age_ms + held_ms)


def expired(copy: Copy, held_ms: int = 0) -> bool:
    return copy.age_ms + held_ms >= copy.event.ttl_ms
