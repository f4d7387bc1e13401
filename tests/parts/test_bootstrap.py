from itertools import pairwise
from random import Random

import msgspec
import pytest

from protocols.model.bounds import ENTRIES_MAX
from protocols.model.ids import endpoint
from protocols.parts.bootstrap import LOST_MAX, SAMPLE, SEED_PAUSE_MAX_MS, Bootstrap, Hello, Welcome
from tests.parts.nodes import address, peer


def bootstrap(*seeds: str, begin_after_ms: int | None = None, now_ms: int = 0, seed: int = 1) -> Bootstrap:
    return Bootstrap(address(0), seeds, Random(seed), now_ms, begin_after_ms)


def attempts(boot: Bootstrap, until_ms: int) -> list[tuple[int, str]]:
    """Who is asked when, while nobody answers."""
    result = []
    while boot.next_ms <= until_ms:
        now_ms = boot.next_ms
        polled = boot.poll(now_ms, peer(0))
        assert boot.next_ms > now_ms
        if polled is not None:
            to, hello = polled
            assert to == endpoint(hello.dialled)
            result.append((now_ms, to.at))
    return result


def test_tries_at_once_and_ever_more_slowly_but_for_ever() -> None:
    tries = attempts(bootstrap("a:1"), 600_000)
    pauses = [b[0] - a[0] for a, b in pairwise(tries)]
    assert tries[0] == (0, "a:1")
    for pause_ms, expected_ms in zip(pauses, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]):
        assert 0.9 * expected_ms - 1 <= pause_ms <= 1.1 * expected_ms
    assert max(pauses) <= 11_000
    assert len(set(pauses[6:])) > 5, "with jitter"
    assert tries[-1][0] > 580_000


def test_goes_through_all_seeds_before_it_slows_down() -> None:
    tries = attempts(bootstrap("a:1", "b:1", "c:1", "a:1"), 20_000)
    assert sorted(at for _, at in tries[:3]) == ["a:1", "b:1", "c:1"]
    assert sorted(at for _, at in tries[3:6]) == ["a:1", "b:1", "c:1"]
    assert tries[2][0] <= 1_100


def test_the_answer_of_a_standing_peer_ends_the_search() -> None:
    boot = bootstrap("a:1")
    polled = boot.poll(0, peer(0), [peer(n) for n in range(20)])
    assert polled is not None
    hello = polled[1]
    assert hello.joining
    assert len(hello.entries) == SAMPLE
    assert not boot.on_welcome(10, address(1), Welcome(1, peer(1), (), standing=False)), "it is still looking itself"
    assert boot.on_welcome(20, address(1), Welcome(1, peer(1), (), standing=True))
    assert boot.joined
    assert not boot.on_welcome(30, address(2), Welcome(1, peer(2), (), standing=True)), "one is enough"
    assert 9_020 <= boot.next_ms <= 11_020


def test_answers_with_itself_and_a_sample() -> None:
    boot = bootstrap("a:1")
    hello = Hello(7, peer(1), (), "a:1", joining=True)
    welcome = boot.on_hello(hello, peer(0), [peer(n) for n in range(2, 30)], standing=True)
    assert welcome is not None
    assert (welcome.req_id, welcome.own, welcome.standing) == (7, peer(0), True)
    assert len(welcome.entries) == SAMPLE


def test_its_own_endpoint_among_the_seeds_is_skipped() -> None:
    assert bootstrap(address(0).at, "a:1").seeds == ["a:1"]
    boot = bootstrap("me.example:1", "a:1")
    boot.on_hello(Hello(1, peer(0), (), "elsewhere:1", joining=True), peer(0), (), standing=False)
    assert boot.on_hello(Hello(1, peer(0), (), "me.example:1", joining=True), peer(0), (), standing=False) is None
    assert boot.seeds == ["a:1"]
    assert {at for _, at in attempts(boot, 60_000)} == {"a:1"}
    boot.reseed(["b:1", address(0).at])
    assert boot.seeds == ["b:1"]


def test_begins_by_itself_without_seeds_or_after_the_time_given() -> None:
    assert bootstrap().should_begin(0)
    assert bootstrap(address(0).at).should_begin(0)
    waiting = bootstrap("a:1")
    attempts(waiting, 1_000_000)
    assert not waiting.should_begin(1_000_000)
    boot = bootstrap("a:1", begin_after_ms=3_000)
    while not boot.should_begin(boot.next_ms):
        boot.poll(boot.next_ms, peer(0))
    assert boot.next_ms == 3_000, "it is woken for it"
    boot.begun(3_000)
    assert boot.joined
    assert not boot.should_begin(9_000)
    lone = bootstrap(begin_after_ms=3_000)
    assert not lone.should_begin(2_999), "somebody may still come by"
    assert lone.should_begin(3_000)


