"""Options: how a setting is declared, and those settings that have a flag of their own.

A setting is a field of a frozen struct. Its type, bounds, default and help stand in its annotation (`setting`), and
nowhere else: `options` reads them from there for the command line, the environment and the file (`peerd/config.py`).

What the command line, the environment and files have in common in writing values down is here, too.

This module imports nothing heavy, since the command line needs the flags before it knows which command was asked for.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta, inspect

Form: TypeAlias = Literal["text", "int", "float", "bool", "choice"]
Meaning: TypeAlias = Literal["", "listen", "endpoint", "file", "directory"]
"""What a text stands for: `listen` may have port 0 and no host, an `endpoint` may not."""

Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Rate: TypeAlias = Annotated[float, Meta(gt=0)]


def setting(what: str, metavar: str = "", meaning: Meaning = "") -> Meta:
    """Describes a setting in its type."""
    return Meta(description=what, extra={"metavar": metavar, "meaning": meaning})


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as the command line, the environment and the file know it."""

    key: str
    """As in the file, sections and key with dots between them; for a flag also the key in `load`'s dictionary."""
    flag: str
    """`--listen`; empty where only `--set KEY=VALUE` sets it."""
    variable: str
    form: Form
    many: bool
    """It may be given more than once: the value is a tuple of texts."""
    optional: bool
    """It may be unset. Where the default is not None, the word `null` says so."""
    what: str
    metavar: str
    meaning: Meaning
    default: Any
    choices: tuple[str, ...]
    expected: str
    """What a value must be, in words."""
    type: Any
    """The annotation, for msgspec."""


def options(struct: Any, hidden: frozenset[str] = frozenset(), prefix: str = "") -> Iterator[Option]:
    """The settings of a struct and of those within it, in their order, but for the keys that are `hidden`."""
    defaults = struct()
    for name, hint in get_type_hints(struct, include_extras=True).items():
        key, default = prefix + name, getattr(defaults, name)
        if key in hidden:
            continue
        if isinstance(default, msgspec.Struct):
            yield from options(type(default), hidden, f"{key}.")
        elif (option := _option(key, hint, default)) is not None:
            yield option


_FORMS: Final[dict[type[inspect.Type], Form]] = {
    inspect.StrType: "text",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.BoolType: "bool",
    inspect.LiteralType: "choice",
}


def _option(key: str, hint: Any, default: Any) -> Option | None:
    """None for a field that is nothing a user could write in a word."""
    type_, what = inspect.type_info(hint), ""
    extra: dict[Any, Any] = {}
    if isinstance(type_, inspect.Metadata):
        what, extra = (type_.extra_json_schema or {}).get("description", ""), type_.extra or {}
        type_ = type_.type
    optional = isinstance(type_, inspect.UnionType)
    if isinstance(type_, inspect.UnionType):
        type_ = next(each for each in type_.types if not isinstance(each, inspect.NoneType))
    many = isinstance(type_, inspect.VarTupleType)
    if isinstance(type_, inspect.VarTupleType):
        type_ = type_.item_type
    while isinstance(type_, inspect.Metadata):
        type_ = type_.type
    form = _FORMS.get(type(type_))
    if form is None:
        return None
    choices = get_args(get_args(hint)[0]) if form == "choice" else ()  # msgspec has them sorted
    return Option(
        key=key,
        flag="" if "." in key else f"--{key.replace('_', '-')}",
        variable=f"PEERD_{key.upper().replace('.', '_')}",
        form=form,
        many=many,
        optional=optional,
        what=what,
        metavar=extra.get("metavar") or {"int": "N", "float": "X", "choice": "|".join(choices)}.get(form, ""),
        meaning=extra.get("meaning", ""),
        default=default,
        choices=choices,
        expected=_expected(form, type_, optional and default is not None, choices),
        type=hint,
    )


def _expected(form: Form, type_: inspect.Type, nullable: bool, choices: Sequence[str]) -> str:
    if form == "choice":
        return f"one of {', '.join(choices)}"
    words = {"text": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}[form]
    low, above, high = (getattr(type_, bound, None) for bound in ("ge", "gt", "le"))
    if low is None and above is None and form in ("int", "float"):
        low = 0  # `_value` sees to it
    if low is not None and high is not None:
        words += f" from {low:g} to {high:g}" if high < 10_000 else f" from {low} to {high}"
    elif low is not None:
        words += f" of at least {low}"
    elif above is not None:
        words += f" above {above:g}"
    return f"{words}, or null" if nullable else words


# --- Values as they are written ---------------------------------------------------------------------------------------


def split_assignment(text: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    """Key and value; `ValueError` that names the form if it is something else."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"expected {form}")
    return key, value


def as_text(value: object) -> object:
    """A parameter as `--set` would give it, so that a file may say `links = 3`. What has no such form stays."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def toml_text(text: str) -> str:
    """A printable text in TOML, which then escapes what JSON does."""
    return msgspec.json.encode(text).decode()


def toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


# --- The flags --------------------------------------------------------------------------------------------------------


HTTP: Final = "127.0.0.1:6480"
URL: Final = f"http://{HTTP}"
"""Where a peer's API is by default (contract)."""


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    overlay: Annotated[str | None, setting("how peers are linked ('peerd overlays')", "NAME")] = None
    join: Annotated[
        tuple[str, ...], setting("a peer of the swarm to join; may be repeated", "HOST:PORT", "endpoint")
    ] = ()
    listen: Annotated[str, setting("where other peers reach this one", "HOST:PORT", "listen")] = "127.0.0.1:6470"
    http: Annotated[str, setting("where clients reach this peer", "HOST:PORT", "listen")] = HTTP
    advertise: Annotated[
        str | None, setting("the address to tell other peers, if not that of --listen", "HOST:PORT", "endpoint")
    ] = None
    swarm: Annotated[str | None, setting("the swarm's name", "NAME")] = None
    schema: Annotated[str | None, setting("TOML file with the swarm's attributes", "FILE", "file")] = None
    data_dir: Annotated[str | None, setting("what survives a restart is kept here", "DIR", "directory")] = None
    log_dir: Annotated[str | None, setting("write log records into this directory", "DIR", "directory")] = None
    log_detail: Annotated[Literal["full", "deliveries", "summary"], setting("how much of them is kept")] = "full"
    log_sample: Annotated[
        Annotated[float, Meta(ge=0, le=1)], setting("share of the events that leave records", "RATE")
    ] = 1.0
    log_keep: Annotated[
        Annotated[int, Meta(ge=2**20)] | None, setting("delete the oldest records beyond so many bytes", "BYTES")
    ] = None
    log_run: Annotated[str | None, setting("the run's name in log records, if not the swarm's", "NAME")] = None
    name: Annotated[str, setting("what people call this peer", "TEXT")] = ""
    bandwidth: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        setting("upload budget in bytes a second, for overlays that keep to one", "UNITS"),
    ] = None
    bootstrap: Annotated[Seconds | None, setting("begin the swarm after finding nobody for so long", "SECONDS")] = None
    tls: Annotated[
        str | None, setting("talk to peers of one authority only; its certificates ('peerd tls')", "DIR", "directory")
    ] = None
    insecure: Annotated[bool, setting("listen beyond this machine without TLS or a token")] = False
    log_format: Annotated[Literal["text", "json"], setting("form of the log on standard error")] = "text"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], setting("what goes there")] = "info"


FLAGS: Final = tuple(options(Flags))
