"""`peerd reproduce`: a paper's experiments in the simulator, its claims beside what comes out."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from peerd.cli.errors import Wrong
from peerd.cli.finite import Finite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analytics.progress import Progress
    from peerd.cli.papers.frame import Claim, Paper
    from peerd.cli.papers.laboratory import Show

PAPERS = ("opchord", "semantic", "drtree", "sub2sub", "gosskip", "all")


@click.command(short_help="Repeat a paper's experiments (Spark).")
@click.argument("paper", type=click.Choice(PAPERS))
@click.option("--scale", metavar="F", type=Finite(0.001, 1.0), default=1.0, help="A share of the paper's size [1].")
@click.option(
    "--out", metavar="DIR", type=click.Path(), default="reproduced", help="Where logs and pages go [reproduced]."
)
@click.option("--seed", metavar="N", type=int, default=1, help="Where everything random comes from [1].")
@click.option("--master", metavar="URL", help="The Spark master [local[*]].")
@click.option("--json", "as_json", is_flag=True, help="End with all claims as one JSON object.")
def reproduce(paper: str, scale: float, out: str, seed: int, master: str | None, as_json: bool) -> int:
    """Run a paper's experiments with profile `paper` and as tuned, analyse the logs with Spark, and print every number
    and shape that the paper states beside both.

    Runs that are in --out already are not run again. Numbers are judged at --scale 1 only, shapes at any scale. What
    does not come out as printed is told in the table; the exit code is 1 only where something could not be run.
    """
    from peerd.cli.papers import NAMES
    from peerd.cli.papers import paper as find

    chosen = [find(name) for name in (NAMES if paper == "all" else (paper,))]
    spark = _spark(master, small=scale <= SMALL and not any(each.has_large_logs for each in chosen))
    found = []
    for each in chosen:
        found.append(_one(each, scale, Path(out) / each.name, seed, spark))
        if not as_json:
            _show(found[-1])
    _show_all(found, as_json)
    return 1 if any(each.failed for each in found) else 0


class Reproduced(NamedTuple):
    paper: "Paper"
    claims: "list[Claim]"
    runs: int
    failed: dict[str, str]
    """By run that failed, why."""
    seconds: float


def _one(paper: "Paper", scale: float, out: Path, seed: int, spark: "SparkSession") -> Reproduced:
    from peerd.cli.papers import laboratory, verdicts
    from peerd.cli.papers.frame import Results

    started = monotonic()
    experiments = [each._replace(fields={"seed": seed, **each.fields}) for each in paper.experiments(scale)]
    ran = laboratory.run(paper, experiments, out, _watched)
    for run, why in ran.failed.items():
        click.echo(f"peerd: {paper.name}: {run} failed: {why} ({out}/summaries/{run}.traceback)", err=True)
    with _timed(f"{paper.name}: {len(ran.summaries)} runs analysed"):
        results = Results(laboratory.analyse(spark, paper, ran.summaries, out, _progress(spark)), scale)
    claims = list(paper.claims(results))
    command = f"peerd reproduce {paper.name} --scale {scale:g} --seed {seed}"
    (out / "page.html").write_text(verdicts.page(paper, claims, paper.figures(results), command), "utf-8")
    (out / "claims.md").write_text(f"{verdicts.markdown(paper, claims)}\n\n    {command}\n", "utf-8")
    return Reproduced(paper, claims, len(experiments), ran.failed, monotonic() - started)


@contextmanager
def _watched(what: str) -> "Iterator[Show]":
    """A bar where there is a terminal; in any case a line when it is done."""
    from peerd.cli.progress import progress

    with _timed(what), progress() as show:
        show(what, 0.0)
        yield lambda phase, share: show(f"{what} {phase}", share)


@contextmanager
def _timed(what: str) -> Iterator[None]:
    started = monotonic()
    yield
    click.echo(f"{what}: {monotonic() - started:.1f} s", err=True)


SMALL: Final = 0.2
"""Below this scale hardly any paper's logs are large."""


def _spark(master: str | None, small: bool) -> "SparkSession":
    """Spark, before anything is run that needs it at its end."""
    try:
        from analytics.session import NoSpark, session
    except ImportError:
        from analytics.cli import NO_PYSPARK

        raise Wrong(NO_PYSPARK) from None
    try:
        return session(master, small=small)
    except NoSpark as error:
        raise Wrong(str(error)) from None


def _progress(spark: "SparkSession") -> "Progress":
    from analytics.progress import Shown, silent

    return Shown(spark) if sys.stderr.isatty() else silent


def _show(found: Reproduced) -> None:
    from peerd.cli.output import print_table
    from peerd.cli.papers.verdicts import HEADS, rows

    click.echo(f"\n{found.paper.title}")
    print_table(rows(found.claims), HEADS)
    click.echo()


def _show_all(found: Sequence[Reproduced], as_json: bool) -> None:
    """What all came to, in one table."""
    from peerd.cli.output import print_json, print_table
    from peerd.cli.papers.verdicts import SUMS, sums

    if as_json:
        print_json({each.paper.name: [claim._asdict() for claim in each.claims] for each in found})
        return
    print_table([sums(each.paper.name, each.claims, each.runs, each.failed, each.seconds) for each in found], SUMS)
