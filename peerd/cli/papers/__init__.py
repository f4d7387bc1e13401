"""The experiments of the five papers, one module each: what was run, what was printed, and whether it comes out.

frame.py        what an experiment and a claim are
laboratory.py   runs experiments in the simulator, has Spark analyse their logs, hands out the figures
verdicts.py     claims as a table, and as a page with figures like the paper's
opchord.py, semantic.py, drtree.py, sub2sub.py, gosskip.py
"""

from importlib import import_module
from typing import Final

from peerd.cli.papers.frame import Paper

NAMES: Final = ("opchord", "semantic", "drtree", "sub2sub", "gosskip")


def paper(name: str) -> Paper:
    """The paper of that name."""
    found = import_module(f"peerd.cli.papers.{name}").PAPER
    assert isinstance(found, Paper), name
    return found
