"""`peerd` without a command: a peer in the foreground, until it is told to stop."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from peerd.cli.errors import Wrong, one_line

if TYPE_CHECKING:
    from peerd.config import Settings


def run(flags: Mapping[str, Any], print_config: bool) -> int:
    """Run a peer with the settings of these flags, the environment and the file; return the exit code.

    Exit codes: 2 if the settings cannot work, whether that is seen now or only in what the contact says of its swarm;
    1 if what they ask for cannot be had at present, such as a port or a data directory that another process uses.
    """
    from peerd import config

    try:
        settings = config.load(flags, os.environ)
    except config.SettingsError as error:
        raise Wrong(one_line(error)) from None
    if print_config:
        click.echo(config.to_toml(settings), nl=False)
        return 0
    _run(settings)
    return 0


def _run(settings: "Settings") -> None:
    from peerd import logs
    from peerd.config import SettingsError
    from peerd.net import loop
    from peerd.store import StoreError

    logs.configure(settings.log_format, settings.log_level)
    try:
        loop.run(_live(settings))
    except SettingsError as error:
        raise Wrong(one_line(error)) from None
    except StoreError as error:
        raise click.ClickException(one_line(error)) from None
    except asyncio.CancelledError:  # told to stop for the second time
        raise KeyboardInterrupt from None


async def _live(settings: "Settings") -> None:
    from peerd.daemon import Daemon

    daemon = Daemon(settings, _announce)
    daemon.stop_on_signals()
    await daemon.run()


def _announce(line: str) -> None:
    with suppress(OSError):  # a peer goes on when nobody listens to it any more
        click.echo(line)
