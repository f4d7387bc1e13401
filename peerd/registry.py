"""All overlays, by name. The only module that knows them all.

Adding an overlay is one folder under `protocols/` and its name here; the conformance suite, the simulator and the
command line find it by its name. An overlay is imported when it is asked for: a peer runs one of them, and all six are
a third of what a peer loads before it is up.
"""

from importlib import import_module
from typing import Any, Final

import msgspec

from protocols.overlay import Kind
from protocols.peer import MESSAGES

NAMES: Final = ("broadcast", "rtree", "chord", "gosskip", "semantic", "sub2sub")
"""Each is a package of `protocols` with a `KIND`."""

DEFAULT: Final = "rtree"


def kind(name: str) -> Kind:
    """The overlay of that name; `ValueError` with one clear line if there is none."""
    if name not in NAMES:
        raise ValueError(f"there is no overlay '{name}'; choose one of {', '.join(NAMES)}")
    found: Kind = import_module(f"protocols.{name}").KIND
    return found


def kinds() -> list[Kind]:
    """All of them."""
    return [kind(name) for name in NAMES]


def messages(name: str) -> tuple[type[msgspec.Struct], ...]:
    """Every type of message that peers of a swarm with this overlay exchange."""
    return MESSAGES + kind(name).messages


def parameters(name: str, settings: dict[str, str] | None = None) -> msgspec.Struct:
    """The overlay's parameters, with `settings` (KEY=VALUE as text, `profile` included) over the defaults.

    `ValueError` with one clear line for a wrong key or value.
    """
    found = kind(name)
    chosen: dict[str, Any] = dict(settings or {})
    profile = chosen.pop("profile", None)
    if profile is not None and profile not in found.profiles:
        known = ", ".join(found.profiles) or "none"
        raise ValueError(f"overlay '{name}' has no profile '{profile}' (it has {known})")
    values = {**found.profiles.get(profile or "", {}), **chosen}
    fields = found.config.__struct_fields__
    for key in values:
        if key not in fields:
            raise ValueError(f"overlay '{name}' has no parameter '{key}'; it has {', '.join(fields)}")
    try:
        return msgspec.convert(values, found.config, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"overlay '{name}': {error}") from None


def complete(name: str, values: dict[str, Any]) -> bool:
    """Whether the overlay promises, with these parameters, that every owed event arrives."""
    found = kind(name)
    return found.complete(msgspec.convert(values, found.config))
