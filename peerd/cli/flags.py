"""The options of a peer. All but four are settings (`peerd/options.py`), which say themselves what they are.

Values are handed on as they were written: what they must be, and what they mean together, is decided where variables
and the file are looked at, too (`peerd/config.py`).
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from peerd.cli.completion import overlay_names
from peerd.cli.errors import Wrong
from peerd.options import FLAGS, Option

F = TypeVar("F", bound=Callable[..., Any])

SECTIONS: Final = {
    "The swarm": ("overlay", "join", "bootstrap", "swarm", "schema"),
    "Addresses": ("listen", "http", "advertise", "tls", "insecure"),
    "This peer": ("name", "data_dir", "bandwidth"),
    "Logs": ("log_dir", "log_detail", "log_sample", "log_keep", "log_run", "log_format", "log_level"),
}
"""Where the help shows a flag; one that is named nowhere comes under `OTHERS`."""
OTHERS: Final = "Settings and more"


def peer_flags(command: F) -> F:
    """Decorate a command with all of them; the values come by their keys, None or empty if they were not given."""
    for decorate in (
        click.option("--print-config", is_flag=True, help="Print the settings in force as TOML, and exit."),
        click.option(
            "--set",
            "set",
            metavar="KEY=VALUE",
            multiple=True,
            help="A parameter of the overlay ('peerd overlays'), or any setting as --print-config shows it.",
        ),
        click.option("--config", metavar="FILE", type=click.Path(), help="Settings in a TOML file."),
        *(_flag(option) for option in reversed(FLAGS)),
    ):
        command = decorate(command)
    return command


def _flag(option: Option) -> Callable[[F], F]:
    kind: Any = click.STRING
    if option.form == "choice":
        kind = click.Choice(option.choices)
    elif option.meaning in ("file", "directory"):
        kind = click.Path(file_okay=option.meaning == "file")
    if option.form == "bool":
        return click.option(option.flag, option.key, is_flag=True, default=None, help=_help(option))
    return click.option(
        option.flag,
        option.key,
        type=kind,
        multiple=option.many,
        metavar=None if option.form == "choice" else option.metavar,
        shell_complete=overlay_names if option.key == "overlay" else None,
        help=_help(option),
    )


def _help(option: Option) -> str:
    default = "" if option.default in (None, (), "", False) else f" [{option.default}]"
    return f"{option.what[0].upper()}{option.what[1:]}{default}."


def section_of(parameter: click.Parameter) -> str:
    """Under which head the help shows an option."""
    return next((head for head, keys in SECTIONS.items() if parameter.name in keys), OTHERS)


def refuse_before(context: click.Context) -> None:
    """Options of a peer that stand before a command would have no effect; whoever wrote them meant something."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            command = context.invoked_subcommand
            raise Wrong(f"{parameter.opts[0]} is for running a peer; options of '{command}' stand after its name")
