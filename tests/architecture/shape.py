"""What every module looks like."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.architecture.tree import Source

FUNCTION_LINES_MAX: Final = 70
_UNFINISHED: Final = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b")  # in pieces, so as not to find itself


def no_docstring(source: Source) -> Iterator[tuple[int, str]]:
    """A module that does not say what it is for."""
    if not ast.get_docstring(source.tree):
        yield 1, "a module opens with what it is for"


def long_function(source: Source) -> Iterator[tuple[int, str]]:
    """A function that does not fit on a screen."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"


def unfinished(source: Source) -> Iterator[tuple[int, str]]:
    """A note to oneself."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if _UNFINISHED.search(line):
            yield number, "finish it, or write an issue"
