"""The command line: `python -m analytics ingest|report|explain|advise --logs DIR …`.

Exit codes: 0 fine, 1 failed at run time, 2 wrong usage, no logs or no Spark: one clear line on standard error.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED, WRONG = 1, 2
NO_PYSPARK: Final = "the analytics need pyspark; install it with: pip install 'peerd[analytics]'"


def main(arguments: Sequence[str] | None = None, program: str = "python -m analytics") -> int:
    """Run a command; its exit code."""
    try:
        options = _parser(program).parse_args(arguments)
    except _WrongUsage as error:
        return _complain(program, str(error), WRONG)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except KeyboardInterrupt:
        return _complain(program, "interrupted", 130)
    except BrokenPipeError:
        return FAILED
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("pyspark", "py4j"):
            raise
        return _complain(program, NO_PYSPARK, WRONG)
    except Exception as error:
        code = _code(error)
        if code is None:
            raise
        return _complain(program, _line(error), code)


def _code(error: Exception) -> int | None:
    """The exit code of what a user can put right; None for a bug, which keeps its traceback."""
    from analytics.ingest import NoLogs
    from analytics.session import NoSpark

    if isinstance(error, NoLogs | NoSpark | ValueError):
        return WRONG
    if isinstance(error, OSError) or type(error).__name__ in ("Py4JJavaError", "AnalysisException"):
        return FAILED
    return None


_UNREADABLE: Final = re.compile(r"\[FAILED_READ_FILE\b.* while reading file (?:file:(?://)?)?(.+?)\. +SQLSTATE")


def _line(error: Exception) -> str:
    if unreadable := _UNREADABLE.search(str(error)):
        return (
            f"{unreadable[1]} cannot be read to its end, and nobody can tell how much is gone: take it out of the logs"
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = next((line for line in lines if line.startswith(("Caused by:", ": "))), lines[0] if lines else "failed")
    return cause.removeprefix("Caused by:").removeprefix(":").strip()


def _complain(program: str, line: str, code: int) -> int:
    print(f"{program.split()[-1]}: {line}", file=sys.stderr)
    return code


# --- Options ----------------------------------------------------------------------------------------------------------


class _Help(argparse.HelpFormatter):
    """Begins as the other commands of peerd do."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)


class _WrongUsage(Exception):
    """The arguments make no sense; the message is one line."""


class _Parser(argparse.ArgumentParser):
    """Leaves it to others to complain: argparse itself would print the whole usage first."""

    def error(self, message: str) -> NoReturn:
        raise _WrongUsage(f"{' '.join(message.split())}; see '{self.prog} --help'")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = nan
    if not 0 <= seconds < inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, not {text!r}")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, not {text!r}")
    return int(text)


def _parser(program: str) -> argparse.ArgumentParser:
    what = "Analyse the log records of peers and of the simulator."
    parser = _Parser(prog=program, description=what, formatter_class=_Help)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, what: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=what, description=what, allow_abbrev=False, formatter_class=_Help)
        added.add_argument(
            "--logs", required=True, metavar="DIR", help="where run=NAME/peer=ID/*.jsonl are, or HOST/run=NAME/…"
        )
        added.add_argument("--master", metavar="URL", help="the Spark master [local[*], or spark-submit's]")
        added.add_argument(
            "--open", action="store_true", help="also read segments that are still open: their writers are dead"
        )
        added.add_argument("--quiet", action="store_true", help="do not say how far it is")
        added.set_defaults(command=command)
        return added

    ingesting = add(
        "ingest", "Bring log records into Parquet, by run and kind; what is there already is skipped.", _ingest
    )
    ingesting.add_argument("--store", required=True, metavar="DIR", help="where the Parquet files go")
    _report_options(add("report", "Make a page about runs, with all tables as CSV and Parquet.", _report))
    explaining = add("explain", "Tell the way that an event took, and why a delivery is missing.", _explain)
    explaining.add_argument("--event", required=True, metavar="ID", help="the event, or the beginning of its id")
    explaining.add_argument("--subscription", metavar="ID", help="say what became of its delivery to this one")
    explaining.add_argument("--run", metavar="NAME", help="in this run only")
    explaining.add_argument("--json", action="store_true", help="print one JSON object")
    advising = add(
        "advise", "Replay what was logged through each overlay and say which would have cost least.", _advise
    )
    _advise_options(advising)
    return parser


