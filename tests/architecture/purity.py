"""What code in protocols/ must not do: act on the world, or depend on anything but its arguments.

The order of a set of strings differs from process to process, and so would the trace of a run. `hash()` of a string and
`id()` of anything do the same.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from tests.architecture.tree import Source

IMPURE_CALLS: Final = frozenset(
    {"open", "print", "input", "exec", "eval", "breakpoint", "__import__", "hash", "id", "Random", "globals"}
)
CLOCKS: Final = frozenset({"now", "utcnow", "today"})
SET_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
ORDER_FREE: Final = frozenset({"any", "all", "sum", "len", "sorted", "set", "frozenset", "min", "max"})
"""Calls that see no order; `min` and `max` only without a key, for ties are decided by order."""
ORDERED: Final = frozenset({"list", "tuple", "enumerate", "iter", "next", "deque", "zip", "map", "filter", "reversed"})


def impure_call(source: Source) -> Iterator[tuple[int, str]]:
    """Input, output, a clock, randomness of its own, or what differs between processes."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            if not _in_dunder_hash(source.tree, node):
                yield node.lineno, f"protocols must not call {node.func.id}()"
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS and _last_name(node.value) in ("datetime", "date"):
            yield node.lineno, f"protocols must not read a clock ({node.attr})"
        elif isinstance(node, ast.Attribute) and _is_module(source.tree, node.value, "random"):
            yield node.lineno, f"protocols must not use random.{node.attr}"


def _in_dunder_hash(tree: ast.Module, call: ast.Call) -> bool:
    """Whether a call stands in a `__hash__`, where hash() is at home: what counts is who looks at the result."""
    owners = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "__hash__")
    return any(call is inner for owner in owners for inner in ast.walk(owner))


def _is_module(tree: ast.Module, node: ast.AST, name: str) -> bool:
    """Whether a node is that module by its name, not something else that is called so."""
    imported = (alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names)
    return isinstance(node, ast.Name) and node.id == name and name in imported


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def set_iteration(source: Source) -> Iterator[tuple[int, str]]:
    """A loop over a set, or a list made of one, as far as the syntax shows that it is a set."""
    attributes = _set_attributes(source.tree)
    functions = [n for n in ast.walk(source.tree) if isinstance(n, _FUNCTIONS)]
    everywhere = _set_names(_outside_functions(source.tree))
    lines: dict[int, None] = {}
    for nodes in (_outside_functions(source.tree), *(list(ast.walk(function)) for function in functions)):
        known = _set_names(nodes) | attributes | everywhere
        free = _order_free_generators(nodes)
        sites = (site for node in nodes for site in _iterated(node, free))
        lines |= {site.lineno: None for site in sites if _is_set(site, known)}
    for line in sorted(lines):
        yield line, "the order of a set differs between processes: sort it, or use a dict"


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def _outside_functions(node: ast.AST) -> list[ast.AST]:
    found = [node]
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            found += _outside_functions(child)
    return found


def _set_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that are declared or assigned as sets, and as nothing else, in these nodes."""
    return frozenset(name for name in _declared(nodes) if not name.startswith("."))


def _set_attributes(tree: ast.Module) -> frozenset[str]:
    """Attributes that are sets, with a dot before their names: assigned to `self`, or declared in the class."""
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    in_class = {f".{name}" for name in _declared(n for owner in classes for n in owner.body)}
    return frozenset(name for name in _declared(ast.walk(tree)) if name.startswith(".")) | in_class


def _declared(nodes: Iterable[ast.AST]) -> set[str]:
    sets: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        for target, is_set in _bindings(node):
            (sets if is_set else others).add(_key(target))
    return sets - others


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """What a node gives a value or a type to, and whether that is a set."""
    match node:
        case ast.AnnAssign(target=target, annotation=annotation):
            yield target, _is_set_type(annotation)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, _is_set(value, frozenset())) for target in targets)
        case ast.arg(arg=name, annotation=ast.expr() as annotation):
            yield ast.Name(name), _is_set_type(annotation)


def _key(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return "." + node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_set_type(annotation: ast.expr) -> bool:
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _last_name(outer) in ("set", "frozenset", "Set", "AbstractSet", "MutableSet")


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in SET_METHODS:
            return _is_set(value, known)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.Sub(), right=right):
            sides = (left, right)
            return any(_is_set(side, known) for side in sides) or any(_is_keys(side) for side in sides)
        case ast.Name() | ast.Attribute():
            return _key(node) in known
    return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _order_free_generators(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """Generators that stand as the only argument of a call that sees no order."""
    calls = (n for n in nodes if isinstance(n, ast.Call) and len(n.args) == 1 and not n.keywords)
    found = [n.args[0] for n in calls if isinstance(n.func, ast.Name) and n.func.id in ORDER_FREE]
    return [n for n in found if isinstance(n, ast.GeneratorExp | ast.ListComp)]


def _iterated(node: ast.AST, free: list[ast.AST]) -> Iterator[ast.expr]:
    """The expressions that a node runs through in their order."""
    match node:
        case ast.For(iter=over) | ast.AsyncFor(iter=over):
            yield over
        case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
            if not any(node is generator for generator in free):
                yield from (part.iter for part in parts)
        case ast.Starred(value=value):
            yield value
        case ast.Call(func=ast.Name(id=name), args=args) if name in ORDERED:
            yield from args
        case ast.Call(func=ast.Name(id="min" | "max"), args=[only], keywords=[_, *_]):
            yield only
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys" | "sample" | "choice"), args=args):
            yield from args
        case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]):
            yield value
