"""`python -m analytics …`, and the file to hand to spark-submit."""

import sys
from pathlib import Path

if not __package__:  # spark-submit runs this file by its path, and then the folder above is not known
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analytics.cli import main

if __name__ == "__main__":
    sys.exit(main())
