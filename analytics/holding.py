"""Tables that others are made from, held so that they are worked out once.

A cached table keeps the plan that made it, and Spark looks through it whenever the table is used: with a dozen steps
one upon the other that takes longer than the data. So tables are written as Parquet and read back: a plan that ends
there.
"""

from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import DataFrame

from analytics.places import located
from analytics.progress import Progress, silent
from analytics.session import ROW_GROUP

Hold: TypeAlias = Callable[[str, DataFrame], DataFrame]
"""Holds a table under a name."""


def on_disk(place: str, progress: Progress = silent) -> Hold:
    """Tables in files of their own below a directory."""

    def hold(name: str, table: DataFrame) -> DataFrame:
        path = f"{located(place)}/{name}.parquet"
        with progress.step(name):
            table.write.mode("overwrite").options(**ROW_GROUP).parquet(path)
        return table.sparkSession.read.schema(table.schema).parquet(path)

    return hold
