"""`peerd fleet`: for peers that run in containers or on other machines, and are reached over HTTP alone."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from peerd.cli.completion import workload_names
from peerd.cli.errors import Wrong, one_line, users_fault

if TYPE_CHECKING:
    from peerd.fleet.ledger import Ledger

T = TypeVar("T")

_workload = click.option(
    "--workload", metavar="NAME", default="stocks", shell_complete=workload_names, help="Interests and events [stocks]."
)
_seed = click.option("--seed", metavar="N", type=int, default=0, help="What is random follows from it [0].")

_ACTIONS = click.Choice(["kill", "stop", "pause", "cut"])


@click.group(short_help="Drive peers that run in containers or elsewhere.", no_args_is_help=False)
def fleet() -> None:
    """Drive peers that run in containers or on other machines, and are reached over HTTP alone.

    'preflight' looks whether this machine can hold them, 'workload' gives them work and knows what is missing, 'chaos'
    stops, kills, pauses and cuts off containers.
    """


# --- Commands ---------------------------------------------------------------------------------------------------------


@fleet.command(short_help="Can this machine hold so many?")
@click.option("--peers", metavar="N", type=click.IntRange(1, 100_000), default=200, help="Containers [200].")
@_workload
@click.option("--schema-out", metavar="FILE", type=click.Path(), help="Write the workload's schema there.")
def preflight(peers: int, workload: str, schema_out: str | None) -> int:
    """Look whether this machine can hold so many containers, and whether the settings of a peer in the environment
    (PEERD_OVERLAY and others) make sense. Changes nothing; exits with 1 and says what to do if it cannot.
    """
    import os

    from peerd import config
    from peerd.cli.output import print_table
    from peerd.fleet.preflight import findings

    text = _schema(workload)
    try:
        config.load({}, {key: value for key, value in os.environ.items() if key != "PEERD_SCHEMA"})
    except config.SettingsError as error:
        raise Wrong(one_line(error)) from None
    found = list(findings(peers))
    print_table([(each.what, "ok" if each.fine else "NOT OK", each.found) for each in found])
    wrong = [each for each in found if not each.fine]
    if wrong:
        raise click.ClickException("; ".join(f"{each.what}: {each.advice}" for each in wrong))
    if schema_out is not None:
        Path(schema_out).write_text(text, "utf-8")
    return 0


@fleet.command(short_help="Print the schema of a workload.")
@_workload
def schema(workload: str) -> None:
    """Print the schema of a workload, as a file that '--schema' takes."""
    click.echo(_schema(workload), nl=False)


@fleet.command(short_help="Give peers subscriptions and events, and count.")
@click.option("--at", "names", metavar="HOST:PORT", multiple=True, required=True, help="HTTP of peers; a name is all.")
@click.option("--peers", metavar="N", type=int, help="Publish when so many take part [1].")
@click.option("--subscriptions", metavar="N", type=int, help="For each peer [1].")
@click.option("--rate", metavar="N", type=float, help="Events a second [50].")
@click.option("--events", metavar="N", type=int, help="End after so many; without it when told to stop.")
@click.option("--http", metavar="HOST:PORT", default="127.0.0.1:6490", help="Metrics and faults [127.0.0.1:6490].")
@click.option("--log-dir", metavar="DIR", type=click.Path(), help="Faults are recorded there, beside peers' records.")
@click.option("--run", metavar="NAME", help="What the peers call their run [peerd].")
@_workload
@_seed
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
def workload(http: str, as_json: bool, **options: Any) -> int:
    """Give peers subscriptions, publish through them, read every delivery, and count what is owed and what is missing.

    Peers are found by name, again and again. Under --http there are metrics, and faults can be announced. Exits with 1
    if an owed delivery is missing, or one came that no filter asked for.
    """
    from peerd import logs
    from peerd.fleet.desk import Desk
    from peerd.fleet.driver import Driver, FleetError, Plan
    from peerd.net import loop, split_endpoint

    given = {key: value for key, value in options.items() if value is not None}
    plan = _plan(given, Plan)
    with users_fault("--at"):
        for name in plan.names:
            split_endpoint(name)
    with users_fault("--http"):
        split_endpoint(http)
    _schema(plan.workload)
    logs.configure()

    async def drive() -> "Ledger":
        driver = Driver(plan)
        desk = Desk(driver, http)
        _on_signals(driver.stop)
        await desk.start()
        try:
            return await driver.run()
        finally:
            await desk.stop()

    try:
        ledger = loop.run(drive())
    except FleetError as error:
        raise click.ClickException(one_line(error)) from None
    return _judge(ledger, as_json)


@fleet.command(short_help="Stop, kill, pause and cut off containers.")
@click.option("--service", metavar="NAME", help="Whose containers [peer].")
@click.option("--project", metavar="NAME", help="The Compose project [that of this container].")
@click.option("--driver", metavar="URL", help="The workload driver that is told before.")
@click.option("--action", "actions", type=_ACTIONS, multiple=True, help="One of these, or several [each in turn].")
@click.option("--count", metavar="N", type=int, help="Containers at once [2].")
@click.option("--pause", "pause_s", metavar="S", type=float, help="Seconds between one thing and the next [30].")
@click.option("--for", "for_s", metavar="S", type=float, help="Seconds that it lasts [20].")
@click.option("--times", metavar="N", type=int, help="How often; without it until told to stop.")
@click.option("--socket", metavar="PATH", default="/var/run/docker.sock", help="Of the Docker engine.")
@_seed
def chaos(socket: str, project: str | None, driver: str | None, **options: Any) -> int:
    """Stop, kill, pause and cut off containers of a Compose project, one thing at a time, and undo each.

    Needs the socket of the Docker engine, which is as much as being root on that machine.
    """
    from peerd import logs
    from peerd.fleet.chaos import Plan
    from peerd.fleet.docker import EngineError

    given = {key: value for key, value in options.items() if value not in (None, ())}
    plan = _plan(given, Plan)
    logs.configure()
    try:
        return asyncio.run(_disturb(plan, socket, project, driver))
    except EngineError as error:
        raise click.ClickException(one_line(error)) from None


# --- What they share --------------------------------------------------------------------------------------------------


async def _disturb(plan: Any, socket: str, project: str | None, driver: str | None) -> int:
    from socket import gethostname

    from peerd.fleet.chaos import Chaos
    from peerd.fleet.docker import Engine

    async with Engine(socket) as engine:
        project = project or await engine.project_of(gethostname())
        disturbing = asyncio.create_task(Chaos(plan, engine, project, driver).run())
        _on_signals(lambda: disturbing.cancel())
        try:
            await disturbing
        except asyncio.CancelledError:  # told to stop; what was done is undone
            return 0
    return 0


def _on_signals(stop: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


def _plan(given: dict[str, Any], type_: type[T]) -> T:
    import msgspec

    with users_fault():
        return msgspec.convert(given, type_)


def _schema(name: str) -> str:
    from peerd.cli.schema import to_toml
    from peerd.sim.workloads import workload

    with users_fault("--workload"):
        return to_toml(workload(name).schema.attributes)


def _judge(ledger: "Ledger", as_json: bool) -> int:
    """Print what was counted; the exit code, and a line that says why it is not 0."""
    import msgspec

    from peerd.cli.output import print_json, print_table

    counted = msgspec.to_builtins(ledger)
    if as_json:
        print_json(counted)
    else:
        faults = " ".join(f"{fault} {count}" for fault, count in counted.pop("faults").items()) or "none"
        rows = [
            (key.replace("_", " "), f"{value:,}" if type(value) is int else str(value))
            for key, value in counted.items()
        ]
        print_table([*rows, ("faults", faults)])
    if ledger.missing_deliveries or ledger.spurious_deliveries:
        missing, spurious = ledger.missing_deliveries, ledger.spurious_deliveries
        click.echo(f"peerd: owed deliveries missing: {missing}; deliveries that do not match: {spurious}", err=True)
        return 1
    return 0
