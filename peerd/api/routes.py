"""Every path of the API, once: the application is built from this list, and so is its OpenAPI description."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from peerd import documents
from peerd.api import cloudevents, console, events, inspection, socket, streams, subscriptions
from peerd.api.bodies import JSON

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Text: TypeAlias = str

_BODY_PROBLEMS: Final = ("not-json", "request-timeout", "body-too-large", "unsupported-media-type")


class Parameter(msgspec.Struct, frozen=True):
    name: str
    what: str
    schema: dict[str, Any]
    place: str = "query"
    required: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What is answered when all is well: content types and what they hold (None: text; several: one of them)."""

    what: str
    content: dict[str, Any] = {}
    headers: tuple[str, ...] = ()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    handler: Handler
    name: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: dict[str, Any] = {}
    answers: dict[int, Answer]
    problems: tuple[str, ...] = ()
    """Beside those that any request can meet."""
    open: bool = False
    """Needs no token."""
    head: bool = False
    """Answers HEAD as well."""


def _seconds(name: str, what: str, default: float, most: float) -> Parameter:
    return Parameter(name, what, {"type": "number", "minimum": 0, "maximum": most, "default": default})


def _count(name: str, what: str, default: int, most: int) -> Parameter:
    return Parameter(name, what, {"type": "integer", "minimum": 1, "maximum": most, "default": default})


