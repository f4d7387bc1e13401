"""Settings of a peer: flags over `PEERD_…` variables over a TOML file over defaults.

`Settings` is where a setting is declared: its type, bounds, default and help stand in its field, or in that of the part
of a peer that it is for. From there come the table of options (`OPTIONS`), the names of variables, the keys of the
file, and what `--print-config` prints. The flags alone are in `peerd/options.py`, for the command line.

    flag            --listen HOST:PORT              top-level keys have a flag of their own
    flag            --set net.idle_s=30             keys of a section; without a dot a parameter of the overlay
    variable        PEERD_LISTEN, PEERD_NET_IDLE_S  an empty one counts as not set; PEERD_SET="links=4 net.idle_s=30"
    file            listen = "…", [net] idle_s = 30, [parameters] links = 4

What is not set at all may still come from elsewhere: overlay, parameters, schema and swarm from the data directory or
the contact. So these are None here rather than a default. A list in one place replaces that of a lower one, parameters
are merged one by one. Paths are relative to the working directory.

Everything that is wrong ends in one line that says where it was set and what is expected there (`SettingsError`).
"""

import ipaddress
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from peerd import registry
from peerd.api.config import ApiConfig
from peerd.net import NetConfig, split_endpoint
from peerd.net.endpoints import WILDCARDS
from peerd.options import (
    Count,
    Flags,
    Meaning,
    Option,
    Seconds,
    as_text,
    options,
    setting,
    split_assignment,
    toml_key,
    toml_text,
)
from peerd.service import IDLE_S, ServiceConfig
from peerd.service.deliveries import RETAIN_MAX, RETAIN_S
from protocols.model.bounds import BODY_BYTES_MAX
from protocols.peer import PeerConfig

NAME_MAX: Final = 128
"""Characters in the name of a peer or a swarm: a line of a terminal. Our choice."""

TOKEN_MIN: Final = 16
"""A shorter token can be tried out."""


class SettingsError(ValueError):
    """A setting is wrong; the message is one line that names where it was set and what is expected."""


# --- The settings -----------------------------------------------------------------------------------------------------


class SubscriptionDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What subscriptions get that do not say otherwise."""

    retain_s: Annotated[Seconds, setting("how long deliveries are kept (contract)")] = RETAIN_S
    retain_max: Annotated[Count, setting("deliveries kept for each subscription (contract)")] = RETAIN_MAX
    idle_s: Annotated[
        Seconds | None, setting("unread for so long, a subscription is removed; null: never (contract)")
    ] = IDLE_S


class Settings(Flags, frozen=True, kw_only=True):
    """Everything that can be set: what has a flag, parameters of the overlay, and a section for each part of a peer."""

    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the overlay, as text: `peerd.registry.parameters` knows what they mean."""
    net: NetConfig = NetConfig()
    api: ApiConfig = ApiConfig()
    service: ServiceConfig = ServiceConfig()
    subscriptions: SubscriptionDefaults = SubscriptionDefaults()
    peer: PeerConfig = PeerConfig()
    sources: dict[str, str] = msgspec.field(default_factory=dict)
    """Where each value comes from that is not a default, by dotted key."""

    def source(self, key: str) -> str:
        return self.sources.get(key, "default")

    def peer_config(self) -> PeerConfig:
        """What the peer itself is given: `peer`, with `bootstrap` and `bandwidth` in their places."""
        begin_after_ms = None if self.bootstrap is None else round(self.bootstrap * 1000)
        membership = msgspec.structs.replace(self.peer.membership, begin_after_ms=begin_after_ms)
        return msgspec.structs.replace(self.peer, membership=membership, upload=self.bandwidth)


_HIDDEN: Final = frozenset(
    {
        "parameters",
        "sources",
        "peer.membership.begin_after_ms",
        "peer.membership.sampling",
        "peer.membership.liveness",
        "peer.upload",
    }
)
"""No options: not single values, told by `--bootstrap` and `--bandwidth`, or the simulator's."""

