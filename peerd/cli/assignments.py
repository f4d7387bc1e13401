"""`--set KEY=VALUE`: parameters of an overlay, as text."""

from collections.abc import Iterable

from peerd.cli.errors import Wrong
from peerd.options import split_assignment


def parameters(assignments: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in assignments:
        try:
            key, value = split_assignment(each)
        except ValueError as error:
            raise Wrong(f"--set {each}: {error}") from None
        found[key] = value
    return found
