"""Publishing: one event, lines of events, CloudEvents.

This is the publishers' path: of the work that a request makes, as little as possible is ours.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from peerd.api import cloudevents
from peerd.api.bodies import DETAIL_MAX, JSON, answer, decode, expect, lines, read
from peerd.api.config import CONTEXT
from peerd.api.problems import ApiProblem, as_problem
from peerd.documents import Accepted, BatchAccepted, NewEvent
from peerd.service import Published, Service

NDJSON: Final = "application/x-ndjson"
YIELD_EVERY: Final = 64
"""Events of a batch after which others get their turn: a few milliseconds of work."""

decoder: Final = msgspec.json.Decoder(NewEvent)


async def publish(request: web.Request) -> web.Response:
    content_type = request.content_type
    if content_type == JSON:
        event = decode(decoder, await read(request), "invalid-event")
        return _accepted(request.app[CONTEXT].service.publisher.publish(event))
    expect(request, JSON, NDJSON, cloudevents.TYPE, cloudevents.BATCH_TYPE)
    service = request.app[CONTEXT].service
    if content_type == NDJSON:
        return await _lines(request, service)
    raw = await read(request)
    if content_type == cloudevents.TYPE:
        given = decode(cloudevents.decoder, raw, "invalid-event")
        return _accepted(service.publisher.publish(_from_cloudevent(given, service)))
    batch = Batch(service)
    for each in decode(cloudevents.batch_decoder, raw, "invalid-event"):
        batch.take(lambda each=each: _from_cloudevent(each, service))  # type: ignore[misc]
        await batch.breathe()
    return batch.response()


def _accepted(published: Published) -> web.Response:
    return answer(Accepted(published.id), 200 if published.repeated else 202)


def _from_cloudevent(given: dict[str, object], service: Service) -> NewEvent:
    try:
        return cloudevents.taken(given, service.schema)
    except msgspec.ValidationError as error:
        raise ApiProblem("invalid-event", str(error)[:DETAIL_MAX]) from None


async def _lines(request: web.Request, service: Service) -> web.Response:
    batch = Batch(service)
    most = request.app[CONTEXT].config.batch_lines_max
    try:
        async for line in lines(request):
            if line.strip():
                if batch.line >= most:
                    raise ApiProblem("body-too-large", f"a batch has at most {most} lines")
                batch.take(lambda line=line: decode(decoder, line, "invalid-event"))  # type: ignore[misc]
                await batch.breathe()
            else:
                batch.line += 1
    except ApiProblem as problem:  # of a line that was taken in hand, which says so itself, or of the one after these
        raise batch.refused(problem, batch.line + 1) from None
    return batch.response()


class Batch:
    """Events taken in order, up to the first that is refused."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ids: list[str] = []
        self.line = 0

    def take(self, read_event: Callable[[], NewEvent]) -> None:
        self.line += 1
        try:
            self._ids.append(self._service.publisher.publish(read_event()).id)
        except Exception as error:
            problem = as_problem(error)
            if problem is None:
                raise
            raise self.refused(problem, self.line) from None

    def refused(self, problem: ApiProblem, line: int) -> ApiProblem:
        """The problem of the line where the batch ends, unless it is known already."""
        for name, value in (("line", line), ("accepted", len(self._ids)), ("ids", self._ids)):
            problem.fields.setdefault(name, value)
        return problem

    async def breathe(self) -> None:
        if self.line % YIELD_EVERY == 0:
            await asyncio.sleep(0)

    def response(self) -> web.Response:
        return answer(BatchAccepted(len(self._ids), self._ids), 202)