_ID: Final = Parameter(
    "id", "The subscription.", {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$"}, "path", True
)
_WAIT: Final = _seconds(
    "wait", "How long to wait until it stands in the overlay.", subscriptions.WAIT_S, subscriptions.WAIT_S_MAX
)
_CURSOR: Final = {"type": "string", "pattern": "^[0-9a-f]{22}$"}
_SUBSCRIPTION: Final = {JSON: documents.Subscription}
_SUBSCRIPTION_PROBLEMS: Final = (
    *_BODY_PROBLEMS,
    "invalid-parameter",
    "invalid-filter",
    "invalid-subscription",
    "too-many-subscriptions",
    "unknown-subscription",
)

OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/subscriptions",
        handler=subscriptions.create,
        name="subscribe",
        summary="Subscribe. Answers when the subscription stands in the overlay, or after `wait` seconds.",
        parameters=(_WAIT,),
        body={JSON: documents.NewSubscription},
        answers={201: Answer("Subscribed.", _SUBSCRIPTION, ("Location",))},
        problems=_SUBSCRIPTION_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/subscriptions",
        handler=subscriptions.show_all,
        name="listSubscriptions",
        summary="All subscriptions of this peer.",
        answers={200: Answer("The subscriptions.", {JSON: documents.Subscriptions})},
    ),
    Operation(
        method="PUT",
        path="/v1/subscriptions/{id}",
        handler=subscriptions.put,
        name="putSubscription",
        summary="Subscribe under a name of your own, or change the filter without a gap in delivery.",
        parameters=(_ID, _WAIT),
        body={JSON: documents.NewSubscription},
        answers={
            200: Answer("Changed.", _SUBSCRIPTION),
            201: Answer("Subscribed.", _SUBSCRIPTION, ("Location",)),
        },
        problems=_SUBSCRIPTION_PROBLEMS,
    ),
    Operation(
        method="GET",
        path="/v1/subscriptions/{id}",
        handler=subscriptions.show,
        name="showSubscription",
        summary="One subscription.",
        parameters=(_ID,),
        answers={200: Answer("The subscription.", _SUBSCRIPTION)},
        problems=("unknown-subscription",),
    ),
    Operation(
        method="DELETE",
        path="/v1/subscriptions/{id}",
        handler=subscriptions.remove,
        name="unsubscribe",
        summary="Remove a subscription and its deliveries.",
        parameters=(_ID,),
        answers={204: Answer("Removed.")},
        problems=("unknown-subscription",),
    ),
    Operation(
        method="GET",
        path="/v1/subscriptions/{id}/deliveries",
        handler=streams.read,
        name="readDeliveries",
        summary="Deliveries: as server-sent events on `Accept: text/event-stream`, else as JSON with a long poll.",
        parameters=(
            _ID,
            Parameter("after", "Read what follows this cursor; without it, all that is kept.", _CURSOR),
            _count("limit", "Deliveries at the most (not for a stream).", streams.LIMIT, streams.LIMIT_MAX),
            _seconds("wait", "How long to wait for one (not for a stream).", 0, streams.WAIT_S_MAX),
            Parameter("Last-Event-ID", "The same as `after`, for a stream.", _CURSOR, "header"),
        ),
        answers={
            200: Answer(
                "Deliveries. In a stream each has its cursor as `id`, and `event: gap` tells of those that were lost. "
                "A CloudEvent has the extensions `cursor`, `subscriptionid`, `eventid`, `publisher`, `sequence` and "
                "`hops`, except those that its publisher has given it already.",
                {
                    JSON: documents.Deliveries,
                    streams.SSE: None,
                    cloudevents.BATCH_TYPE: list[dict[str, Any]],
                },
                (streams.CURSOR_HEADER,),
            )
        },
        problems=(
            "unknown-subscription",
            "cursor-expired",
            "invalid-cursor",
            "invalid-parameter",
            "too-many-streams",
            "shutting-down",
        ),
    ),
    Operation(
        method="POST",
        path="/v1/events",
        handler=events.publish,
        name="publish",
        summary="Publish an event, or lines of events. A batch stops at the first that is refused.",
        body={
            JSON: documents.NewEvent,
            events.NDJSON: None,
            cloudevents.TYPE: documents.CloudEvent,
            cloudevents.BATCH_TYPE: list[documents.CloudEvent],
        },
        answers={
            200: Answer("The `id` was known: the answer of then, nothing was published.", {JSON: documents.Accepted}),
            202: Answer("Published.", {JSON: (documents.Accepted, documents.BatchAccepted)}),
        },
        problems=(*_BODY_PROBLEMS, "invalid-event", "event-too-large", "pushed-back"),
    ),
    Operation(
        method="GET",
        path="/v1/ws",
        handler=socket.connect,
        name="connect",
        summary="A WebSocket for subscriptions, deliveries and events together; see the schemas `Ws…`.",
        answers={101: Answer("Connected.")},
        problems=("upgrade-required", "too-many-streams", "shutting-down"),
    ),
    Operation(
        method="GET",
        path="/v1/peer",
        handler=inspection.peer,
        name="showPeer",
        summary="This peer.",
        answers={200: Answer("The peer.", {JSON: documents.PeerShown})},
    ),
    Operation(
        method="GET",
        path="/v1/links",
        handler=inspection.links,
        name="showLinks",
        summary="This peer's links, by kind.",
        answers={200: Answer("The links.", {JSON: documents.Links})},
    ),
    Operation(
        method="GET",
        path="/v1/topology",
        handler=inspection.topology,
        name="showTopology",
        summary="The overlay, found by asking from peer to peer for at most 5 s.",
        parameters=(_count("limit", "Peers at the most.", inspection.TOPOLOGY_LIMIT, inspection.TOPOLOGY_LIMIT_MAX),),
        answers={200: Answer("Nodes and links.", {JSON: documents.Topology})},
        problems=("invalid-parameter", "too-many-streams", "shutting-down"),
    ),
    Operation(
        method="GET",
        path="/v1/schema",
        handler=inspection.schema,
        name="showSchema",
        summary="The swarm's schema.",
        answers={200: Answer("The schema.", {JSON: documents.SchemaShown})},
    ),
    Operation(
        method="POST",
        path="/v1/schema",
        handler=inspection.append_schema,
        name="appendSchema",
        summary="Append attributes to the swarm's schema.",
        body={JSON: documents.NewAttributes},
        answers={200: Answer("The schema as it is now.", {JSON: documents.SchemaShown})},
        problems=(*_BODY_PROBLEMS, "invalid-schema"),
    ),
    Operation(
        method="GET",
        path="/healthz",
        handler=inspection.health,
        name="health",
        summary="Whether the process lives.",
        answers={200: Answer("It does.", {JSON: documents.Health})},
        open=True,
        head=True,
    ),
    Operation(
        method="GET",
        path="/readyz",
        handler=inspection.readiness,
        name="readiness",
        summary="Whether the peer stands in the overlay.",
        answers={200: Answer("It does.", {JSON: documents.Readiness})},
        open=True,
        head=True,
    ),
    Operation(
        method="GET",
        path="/metrics",
        handler=inspection.metrics,
        name="metrics",
        summary="Metrics for Prometheus.",
        answers={200: Answer("Metrics.", {"text/plain": None, "application/openmetrics-text": None})},
    ),
    Operation(
        method="GET",
        path="/",
        handler=console.show,
        name="console",
        summary="The console, a page for people; it needs no token and asks for one.",
        answers={200: Answer("The page.", {"text/html": None})},
        open=True,
        head=True,
    ),
)

EVERYWHERE: Final = (
    "bad-request",
    "unauthorized",
    "foreign-host",
    "foreign-origin",
    "expectation-failed",
    "too-many-requests",
    "internal",
    "not-joined",
    "too-many-connections",
)
"""Problems that any request can meet."""

SPOKEN: Final = (
    documents.Problem,
    documents.Delivery,
    documents.Gap,
    documents.WsSubscribe,
    documents.WsUnsubscribe,
    documents.WsPublish,
    documents.WsOk,
    documents.WsError,
    documents.WsDelivery,
    documents.WsGap,
)
"""Types that no operation names but streams and WebSockets carry."""
