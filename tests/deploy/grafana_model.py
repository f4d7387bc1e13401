"""Whether JSON is what Grafana's published model of a dashboard says.

Grafana publishes its model as the types of `grafana-foundation-sdk`, generated from the source of its own. They are
read here as a schema: a field that the model does not have, one that it wants and is not there, and one of another type
is a fault each. What the model leaves open (a panel's queries, options and own settings) is looked up under the panel's
type.
"""

import re
import types
import typing
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Any

from grafana_foundation_sdk.models import dashboard, prometheus


def faults(document: object) -> list[str]:
    """What is wrong with a dashboard, one line each."""
    return list(_check(document, dashboard.Dashboard, "$"))


def _check(value: Any, wanted: Any, where: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted in (object, Any):
        return
    if origin in (typing.Union, types.UnionType):
        yield from _any_of(value, arguments, where)
    elif origin is typing.Literal:
        if value not in arguments:
            yield f"{where}: {value!r} is none of {arguments}"
    elif origin is list:
        yield from _items(value, arguments[0], where)
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{where}: no object"
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        if value not in {member.value for member in wanted}:
            yield f"{where}: {value!r} is none of {wanted.__name__}"
    elif wanted in (str, bool, int, float, type(None)):
        yield from _scalar(value, wanted, where)
    else:
        yield from _object(value, wanted, where)


def _any_of(value: Any, wanted: tuple[Any, ...], where: str) -> Iterator[str]:
    if value is None and type(None) in wanted:
        return
    tries = [list(_check(value, each, where)) for each in wanted if each is not type(None)]
    if all(tries):
        yield from min(tries, key=len)


def _items(value: Any, wanted: Any, where: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{where}: no list"
        return
    for number, item in enumerate(value):
        yield from _check(item, wanted, f"{where}[{number}]")


def _scalar(value: Any, wanted: Any, where: str) -> Iterator[str]:
    fits = isinstance(value, (int, float)) if wanted is float else isinstance(value, wanted)
    if not fits or (isinstance(value, bool) and wanted is not bool):
        yield f"{where}: {value!r} is no {wanted.__name__}"


def _object(value: Any, wanted: type, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: no object"
        return
    hints = typing.get_type_hints(wanted)
    named = {_attribute(key, hints): key for key in value}
    for attribute, key in named.items():
        if attribute not in hints:
            yield f"{where}.{key}: {wanted.__name__} has no such field"
            continue
        hint = hints[attribute]
        if wanted is dashboard.Panel:
            hint = _by_type(value, attribute, hint)
        if wanted is dashboard.FieldConfigSource and attribute == "defaults":
            hint = dashboard.FieldConfig
        yield from _check(value[key], hint, f"{where}.{key}")
    for attribute, hint in hints.items():
        if attribute not in named and type(None) not in typing.get_args(hint):
            yield f"{where}.{attribute}: missing"
    if wanted is dashboard.Panel:
        custom = value.get("fieldConfig", {}).get("defaults", {}).get("custom")
        if custom is not None:
            model = import_module(f"grafana_foundation_sdk.models.{value['type']}")
            yield from _check(custom, model.FieldConfig, f"{where}.fieldConfig.defaults.custom")


def _by_type(panel: dict[str, Any], attribute: str, hint: Any) -> Any:
    """What the model of a panel leaves to its type and its data source."""
    if attribute == "options":
        return import_module(f"grafana_foundation_sdk.models.{panel['type']}").Options
    return list[prometheus.Dataquery] if attribute == "targets" else hint


def _attribute(key: str, hints: dict[str, Any]) -> str:
    """The attribute of a JSON key: in snake case, with `_val` behind what Python has a word of its own for."""
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", key)
    return f"{name}_val" if name not in hints and f"{name}_val" in hints else name
