"""False negatives and false positives: per event, per peer, per run, per overlay.

False negatives are owed deliveries that never came. False positives are first receptions of events that a participant
does not want, in relation to all participants that stood when the event was published.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def _verdict() -> list[Column]:
    risk = F.col("at_risk")
    return [
        F.count_if(~risk).alias("expected"),
        F.count_if(~risk & F.col("missing")).alias("false_negatives"),
        F.count_if(risk).alias("at_risk"),
        F.count_if(risk & F.col("missing")).alias("at_risk_missing"),
    ]


def _receipts() -> list[Column]:
    result = F.col("result")
    return [
        F.count_if(result == "wanted").alias("wanted"),
        F.count_if(result == "unwanted").alias("unwanted"),
        F.count_if(result == "duplicate").alias("duplicate_copies"),
        F.count_if(result == "touched").alias("touched"),
    ]


def _filled(table: DataFrame, *names: str) -> DataFrame:
    return table.fillna(0, list(names))


VERDICT = ("expected", "false_negatives", "at_risk", "at_risk_missing")
RECEIPTS = ("wanted", "unwanted", "duplicate_copies", "touched")


def by_event(publications: DataFrame, owed: DataFrame, receptions: DataFrame) -> DataFrame:
    """For each event what was owed and missing, and how many participants received it in vain."""
    verdict = owed.groupBy("run", "event_id").agg(*_verdict())
    receipts = receptions.groupBy("run", "event_id").agg(*_receipts())
    about = publications.select("run", "event_id", "publisher", "at_us", "participants")
    joined = about.join(verdict, ["run", "event_id"], "left").join(receipts, ["run", "event_id"], "left")
    return _filled(joined, *VERDICT, *RECEIPTS).withColumn("fp_ratio", F.col("unwanted") / F.col("participants"))


def by_peer(lives: DataFrame, owed: DataFrame, receptions: DataFrame) -> DataFrame:
    """The same for each peer, all its lives together."""
    verdict = owed.groupBy("run", "peer").agg(*_verdict())
    receipts = receptions.groupBy("run", "peer").agg(*_receipts())
    peers = lives.groupBy("run", "peer").agg(F.count("*").alias("lives"))
    joined = peers.join(verdict, ["run", "peer"], "left").join(receipts, ["run", "peer"], "left")
    return _filled(joined, *VERDICT, *RECEIPTS)


def by_run(runs: DataFrame, publications: DataFrame, owed: DataFrame, receptions: DataFrame) -> DataFrame:
    """The same for each run. What needs receptions is null where none were written down."""
    verdict = owed.groupBy("run").agg(*_verdict())
    receipts = receptions.groupBy("run").agg(*_receipts())
    pairs = publications.groupBy("run").agg(F.count("*").alias("events"), F.sum("participants").alias("pairs"))
    joined = runs.select("run", "overlay", "detail").join(pairs, "run", "left").join(verdict, "run", "left")
    whole = _filled(joined.join(receipts, "run", "left"), "events", "pairs", *VERDICT, *RECEIPTS)
    full = F.col("detail").isNull() | (F.col("detail") == "full")
    written = whole.withColumns({name: F.when(full, F.col(name)) for name in RECEIPTS})
    return _with_ratios(written, F.col("pairs")).drop("detail")


def by_overlay(by_run: DataFrame) -> DataFrame:
    """All runs of an overlay together. What needs receptions is about those runs that have written them down."""
    sums = [F.sum(name).alias(name) for name in ("events", "pairs", *VERDICT, *RECEIPTS)]
    received = F.sum(F.when(F.col("wanted").isNotNull(), F.col("pairs"))).alias("received_pairs")
    found = by_run.groupBy("overlay").agg(F.count("*").alias("runs"), *sums, received)
    return _with_ratios(found, F.col("received_pairs")).drop("received_pairs").orderBy("overlay")


def _with_ratios(counts: DataFrame, pairs: Column) -> DataFrame:
    touched = F.col("wanted") + F.col("unwanted") + F.col("touched")
    return counts.withColumns(
        {
            "fn_ratio": _ratio(F.col("false_negatives"), F.col("expected")),
            "fp_ratio": _ratio(F.col("unwanted"), pairs),
            "touched_ratio": _ratio(touched, pairs),
        }
    )


def _ratio(part: Column, whole: Column) -> Column:
    return F.when(part.isNotNull(), F.when(whole > 0, part / whole).otherwise(0.0))
