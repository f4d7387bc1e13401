"""The JSON documents of the HTTP API: what is taken and what is answered, as types.

Service, API and client share them, and the OpenAPI description is made from them, so none of the four can drift away
from the others. Fields, once published, stay; unknown ones are ignored. Times are RFC 3339 in UTC with microseconds.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from protocols.model.bounds import EVENT_ATTRIBUTES_MAX, TEXT_MAX
from protocols.model.event import LIFETIME_MS
from protocols.model.schema import Attribute

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_US: Final = 253_402_300_799_999_999  # the last microsecond of the year 9999, which RFC 3339 ends with

Time: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time as others write it: in any zone, with any fraction."""
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)]
ShortText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
Scalar: TypeAlias = str | int | float | bool | None
Description: TypeAlias = dict[str, dict[str, str | int | float | bool]]
"""A box: `{"price": {"ge": 8.31, "le": 8.69}}`."""

RETAIN_S_MAX: Final = 86_400
RETAIN_MAX_MAX: Final = 100_000
IDLE_S_MAX: Final = 366 * 86_400
"""Bounds of what a subscriber may ask for. Our choice; memory for deliveries is bounded apart from them."""
HEADERS_MAX: Final = 64
"""Headers of an event. Our choice: twice its attributes."""

RetainS: TypeAlias = Annotated[float, Meta(ge=0, le=RETAIN_S_MAX)]
RetainMax: TypeAlias = Annotated[int, Meta(ge=1, le=RETAIN_MAX_MAX)]
IdleS: TypeAlias = Annotated[float, Meta(ge=1, le=IDLE_S_MAX)]
TtlS: TypeAlias = Annotated[float, Meta(gt=0, le=LIFETIME_MS / 1000)]


def time_text(us: int) -> str:
    """A time in microseconds since 1970 as the API writes it."""
    moment = _EPOCH + timedelta(microseconds=min(max(us, 0), _LATEST_US))
    return moment.isoformat(timespec="microseconds")[:-6] + "Z"


# --- Subscriptions ----------------------------------------------------------------------------------------------------


class NewSubscription(Struct, frozen=True):
    """A subscription as its owner asks for it.

    A filter, or where the overlay takes it XPath, is stated always, also to change one of the others: these, left out,
    are as the contract says for a new subscription, and stay as they were for one that is there.
    """

    filter: str | UnsetType = UNSET
    xpath: str | UnsetType = UNSET
    retain_s: RetainS | UnsetType = UNSET
    retain_max: RetainMax | UnsetType = UNSET
    idle_s: IdleS | UnsetType | None = UNSET


class Subscription(Struct, frozen=True):
    id: str
    filter: str
    state: Literal["joining", "active"]
    boxes: list[Description]
    warnings: list[str]
    retain_s: float
    retain_max: int
    idle_s: float | None
    retained: int
    """Deliveries that are kept."""
    oldest: str
    """The cursor that all of them come after."""
    cursor: str
    """The cursor of the latest."""
    readers: int
    created_at: Time
    xpath: str | UnsetType = UNSET
    """Instead of a filter, which is empty then."""


class Subscriptions(Struct, frozen=True):
    subscriptions: list[Subscription]


# --- Events -----------------------------------------------------------------------------------------------------------


class NewEvent(Struct, frozen=True, omit_defaults=True):
    """An event as its publisher hands it in."""

    attributes: Annotated[dict[str, Scalar], Meta(max_length=EVENT_ATTRIBUTES_MAX)]
    id: ShortText | None = None
    payload: Any = None
    payload_base64: str | None = None
    content_type: Text | None = None
    headers: Annotated[dict[ShortText, Text], Meta(max_length=HEADERS_MAX)] = {}
    ttl_s: TtlS | None = None


class Accepted(Struct, frozen=True):
    id: str


class BatchAccepted(Struct, frozen=True):
    accepted: int
    ids: list[str]


class CloudEvent(Struct, frozen=True):
    """What every CloudEvent has; it may have extensions beside these."""

    specversion: Literal["1.0"]
    id: ShortText
    source: Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
    type: ShortText
    data: Any = UNSET
    data_base64: str | UnsetType = UNSET
    datacontenttype: Text | UnsetType | None = UNSET
    dataschema: Text | UnsetType | None = UNSET
    subject: Text | UnsetType | None = UNSET
    time: Moment | UnsetType | None = UNSET


# --- Deliveries -------------------------------------------------------------------------------------------------------


