"""Taking requests apart: bodies with limits, typed JSON, parameters of the query; and JSON answers."""

import asyncio
from collections.abc import AsyncIterator
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from peerd.api.config import CONTEXT
from peerd.api.problems import ApiProblem

T = TypeVar("T")
JSON: Final = "application/json"
DETAIL_MAX: Final = 300
"""Characters of the decoder's complaint: it may quote what was sent."""

encode: Final = msgspec.json.Encoder().encode


def answer(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=encode(document), status=status, headers=headers, content_type=JSON)


def decode(decoder: msgspec.json.Decoder[T], raw: bytes, slug: str) -> T:
    """A typed document; `slug` is the problem of JSON that is not of its type."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _wrong(raw, slug, error) from None
    except ValueError as error:
        raise ApiProblem("not-json", str(error)[:DETAIL_MAX]) from None
    except RecursionError:  # JSON it may be; nobody will read it to its end
        raise ApiProblem(slug, "arrays and objects are nested beyond measure") from None


def _wrong(raw: bytes, slug: str, error: msgspec.ValidationError) -> ApiProblem:
    """The decoder stops at the first fault; what is not JSON further on is not JSON all the same."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        pass
    except ValueError as fault:
        return ApiProblem("not-json", str(fault)[:DETAIL_MAX])
    return ApiProblem(slug, str(error)[:DETAIL_MAX])


def expect(request: web.Request, *content_types: str) -> str:
    """The content type of the body, if it is one of these."""
    given = request.content_type
    if given not in content_types:
        raise ApiProblem("unsupported-media-type", f"send {' or '.join(content_types)}, not {given[:100]}")
    return given


async def read(request: web.Request) -> bytes:
    """The whole body, if it is not too long and comes in time."""
    if request.content.is_eof():
        return await _read(request)
    try:
        async with asyncio.timeout(request.app[CONTEXT].config.body_s):
            return await _read(request)
    except TimeoutError:
        raise _too_slow() from None


async def _read(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiProblem("body-too-large", str(error.text)) from None
    except web.RequestPayloadError as error:
        raise ApiProblem("bad-request", str(error)[:DETAIL_MAX]) from None


async def lines(request: web.Request) -> AsyncIterator[bytes]:
    """The lines of a body as they come; a line that is too long, or one too many, ends it with a problem."""
    config = request.app[CONTEXT].config
    pending = b""
    total = 0
    while True:
        chunk = await _chunk(request, config.body_s)
        total += len(chunk)
        if total > config.batch_bytes_max:
            raise ApiProblem("body-too-large", f"a batch has at most {config.batch_bytes_max} bytes")
        *complete, pending = (pending + chunk).split(b"\n") if chunk else (pending,)
        for line in complete:
            yield line
        if len(pending) > config.body_bytes_max:
            raise ApiProblem("body-too-large", f"a line has at most {config.body_bytes_max} bytes")
        if not chunk:
            yield pending
            return


async def _chunk(request: web.Request, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await request.content.readany()
    except TimeoutError:
        raise _too_slow() from None
    except web.RequestPayloadError as error:
        raise ApiProblem("bad-request", str(error)[:DETAIL_MAX]) from None


def _too_slow() -> ApiProblem:
    return ApiProblem("request-timeout", "the body did not come in time", {"Connection": "close"})


def seconds(request: web.Request, name: str, default: float, most: float) -> float:
    """A parameter in seconds: from 0 to `most`."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or not 0 <= value <= most:
        raise ApiProblem("invalid-parameter", f"{name} is a number of seconds from 0 to {most:g}")
    return value


def number(request: web.Request, name: str, default: int, most: int) -> int:
    """A parameter that is a whole number from 1 to `most`."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise ApiProblem("invalid-parameter", f"{name} is a whole number from 1 to {most}")
    return int(text)
