"""`python -m deploy.grafana` writes the dashboards; a test says when that was forgotten."""

import json
from pathlib import Path
from typing import Final

from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import Dashboard, document

DIRECTORY: Final = Path(__file__).parent / "dashboards"


def text(board: Dashboard) -> str:
    return json.dumps(document(board), indent=1, ensure_ascii=False) + "\n"


def path(board: Dashboard) -> Path:
    return DIRECTORY / f"{board.uid.removeprefix('peerd-')}.json"


def main() -> None:
    for board in BOARDS:
        path(board).write_text(text(board), "utf-8")


if __name__ == "__main__":
    main()
