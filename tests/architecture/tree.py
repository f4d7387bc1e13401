"""The source files as the rules see them: text and syntax, never imported."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
CODE: Final = ("protocols", "peerd", "analytics")
ALL: Final = (*CODE, "deploy", "tests", "benchmarks")


class Source(NamedTuple):
    module: str
    """Its name as one imports it; a package has the name of its folder."""
    path: str
    text: str
    tree: ast.Module


def source(module: str, text: str, path: str = "") -> Source:
    return Source(module, path or module.replace(".", "/") + ".py", text, ast.parse(text))


def sources(*rooms: str) -> Iterator[Source]:
    """Every module below these folders."""
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    return (_read(path.relative_to(ROOT)) for path in paths)


def _read(path: Path) -> Source:
    parts = path.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return source(module, (ROOT / path).read_text(encoding="utf-8"), str(path))
