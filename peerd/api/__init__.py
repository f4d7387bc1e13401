"""The HTTP API of a peer, on aiohttp: what is promised about it stands in the contract, what it can do in `routes`.

problems    the table of everything that can go wrong, and the way from errors to it
config      limits, counters, and what handlers share
guard       who may ask, and how often
bodies      requests taken apart, answers put together
routes      every path with its handler, documents and problems; openapi is made from it
subscriptions, events, cloudevents, streams, socket, inspection    the handlers
app         the application, and the server that runs it
"""

from peerd.api.app import ApiServer, create_app
from peerd.api.config import ApiConfig, Context, MetricsRenderer, Stats

__all__ = ["ApiConfig", "ApiServer", "Context", "MetricsRenderer", "Stats", "create_app"]
