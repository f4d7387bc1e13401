"""`peerd testbed`: many real peers on this machine."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from peerd.cli.assignments import parameters
from peerd.cli.completion import overlay_names, workload_names
from peerd.cli.errors import one_line, users_fault

if TYPE_CHECKING:
    from peerd.testbed.place import Place
    from peerd.testbed.run import Plan, TestbedSummary
    from peerd.testbed.survey import Survey

T = TypeVar("T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@click.group(short_help="Run many real peers on this machine.", no_args_is_help=False)
def testbed() -> None:
    """Run many real peers on this machine: real processes, TCP and HTTP, on loopback only.

    'up' leaves them running until 'down'; 'run' starts them, gives them a workload, compares what arrived with what was
    owed, and takes them down again.
    """


def _options(*options: Decorator) -> Decorator:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_directory = click.option("--dir", "directory", metavar="DIR", type=click.Path(), help="Where the testbed's files are.")
_as_json = click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
_swarm = _options(
    click.option("--overlay", metavar="NAME", shell_complete=overlay_names, help="How peers are linked."),
    click.option("--peers", metavar="N", type=int, help="Peers [24]."),
    click.option("--workload", metavar="NAME", shell_complete=workload_names, help="Interests and events [stocks]."),
    click.option("--seed", metavar="N", type=int, help="What is random in the workload follows from it [0]."),
    click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A parameter of the overlay."),
    click.option("--log-dir", metavar="DIR", type=click.Path(), help="Every peer writes log records there."),
    _directory,
)
_load = _options(
    click.option("--subscriptions", metavar="N", type=int, help="Subscriptions in all [one for each peer]."),
    click.option("--rate", metavar="N", type=float, help="Events a second [50]."),
)


# --- Commands ---------------------------------------------------------------------------------------------------------


@testbed.command(short_help="Start peers and leave them running.")
@_swarm
@_as_json
def up(directory: str | None, as_json: bool, settings: tuple[str, ...], **options: Any) -> None:
    """Start peers and leave them running until 'peerd testbed down'."""
    from peerd.cli.output import print_json
    from peerd.cli.progress import progress
    from peerd.sim.workloads import workload
    from peerd.testbed.bed import Bed, BedConfig

    plan, place = _plan(options, settings), _place(directory)
    config = BedConfig(
        overlay=plan.overlay,
        peers=plan.peers,
        schema=workload(plan.workload).schema,
        seed=plan.seed,
        parameters=plan.settings,
        log_dir=plan.log_dir,
        run_name=plan.run_name,
    )
    bed = Bed(place, config)

    async def start() -> None:
        with progress() as show:
            await bed.up(show)
        bed.let_go()

    _run(start())
    first = bed.members[0]
    if as_json:
        print_json({"directory": str(place.directory), "peers": len(bed.members), "http": first.http})
    else:
        click.echo(f"{len(bed.members)} peers of {plan.overlay} are up; the first is at http://{first.http}")
        click.echo(f"Their processes and addresses are in {place.directory / 'testbed.json'}")


@testbed.command(short_help="Show the peers that are running.")
@_directory
@_as_json
def status(directory: str | None, as_json: bool) -> int:
    """Show how many peers are up, how they are, and what they use. Exits with 1 if there is no testbed."""
    import msgspec

    from peerd.cli.output import print_json, print_table
    from peerd.testbed.survey import survey

    place = _place(directory)
    found = _run(survey(place))
    if found is None:
        raise click.ClickException(f"no testbed is up in {place.directory}")
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        print_table(_status_rows(found))
    return 0


def _status_rows(found: "Survey") -> list[tuple[str, str]]:
    server = f"process {found.server_pid}" if found.server_lives else "has ended; 'peerd testbed down' cleans up"
    return [
        ("directory", found.directory),
        ("overlay", found.overlay),
        ("started", found.started_at),
        ("fork server", server),
        ("peers", ", ".join(f"{count:,} {condition}" for condition, count in found.conditions.items()) or "none"),
        ("memory", f"{found.memory_mb:,.0f} MB in all"),
        ("processor", f"{found.cpu_share:.2f} of one core now, {found.cpu_s:,.1f} s so far"),
    ]


@testbed.command(short_help="End the peers that are running.")
@_directory
def down(directory: str | None) -> None:
    """Let all peers leave, and kill those that take too long."""
    from peerd.testbed.bed import take_down

    place = _place(directory)
    count = _run(take_down(place))
    click.echo(f"{count:,} peers were taken down" if count is not None else f"no testbed was up in {place.directory}")


@testbed.command(short_help="Start peers, give them a workload, and judge.")
@_swarm
@_load
@click.option("--events", metavar="N", type=int, help="Events published [500].")
@click.option("--kill", metavar="N", type=int, help="Peers killed in the middle of the first half of the events [0].")
@click.option("--read/--no-read", "readers", default=False, help="Also read every delivery over HTTP.")
@_as_json
def run(directory: str | None, as_json: bool, settings: tuple[str, ...], **options: Any) -> int:
    """Start peers, publish events through them, kill some, and compare what arrived with what was owed.

    Exits with 1 if the overlay broke one of its guarantees.
    """
    import msgspec

    from peerd.cli.output import print_json, print_table
    from peerd.cli.progress import progress
    from peerd.testbed.run import Run

    plan, place = _plan(options, settings), _place(directory)
    with progress() as show:
        summary = _run(Run(plan, place, show).run())
    if as_json:
        print_json(msgspec.to_builtins(summary))
    else:
        print_table(_rows(summary))
    return _judge(summary)


@testbed.command(short_help="A live workload to look at.")
@_swarm
@_load
@click.option("--seconds", metavar="S", type=float, default=60.0, help="How long it lasts [60].")
def demo(directory: str | None, settings: tuple[str, ...], **options: Any) -> int:
    """Start peers, let applications publish and read over HTTP, show what arrives, and end with a table.

    Exits with 1 if a delivery is missing.
    """
    from peerd.cli.live import show_live, table
    from peerd.cli.output import print_table
    from peerd.testbed.run import Run

    plan, place = _plan({**options, "readers": True}, settings), _place(directory)
    summary = _run(show_live(Run(plan, place)))
    print_table(table(summary))
    return _judge(summary)


# --- What they share --------------------------------------------------------------------------------------------------


def _plan(options: dict[str, Any], settings: tuple[str, ...]) -> "Plan":
    """The options, checked."""
    import msgspec
    from msgspec.inspect import type_info

    from peerd import registry
    from peerd.cli.scenario_file import explain
    from peerd.sim.workloads import workload
    from peerd.testbed.run import Plan

    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        try:
            msgspec.convert({key: value}, Plan)
        except msgspec.ValidationError as error:
            with users_fault(f"--{key.replace('_', '-')}"):
                raise ValueError(explain(str(error), type_info(Plan), named=False)) from None
    plan = msgspec.convert({**given, "settings": parameters(settings)}, Plan)
    with users_fault("--overlay"):
        registry.kind(plan.overlay)
    with users_fault("--set"):
        registry.parameters(plan.overlay, plan.settings)
    with users_fault("--workload"):
        workload(plan.workload)
    with users_fault("--kill"):
        if plan.kill >= plan.peers:
            raise ValueError("expected fewer than --peers: somebody has to be left")
    if plan.log_dir is not None:
        with users_fault("--log-dir"):
            Path(plan.log_dir).mkdir(parents=True, exist_ok=True)
    return plan


def _place(directory: str | None) -> "Place":
    from peerd.testbed.place import Place, default_directory

    return Place(default_directory() if directory is None else Path(directory))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end; whatever a testbed cannot do is one line."""
    from peerd.testbed.place import TestbedError

    try:
        return asyncio.run(work)
    except TestbedError as error:
        raise click.ClickException(one_line(error)) from None


def _rows(summary: "TestbedSummary") -> list[tuple[str, str]]:
    from peerd.cli.verdict import rows

    unread = "nobody read" if summary.unread is None else f"{summary.unread:,}"
    return [
        *rows(summary),
        ("peers killed", f"{summary.killed:,}"),
        ("all peers ready", f"after {summary.ready_s:.1f} s"),
        ("deliveries not read once", unread),
    ]


def _judge(summary: "TestbedSummary") -> int:
    """The exit code, and a line that says why it is not 0."""
    from peerd import registry
    from peerd.cli.verdict import broken_promises

    broken = broken_promises(summary, registry.complete(summary.overlay, summary.parameters))
    if summary.unread:
        broken.append(f"deliveries not read exactly once: {summary.unread}")
    if broken:
        click.echo(f"peerd: {summary.overlay} broke its guarantees: {'; '.join(broken)}", err=True)
    return 1 if broken else 0
