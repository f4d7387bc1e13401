"""The peer seen from outside: itself, its links, the overlay, the schema, health, metrics, and a page for people."""

from html import escape
from typing import Final

import msgspec
from aiohttp import hdrs, web

from peerd.api.bodies import JSON, answer, decode, expect, number, read
from peerd.api.config import CONTEXT
from peerd.api.problems import ApiProblem
from peerd.documents import Health, NewAttributes, Readiness
from peerd.service import Service

TOPOLOGY_LIMIT: Final = 200
TOPOLOGY_LIMIT_MAX: Final = 2_000
"""Peers in a picture of the overlay. A guess: what a person, and what a program, can make use of."""

_attributes: Final = msgspec.json.Decoder(NewAttributes)


async def peer(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.peer())


async def links(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.links())


async def topology(request: web.Request) -> web.Response:
    limit = number(request, "limit", TOPOLOGY_LIMIT, TOPOLOGY_LIMIT_MAX)
    context = request.app[CONTEXT]
    with context.stream():
        return answer(await context.service.topology(limit))


async def schema(request: web.Request) -> web.Response:
    return answer(request.app[CONTEXT].service.schema_shown())


async def append_schema(request: web.Request) -> web.Response:
    expect(request, JSON)
    wanted = decode(_attributes, await read(request), "invalid-schema")
    return answer(request.app[CONTEXT].service.append_schema(wanted.attributes))


async def health(request: web.Request) -> web.Response:
    return answer(Health("ok"))


async def readiness(request: web.Request) -> web.Response:
    if not request.app[CONTEXT].service.ready:
        raise ApiProblem("not-joined", "this peer does not stand in the overlay yet")
    return answer(Readiness(True))


async def metrics(request: web.Request) -> web.Response:
    body, content_type = request.app[CONTEXT].metrics(request.headers.get(hdrs.ACCEPT, ""))
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})


# --- A page for people ------------------------------------------------------------------------------------------------

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}}
table{{border-collapse:collapse;width:100%}}td,th{{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}}
code{{word-break:break-all}}</style></head>
<body><h1>{title}</h1>{sections}<p><a href="/openapi.json">OpenAPI</a></p></body></html>
"""
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


async def overview(request: web.Request) -> web.Response:
    text = _overview(request.app[CONTEXT].service)
    return web.Response(text=text, content_type="text/html", headers=_PAGE_HEADERS)


def _overview(service: Service) -> str:
    shown = service.peer()
    facts = [
        ("id", shown.id),
        ("overlay", shown.overlay),
        ("swarm", shown.swarm),
        ("listens at", shown.listen),
        ("ready", "yes" if shown.ready else "no"),
        ("settled for", f"{shown.settled_ms / 1000:.1f} s"),
        ("up for", f"{shown.uptime_s:.0f} s"),
        ("schema", ", ".join(f"{attribute.name} {attribute.type}" for attribute in shown.schema.attributes)),
    ]
    links = [
        (kind, f"{link.peer} at {link.at}") for kind, links in service.links().links.items() for link in links[:100]
    ]
    subscriptions = [
        (each.id, f"{each.filter} ({each.state}, {each.retained} kept)") for each in service.subscriptions()[:100]
    ]
    sections = _table("Peer", facts) + _table("Links", links) + _table("Subscriptions", subscriptions)
    return _PAGE.format(title=escape(f"peerd {shown.name or shown.id}"), sections=sections)


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>" for key, value in rows)
    return f"<h2>{title}</h2><table>{lines or '<tr><td>none</td></tr>'}</table>"
