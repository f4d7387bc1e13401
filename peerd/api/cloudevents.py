"""CloudEvents 1.0 in the JSON format: taken as events, and deliveries written as such.

Taken: extensions, and scalar fields of an object in `data`, are attributes, as far as the schema knows them. (A field
of `data` that it does not know is still in the payload; an extension, and what the context says, goes into the headers,
as `ce-NAME`.) `data` is the payload, `datacontenttype` its content type. A repeated event is one with the same source
and id, whatever their lengths: a digest of the two is the id that the event is published under.

Written: what came as `ce-NAME` comes back under its name, unless the name is one that the format itself sets
(`specversion`, `datacontenttype`, `data`, `data_base64`) or the value one that it does not allow. `data` is the
payload; an event without one has its attributes there. Attributes that `data` does not show, under their name and with
their value, are extensions, if their name may be one: 1 to 20 of a-z and 0-9, and none of the format's own; fractions
are written as strings, for the format knows none. Our own extensions are `cursor`, `subscriptionid`, `eventid`,
`publisher`, `sequence` and `hops`. Where the publisher has an extension of such a name, that one stays and ours is left
out; the cursor to read on after is always the `id` in a stream, and `Peerd-Cursor` otherwise.
"""

from hashlib import blake2b
from re import compile as pattern
from typing import Any, Final

import msgspec

from peerd.documents import CloudEvent, Delivery, Moment, NewEvent
from protocols.model.schema import Schema

TYPE: Final = "application/cloudevents+json"
BATCH_TYPE: Final = "application/cloudevents-batch+json"

_CONTEXT: Final = ("id", "source", "type", "subject", "time", "dataschema")
_KNOWN: Final = frozenset(("specversion", "data", "data_base64", "datacontenttype", *_CONTEXT))
_PREFIX: Final = "ce-"
_INT32: Final = 2**31
_extension_name: Final = pattern(r"[a-z0-9]{1,20}").fullmatch

decoder: Final = msgspec.json.Decoder(dict[str, Any])
batch_decoder: Final = msgspec.json.Decoder(list[dict[str, Any]])


def taken(given: dict[str, Any], schema: Schema) -> NewEvent:
    """The event that a CloudEvent stands for; `msgspec.ValidationError` if it is none."""
    known = msgspec.convert(given, CloudEvent)
    headers = {_PREFIX + name: value for name in _CONTEXT if (value := given.get(name)) is not None}
    attributes: dict[str, Any] = {}
    for name, value in given.items():
        if name in _KNOWN or value is None:
            continue
        if isinstance(value, (dict, list, float)) or _extension_name(name) is None:
            raise msgspec.ValidationError(
                f"`{name[:40]}` cannot be an extension: a-z and 0-9; text, integer or boolean"
            )
        if name in schema:
            attributes[name] = value
        else:
            headers[_PREFIX + name] = _text(value)
    payload = given.get("data")
    if isinstance(payload, dict):
        attributes |= {
            name: value
            for name, value in payload.items()
            if name in schema and not isinstance(value, (dict, list)) and value is not None
        }
    document = {
        "id": _identity(known.source, known.id),
        "attributes": attributes,
        "payload": payload,
        "payload_base64": given.get("data_base64"),
        "content_type": given.get("datacontenttype"),
        "headers": headers,
    }
    return msgspec.convert(document, NewEvent)


def _identity(source: str, id_: str) -> str:
    """One name for both. MessagePack writes lengths before texts, so no two pairs are encoded alike."""
    return "cloudevent-" + blake2b(msgspec.msgpack.encode((source, id_)), digest_size=16).hexdigest()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(delivery: Delivery) -> dict[str, Any]:
    """A delivery as a CloudEvent."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": delivery.event_id,
        "source": f"urn:peerd:peer:{delivery.publisher}",
        "type": "peerd.event",
        "time": delivery.published_at,
        **_said(delivery.headers),
    }
    if delivery.content_type:
        event["datacontenttype"] = delivery.content_type
    shown: dict[str, Any] = {}
    if isinstance(delivery.payload_base64, str):
        event["data_base64"] = delivery.payload_base64
    elif delivery.payload is None:
        event["data"] = shown = delivery.attributes
    else:
        event["data"] = delivery.payload
        shown = _fields(delivery.payload)
    for name, value in delivery.attributes.items():
        if shown.get(name) != value and name not in event and _is_extension(name):
            event[name] = value if isinstance(value, (bool, str)) or _is_int32(value) else str(value)
    ours = {
        "cursor": delivery.cursor,
        "subscriptionid": delivery.subscription_id,
        "eventid": delivery.event_id,
        "publisher": delivery.publisher,
        "sequence": str(delivery.sequence),
        "hops": delivery.hops,
    }
    return ours | event


def _said(headers: dict[str, str]) -> dict[str, str]:
    """What came as `ce-NAME`, as far as the format lets a publisher say it: a plain event may have any headers."""
    said = {name.removeprefix(_PREFIX): value for name, value in headers.items() if name.startswith(_PREFIX)}
    return {
        name: value
        for name, value in said.items()
        if _is_extension(name) or (name in _CONTEXT and value and (name != "time" or _is_time(value)))
    }


def _is_extension(name: str) -> bool:
    return name not in _KNOWN and _extension_name(name) is not None


def _is_time(text: str) -> bool:
    try:
        msgspec.convert(text, Moment)
    except msgspec.ValidationError:
        return False
    return True


def _fields(payload: Any) -> dict[str, Any]:
    """The fields of an object, which a delivery has encoded; a payload of another kind has none."""
    if not isinstance(payload, msgspec.Raw):
        return {}
    try:
        found = msgspec.json.decode(payload)
    except (ValueError, RecursionError):  # of a remote peer, nested as deeply as can just be written
        return {}
    return found if isinstance(found, dict) else {}


def _is_int32(value: float) -> bool:
    return isinstance(value, int) and -_INT32 <= value < _INT32
