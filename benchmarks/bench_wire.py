"""What the codec and the frames cost above the bare decoder, on an event of some 150 bytes."""

from collections.abc import Callable, Iterator

import msgpack
import msgspec

from benchmarks.figure import Figure, best_ns
from benchmarks.sample import CODEC, MESSAGE
from peerd.wire import Decoder
from protocols.broadcast.messages import Flood

FRAMES = 400
SEGMENT_BYTES = 1448


def run() -> Iterator[Figure]:
    decoder, encoded = Decoder(CODEC), CODEC.encode(MESSAGE)
    stream = CODEC.frame(0, 3, encoded) * FRAMES
    pieces = [stream[at : at + SEGMENT_BYTES] for at in range(0, len(stream), SEGMENT_BYTES)]
    bare = msgspec.msgpack.Decoder(Flood).decode
    yield Figure("wire: size of the message", len(encoded), "bytes")
    unit_ns = per_message_ns(lambda: bare(encoded))
    yield Figure("wire: msgspec decode, one type", unit_ns, "ns")
    decoding = {
        "codec.decode": per_message_ns(lambda: CODEC.decode(encoded)),
        "decoder.feed": per_message_ns(lambda: decoder.feed(stream), FRAMES),
        "decoder.feed in TCP segments": per_message_ns(lambda: [decoder.feed(piece) for piece in pieces], FRAMES),
        "msgpack unpackb, unchecked": per_message_ns(lambda: msgpack.unpackb(encoded)),
    }
    for name, cost_ns in decoding.items():
        yield Figure(f"wire: {name}", cost_ns, "ns")
        yield Figure(f"wire: {name}, against msgspec", cost_ns / unit_ns, "x")
    yield Figure("wire: codec.encode", per_message_ns(lambda: CODEC.encode(MESSAGE)), "ns")
    yield Figure("wire: codec.frame", per_message_ns(lambda: CODEC.frame(0, 3, encoded)), "ns")
    yield Figure("wire: codec.frame_size", per_message_ns(lambda: CODEC.frame_size(0, 3, len(encoded))), "ns")


def per_message_ns(call: Callable[[], object], messages: int = 1) -> float:
    return best_ns(call, 100_000 // messages, 7) / messages
