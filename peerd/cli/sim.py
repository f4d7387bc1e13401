"""`peerd sim`: run a simulated swarm and say what became of it."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

import click

from peerd.cli.assignments import parameters
from peerd.cli.completion import overlay_names, workload_names
from peerd.cli.errors import Wrong, users_fault

if TYPE_CHECKING:
    from peerd.sim.scenario import Scenario
    from peerd.sim.summary import Summary

LINKS: Final = ("tcp", "datagram")
MAINTENANCE: Final = ("protocol", "oracle")


def numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> list[float] | None:
    """`100,200,300` as a list; none given, none set."""
    if text is None:
        return None
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise Wrong(f"--{parameter.name}: '{text}': expected numbers with commas between") from None


@click.command(short_help="Run a simulated swarm.")
@click.option("--overlay", metavar="NAME", shell_complete=overlay_names, help="How peers are linked [rtree].")
@click.option("--peers", metavar="N", type=int, help="Peers that join [100].")
@click.option("--subscriptions", metavar="N", type=int, help="Subscriptions in all [one for each peer].")
@click.option("--events", metavar="N", type=int, help="Events published [100].")
@click.option("--rate", metavar="N", type=float, help="Events a second of virtual time [50].")
@click.option("--workload", metavar="NAME", shell_complete=workload_names, help="Interests and events [stocks].")
@click.option("--seed", metavar="N", type=int, help="The same seed and options give the same run [0].")
@click.option("--churn", metavar="SHARE", type=float, help="Peers replaced a second: 0.01 is one in a hundred [0].")
@click.option("--loss", metavar="SHARE", type=float, help="Packets lost: delay on tcp, loss as datagram [0].")
@click.option("--link", type=click.Choice(LINKS), help="How links behave [tcp].")
@click.option("--duplication", metavar="SHARE", type=float, help="Datagrams that arrive twice [0].")
@click.option("--reordering-ms", metavar="MS", type=int, help="Datagrams are late by up to so much [0].")
@click.option("--bandwidth", metavar="BYTES", type=int, help="Bytes a second on each link; 0: any [0].")
@click.option("--uploads", metavar="N[,N…]", callback=numbers, help="Upload budgets per cycle, one for each peer.")
@click.option("--latency", metavar="SPEC", help="constant:MS, uniform:LOW:HIGH, lognormal:MEDIAN:SIGMA [uniform:5:50].")
@click.option("--liveness", type=click.Choice(MAINTENANCE), help="Who finds dead peers [protocol].")
@click.option("--sampling", type=click.Choice(MAINTENANCE), help="Who finds random peers [protocol].")
@click.option("--participants-max", metavar="N", type=int, help="Participants of a peer at most; 0: the overlay's [0].")
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="A parameter ('peerd overlays'), or profile=NAME."
)
@click.option(
    "--scenario",
    "file",
    metavar="FILE",
    type=click.Path(),
    help="TOML file with these options and faults; options win.",
)
@click.option("--out", metavar="DIR", type=click.Path(), help="Write log records into this directory.")
@click.option("--json", "as_json", is_flag=True, help="End with the summary as one JSON object.")
def sim(assignments: tuple[str, ...], file: str | None, as_json: bool, **options: Any) -> int:
    """Run a simulated swarm: peers join, events are published, and what arrived is compared with what was owed.

    Exits with 1 if the overlay broke one of its guarantees.
    """
    given = {key: value for key, value in options.items() if value is not None}
    chosen = _scenario(file, given, parameters(assignments))
    summary = _run(chosen)
    _show(summary, as_json)
    return _judge(summary, chosen)


# --- The scenario -----------------------------------------------------------------------------------------------------


def _scenario(file: str | None, options: dict[str, Any], settings: dict[str, str]) -> "Scenario":
    """What the file says, with the options over it, checked."""
    from peerd.cli import scenario_file

    table = {} if file is None else scenario_file.read(file)

    def origin(key: str) -> str:
        """Where the value of a key comes from."""
        if key in table and key not in options and not (key == "settings" and settings):
            return f"{file}: key '{key}'"
        return "--set" if key == "settings" else f"--{key.replace('_', '-')}"

    for key, value in options.items():
        with users_fault(origin(key)):
            scenario_file.convert({key: value}, named=False)
    merged = {**table, **options, "settings": {**table.get("settings", {}), **settings}}
    scenario = scenario_file.convert(merged)
    _check(scenario, origin)
    return scenario


def _check(scenario: "Scenario", origin: Callable[[str], str]) -> None:
    """What the types alone do not say. Last of all the place for the records is made, which nothing wrong may leave."""
    from peerd import registry
    from peerd.sim.network import latencies
    from peerd.sim.scenario import workload_of
    from peerd.sim.workloads import any_workload

    with users_fault(origin("overlay")):
        registry.kind(scenario.overlay)
    with users_fault(origin("settings")):
        parameters = registry.parameters(scenario.overlay, scenario.settings)
    in_doubt = "workload"
    if scenario.workload_settings:
        in_doubt = "workload_settings"
        with users_fault(origin("workload")):
            any_workload(scenario.workload)
    with users_fault(origin(in_doubt)):
        schema = workload_of(scenario).schema
    with users_fault(origin("settings")):
        registry.kind(scenario.overlay).fits(parameters, schema)
    with users_fault(origin("latency")):
        latencies(scenario.latency, Random(0))
    if scenario.link not in LINKS:
        raise Wrong(f"{origin('link')}: expected one of {', '.join(LINKS)}")
    if scenario.out is not None:
        with users_fault(origin("out")):
            _make_place(scenario.out, scenario.run_name)
    if scenario.uploads and not registry.kind(scenario.overlay).keeps_budget:
        click.echo(f"peerd: overlay {scenario.overlay} keeps to no upload budget: --uploads has no effect", err=True)


def _make_place(out: str, run_name: str) -> None:
    """Records of two runs under one name could not be told apart any more, so there must be none yet."""
    from pathlib import Path

    directory = Path(out) / f"run={run_name}"
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise ValueError(f"{directory} holds a run already; remove it or name another directory") from None


# --- The run ----------------------------------------------------------------------------------------------------------


def _run(chosen: "Scenario") -> "Summary":
    from peerd.cli.progress import progress
    from peerd.sim import scenario

    with progress() as show:
        return scenario.run(chosen, show)


def _show(summary: "Summary", as_json: bool) -> None:
    import msgspec

    from peerd.cli.output import print_json, print_table
    from peerd.cli.verdict import rows

    if as_json:
        print_json(msgspec.to_builtins(summary))
    else:
        print_table(rows(summary))


def _judge(summary: "Summary", chosen: "Scenario") -> int:
    """The exit code, and a line that says why it is not 0."""
    from peerd import registry
    from peerd.cli.verdict import broken_promises

    # a datagram that is lost is lost: there the overlays promise safety and convergence only
    # and what exceeds the budgets cannot be sent
    complete = registry.complete(summary.overlay, summary.parameters) and chosen.link == "tcp" and not chosen.uploads
    broken = broken_promises(summary, complete)
    if broken:
        click.echo(f"peerd: {summary.overlay} broke its guarantees: {'; '.join(broken)}", err=True)
    return 1 if broken else 0
