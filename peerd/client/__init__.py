"""An asynchronous client of a peer's HTTP API.

    async with Peer("http://127.0.0.1:6480") as peer:
        subscription = await peer.subscribe("symbol = 'OTE' AND price > 8")
        await peer.publish({"symbol": "OTE", "price": 8.5})
        async for delivery in subscription:
            print(delivery.attributes)

A subscription is read from a stream of server-sent events. When the connection breaks it is opened again, with patience
that grows, and read on from the last cursor: nothing is read twice, and nothing is left out but what the peer does not
keep any more. Of that the reader is told with a `Gap`, which is raised out of the loop, or handed to `on_gap` if that
was given; iterating again goes on behind it. Should the peer have forgotten the subscription (it was idle, or the peer
came back without its state), it is made anew, with a gap of unknown size between.

Every event is published under an id, so that one whose answer was lost can be sent again without being published twice.

peer            a peer and what can be asked of it
subscription    reading deliveries, over broken connections
batches         many events in few requests
requests        HTTP, tried again while the connection breaks
errors          what does not work out
"""

from peerd.client.batches import new_event
from peerd.client.errors import ClientError, Gap, PushedBack, Refused, Unreachable
from peerd.client.peer import Peer
from peerd.client.subscription import Delivery, Subscription

__all__ = [
    "ClientError",
    "Delivery",
    "Gap",
    "Peer",
    "PushedBack",
    "Refused",
    "Subscription",
    "Unreachable",
    "new_event",
]