SECRETS: Final = frozenset({"api.token"})
"""Never shown, neither in a complaint nor by `--print-config`."""

OPTIONS: Final = tuple(options(Settings, _HIDDEN))
"""All settings, in the order in which they are declared."""

_BY_KEY: Final = {option.key: option for option in OPTIONS}
_SECTIONS: Final = tuple(dict.fromkeys(key.rpartition(".")[0] for key in _BY_KEY if "." in key))

FILE_VARIABLE: Final = "PEERD_CONFIG"
SET_VARIABLE: Final = "PEERD_SET"
CLIENT_VARIABLES: Final = ("PEERD_URL", "PEERD_TOKEN")
"""What commands that talk to a peer read; a peer has no use for them."""

_FOREIGN: Final = re.compile(r"PEERD(_[A-Z0-9]+)*_(SERVICE_(HOST|PORT)|PORT)(_.*)?$")
"""Kubernetes puts the addresses of a service called `peerd` or `peerd-…` into the environment of every container."""

# --- Loading ----------------------------------------------------------------------------------------------------------

Found: TypeAlias = dict[str, tuple[Any, str]]
"""By dotted key the value as it was written, and where."""
ReadFile: TypeAlias = Callable[[str], bytes]


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def load(flags: Mapping[str, Any], environ: Mapping[str, str], read_file: ReadFile = read_bytes) -> Settings:
    """The settings in force.

    `flags` has the values of flags by option key, and under `config` and `set` those of these two; None and an empty
    tuple mean that a flag was not given. Values may be texts or have their types already.
    """
    found: Found = {}
    file, named_by = flags.get("config"), "flag --config"
    if file is None and environ.get(FILE_VARIABLE):
        file, named_by = environ[FILE_VARIABLE], f"variable {FILE_VARIABLE}"
    if file is not None:
        found |= _from_file(str(file), named_by, read_file)
    found |= _from_environment(environ)
    found |= _from_flags(flags)
    settings = _settings(found)
    _check(settings)
    return settings


def _from_file(path: str, named_by: str, read_file: ReadFile) -> Found:
    try:
        table = tomllib.loads(read_file(path).decode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(f"{named_by}: {path}: {reason}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"file {path}: not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"file {path}: not TOML: {error}") from None
    return {key: (value, f"file {path} key {key}") for key, value in _flat(table, "", path)}


def _flat(table: Mapping[str, Any], prefix: str, path: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, Mapping) and (key in _SECTIONS or key == "parameters" or _above_section(key)):
            yield from _flat(value, f"{key}.", path)
        elif key in _BY_KEY or prefix == "parameters.":
            yield key, value
        else:
            raise SettingsError(f"file {path} key {key}: {_unknown(key)}")


def _above_section(key: str) -> bool:
    return any(section.startswith(f"{key}.") for section in _SECTIONS)


def _from_environment(environ: Mapping[str, str]) -> Found:
    found: Found = {}
    by_variable = {option.variable: option for option in OPTIONS}
    for variable, text in environ.items():
        if not variable.startswith("PEERD_") or not text:
            continue
        option = by_variable.get(variable)
        if option is not None:
            found[option.key] = text, f"variable {variable}"
        elif variable == SET_VARIABLE:
            found |= _assignments(text.split(), f"variable {variable}")
        elif variable not in (FILE_VARIABLE, *CLIENT_VARIABLES) and not _FOREIGN.match(variable):
            raise SettingsError(f"variable {variable}: no such setting{_near(variable, by_variable)}")
    return found


def _from_flags(flags: Mapping[str, Any]) -> Found:
    found: Found = {}
    for key, value in flags.items():
        if value is None or value == () or key == "config":
            continue
        if key == "set":
            found |= _assignments(value, "flag --set")
            continue
        option = _BY_KEY[key]
        given = (value,) if isinstance(value, str) else value
        if option.many and not all(_list(item) for item in given):  # --join "$SEED", and nobody has set SEED
            raise SettingsError(f"flag {option.flag}: expected {option.metavar}, not an empty text")
        found[key] = value, f"flag {option.flag}"
    return found


def _assignments(texts: Iterable[str], source: str) -> Found:
    found: Found = {}
    for text in texts:
        try:
            key, value = split_assignment(text)
        except ValueError as error:
            raise SettingsError(f"{source} {text}: {error}") from None
        if "." not in key:
            if key in _BY_KEY:
                raise SettingsError(f"{source} {key}: that is no parameter of an overlay; use {_BY_KEY[key].flag}")
            key = f"parameters.{key}"
        elif key not in _BY_KEY and not key.startswith("parameters."):
            raise SettingsError(f"{source} {key}: {_unknown(key)}")
        found[key] = value, f"{source} {key.removeprefix('parameters.')}"
    return found


def _unknown(key: str) -> str:
    return f"no such setting{_near(key, _BY_KEY)}"


def _near(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), 1)
    return f"; did you mean {close[0]}?" if close else "; 'peerd --help' and --print-config show what there is"


