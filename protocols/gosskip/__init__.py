"""GosSkip (paper 5): subscriptions in one sorted list, which gossip makes a perfect skip list."""

from protocols.gosskip.config import PAPER, GosSkipConfig
from protocols.gosskip.messages import MESSAGES
from protocols.gosskip.overlay import GosSkip
from protocols.model.order import attribute_order
from protocols.model.schema import Schema
from protocols.overlay import Kind


def fits(config: GosSkipConfig, schema: Schema) -> None:
    attribute_order(schema, config.first_names)


KIND = Kind(
    name="gosskip",
    summary="subscriptions in one sorted list, gossiped into a perfect skip list (paper 5)",
    config=GosSkipConfig,
    messages=MESSAGES,
    create=GosSkip,
    profiles={"paper": PAPER},
    fits=fits,
)
