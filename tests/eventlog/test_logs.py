"""The operational log: one line each, whatever is in it, and no flood."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from peerd.logs import LINE_MAX, LOGGER_MAX, SAME_MAX, TEXTS_MAX, Form, Limiter, configure

LOG = logging.getLogger("peerd.test")


class Stream(io.StringIO):
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.fixture
def stream() -> Iterator[Stream]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield Stream()
    root.setLevel(level)
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)


def test_text(stream: Stream) -> None:
    configure("text", "info", stream)
    LOG.info("link to %s is up", "a:1", extra={"kind": "random"})
    LOG.debug("not this")
    (line,) = stream.lines()
    time, rest = line.split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
    assert rest == "INFO peerd.test: link to a:1 is up kind=random"


def test_json(stream: Stream) -> None:
    configure("json", "debug", stream)
    LOG.debug("link to %s", "ü:1", extra={"kind": "random", "what": object})
    (line,) = stream.lines()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("ts"))
    assert found.pop("what") == str(object)
    assert found == {"level": "debug", "logger": "peerd.test", "message": "link to ü:1", "kind": "random"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("evil", ["a\nERROR fake line", "\x1b[2J", "\r", "\u2028x", "\ud800", "\x00", "x" * 100_000])
def test_nothing_takes_more_than_a_line(stream: Stream, form: Form, evil: str) -> None:
    said = record("it said %s", evil)
    said.more = evil[:100]
    configure(form, "info", stream).handle(said)  # not through the logger, where the test runner listens, too
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert all(letter.isprintable() for letter in text[:-1]) or form == "json"
    assert "\x1b" not in text
    assert len(text) < LINE_MAX + 1000
    text.encode()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_in_the_same_line(stream: Stream, form: Form) -> None:
    configure(form, "info", stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        LOG.exception("it failed")
    (line,) = stream.lines()
    assert "it failed" in line
    assert "Traceback" in line
    assert "ValueError: two" in line


def test_configuring_again_replaces(stream: Stream) -> None:
    configure("text", "info", Stream())
    configure("text", "info", stream)
    LOG.info("once")
    assert len(stream.lines()) == 1


def test_a_stream_that_is_gone_does_not_matter(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "info", stream)
    stream.close()
    LOG.warning("nobody listens")
    assert capsys.readouterr().err == ""


# --- no flood ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def record(text: str, *args: object, level: int = logging.WARNING, name: str = "peerd.net") -> logging.LogRecord:
    return logging.LogRecord(name, level, "", 0, text, args, None)


def test_the_same_warning_is_written_a_few_times_a_minute() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    passed = [limiter.filter(record("garbage from %s", number)) for number in range(1000)]
    assert passed == [True] * SAME_MAX + [False] * (1000 - SAME_MAX)
    assert limiter.filter(record("something else"))
    clock.now = 60.0
    again = record("garbage from %s", "x")
    assert limiter.filter(again)
    assert again.left_out == 1000 - SAME_MAX  # type: ignore[attr-defined]
    after = record("garbage from %s", "x")
    assert limiter.filter(after)
    assert after.left_out == 0  # type: ignore[attr-defined]


def test_warnings_that_differ_in_their_text_are_limited_too() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    passed = sum(limiter.filter(record(f"garbage from {number}")) for number in range(100_000))
    assert passed == LOGGER_MAX
    assert limiter.filter(record("disk full", name="peerd.store"))
    assert len(limiter._texts) <= TEXTS_MAX


def test_information_is_not_limited() -> None:
    limiter = Limiter(Clock())
    assert all(limiter.filter(record("joined", level=logging.INFO)) for _ in range(1000))


def test_what_was_left_out_is_said(stream: Stream) -> None:
    clock = Clock()
    handler = configure("text", "info", stream)
    handler.filters = [Limiter(clock)]
    for number in range(20):
        LOG.warning("garbage from %s", number)
    clock.now = 61.0
    LOG.warning("garbage from %s", "z")
    lines = stream.lines()
    assert len(lines) == SAME_MAX + 1
    assert lines[-1].endswith(f"garbage from z ({20 - SAME_MAX} more like this were left out)")
