"""`--set KEY=VALUE`: parameters of an overlay, as text."""

from collections.abc import Iterable

from peerd.cli.errors import Wrong


def parameters(assignments: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in assignments:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise Wrong(f"--set {each}: expected KEY=VALUE")
        found[key] = value
    return found
