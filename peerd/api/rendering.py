"""Deliveries as documents. The body of an event is decoded here, once for each reader that gets it."""

from binascii import b2a_base64
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from peerd.api.bodies import encode
from peerd.documents import Delivery, time_text
from peerd.service.deliveries import Reader, Retained
from protocols.model.event import decode_body
from protocols.model.ids import split_event_id


def document(reader: Reader, subscription_id: str, item: Retained) -> Delivery:
    body = decode_body(item.body)
    publisher, boot, sequence = _origin(item.event_id)
    payload: Any = body.payload
    raw: str | UnsetType = UNSET
    if isinstance(payload, bytes):
        payload, raw = None, b2a_base64(payload, newline=False).decode()
    elif isinstance(payload, (dict, list)) or not isinstance(payload, (str, int, float, type(None))):
        payload = _plain(payload)
    return Delivery(
        reader.cursor_of(item),
        item.event_id,
        subscription_id,
        body.attributes,
        payload,
        body.content_type or None,
        body.headers,
        time_text(body.published_us),
        time_text(item.delivered_us),
        item.hops,
        publisher,
        boot,
        sequence,
        raw,
    )


def _origin(event_id: str) -> tuple[str, int, int]:
    try:
        return split_event_id(event_id)
    except ValueError:  # made up by a remote peer
        return event_id, 0, 0


def _plain(payload: Any) -> Any:
    """A payload as JSON can say it. What a remote peer may have put into MessagePack beyond that becomes null."""
    try:
        return msgspec.Raw(encode(payload))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
