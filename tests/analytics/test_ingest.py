"""Ingest: every record once, whatever else is in the files kept aside and told."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics import store
from analytics.ingest import NoLogs, ingest, mixed, numbered_lines, piece_bytes
from analytics.parse import LACKING, NEWER, NOT_JSON, UNKNOWN
from analytics.places import File, Places
from tests.analytics.support import Log, rows


def small(run: str = "r") -> Log:
    log = Log(run)
    log.start("a", "b")
    log.publish(1, "a", "e1", symbol="X", price=1.5)
    log.receive(1, "b", "e1", "a")
    return log


def test_records_come_into_parquet_by_run_and_kind(spark: SparkSession, tmp_path: Path) -> None:
    small().write(tmp_path / "logs")
    small("other run").write(tmp_path / "logs", "000001.jsonl.gz")
    done = ingest(spark, str(tmp_path / "logs"), str(tmp_path / "store"))
    assert (done.records, len(done.files), done.aside) == (12, 2, {})
    places = {path.parent.relative_to(tmp_path / "store") for path in (tmp_path / "store").rglob("*.parquet")}
    assert Path("records/run=other run/kind=publish") in places
    assert len(places) == 8
    stored = store.records(spark, str(tmp_path / "store"))
    published = store.of_kind(stored, "publish")
    assert rows(published, "run", "event_id") == [("other run", "e1"), ("r", "e1")]
    assert {json.loads(row["attributes"])["price"] for row in published.collect()} == {1.5}


@pytest.mark.slow
def test_running_it_again_adds_only_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    logs, stored = str(tmp_path / "logs"), str(tmp_path / "store")
    small().write(tmp_path / "logs")
    ingest(spark, logs, stored)
    small().write(tmp_path / "logs", "000001.jsonl")
    done = ingest(spark, logs, stored)
    assert (done.records, len(done.files), done.skipped) == (6, 1, 1)
    assert ingest(spark, logs, stored).records == 0
    assert store.records(spark, stored).count() == 12


@pytest.mark.slow
def test_another_run_of_the_same_name_is_told(spark: SparkSession, tmp_path: Path) -> None:
    stored, places = str(tmp_path / "store"), Places(spark)
    for logs, peer in (("first", "a"), ("second", "b")):
        small().write(tmp_path / logs, peer=peer)
        small("other").write(tmp_path / "first", f"{peer}.jsonl")
    ingest(spark, str(tmp_path / "first"), stored)
    assert mixed(places, stored) == []
    small("other").write(tmp_path / "first", "later.jsonl")
    ingest(spark, str(tmp_path / "first"), stored)
    assert mixed(places, stored) == []
    ingest(spark, str(tmp_path / "second"), stored)
    assert mixed(places, stored) == ["r"]


@pytest.mark.slow
def test_each_host_may_have_a_directory_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    for host in ("seed", "h7"):
        small().write(tmp_path / "logs" / host, peer=host)
    done = ingest(spark, str(tmp_path / "logs"), str(tmp_path / "store"))
    assert (done.records, len(done.files)) == (12, 2)


@pytest.mark.slow
def test_what_an_interrupted_ingestion_left_behind_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    logs, stored = str(tmp_path / "logs"), str(tmp_path / "store")
    small().write(tmp_path / "logs")
    ingest(spark, logs, stored)
    for note in (tmp_path / "store" / "ingested").iterdir():
        note.unlink()  # as if it had been killed just before the end
    assert ingest(spark, logs, stored).records == 6
    assert store.records(spark, stored).count() == 6


def test_what_is_no_record_is_kept_aside_with_its_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    log = small()
    log.lines.insert(2, "{not json")
    log.add(2, "a", "weather", sunny=True)
    log.add(2, "a", "publish", attributes={})
    log.add(2, "a", "publish", event_id="e2", attributes={}, v=2)
    log.add(2, "a", "deliver", event_id="e1", subscription_id="s", hops="many", latency_us=1)
    path = log.write(tmp_path / "logs", tail='{"v":1,"ts_us":17')
    done = ingest(spark, str(tmp_path / "logs"), str(tmp_path / "store"))
    assert done.records == 6
    assert done.aside == {NOT_JSON: 3, UNKNOWN: 1, LACKING: 1, NEWER: 1}
    kept = rows(store.aside(spark, str(tmp_path / "store")), "line", "reason", "file")
    assert [row[:2] for row in kept] == [
        (3, NOT_JSON), (8, UNKNOWN), (9, LACKING), (10, NEWER), (11, NOT_JSON), (12, NOT_JSON),
    ]  # fmt: skip
    assert {row[2].rsplit("/", 1)[1] for row in kept} == {path.name}


def test_every_core_has_a_file_to_write() -> None:
    def pieces(text_mib: int, cores: int, name: str = "000000.jsonl") -> int:
        return piece_bytes([File(name, text_mib * 2**20)], cores) >> 20

    assert pieces(1_600, 2) == 100
    assert pieces(160, 2, "000000.jsonl.gz") == 100
    assert pieces(1_600_000, 2) == pieces(1_600_000, 16) == 5 * 128  # about 128 MiB once it is Parquet
    assert pieces(1, 2) == 16


@pytest.mark.slow
def test_unknown_fields_are_ignored(spark: SparkSession, tmp_path: Path) -> None:
    log = small()
    log.add(2, "a", "drop", event_id="e1", reason="full", receiver=None, mood="bad")
    log.write(tmp_path / "logs")
    assert ingest(spark, str(tmp_path / "logs"), str(tmp_path / "store")).aside == {}


@pytest.mark.slow
def test_lines_are_numbered_across_the_blocks_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{number:07}\n" for number in range(1, 20_001)))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    spark.conf.set("spark.sql.files.openCostInBytes", "1")
    try:
        numbered = numbered_lines(spark.read.text(str(tmp_path / "lines.txt")))
        assert numbered.rdd.getNumPartitions() >= 1
        assert numbered.where("line != int(text)").count() == 0
        assert numbered.count() == 20_000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.slow
def test_an_open_segment_is_left_out_unless_its_writer_is_dead(spark: SparkSession, tmp_path: Path) -> None:
    logs, stored = str(tmp_path / "logs"), str(tmp_path / "store")
    small().write(tmp_path / "logs")
    opened = small("killed").write(tmp_path / "logs", "000000.jsonl.open")
    done = ingest(spark, logs, stored)
    assert (done.records, done.left_open) == (6, 1)
    assert ingest(spark, logs, stored, take_open=True).records == 6
    opened.rename(opened.with_name("000000.jsonl"))  # its next life closes it
    assert ingest(spark, logs, stored).records == 0
    opened.with_name("000000.jsonl").write_text("grown\n")
    assert len(ingest(spark, logs, stored).grown) == 1


@pytest.mark.slow
def test_there_must_be_logs(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NoLogs, match="no such directory"):
        ingest(spark, str(tmp_path / "nowhere"), str(tmp_path / "store"))
    with pytest.raises(NoLogs, match="no log records there"):
        ingest(spark, str(tmp_path), str(tmp_path / "store"))
    (tmp_path / "run=r" / "peer=p").mkdir(parents=True)
    (tmp_path / "run=r" / "peer=p" / "000000.jsonl").write_text("")
    ingest(spark, str(tmp_path), str(tmp_path / "store"))
    with pytest.raises(NoLogs, match=r"no records were found in the logs$"):
        store.records(spark, str(tmp_path / "store"))


@pytest.mark.slow
def test_logs_of_a_newer_version_only_are_told_apart_from_no_logs(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.add(1, "a", "peer", change="started", v=2)
    log.write(tmp_path / "logs")
    ingest(spark, str(tmp_path / "logs"), str(tmp_path / "store"))
    with pytest.raises(NoLogs, match="no records were found in the logs; 1 lines are none: a newer version"):
        store.records(spark, str(tmp_path / "store"))
