"""The application, and the server that runs it on an address.

It serves from the first moment of a peer, which may look for its swarm for ever: until there is a service behind it
(`Context.open`), health is answered, and whoever wants more is told to come again (`not-joined`).

Every answer that is not the one hoped for is a problem, whoever gives it: our handlers, the framework's routing, or its
parser of HTTP. The last one stands outside of the application, so the server has a handler of connections of its own,
which also bounds how many there are.
"""

import asyncio
import logging
from time import monotonic
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from peerd import __version__
from peerd.api import openapi
from peerd.api.bodies import JSON
from peerd.api.config import CONTEXT, REFUSED, RESULT, ApiConfig, Context, MetricsRenderer, Result
from peerd.api.guard import Guard
from peerd.api.problems import ApiProblem, as_problem
from peerd.api.routes import OPERATIONS
from peerd.service import Service

_log = logging.getLogger(__name__)
GUARD: Final[web.AppKey[Guard]] = web.AppKey("guard", Guard)


def create_app(config: ApiConfig) -> web.Application:
    """The application of one peer, without a service yet."""
    app = web.Application(middlewares=[_problems], client_max_size=config.body_bytes_max)
    context = app[CONTEXT] = Context(config)
    app[GUARD] = Guard(context)
    for operation in OPERATIONS:
        app.router.add_route(operation.method, operation.path, operation.handler, expect_handler=_expect)
        if operation.head:
            app.router.add_route("HEAD", operation.path, operation.handler, expect_handler=_expect)
    described = openapi.encoded(__version__)

    async def show_description(request: web.Request) -> web.Response:
        return web.Response(body=described, content_type=JSON)

    app.router.add_route("GET", openapi.PATH, show_description)

    async def close_streams(app: web.Application) -> None:
        context.close()

    app.on_shutdown.append(close_streams)
    return app


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let nobody in who may not, turn what goes wrong into problems, and count how each request ends."""
    app = request.app
    result: Result = "gone"  # unless it comes to an answer
    try:
        app[GUARD].admit(request, int(monotonic() * 1000))
        response = await handler(request)
        result = "answered"
        return response
    except Exception as error:
        problem = as_problem(error)
        if problem is None:
            if isinstance(error, ConnectionError):
                raise
            _log.exception("%s %s failed", request.method, request.path)
            problem = ApiProblem("internal")
        result = "failed" if problem.slug == "internal" else "refused" if problem.slug in REFUSED else "answered"
        return problem.response()
    finally:
        app[CONTEXT].stats.count(request.get(RESULT, result))


async def _expect(request: web.Request) -> web.StreamResponse | None:
    """Tell a client that waits for it to send its body."""
    if request.headers.get(hdrs.EXPECT, "").lower() != "100-continue":
        return ApiProblem("expectation-failed", "the only expectation known is 100-continue").response()
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # what was written is no part of the answer
    return None


# --- The server -------------------------------------------------------------------------------------------------------


class _Connection(web.RequestHandler):
    """One connection. What is no HTTP gets a problem, too."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status == 400:
            problem = ApiProblem("bad-request", (message or "").strip().partition("\n")[0][:200])
        else:
            _log.error("a request failed", exc_info=exc)
            problem = ApiProblem("internal")
        response = problem.response()
        response.force_close()
        return response


class _Server(web.Server):
    def __init__(self, base: web.Server, context: Context, **settings: Any) -> None:
        super().__init__(
            base.request_handler, request_factory=base.request_factory, handler_cancellation=True, **settings
        )
        self._context = context
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._settings)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        if len(self._connections) >= self._context.config.connections_max:
            self._context.stats.connections_refused += 1
            transport.write(_raw(ApiProblem("too-many-connections")))
            transport.close()
        super().connection_made(handler, transport)


def _raw(problem: ApiProblem) -> bytes:
    """A whole answer, for a connection that is not to be served."""
    response = problem.response()
    body = msgspec.json.encode(problem.document())
    lines = [f"HTTP/1.1 {response.status} {response.reason}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items() if name.lower() != "content-length"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class _Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        base = await super()._make_server()
        context = self.app[CONTEXT]
        config = context.config
        return _Server(
            base,
            context,
            access_log=None,
            keepalive_timeout=config.keepalive_s,
            lingering_time=config.linger_s,
        )


class ApiServer:
    """Serves an application on an address. `port` is the one that was taken."""

    def __init__(self, app: web.Application, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._wanted_port = port
        self._runner: _Runner | None = None
        self.port = port

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def context(self) -> Context:
        return self._app[CONTEXT]

    async def start(self) -> None:
        """Listen; `OSError` if the address cannot be had."""
        runner = _Runner(self._app, shutdown_timeout=self.context.config.stop_s)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self._wanted_port)
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]

    def open(self, service: Service, metrics: MetricsRenderer) -> None:
        """There is a service from now on."""
        if not service.about.http:
            service.about.http = self.address
        self.context.open(service, metrics)

    def allow_host(self, name: str) -> None:
        """The peer is known by this name too."""
        self._app[GUARD].allow_host(name)

    async def stop(self) -> None:
        """Stop listening, let streams end, and wait a little for requests under way."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self.context.close()
            await runner.cleanup()