_PRINTABLE: Final = "expected text without line breaks or control characters"

# --- Converting -------------------------------------------------------------------------------------------------------


def _settings(found: Found) -> Settings:
    tree: dict[str, Any] = {"parameters": {}, "sources": {key: source for key, (_, source) in found.items()}}
    for key, (value, source) in found.items():
        *sections, name = key.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = _parameter(value, source) if sections == ["parameters"] else _value(_BY_KEY[key], value, source)
    return msgspec.convert(tree, Settings)


def _parameter(value: object, source: str) -> str:
    text = as_text(value)
    if not isinstance(text, str):
        raise SettingsError(f"{source}: expected a text or a number")
    if not text.isprintable():
        raise SettingsError(f"{source}: {_PRINTABLE}")
    return text


def _value(option: Option, value: Any, source: str) -> Any:
    """The value in its type; `SettingsError` if it is none of it."""
    if option.many:
        value = _list(value)
    fault = SettingsError(f"{source}: {_shown(option, value)}expected {option.expected}")
    try:
        converted = msgspec.to_builtins(msgspec.convert(value, option.type, strict=False))
    except msgspec.ValidationError:
        raise fault from None
    if isinstance(converted, int | float) and not 0 <= converted < math.inf:
        raise fault  # no setting is negative, whether its type says so or not
    for text in converted if option.many else (converted,):
        if isinstance(text, str):
            _check_text(option, text, source)
    return converted


def _list(value: Any) -> Any:
    """A list as flags repeat it or a file writes it; one text has its items between commas or blanks."""
    if isinstance(value, str):
        return [item for item in re.split(r"[,\s]+", value) if item]
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return [item for text in value for item in _list(text)]
    return value


def _shown(option: Option, value: object) -> str:
    return "" if option.key in SECRETS else f"'{value}': " if isinstance(value, str) else f"{value!r}: "


def _check_text(option: Option, text: str, source: str) -> None:
    if not text.isprintable():  # which a lone surrogate is not, either: bytes that are no UTF-8
        raise SettingsError(f"{source}: {_PRINTABLE}")
    if option.meaning in ("listen", "endpoint"):
        _check_endpoint(option.meaning, text, source)
    elif option.optional and not text:
        raise SettingsError(f"{source}: expected text that is not empty")
    elif option.key in ("name", "swarm", "log_run") and len(text) > NAME_MAX:
        raise SettingsError(f"{source}: expected at most {NAME_MAX} characters")
    elif option.key in SECRETS and len(text) < TOKEN_MIN:
        raise SettingsError(f"{source}: expected at least {TOKEN_MIN} characters, so that it cannot be guessed")


def _check_endpoint(meaning: Meaning, text: str, source: str) -> None:
    try:
        host, port = split_endpoint(text)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    if meaning == "endpoint" and (host in WILDCARDS or port == 0):
        raise SettingsError(f"{source}: '{text}': expected the HOST:PORT of one peer, not a wildcard")


