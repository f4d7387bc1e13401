"""Captured frames are those of the wire, and can be read without our codec and without the end of the file."""

from io import BytesIO, StringIO
from typing import BinaryIO, cast

import pytest

from peerd.net.capture import CaptureWriter, Splitter, print_frames, read_frames
from tests.net.support import Node, event, nodes, note, until
from tests.wire.samples import CODEC


async def test_a_capture_shows_both_directions() -> None:
    file = BytesIO()
    async with nodes("b") as (b,):
        a = Node("a", capture=file)
        await a.listen()
        a.send(b, note(1), event(2))
        await until(lambda: len(b.told.received_) == 2)
        b.send(a, note(3))
        await until(lambda: a.told.received_)
        await a.network.close()
    file.seek(0)
    captured = list(read_frames(file))
    assert [(c.received, c.peer) for c in captured[:5]] == [
        (False, ""),
        (True, ""),
        (False, "b"),
        (False, "b"),
        (True, "b"),
    ]
    assert captured[2].frame == CODEC.frame(-1, -1, CODEC.encode(note(1)))
    file.seek(0)
    out = StringIO()
    assert print_frames(file, out) == len(captured) == 7
    lines = out.getvalue().splitlines()
    assert "> - " in lines[0]
    assert "greeting {'version': [1, 0], 'swarm_id': 'swarm'" in lines[0]
    assert "-1->-1 note ['n', 1," in lines[2]
    assert "carry" in lines[3]
    assert lines[-1].endswith(" end")
    assert max(map(len, lines)) <= 400


def test_every_truncation_is_read_up_to_the_last_whole_record() -> None:
    file = BytesIO()
    writer = CaptureWriter(file)
    frames = [CODEC.frame(0, 0, CODEC.encode(note(n))) for n in range(3)]
    for frame in frames:
        writer.received("peer", frame)
    data = file.getvalue()
    found = set()
    for length in range(len(b"peerd-frames 1\n"), len(data) + 1):
        whole = [c.frame for c in read_frames(BytesIO(data[:length]))]
        assert whole == frames[: len(whole)]
        found.add(len(whole))
    assert found == {0, 1, 2, 3}


def test_other_files_and_damage() -> None:
    with pytest.raises(ValueError, match="not a file of captured frames"):
        print_frames(BytesIO(b"hello"), StringIO())
    file = BytesIO()
    CaptureWriter(file).sent("p", b"\x00\x00\x00\x01\xc1")
    out = StringIO()
    print_frames(BytesIO(file.getvalue()), out)
    assert "not MessagePack" in out.getvalue()
    with pytest.raises(ValueError, match="damaged"):
        list(read_frames(BytesIO(file.getvalue() + b"?" * 50)))


def test_a_full_disk_ends_the_capture_only(caplog: pytest.LogCaptureFixture) -> None:
    class Full(BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    writer = CaptureWriter(cast(BinaryIO, Full()))
    writer.sent("p", b"x")
    writer.flush()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_the_splitter_finds_the_frames(piece: int) -> None:
    frames = [CODEC.frame(0, 0, CODEC.encode(note(n))) for n in range(5)]
    stream = b"".join(frames)
    splitter = Splitter()
    found = [f for at in range(0, len(stream), piece) for f in splitter.feed(stream[at : at + piece])]
    assert found == frames