def _report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="report", metavar="DIR", help="where the report goes [report]")
    parser.add_argument("--store", metavar="DIR", help="where the ingested records are kept [OUT/store]")
    parser.add_argument(
        "--run", action="append", default=[], metavar="NAME", help="only this run, or overlay; may be repeated"
    )
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two runs, or overlays, side by side")
    parser.add_argument(
        "--clock-grace", type=_seconds, default=1.0, metavar="S", help="how far clocks may be apart [1]"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")


def _advise_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", metavar="NAME", help="the run to replay, if there are several")
    parser.add_argument("--peers", type=_count, default=200, metavar="N", help="replay at most so many peers [200]")
    parser.add_argument(
        "--events", type=_count, default=1_000, metavar="N", help="replay at most so many events [1000]"
    )
    parser.add_argument(
        "--overlay", action="append", default=[], metavar="NAME", help="try only this one; may be repeated"
    )
    parser.add_argument("--try", dest="tries", action="append", default=[], metavar="OVERLAY:KEY=VALUE[,…]",
                        help="also try these parameters")  # fmt: skip
    parser.add_argument("--seconds", type=_seconds, default=600.0, metavar="S", help="stop trying after so long [600]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


# --- Commands ---------------------------------------------------------------------------------------------------------


def _started(options: argparse.Namespace) -> "tuple[SparkSession, Any]":
    from analytics.ingest import PATTERNS
    from analytics.places import local_size
    from analytics.progress import Shown, silent
    from analytics.session import is_small, session

    size = local_size(options.logs, PATTERNS)
    spark = session(options.master, small=size is not None and is_small(size))
    return spark, silent if options.quiet else Shown(spark)


def _ingest(options: argparse.Namespace) -> int:
    from analytics.ingest import ingest, left_out

    spark, progress = _started(options)
    done = ingest(spark, options.logs, options.store, options.open, progress)
    print(f"{done.records:,} records from {len(done.files):,} segments; {done.skipped:,} were there already")
    for reason, count in done.aside.items():
        print(f"{count:,} lines kept aside: {reason}")
    for path in done.grown:
        print(f"{path} has changed since it was ingested; what is new in it is left out")
    for line in left_out(done.left_open):
        print(line)
    return 0


def _report(options: argparse.Namespace) -> int:
    import json

    from analytics.report import build, text

    spark, progress = _started(options)
    made = build.report(
        spark,
        options.logs,
        options.out,
        store=options.store,
        only=options.run,
        compare=tuple(options.compare) if options.compare else None,
        take_open=options.open,
        clock_grace_s=options.clock_grace,
        progress=progress,
    )
    if options.json:
        print(json.dumps({"runs": made.summary, "warnings": made.warnings}))
    else:
        print(text.figures(made.summary, options.compare))
        for warning in made.warnings:
            print(f"note: {warning}")
        print(f"the report is {options.out}/report.html")
    return 0


def _explain(options: argparse.Namespace) -> int:
    import json

    from analytics.explain import explain, told

    spark, progress = _started(options)
    found = explain(spark, options.logs, options.event, options.subscription, options.run, options.open, progress)
    print(json.dumps(found) if options.json else told(found))
    return 0


def _advise(options: argparse.Namespace) -> int:
    import json

    from analytics import advise

    spark, progress = _started(options)
    found = advise.advise(spark, options, progress)
    print(json.dumps(found) if options.json else advise.told(found))
    return 0
