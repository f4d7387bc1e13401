"""The command line: `peerd` runs a peer, `peerd COMMAND` does something else.

Each command is one small module, named after it, that holds a click command of the same name. Importing this package
imports none of them: the group loads a command's module when it is called or its help is asked for, and a command
imports what it needs (simulator, registry, rich) when it runs. So `peerd --version` and completion stay quick.

    commands.py     the group: loads commands, turns everything that went wrong into one line and an exit code
    errors.py       what a user can put right, in one line
    completion.py   names that the shell completes
    finite.py       numbers that are not nan
    output.py       tables, or plain text where nobody looks; JSON
    progress.py     bars, where somebody looks
    flags.py        the options of a peer, made from its settings; peer.py runs it
    client.py       what all commands share that talk to a running peer: its address, its answers, its problems
    subscribe.py, publish.py, status.py, topology.py, schema.py      such commands
    check.py, overlays.py, frames.py, tls.py                         commands that need no peer
    sim.py, scenario_file.py, assignments.py, verdict.py             `peerd sim`
    testbed.py, live.py                                              `peerd testbed`
    report.py, explain.py, advise.py, analysis.py                    front ends of the analytics
    reproduce.py, papers/                                            `peerd reproduce`: simulator and analytics together
    fleet.py                                                         `peerd fleet`

Exit codes: 0 fine, 1 failed at run time, 2 wrong usage or configuration, 130 interrupted.
"""

from typing import Any

import click

from peerd import __version__
from peerd.cli.commands import Commands
from peerd.cli.flags import peer_flags, refuse_before

__all__ = ["main"]

COMMANDS = {
    "Use a running peer": ("subscribe", "publish", "status", "topology", "schema"),
    "Without a peer": ("check", "overlays", "sim", "testbed", "fleet", "frames", "tls"),
    "Analyse logs (peerd[analytics] and Java)": ("report", "explain", "advise", "reproduce"),
}


@click.group(cls=Commands, modules=COMMANDS, invoke_without_command=True, subcommand_metavar="[COMMAND …]")
@peer_flags
@click.version_option(__version__, prog_name="peerd")
@click.pass_context
def main(context: click.Context, /, print_config: bool, **flags: Any) -> int | None:
    """Content-based publish/subscribe without brokers.

    Without a command: run a peer in the foreground. Without --join it begins a swarm of its own.
    """
    if context.invoked_subcommand is not None:
        refuse_before(context)
        return None
    from peerd.cli import peer

    return peer.run(flags, print_config)
