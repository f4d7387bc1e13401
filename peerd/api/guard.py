"""Who may ask, and how often: the first thing that every request meets.

A browser can be made to send requests to any address that its owner's machine can reach. Two checks keep web pages of
others away from a peer: the `Host` header must name this peer (a name that an attacker points at our address does not),
and a request that a page makes carries its `Origin`, which must be our own.
"""

from collections.abc import Iterable
from hmac import compare_digest
from ipaddress import ip_address
from re import compile as pattern
from typing import Final

from aiohttp import hdrs, web

from peerd.api.config import ApiConfig, Context
from peerd.api.problems import ApiProblem
from peerd.service.ingress import TokenBucket

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Neither token nor rate: whoever watches over the process has neither."""
CONSOLE_PATH: Final = "/"
"""No token: the page holds nothing of the peer's, and a browser that opens an address cannot send one."""
CLIENTS_MAX: Final = 4_096
"""Clients whose rate is known; the one that came first is forgotten first. A guess."""
KNOWN_HOSTS_MAX: Final = 1_024

_host: Final = pattern(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?").fullmatch


def _host_names(given: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower().rstrip(".").strip("[]") for name in given if name)


class Guard:
    def __init__(self, context: Context) -> None:
        config = context.config
        self._config: ApiConfig = config
        self._stats = context.stats
        self._token = None if config.token is None else config.token.encode()
        self._hosts = _host_names(config.hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in config.origins)
        self._known: dict[tuple[str, str], bool] = {}
        self._all = TokenBucket(config.rate, config.burst)
        self._clients: dict[str, TokenBucket] = {}

    def allow_host(self, name: str) -> None:
        self._hosts |= _host_names((name,))
        self._known.clear()

    def admit(self, request: web.Request, now_ms: int) -> None:
        """`ApiProblem` if the request is not to be served."""
        self._stats.requests += 1
        self._check_host(request)
        if hdrs.ORIGIN in request.headers:
            self._check_origin(request)
        if request.path not in HEALTH_PATHS:
            self._check_rate(request.remote or "", now_ms)
            if self._token is not None and request.path != CONSOLE_PATH:
                self._check_token(request)

    def _check_host(self, request: web.Request) -> None:
        host = request.headers.get(hdrs.HOST, "")
        sockname = request.transport.get_extra_info("sockname") if request.transport is not None else None
        key = host, str(sockname[0]) if isinstance(sockname, tuple) else ""
        allowed = self._known.get(key)
        if allowed is None:
            allowed = self._allows(*key)
            if len(self._known) < KNOWN_HOSTS_MAX:
                self._known[key] = allowed
        if not allowed:
            raise ApiProblem("foreign-host", f"this peer is not known as {host[:100]!r}")

    def _allows(self, host: str, own_address: str) -> bool:
        name = _name_of(host)
        if name == "localhost" or name in self._hosts:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or name == own_address.partition("%")[0]

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers[hdrs.ORIGIN].lower()
        own = f"{request.scheme}://{request.headers.get(hdrs.HOST, '').lower()}"
        if origin != own and origin not in self._origins:
            raise ApiProblem("foreign-origin", f"{origin[:100]!r} may not use this peer")

    def _check_rate(self, client: str, now_ms: int) -> None:
        bucket = self._clients.get(client)
        if bucket is None:
            if len(self._clients) >= CLIENTS_MAX:
                del self._clients[next(iter(self._clients))]
            bucket = self._clients[client] = TokenBucket(self._config.client_rate, self._config.client_burst)
        wait_s = bucket.take(now_ms)
        if wait_s:
            raise ApiProblem(
                "too-many-requests", f"more than {self._config.client_rate:g} a second from you", retry_after=wait_s
            )
        wait_s = self._all.take(now_ms)
        if wait_s:
            raise ApiProblem("too-many-requests", f"more than {self._config.rate:g} a second", retry_after=wait_s)

    def _check_token(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        given = token.strip().encode("utf-8", "replace")
        if scheme.lower() != "bearer" or not compare_digest(given, self._token or b""):
            raise ApiProblem("unauthorized", "this peer wants a token", {hdrs.WWW_AUTHENTICATE: "Bearer"})


def _name_of(host: str) -> str:
    """The name or address in a `Host` header, without its port; empty if it is neither."""
    found = _host(host)
    return "" if found is None else (found[1] or found[2]).lower().removesuffix(".")
