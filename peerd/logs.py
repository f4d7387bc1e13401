"""The operational log: what an operator reads, on standard error, one line per record.

    2026-07-23T12:00:00.123456Z WARNING peerd.net: link to 10.0.0.7:6470 is full
    {"ts":"2026-07-23T12:00:00.123456Z","level":"warning","logger":"peerd.net","message":"…","peer":"…"}

It is the standard library's logging with a form and a limit. The form: UTC with microseconds, and no record ever takes
more than a line or moves a cursor, whatever text a remote peer has got into it. The limit: others can make a peer
complain (garbage on the port, refused handshakes), so of warnings that say the same only a few per minute are written,
and the next one says how many were left out. What "the same" means is decided by the text before its arguments are put
in: `log.warning("garbage from %s", at)`, not an f-string. Since somebody will forget that, each logger has a limit too.
"""

import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, Literal, TextIO, TypeAlias

import msgspec

Form: TypeAlias = Literal["text", "json"]

WINDOW_S: Final = 60.0
SAME_MAX: Final = 5
"""Warnings of one text in one window: enough to see that it is not a single case. Our choice."""
LOGGER_MAX: Final = 50
"""Warnings of one logger in one window, whatever they say. Our choice: a screen."""
TEXTS_MAX: Final = 1024
"""Texts that are remembered; the longest unheard one is forgotten first."""
LINE_MAX: Final = 8192
"""Characters in a line; what is longer is cut."""

_PLAIN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "left_out"}


def configure(form: Form = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Send all records of this process there, in this form; the handler before it is taken away."""
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(former)
    handler = _Handler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(Limiter())
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the library's name)
        """Nobody listens any more: that must not end or flood anything."""


def timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(record: logging.LogRecord) -> str:
    left_out = getattr(record, "left_out", 0)
    suffix = f" ({left_out} more like this were left out)" if left_out else ""
    return f"{record.getMessage()}{suffix}"


def _trace(record: logging.LogRecord) -> str:
    return "" if not record.exc_info else logging.Formatter().formatException(record.exc_info)


def one_line(text: str) -> str:
    """Text that fits in a line and does nothing to a terminal. The lines of a traceback are set apart by bars."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    printable = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    return printable if len(printable) <= LINE_MAX else printable[:LINE_MAX] + "…"


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {key}={value}" for key, value in _extra(record).items())
        trace = _trace(record)
        said = f"{_text(record)}{extra}" + (f" | {trace}" if trace else "")
        return one_line(f"{timestamp(record)} {record.levelname} {record.name}: {said}")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "ts": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record)[:LINE_MAX],
            **_extra(record),
        }
        trace = _trace(record)
        if trace:
            fields["exception"] = trace
        text = {
            key: value.encode(errors="replace").decode() if isinstance(value, str) else value
            for key, value in fields.items()
        }
        return msgspec.json.encode(text, enc_hook=str).decode()


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra=`."""
    return {key: value for key, value in record.__dict__.items() if key not in _PLAIN}


class _Count:
    """How often something was written and left out in the present window."""

    __slots__ = ("left_out", "since_s", "written")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.written = 0
        self.left_out = 0


class Limiter(logging.Filter):
    """Lets few warnings of one text pass, and few of one logger; below a warning everything."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._texts: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self._loggers: OrderedDict[tuple[str, str], _Count] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        now_s = self._clock()
        same, left_out = _admit(self._texts, (record.name, str(record.msg)), SAME_MAX, now_s)
        if not same:
            return False
        one, others = _admit(self._loggers, (record.name, ""), LOGGER_MAX, now_s)
        if one:
            record.left_out = left_out + others
        return one


def _admit(
    counts: OrderedDict[tuple[str, str], _Count], key: tuple[str, str], most: int, now_s: float
) -> tuple[bool, int]:
    """Whether another one may be written, and if so how many were left out before it."""
    count = counts.get(key)
    if count is None:
        count = counts[key] = _Count(now_s)
        if len(counts) > TEXTS_MAX:
            counts.popitem(last=False)
    counts.move_to_end(key)
    if now_s - count.since_s >= WINDOW_S:
        count.since_s, count.written = now_s, 0
    if count.written >= most:
        count.left_out += 1
        return False, 0
    count.written += 1
    left_out, count.left_out = count.left_out, 0
    return True, left_out
