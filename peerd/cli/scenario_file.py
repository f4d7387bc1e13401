"""Scenario files: TOML with the keys of `peerd.sim.scenario.Scenario`, faults as `[[faults]]` tables.

What is wrong in one is told with the file, the key and what is expected there. msgspec finds it, but speaks of objects
and does not list the choices; so its message is taken apart and the rest looked up in the type.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from peerd.cli.errors import users_fault
from peerd.options import as_text
from peerd.sim.scenario import Scenario

_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<key>.*)`$")
_MISSING: Final = re.compile(r"Object missing required field `(?P<key>.*)`$")


def read(path: str) -> dict[str, Any]:
    """The keys that the file sets, checked one by one."""
    with users_fault(path):
        table = _parsed(Path(path).read_bytes())
        settings = table.get("settings")
        if isinstance(settings, dict):
            table["settings"] = {key: as_text(value) for key, value in settings.items()}
        convert(table)
    return table


def convert(table: dict[str, Any], named: bool = True) -> Scenario:
    """The scenario that a table describes; `ValueError` with the key (`named`) and what is expected there."""
    try:
        return msgspec.convert(table, Scenario)
    except msgspec.ValidationError as error:
        raise ValueError(explain(str(error), inspect.type_info(Scenario), named)) from None


def _parsed(content: bytes) -> dict[str, Any]:
    text = content.decode()
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None


# --- What is expected -------------------------------------------------------------------------------------------------


def explain(message: str, type_: inspect.Type, named: bool = True) -> str:
    """msgspec's message about a value of that type, in the words of somebody who writes TOML."""
    found = _MESSAGE.match(message)
    assert found is not None
    what, path = found["what"], re.findall(r"[^.\[\]]+", found["path"] or "")
    for step in path:
        type_ = _inner(type_, step)
    unknown, missing = _UNKNOWN.match(what), _MISSING.match(what)
    if unknown is not None:
        path = [*path, unknown["key"]]
        what = f"unknown, expected one of {', '.join(_keys(type_))}"
    elif missing is not None:
        what = f"key '{missing['key']}' is missing"
    elif isinstance(type_, inspect.LiteralType):
        what = f"expected one of {', '.join(map(str, type_.values))}"
    else:
        what = what.replace(" | null", "").replace("`object`", "table").replace("`", "")
    return f"{_place(path) if named else ''}{what[0].lower()}{what[1:]}"


def _inner(type_: inspect.Type, step: str) -> inspect.Type:
    if isinstance(type_, inspect.StructType):
        return next((field.type for field in type_.fields if field.encode_name == step), type_)
    if isinstance(type_, inspect.VarTupleType):
        return type_.item_type
    return type_


def _keys(type_: inspect.Type) -> list[str]:
    return [field.encode_name for field in type_.fields] if isinstance(type_, inspect.StructType) else []


def _place(path: list[str]) -> str:
    """`["faults", "0", "share"]` as somebody counts who reads the file."""
    words = [f"table {int(step) + 1}" if step.isdecimal() else f"key '{step}'" for step in path if step != "..."]
    return f"{', '.join(words)}: " if words else ""
