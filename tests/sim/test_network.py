"""Latencies from their text, and how long a message takes on a link."""

from random import Random

import msgspec
import pytest

from peerd.sim.network import LATENCIES, RETRANSMIT_MS, LinkDelays, NetworkConfig, latencies, pair_hash


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [("constant:7", 7, 7), ("uniform:5:50", 5, 50), ("uniform:3:3", 3, 3), ("lognormal:20:0", 20, 20)],
)
def test_a_table_of_draws(spec: str, low: int, high: int) -> None:
    table = latencies(spec, Random(1))
    assert len(table) == LATENCIES
    assert min(table) >= low
    assert max(table) <= high


def test_nothing_arrives_in_no_time() -> None:
    assert set(latencies("constant:0", Random(1))) == {1}
    assert min(latencies("lognormal:1:2", Random(1))) == 1


def test_lognormal_has_its_median_and_a_tail() -> None:
    table = sorted(latencies("lognormal:50:0.5", Random(1)))
    assert 47 <= table[LATENCIES // 2] <= 53
    assert table[-1] > 150


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "constant",
        "constant:",
        "constant:x",
        "constant:-1",
        "uniform:-5:5",
        "constant:1:2",
        "uniform:5",
        "uniform:50:5",
        "lognormal:0:1",
        "lognormal:5:-1",
        "normal:5:1",
        "constant:nan",
        "constant:inf",
    ],
)
def test_what_is_no_latency_says_so_in_one_line(spec: str) -> None:
    with pytest.raises(ValueError, match="is not one of constant:MS, uniform:LOW:HIGH") as error:
        latencies(spec, Random(1))
    assert "\n" not in str(error.value)


def test_a_pair_has_one_number_whoever_asks_and_pairs_are_spread() -> None:
    numbers = [pair_hash(a, b) for a in range(60) for b in range(a)]
    assert numbers == [pair_hash(b, a) for a in range(60) for b in range(a)]
    assert all(0 <= number < LATENCIES for number in numbers)
    eighths = [0] * 8
    for number in numbers:
        eighths[number * 8 // LATENCIES] += 1
    assert min(eighths) > len(numbers) / 16
    assert max(eighths) < len(numbers) / 4


def test_limits_of_the_settings() -> None:
    for wrong in ({"loss": 1.0}, {"loss": -0.1}, {"duplication": 1.0}, {"reordering_ms": -1}, {"link": "pigeon"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, NetworkConfig)


def sent(delays: LinkDelays, count: int, size: int = 100, source: int = 1, every_ms: int = 10) -> list[list[int]]:
    """The arrivals of messages that one peer sends to another, one after the other."""
    return [delays.arrivals(every_ms * number, source, 2, size) for number in range(count)]


def test_a_stream_that_loses_is_late_but_in_order() -> None:
    delays = LinkDelays(NetworkConfig(latency="constant:20", loss=0.3), Random(1))
    arrivals = [at_ms for [at_ms] in sent(delays, 500, every_ms=100)]
    assert arrivals == sorted(arrivals)
    late = [at_ms - 100 * number - 20 for number, at_ms in enumerate(arrivals)]
    assert late.count(0) > 100
    assert late.count(RETRANSMIT_MS + 20) > 50  # lost once, and nothing before it was later


def test_bandwidth_makes_messages_queue() -> None:
    delays = LinkDelays(NetworkConfig(latency="constant:20", bandwidth=1_000), Random(1))
    assert sent(delays, 3, size=100) == [[120], [220], [320]]
    assert sent(delays, 1, size=100, source=3) == [[120]]  # another link is idle


def test_loss_and_bandwidth_together_keep_the_order() -> None:
    delays = LinkDelays(NetworkConfig(latency="constant:20", bandwidth=10_000, loss=0.2), Random(1))
    arrivals = [at_ms for [at_ms] in sent(delays, 300)]
    assert arrivals == sorted(arrivals)


def test_datagrams_are_lost_doubled_and_overtake_each_other() -> None:
    config = NetworkConfig(link="datagram", latency="constant:20", loss=0.2, duplication=0.1, reordering_ms=50)
    arrivals = sent(LinkDelays(config, Random(1)), 2_000)
    counts = [len(each) for each in arrivals]
    assert 300 < counts.count(0) < 500
    assert 100 < counts.count(2) < 220
    flat = [at_ms for each in arrivals for at_ms in each]
    assert flat != sorted(flat)
    late = [at_ms - 10 * number - 20 for number, each in enumerate(arrivals) for at_ms in each]
    assert min(late) == 0
    assert max(late) == 50


def test_a_new_connection_waits_for_nothing() -> None:
    delays = LinkDelays(NetworkConfig(latency="constant:20", bandwidth=1_000, loss=0.5), Random(1))
    assert sent(delays, 20)[-1][0] > 2_000
    delays.forget(2, 1)
    assert delays.arrivals(200, 1, 2, 100)[0] < 2_000


def test_after_the_calm_nothing_is_lost_and_nothing_overtakes() -> None:
    delays = LinkDelays(NetworkConfig(latency="constant:20", loss=0.9), Random(1))
    [before] = delays.arrivals(0, 1, 2, 100)
    delays.calm()
    assert delays.arrivals(1, 1, 2, 100) == [before]
    assert delays.arrivals(before, 1, 2, 100) == [before + 20]
