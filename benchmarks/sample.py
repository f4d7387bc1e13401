"""What is sent where a benchmark sends something: an event of some 150 bytes, as the baseline floods it."""

from typing import Final

from peerd.wire import Codec
from protocols.broadcast.messages import MESSAGES, Flood
from protocols.model.box import Point
from protocols.model.event import Copy, Event

CODEC: Final = Codec(MESSAGES)
EVENT: Final = Event("a1b2c3d4e5f6a7b8-1700000000-12345", Point((831, 835, 829), ("=ATH", "=OTE")), bytes(80))
MESSAGE: Final = Flood(Copy(EVENT, 3, 120))
