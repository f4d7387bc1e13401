"""Problems: every answer that is not the one hoped for, as RFC 9457 wants it.

`PROBLEMS` is the one list of them; `docs/problems.md` is made from it. A problem's type is `urn:peerd:problem:SLUG`; a
slug, once published, keeps its meaning and its status. Handlers raise `ApiProblem`, or let the errors of the service
pass, which `as_problem` translates.
"""

from math import ceil
from typing import Any, Final, NamedTuple

import msgspec
from aiohttp import hdrs, web

from peerd.documents import Problem
from peerd.service.deliveries import BadCursor, CursorExpired
from peerd.service.refusals import (
    EventTooLarge,
    InvalidEvent,
    InvalidSchema,
    InvalidSubscription,
    NotNow,
    NotReady,
    PushedBack,
    TooManySubscriptions,
    UnknownSubscription,
)
from protocols.model.filter import FilterError
from protocols.model.xpath.parse import XPathError

CONTENT_TYPE: Final = "application/problem+json"
URN: Final = "urn:peerd:problem:"


class ProblemKind(NamedTuple):
    status: int
    title: str
    meaning: str


PROBLEMS: Final[dict[str, ProblemKind]] = {
    "bad-request": ProblemKind(400, "Not a valid request", "The request breaks the rules of HTTP."),
    "not-json": ProblemKind(400, "Not JSON", "The body, or a line of it, is not JSON, or is nested beyond measure."),
    "unauthorized": ProblemKind(401, "Token missing", "Send the peer's token as `Authorization: Bearer TOKEN`."),
    "foreign-host": ProblemKind(
        403,
        "Unknown host",
        "The `Host` header names none of this peer's names. Allow it in the settings, or use another.",
    ),
    "foreign-origin": ProblemKind(
        403, "Foreign origin", "A web page of another origin may not use this peer, unless the settings allow it."
    ),
    "not-found": ProblemKind(404, "No such resource", "There is nothing under this path."),
    "unknown-subscription": ProblemKind(
        404, "No such subscription", "It was removed, was idle for too long, or never existed."
    ),
    "method-not-allowed": ProblemKind(405, "Method not allowed", "The header `Allow` says which are."),
    "request-timeout": ProblemKind(408, "Too slow", "The body of the request did not come in time."),
    "cursor-expired": ProblemKind(
        410,
        "Cursor expired",
        "What follows this cursor is not kept any more. Read on after `oldest`: everything that is kept follows it.",
    ),
    "body-too-large": ProblemKind(413, "Body too large", "The body of the request, or a line of it, is too long."),
    "event-too-large": ProblemKind(413, "Event too large", "The event, encoded, has more than `max_event_bytes`."),
    "unsupported-media-type": ProblemKind(415, "Unsupported media type", "`detail` says which types are taken."),
    "expectation-failed": ProblemKind(417, "Expectation failed", "The only expectation known is `100-continue`."),
    "invalid-parameter": ProblemKind(422, "Invalid parameter", "A parameter of the query cannot be used."),
    "invalid-cursor": ProblemKind(422, "Invalid cursor", "This never was a cursor of this subscription."),
    "invalid-filter": ProblemKind(
        422, "Invalid filter", "`position` is the zero-based code point in the filter where the trouble begins."
    ),
    "invalid-subscription": ProblemKind(422, "Invalid subscription", "The subscription cannot be taken; see `detail`."),
    "invalid-event": ProblemKind(422, "Invalid event", "The event may not be published; see `detail`."),
    "invalid-schema": ProblemKind(
        422, "Invalid schema", "Attributes can be appended, never removed, retyped or re-bounded; see `detail`."
    ),
    "invalid-message": ProblemKind(422, "Invalid message", "A WebSocket message that is none of those known."),
    "upgrade-required": ProblemKind(426, "Upgrade required", "This path speaks WebSocket only."),
    "too-many-requests": ProblemKind(
        429, "Too many requests", "Faster than this peer answers one client, or all. `retry_after` says when to go on."
    ),
    "pushed-back": ProblemKind(
        429,
        "Pushed back",
        "Faster than this peer takes events, its links carry them, or their ids can be remembered. Slow down.",
    ),
    "too-many-subscriptions": ProblemKind(429, "Too many subscriptions", "Remove one that is not needed any more."),
    "too-many-streams": ProblemKind(429, "Too many streams", "Too many readers wait or stream already."),
    "internal": ProblemKind(500, "Internal error", "A defect of peerd; its log says more."),
    "not-joined": ProblemKind(503, "Not joined", "The peer does not stand in the overlay: not yet, or it is leaving."),
    "too-many-connections": ProblemKind(503, "Too many connections", "Close one, or come back later."),
    "shutting-down": ProblemKind(503, "Shutting down", "The peer is being stopped."),
}

