"""The network: TCP between peers. `Network` sends and receives, `inquire` asks a contact about its swarm.

endpoints    "host:port", names with several addresses, which address is one's own
greeting     the first frame: version, swarm, overlay, parameters, schema, identity
dial         making a connection; inquiry: asking one question
lanes        what waits for one remote peer, within bounds; remotes: all of these
connection   one connection: greeting, frames, goodbye
pairs        all of them: one connection for each pair of peers; dialling: back-off and patience
outbox       the way out, coalesced; news: what becomes of messages that cannot be sent
network      put together: listening, idling, closing, figures
capture      frames in a file; loop: which event loop
"""

from peerd.net.config import NetConfig
from peerd.net.dial import NetError, Unreachable
from peerd.net.endpoints import is_own, join_endpoint, local_host_towards, others, resolve, split_endpoint
from peerd.net.greeting import VERSION, Greeting, Refusal
from peerd.net.inquiry import inquire
from peerd.net.network import Network
from peerd.net.news import Receiver
from peerd.net.stats import NetStats, QueueStats, TrafficStats

__all__ = [
    "VERSION",
    "Greeting",
    "NetConfig",
    "NetError",
    "NetStats",
    "Network",
    "QueueStats",
    "Receiver",
    "Refusal",
    "TrafficStats",
    "Unreachable",
    "inquire",
    "is_own",
    "join_endpoint",
    "local_host_towards",
    "others",
    "resolve",
    "split_endpoint",
]
