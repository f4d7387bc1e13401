"""What `peerd report`, `explain` and `advise` share: they hand their options on to the analytics, which know them."""

from typing import Any, Final

FORWARDED: Final[dict[str, Any]] = {
    "context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
}
"""Settings of a command that takes whatever it is given, `--help` included."""


def forward(command: str, arguments: tuple[str, ...]) -> int:
    """Run a command of the analytics; its exit code."""
    from analytics.cli import main

    try:
        return main([command, *arguments], "peerd")
    except SystemExit as done:  # argparse has shown its help
        return done.code if isinstance(done.code, int) else 1
