"""Claims as a table to print, and as a page with figures like the paper's."""

from collections.abc import Collection, Sequence
from html import escape
from typing import get_args

from analytics.plots import Plot, svg
from analytics.report.page import STYLE
from peerd.cli.papers.frame import Claim, Paper, Verdict

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
HEADS = ("", "paper says", "as the paper", "as tuned", "tolerance", "verdict")


def rows(claims: Sequence[Claim]) -> list[tuple[str, ...]]:
    """One row for each claim."""
    return [
        (f"{claim.what} ({claim.where})", claim.printed, claim.paper, claim.ours, claim.tolerance, claim.verdict)
        for claim in claims
    ]


SUMS = ("paper", "runs", "claims", *VERDICTS, "took")


def sums(name: str, claims: Sequence[Claim], runs: int, failed: Collection[str], seconds: float) -> tuple[str, ...]:
    """What a paper came to, in one row: its runs, its claims, and how many of them got which verdict."""
    counts = [sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS]
    told = f"{runs - len(failed)} of {runs}" if failed else str(runs)
    return (name, told, str(len(claims)), *map(str, counts), f"{seconds:.0f} s")


def markdown(paper: Paper, claims: Sequence[Claim]) -> str:
    """The table for the documentation."""
    lines = [
        f"| {paper.title} | paper says | as the paper | as tuned | tolerance | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for claim in claims:
        note = f" ({claim.note})" if claim.note else ""
        cells = (
            f"{claim.what}, {claim.where}",
            claim.printed,
            claim.paper,
            claim.ours,
            claim.tolerance,
            f"{claim.verdict}{note}",
        )
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


def page(paper: Paper, claims: Sequence[Claim], figures: Sequence[Plot], command: str) -> str:
    """One page without network."""
    heads = "".join(f"<th>{escape(head)}</th>" for head in HEADS)
    lines = []
    for claim in claims:
        colour = {"holds": "good", "differs": "bad"}.get(claim.verdict, "dim")
        cells = (f"{claim.what} ({claim.where})", claim.printed, claim.paper, claim.ours, claim.tolerance)
        verdict = f'<td class="{colour}">{claim.verdict}{escape(f": {claim.note}" if claim.note else "")}</td>'
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}{verdict}</tr>")
    drawn = "".join(svg(plot) for plot in figures)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(paper.title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(paper.title)}</h1><p class=dim><code>{escape(command)}</code></p>"
        f"<div class=scroll><table><tr>{heads}</tr>{''.join(lines)}</table></div><div class=plots>{drawn}</div></html>"
    )
