"""How far a run is, on standard error while somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """Hands out what `scenario.run` tells its phases to; a bar shows them if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda phase, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<8}"), BarColumn(), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("start", total=None)

        def show(phase: str, share: float) -> None:
            # a phase that has not come anywhere may be one that cannot tell: then the bar only moves
            bar.update(task, description=phase, total=1.0 if share else None, completed=share)

        yield show
