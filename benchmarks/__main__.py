"""Runs all benchmarks, or those named: `python -m benchmarks [NAME ...]`. Exit code 1 if a target was missed."""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.figure import print_figures


def main() -> None:
    names = sys.argv[1:] or sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )
    all_met = True
    for name in names:
        print(f"\n{name}")
        all_met = print_figures(import_module(f"benchmarks.bench_{name}").run()) and all_met
    sys.exit(0 if all_met else 1)


if __name__ == "__main__":
    main()