class Delivery(Struct, frozen=True):
    cursor: str
    event_id: str
    subscription_id: str
    attributes: dict[str, str | int | float | bool]
    payload: Any
    content_type: str | None
    headers: dict[str, str]
    published_at: Time
    delivered_at: Time
    hops: int
    publisher: str
    boot: int
    """The publisher's life; `sequence` starts anew with each."""
    sequence: int
    payload_base64: str | UnsetType = UNSET
    """Instead of `payload`, which is null then, if the payload is raw bytes."""


class Deliveries(Struct, frozen=True):
    deliveries: list[Delivery]
    cursor: str


class Gap(Struct, frozen=True):
    """Deliveries that the reader has missed; null if nobody can say how many."""

    lost: int | None


# --- The peer ---------------------------------------------------------------------------------------------------------


class Schema(Struct, frozen=True):
    attributes: list[Attribute]


class SchemaShown(Struct, frozen=True):
    version: int
    attributes: list[Attribute]


class NewAttributes(Struct, frozen=True):
    """Attributes to append: a list, or a table by name as in the schema file."""

    attributes: list[dict[str, Any]] | dict[str, dict[str, Any]]


class Participant(Struct, frozen=True):
    slot: int
    box: Description


class PeerShown(Struct, frozen=True):
    id: str
    name: str
    swarm: str
    overlay: str
    parameters: dict[str, Any]
    schema: Schema
    schema_version: int
    listen: str
    http: str
    version: str
    uptime_s: float
    ready: bool
    settled_ms: int
    participants: list[Participant]
    boot: int


class LinkShown(Struct, frozen=True):
    slot: int
    """The own participant that has the link."""
    peer: str
    boot: int
    to_slot: int
    at: str


class Links(Struct, frozen=True):
    peer: str
    links: dict[str, list[LinkShown]]


class TopologyNode(Struct, frozen=True):
    id: str
    name: str
    boot: int
    at: str
    answered: bool


class TopologyLink(Struct, frozen=True):
    source: str
    source_slot: int
    target: str
    target_slot: int
    kind: str


class Topology(Struct, frozen=True):
    nodes: list[TopologyNode]
    links: list[TopologyLink]
    complete: bool
    """Whether everybody who was found has answered, and nobody was left out."""


class Health(Struct, frozen=True):
    status: Literal["ok"]


class Readiness(Struct, frozen=True):
    ready: Literal[True]


# --- Problems ---------------------------------------------------------------------------------------------------------


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    position: int | None = None
    """Zero-based code point in the filter."""
    line: int | None = None
    """The line of an NDJSON body that was refused, counted from 1."""
    accepted: int | None = None
    ids: list[str] | None = None
    """The events before that line."""
    oldest: str | None = None
    """The cursor that everything which is still kept comes after."""
    retry_after: float | None = None
    """Seconds, as in the header `Retry-After`, which has whole ones."""

    @property
    def slug(self) -> str:
        return self.type.rpartition(":")[2]


# --- WebSocket --------------------------------------------------------------------------------------------------------

Ref: TypeAlias = str | int | None


class WsSubscribe(Struct, frozen=True, tag_field="op", tag="subscribe"):
    """A filter of its own, which ends with the connection, or an existing subscription by its id."""

    ref: Ref = None
    filter: str | UnsetType = UNSET
    xpath: str | UnsetType = UNSET
    subscription_id: str | None = None
    after: str | None = None
    retain_s: RetainS | UnsetType = UNSET
    retain_max: RetainMax | UnsetType = UNSET
    wait: Annotated[float, Meta(ge=0, le=60)] = 10.0


class WsUnsubscribe(Struct, frozen=True, tag_field="op", tag="unsubscribe"):
    subscription_id: str
    ref: Ref = None


class WsPublish(Struct, frozen=True, tag_field="op", tag="publish"):
    event: NewEvent
    ref: Ref = None


WsRequest: TypeAlias = WsSubscribe | WsUnsubscribe | WsPublish


class WsOk(Struct, frozen=True, tag_field="op", tag="ok", omit_defaults=True):
    ref: Ref
    id: str | None = None
    """The event that was published."""
    subscription_id: str | None = None
    subscription: Subscription | None = None


class WsError(Struct, frozen=True, tag_field="op", tag="error"):
    ref: Ref
    problem: Problem


class WsDelivery(Struct, frozen=True, tag_field="op", tag="delivery"):
    subscription_id: str
    delivery: Delivery


class WsGap(Struct, frozen=True, tag_field="op", tag="gap"):
    subscription_id: str
    lost: int | None
