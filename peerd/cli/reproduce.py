"""`peerd reproduce`: a paper's experiments in the simulator, its claims beside what comes out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from peerd.cli.errors import Wrong

if TYPE_CHECKING:
    from peerd.cli.papers.frame import Claim, Paper

PAPERS = ("opchord", "semantic", "drtree", "sub2sub", "gosskip", "all")


@click.command(short_help="Repeat a paper's experiments (Spark).")
@click.argument("paper", type=click.Choice(PAPERS))
@click.option(
    "--scale", metavar="F", type=click.FloatRange(0.001, 1.0), default=1.0, help="A share of the paper's size [1]."
)
@click.option(
    "--out", metavar="DIR", type=click.Path(), default="reproduced", help="Where logs and pages go [reproduced]."
)
@click.option("--seed", metavar="N", type=int, default=1, help="Where everything random comes from [1].")
@click.option("--master", metavar="URL", help="The Spark master [local[*]].")
@click.option("--json", "as_json", is_flag=True, help="End with all claims as one JSON object.")
def reproduce(paper: str, scale: float, out: str, seed: int, master: str | None, as_json: bool) -> int:
    """Run a paper's experiments with profile `paper` and as tuned, analyse the logs with Spark, and print every number
    and shape that the paper states beside both.

    Runs that are in --out already are not run again. Numbers are judged at --scale 1 only, shapes at any scale.
    """
    from peerd import registry
    from peerd.cli.papers import NAMES
    from peerd.cli.papers import paper as find

    chosen = [find(name) for name in (NAMES if paper == "all" else (paper,))]
    missing = [each.overlay for each in chosen if each.overlay not in registry.KINDS]
    if missing and paper != "all":
        raise Wrong(f"the overlay '{missing[0]}' is not there yet; there are {', '.join(registry.KINDS)}")
    found = {}
    for each in chosen:
        if each.overlay in missing:
            click.echo(f"peerd: {each.name}: the overlay '{each.overlay}' is not there yet", err=True)
        else:
            found[each.name] = _one(each, scale, Path(out) / each.name, seed, master)
    _show(found, as_json)
    return 0


def _one(paper: "Paper", scale: float, out: Path, seed: int, master: str | None) -> "list[Claim]":
    from peerd.cli.papers import laboratory, verdicts
    from peerd.cli.papers.frame import Results
    from peerd.cli.progress import progress

    spark, shown = _spark(master, scale)
    experiments = [each._replace(fields={"seed": seed, **each.fields}) for each in paper.experiments(scale)]
    with progress() as show:
        summaries = laboratory.run(paper, experiments, out, show)
    results = Results(laboratory.analyse(spark, paper, summaries, out, shown), scale)
    claims = list(paper.claims(results))
    command = f"peerd reproduce {paper.name} --scale {scale:g} --seed {seed}"
    (out / "page.html").write_text(verdicts.page(paper, claims, paper.figures(results), command), "utf-8")
    (out / "claims.md").write_text(f"{verdicts.markdown(paper, claims)}\n\n    {command}\n", "utf-8")
    return claims


SMALL: Final = 0.2
"""Below this scale no paper's logs are large."""


def _spark(master: str | None, scale: float) -> Any:
    """Spark, before anything is run that needs it at its end."""
    try:
        from analytics.progress import Shown, silent
        from analytics.session import NoSpark, session
    except ImportError:
        from analytics.cli import NO_PYSPARK

        raise Wrong(NO_PYSPARK) from None
    try:
        spark = session(master, small=scale <= SMALL)
    except NoSpark as error:
        raise Wrong(str(error)) from None
    return spark, Shown(spark) if sys.stderr.isatty() else silent


def _show(found: "dict[str, list[Claim]]", as_json: bool) -> None:
    from peerd.cli.output import print_json, print_table
    from peerd.cli.papers import paper as find
    from peerd.cli.papers.verdicts import HEADS, rows

    if as_json:
        print_json({name: [claim._asdict() for claim in claims] for name, claims in found.items()})
        return
    for name, claims in found.items():
        click.echo(f"\n{find(name).title}")
        print_table(rows(claims), HEADS)
