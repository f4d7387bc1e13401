"""`python -m peerd.cli`, where the script `peerd` is not installed."""

from peerd.cli import main

if __name__ == "__main__":
    main()
