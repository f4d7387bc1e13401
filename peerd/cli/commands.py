"""The group of all commands.

It differs from click's own in three things. Commands are modules that are imported when they are needed. The help has
commands and options under heads. And whatever goes wrong ends in one line on standard error, where click would print
its usage first; what cannot be a user's doing (any other exception) is a bug and keeps its traceback.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click

from peerd.cli.errors import one_line
from peerd.cli.flags import OTHERS, SECTIONS, section_of

FAILED: Final = 1
INTERRUPTED: Final = 130
"""What shells report for a process that Ctrl-C has ended."""


class Interrupted(click.ClickException):
    """Ctrl-C: click's own answer to it begins with an empty line."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted")


class Commands(click.Group):
    def __init__(self, *args: Any, modules: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        """`modules`: by head, the names of the commands under it."""
        super().__init__(*args, **kwargs)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self._modules.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(f"peerd.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands first, since they are fewer; options under their heads, in the order of the heads' lists."""
        self.format_commands(ctx, formatter)
        shown: dict[str, list[tuple[str, str]]] = {head: [] for head in (*SECTIONS, OTHERS)}
        order = [key for keys in SECTIONS.values() for key in keys]
        parameters = self.get_params(ctx)
        for parameter in sorted(parameters, key=lambda each: order.index(each.name) if each.name in order else 99):
            record = parameter.get_help_record(ctx)
            if record is not None:
                shown[section_of(parameter)].append(record)
        for head, records in shown.items():
            with formatter.section(head):
                formatter.write_dl(records)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for head, names in self._modules.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(60)) for name, command in commands if command is not None]
            with formatter.section(head):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line. A command returns its exit code, or nothing if all went well."""

        def run() -> Any:
            return super(Commands, self).main(args, "peerd", complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        try:
            sys.exit(run())
        except click.ClickException as error:
            _complain(_message(error))
            sys.exit(error.exit_code)
        except click.Abort:  # Ctrl-C before the command had begun
            _complain("interrupted")
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # whoever read our output has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILED)
        except OSError as error:
            _complain(one_line(error))
            sys.exit(FAILED)


def _message(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{message.rstrip('.')}; see '{error.ctx.command_path} --help'"
    return one_line(message)


def _complain(line: str) -> None:
    click.echo(f"peerd: {line}", err=True)
