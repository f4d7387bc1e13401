"""The Spark session is tuned to the size of what it is about to read."""

from typing import TYPE_CHECKING

from analytics.session import SMALL_BYTES, tune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = (
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst",
    "spark.sql.shuffle.partitions",
)


def test_a_large_input_after_a_small_one_is_read_as_if_it_were_the_first(spark: "SparkSession") -> None:
    before = {key: str(spark.conf.get(key)) for key in KEYS}
    launched_with = spark.sparkContext.getConf().get(KEYS[-1])
    try:
        tune(spark, SMALL_BYTES)
        first = {key: spark.conf.get(key) for key in KEYS}
        tune(spark, SMALL_BYTES - 1)
        assert all(spark.conf.get(key) != first[key] for key in KEYS[:3])
        spark.conf.set(KEYS[-1], "3")  # (the tests' own session has as many as a small input)
        tune(spark, SMALL_BYTES)
        assert {key: spark.conf.get(key) for key in KEYS} == first
        assert spark.conf.get(KEYS[-1]) == launched_with
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
