"""Numbers of options that are used as they are: within their range, and numbers."""

from math import isfinite
from typing import Any

import click


class Finite(click.FloatRange):
    """click's own range lets nan through, which is neither below its minimum nor above its maximum."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        converted = super().convert(value, param, ctx)
        if not isfinite(converted):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return converted
