"""How much there is to read, known before Spark is started."""

from pathlib import Path

from analytics.ingest import PATTERNS
from analytics.places import local_size
from analytics.session import SMALL_BYTES, is_small
from tests.analytics.support import Log


def test_size_of_local_logs(tmp_path: Path) -> None:
    log = Log()
    log.start("a")
    sizes = [log.write(tmp_path, name).stat().st_size for name in ("000000.jsonl", "000001.jsonl.open")]
    sizes.append(log.write(tmp_path / "host-7").stat().st_size)
    (tmp_path / "notes.txt").write_text("no log")
    assert local_size(str(tmp_path), PATTERNS) == sum(sizes) > 0
    assert local_size(f"file:{tmp_path}", PATTERNS) == sum(sizes)
    assert local_size(str(tmp_path / "nowhere"), PATTERNS) == 0
    assert local_size("hdfs://host/logs", PATTERNS) is None


def test_what_is_small() -> None:
    assert [is_small(size) for size in (0, SMALL_BYTES - 1, SMALL_BYTES)] == [True, True, False]