OF_ERROR: Final[dict[type[Exception], str]] = {
    UnknownSubscription: "unknown-subscription",
    InvalidSubscription: "invalid-subscription",
    TooManySubscriptions: "too-many-subscriptions",
    InvalidEvent: "invalid-event",
    EventTooLarge: "event-too-large",
    InvalidSchema: "invalid-schema",
    NotReady: "not-joined",
    PushedBack: "pushed-back",
    FilterError: "invalid-filter",
    XPathError: "invalid-filter",
    BadCursor: "invalid-cursor",
    CursorExpired: "cursor-expired",
}
OF_STATUS: Final = {
    400: "bad-request",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    413: "body-too-large",
    417: "expectation-failed",
}
RETRY_S: Final = 1.0
"""When to come again, where nobody knows better."""


class ApiProblem(Exception):
    """Answer with this problem. `fields` are those of `documents.Problem`."""

    def __init__(self, slug: str, detail: str = "", headers: dict[str, str] | None = None, **fields: Any) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug = slug
        self.detail = detail
        self.headers = headers or {}
        self.fields = fields
        if PROBLEMS[slug].status in (429, 503):
            fields.setdefault("retry_after", RETRY_S)

    @property
    def status(self) -> int:
        return PROBLEMS[self.slug].status

    def document(self) -> Problem:
        kind = PROBLEMS[self.slug]
        return Problem(URN + self.slug, kind.title, kind.status, self.detail or kind.meaning, **self.fields)

    def response(self) -> web.Response:
        headers = dict(self.headers)
        if "retry_after" in self.fields:
            headers[hdrs.RETRY_AFTER] = str(max(1, ceil(self.fields["retry_after"])))
        body = msgspec.json.encode(self.document())
        return web.Response(body=body, status=self.status, headers=headers, content_type=CONTENT_TYPE)


def as_problem(error: Exception) -> ApiProblem | None:
    """What an error means to a client; None if it is a defect of ours."""
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, web.HTTPException):
        return _of_http(error)
    slug = OF_ERROR.get(type(error))
    if slug is None:
        return None
    if isinstance(error, FilterError):
        return ApiProblem(slug, error.reason, position=error.position)
    if isinstance(error, CursorExpired):
        return ApiProblem(slug, str(error), oldest=error.oldest)
    if isinstance(error, NotNow):
        return ApiProblem(slug, str(error), retry_after=error.retry_after)
    return ApiProblem(slug, str(error))


def _of_http(error: web.HTTPException) -> ApiProblem | None:
    slug = OF_STATUS.get(error.status)
    if slug is None:
        return None
    headers = {"Allow": error.headers[hdrs.ALLOW]} if hdrs.ALLOW in error.headers else None
    detail = "" if error.status in (404, 405) else error.reason
    return ApiProblem(slug, detail, headers)


def page() -> str:
    """`docs/problems.md`."""
    lines = [
        "# Problems",
        "",
        "Every error of the HTTP API is an [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457) problem: a JSON object",
        "of the type `application/problem+json` with `type`, `title`, `status` and `detail`. The type is",
        "`urn:peerd:problem:` and a slug of this table; slugs are never renamed. Where it fits there are also",
        "`position` (zero-based code point in the filter), `line` (of an NDJSON body, counted from 1), `accepted` and",
        "`ids` (the events before that line), `oldest` (a cursor) and `retry_after` (seconds).",
        "",
        "This page is made from `peerd/api/problems.py`; a test keeps the two in step.",
        "",
        "| slug | status | title | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{slug}` | {kind.status} | {kind.title} | {kind.meaning} |" for slug, kind in PROBLEMS.items()]
    return "\n".join(lines) + "\n"
