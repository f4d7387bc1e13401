"""What a user can put right, in one line.

The layers below promise that what is wrong with their input is a `ValueError` in one line (filters, schemas and
msgspec's validation included) or an `OSError`. Commands wrap the part that only looks at input in `users_fault()`; in
the part that runs, a `ValueError` is a bug and must not pass for a wrong option.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

USAGE: Final = 2

_AT: Final = re.compile(r"(?P<what>[A-Z][^:]*) - at `\$\.?(?P<path>.*)`$")
"""How msgspec says where: "Expected `int` >= 1 - at `$.peers`"."""


class Wrong(click.ClickException):
    """Wrong usage or configuration."""

    exit_code = USAGE


@contextmanager
def users_fault(where: str = "") -> Iterator[None]:
    """Whatever is wrong in here is the user's to put right. `where`: the option or file that is being looked at."""
    try:
        yield
    except BrokenPipeError:  # nobody's fault: whoever read our output has read enough
        raise
    except (ValueError, OSError) as error:
        line = one_line(error)
        raise Wrong(line if line.startswith(where) else f"{where}: {line}") from None


def one_line(error: Exception | str) -> str:
    """What went wrong, as one printable line."""
    text = _text(error)
    found = _AT.search(text)
    if found is not None:
        what = found["what"].replace("`", "")
        text = f"{text[: found.start()]}{found['path']}: {what[0].lower()}{what[1:]}"
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def _text(error: Exception | str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {reason}" if error.filename else reason
    return str(error)