def test_once_joined_probes_seeds_and_lost_addresses_every_10_s() -> None:
    boot = bootstrap("a:1", "b:1")
    boot.begun(0)
    for n in range(5):
        boot.remember(f"lost{n}:1")
    polled = boot.poll(boot.next_ms, peer(0))
    assert polled is not None
    assert not polled[1].joining
    probes = attempts(boot, 1_000_000)
    assert 95 <= len(probes) <= 105
    seeds = [at for _, at in probes if at in ("a:1", "b:1")]
    assert 30 <= len(seeds) <= 70
    assert len({at for _, at in probes}) == 7


def answered(boot: Bootstrap, until_ms: int, crowded: bool) -> list[int]:
    """When the seed is probed that answers every time, to a peer whose view is nearly full or not."""
    result = []
    while boot.next_ms <= until_ms:
        now_ms = boot.next_ms
        polled = boot.poll(now_ms, peer(0))
        if polled is not None:
            result.append(now_ms)
            boot.on_welcome(now_ms + 1, address(1), Welcome(polled[1].req_id, peer(1), (), standing=True), crowded)
    return result


def test_seeds_that_answer_are_spared_by_a_crowd_but_for_ever_probed() -> None:
    boot = bootstrap("a:1")
    boot.begun(0)
    pauses = [b - a for a, b in pairwise(answered(boot, 3_000_000, crowded=True))]
    assert 18_000 <= pauses[0] <= 33_000
    assert all(0.9 * SEED_PAUSE_MAX_MS <= pause_ms <= 1.1 * SEED_PAUSE_MAX_MS + 11_000 for pause_ms in pauses[5:])
    assert len(pauses) > 15


def test_a_small_swarm_spares_no_seed() -> None:
    boot = bootstrap("a:1")
    boot.begun(0)
    pauses = [b - a for a, b in pairwise(answered(boot, 300_000, crowded=False))]
    assert max(pauses) <= 22_000


def test_who_loses_peers_asks_the_seeds_sooner() -> None:
    boot = bootstrap("a:1")
    boot.begun(0)
    answered(boot, 2_000_000, crowded=True)
    for n in range(4):
        boot.remember(f"lost{n}:1")
    soon = [at for _, at in attempts(boot, boot.next_ms + 60_000)]
    assert "a:1" in soon
    assert "lost0:1" in [at for _, at in attempts(boot, boot.next_ms + 600_000)]


def test_nothing_to_probe_is_no_problem() -> None:
    boot = bootstrap()
    boot.begun(0)
    assert boot.poll(boot.next_ms, peer(0)) is None
    boot.remember("x:1")
    assert attempts(boot, 30_000)


def test_remembers_the_last_64_lost_and_forgets_the_living() -> None:
    boot = bootstrap("a:1")
    for n in range(LOST_MAX + 10):
        boot.remember(f"lost{n}:1")
    boot.remember("lost20:1")
    boot.remember(address(0).at)
    boot.remember("")
    assert len(boot.lost) == LOST_MAX
    assert boot.lost[0] == "lost10:1"
    assert boot.lost[-1] == "lost20:1"
    boot.alive("lost20:1")
    boot.alive("unknown:1")
    assert "lost20:1" not in boot.lost
    boot.remember(address(3).at)
    boot.on_welcome(5, address(3), Welcome(1, peer(3), (), standing=True))
    assert address(3).at not in boot.lost


def test_longer_lists_do_not_decode() -> None:
    decoder = msgspec.msgpack.Decoder(Hello | Welcome)
    welcome = Welcome(1, peer(1), (peer(2),) * ENTRIES_MAX, standing=True)
    assert decoder.decode(msgspec.msgpack.encode(welcome)) == welcome
    for bad in (
        Welcome(1, peer(1), (peer(2),) * (ENTRIES_MAX + 1), standing=True),
        Hello(1, peer(1), (), "x" * 301, joining=True),
    ):
        with pytest.raises(msgspec.ValidationError):
            decoder.decode(msgspec.msgpack.encode(bad))
