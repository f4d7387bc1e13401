"""What the codec and the frames cost above the bare decoder, on an event of some 150 bytes.

Each figure is the best of several runs, in nanoseconds, and its ratio to msgspec's own decoder on the same bytes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from timeit import repeat

import msgpack
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from peerd.wire import Codec, Decoder
from protocols.broadcast.messages import MESSAGES, Flood
from protocols.model.box import Point
from protocols.model.event import Copy, Event

EVENT = Event("a1b2c3d4e5f6a7b8-1700000000-12345", Point((831, 835, 829), ("=ATH", "=OTE")), bytes(80))
FRAMES = 400


def best_ns(call: Callable[[], object], per_call: int = 1) -> float:
    number = max(1, 100_000 // per_call)
    return min(repeat(call, number=number, repeat=7)) / number / per_call * 1e9


def main() -> None:
    codec = Codec(MESSAGES)
    decoder = Decoder(codec)
    message = Flood(Copy(EVENT, 3, 120))
    encoded = codec.encode(message)
    stream = codec.frame(0, 3, encoded) * FRAMES
    pieces = [stream[at : at + 1448] for at in range(0, len(stream), 1448)]
    bare = msgspec.msgpack.Decoder(Flood).decode
    unit = best_ns(lambda: bare(encoded))
    figures = {
        "msgspec decode, one type": unit,
        "codec.decode": best_ns(lambda: codec.decode(encoded)),
        "codec.encode": best_ns(lambda: codec.encode(message)),
        "codec.frame": best_ns(lambda: codec.frame(0, 3, encoded)),
        "codec.frame_size": best_ns(lambda: codec.frame_size(0, 3, len(encoded))),
        "decoder.feed, per frame": best_ns(lambda: decoder.feed(stream), FRAMES),
        "decoder.feed in TCP segments": best_ns(lambda: [decoder.feed(piece) for piece in pieces], FRAMES),
        "msgpack unpackb, unchecked": best_ns(lambda: msgpack.unpackb(encoded)),
    }
    print(f"{len(encoded)} bytes")
    for name, figure in figures.items():
        print(f"{name:30} {figure:7.0f} ns {figure / unit:6.2f}")


if __name__ == "__main__":
    main()
