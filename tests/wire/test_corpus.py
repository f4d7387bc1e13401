"""Hostile frames, each with what must become of it.

A file of the corpus is a comment, the expected outcome (the name of an error, or `Frame`), and the bytes: `content`
gets its length put before it, `stream` is taken as it stands. Bytes are hexadecimal; `61*9` stands for nine times 61.
"""

from pathlib import Path

import pytest

from peerd.wire import LENGTH_BYTES, BadFrame, Decoder, Frame, FrameTooLarge
from tests.wire.samples import CODEC, Ping

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.txt"))
GOOD = CODEC.frame(0, 1, CODEC.encode(Ping()))


def read(path: Path) -> tuple[str, bytes]:
    """The expected outcome and the bytes of one file."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    entry = dict(line.split(":", 1) for line in lines)
    raw = b"".join(_repeated(token) for token in entry.get("content", entry.get("stream", "")).split())
    prefix = len(raw).to_bytes(LENGTH_BYTES, "big") if "content" in entry else b""
    return entry["expect"].strip(), prefix + raw


def _repeated(token: str) -> bytes:
    digits, _, times = token.partition("*")
    return bytes.fromhex(digits) * int(times or 1)


def test_corpus_is_there() -> None:
    assert len(CORPUS) >= 60
    assert {read(path)[0] for path in CORPUS} == {"Frame", "Malformed", "Invalid", "TooDeep", "FrameTooLarge"}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_hostile_frame(path: Path) -> None:
    expected, raw = read(path)
    decoder = Decoder(CODEC)
    [item] = decoder.feed(raw)
    outcome = item.error if isinstance(item, BadFrame) else item
    assert type(outcome).__name__ == expected, outcome
    assert len(str(outcome)) <= 200
    if isinstance(outcome, FrameTooLarge):
        assert decoder.closed
    else:
        assert item.size == len(raw)
        assert decoder.feed(GOOD) == [Frame(0, 1, Ping(), len(GOOD))]
