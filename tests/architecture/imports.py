"""Who may import whom.

    model <- parts <- overlay <- each overlay, peer <- registry <- driver <- {net, sim} <- api, testbed, fleet, cli

A module may import from rooms further left, and from its own room. Rooms of one rank do not know each other: overlays,
the peer, the network and the simulator.
"""

import ast
from collections.abc import Iterator
from sys import stdlib_module_names
from typing import Final, NamedTuple

from tests.architecture.tree import Source

RANKS: Final = (
    ("protocols.model",),
    ("protocols.parts",),
    ("protocols.overlay",),
    ("protocols.peer",),  # and each overlay: any other folder in protocols/
    (
        "peerd.registry",
        "peerd.wire",
        "peerd.files",
        "peerd.logs",
        "peerd.clock",
        "peerd.options",
        "peerd.documents",
    ),
    (
        "peerd.driver",
        "peerd.store",
        "peerd.trace",
        "peerd.segments",
        "peerd.metrics",
    ),
    ("peerd.eventlog",),
    ("peerd.net", "peerd.sim"),
    ("peerd.service", "peerd.swarms", "peerd.certificates"),
    ("peerd.client", "peerd.api"),
    ("peerd.config",),
    ("peerd.daemon",),
    ("peerd.testbed",),
    ("peerd.fleet",),
    ("peerd.cli",),
)
PEER_MODULES: Final = (
    "protocols.peer",
    "protocols.inputs",
    "protocols.membership",
    "protocols.growth",
    "protocols.grouping",
    "protocols.individual",
    "protocols.inspection",
    "protocols.participants",
    "protocols.subscriptions",
)
"""The peer is one state machine in several modules."""

MAY_USE_ANALYTICS: Final = ("analytics", "peerd.cli")
OURS: Final = ("protocols", "peerd", "analytics", "deploy", "tests", "benchmarks")

PURE_LIBRARIES: Final = frozenset({"msgspec", "lark", "lxml", "protocols"})
NUMPY_MODULE: Final = "protocols.model.index"
IMPURE: Final = frozenset(
    {
        "asyncio",
        "builtins",
        "concurrent",
        "ctypes",
        "fcntl",
        "getpass",
        "glob",
        "http",
        "importlib.metadata",
        "io",
        "logging",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "platform",
        "queue",
        "random",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shelve",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "sqlite3",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "warnings",
    }
)
PURE_NAMES: Final = {
    "random": frozenset({"Random"}),
    "sys": frozenset({"float_info", "intern", "maxsize", "maxunicode"}),
}
"""What may be taken from an impure module, by name: a type to be given, constants."""


class Import(NamedTuple):
    """One name that a module imports: `name` is empty for `import module`."""

    line: int
    module: str
    name: str
    lazy: bool
    """Inside a function, or for the type checker only."""


def imports(source: Source) -> Iterator[Import]:
    yield from _imports(source.tree, source, False)


def _imports(node: ast.AST, source: Source, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(child.lineno, alias.name, "", lazy) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            module = _absolute(child, source)
            yield from (Import(child.lineno, module, alias.name, lazy) for alias in child.names)
        else:
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_types(child)
            yield from _imports(child, source, lazy or inner)


def _absolute(node: ast.ImportFrom, source: Source) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".")
    above = node.level if not source.path.endswith("__init__.py") else node.level - 1
    return ".".join([*package[: len(package) - above], *(node.module or "").split(".")]).rstrip(".")


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def room(module: str) -> tuple[str, int] | None:
    """The room that a module stands in, and its rank; None for one that has no place yet."""
    if module in PEER_MODULES:
        module = "protocols.peer"
    for rank, rooms in enumerate(RANKS):
        for name in rooms:
            if _inside(module, name):
                return name, rank
    parts = module.split(".")
    if parts[0] == "protocols" and len(parts) > 1:
        return f"protocols.{parts[1]}", 3
    return None


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def wrong_direction(source: Source) -> Iterator[tuple[int, str]]:
    """An import against the direction, or from a room of the same rank."""
    own = room(source.module)
    is_package = source.module in ("protocols", "peerd")
    if own is None and not is_package and source.module.split(".")[0] in ("protocols", "peerd"):
        yield 1, f"{source.module} has no place in the direction of imports (tests/architecture/imports.py)"
        return
    for item in imports(source):
        target = f"{item.module}.{item.name}" if item.module in ("protocols", "peerd") else item.module
        their = room(target)
        if their is None:
            continue
        if own is None or (own[0] != their[0] and own[1] <= their[1]):
            yield item.line, f"{source.module} must not import {target}"


def foreign_room(source: Source) -> Iterator[tuple[int, str]]:
    """`protocols` knows itself only, code does not know the tests, only the command line knows the analytics."""
    top = source.module.split(".")[0]
    for item in imports(source):
        target = item.module.split(".")[0]
        if target not in OURS or target == top:
            continue
        allowed = (top, target) == ("peerd", "protocols")
        if target == "analytics":
            allowed = any(_inside(source.module, name) for name in MAY_USE_ANALYTICS)
        if not allowed:
            yield item.line, f"{source.module} must not import {item.module}"


def impure_import(source: Source) -> Iterator[tuple[int, str]]:
    """In protocols/: a module that does input or output, reads a clock or owns randomness, or a foreign library."""
    for item in imports(source):
        top = item.module.split(".")[0]
        if top == "numpy":
            if source.module != NUMPY_MODULE or not item.lazy:
                yield item.line, f"numpy belongs into functions of {NUMPY_MODULE}"
        elif top in IMPURE or item.module in IMPURE:
            if item.name not in PURE_NAMES.get(item.module, frozenset()):
                yield item.line, f"protocols must not import {item.module} {item.name}".rstrip()
        elif top not in PURE_LIBRARIES and top not in OURS and top not in stdlib_module_names:
            yield item.line, f"protocols must not import {top}"