# --- What values mean together ----------------------------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there. A name is not looked up: only `localhost` is sure."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _check(settings: Settings) -> None:
    listen, http = split_endpoint(settings.listen), split_endpoint(settings.http)
    if not is_loopback(listen[0]) and settings.tls is None and not settings.insecure:
        raise SettingsError(
            f"{settings.source('listen')}: {settings.listen} listens beyond this machine without TLS; "
            "give it certificates with --tls, or say --insecure if you trust the network"
        )
    if not is_loopback(http[0]) and settings.api.token is None and not settings.insecure:
        raise SettingsError(
            f"{settings.source('http')}: {settings.http} listens beyond this machine without a token; "
            "set PEERD_API_TOKEN, or say --insecure if you trust the network"
        )
    if settings.service.max_event_bytes > BODY_BYTES_MAX:
        source = settings.source("service.max_event_bytes")
        raise SettingsError(f"{source}: expected at most {BODY_BYTES_MAX}, which is what peers pass on")
    if listen == http and listen[1]:
        raise SettingsError(f"{settings.source('http')}: {settings.http} is the address of --listen, too")
    membership = settings.peer.membership
    if membership.shuffle > membership.view:
        set_ = [key for key in ("peer.membership.shuffle", "peer.membership.view") if key in settings.sources]
        sources = ", ".join(map(settings.source, set_))
        raise SettingsError(f"{sources}: a shuffle of {membership.shuffle} is more than a view of {membership.view}")
    _check_overlay(settings)


def _check_overlay(settings: Settings) -> None:
    """Check what can be known now: without `--overlay` the data directory or the contact may name any."""
    if settings.overlay is not None:
        try:
            registry.kind(settings.overlay)
        except ValueError as error:
            raise SettingsError(f"{settings.source('overlay')}: {error}") from None
    if not settings.parameters:
        return
    known = dict.fromkeys(name for kind in registry.kinds() for name in kind.config.__struct_fields__)
    for key in settings.parameters:
        if key not in known and key != "profile":
            source = settings.source(f"parameters.{key}")
            raise SettingsError(f"{source}: no overlay has such a parameter{_near(key, known)}")
    overlay = settings.overlay
    if overlay is None and not settings.join and settings.data_dir is None:
        overlay = registry.DEFAULT
    if overlay is None:
        return
    try:
        registry.parameters(overlay, settings.parameters)
    except ValueError as error:
        sources = dict.fromkeys(settings.source(f"parameters.{key}") for key in settings.parameters)
        what = re.sub(r"Expected `(.*?)`(.*?) - at `\$\.(.*)`", r"\3: expected \1\2", str(error))
        raise SettingsError(f"{', '.join(sources)}: {what}") from None


# --- Printing ---------------------------------------------------------------------------------------------------------


def to_toml(settings: Settings, secrets: bool = False) -> str:
    """The settings as a file that has the same effect, with where each comes from. Secrets only if asked for."""
    lines: list[str] = []
    section = ""
    for option in OPTIONS:
        table, _, name = option.key.rpartition(".")
        if table != section:
            if not section:
                lines += _parameters_table(settings)
            section = table
            lines += ["", f"[{section}]"]
        lines.append(_line(option, name, _at(settings, option.key), settings.source(option.key), secrets))
    return "\n".join(lines) + "\n"


def _parameters_table(settings: Settings) -> list[str]:
    rows = [
        f"{toml_key(name)} = {_toml(text)}  # {_comment(settings.source(f'parameters.{name}'))}"
        for name, text in settings.parameters.items()
    ]
    return ["", "[parameters]", *rows]


def _at(settings: Settings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _line(option: Option, name: str, value: Any, source: str, secrets: bool) -> str:
    if value is None and option.default is None:
        return f"# {name} is not set"
    if option.key in SECRETS and not secrets:
        return f"# {name} is set, but not shown: {_comment(source)}"
    return f"{name} = {_toml('null' if value is None else value)}  # {_comment(source)}"


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _toml(value: Any) -> str:
    """A value in TOML. Texts are printable."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return toml_text(value)
    return repr(value)
