"""The workloads: repeatable, true to their papers where a paper states a number, and honest about their boxes."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from peerd.sim.workloads import WORKLOADS, Interest, Workload, workload
from peerd.sim.workloads.boxes import Boxes, box_inside
from peerd.sim.workloads.files import file
from peerd.sim.workloads.mixed import FORMS
from peerd.sim.workloads.stocks import base_cents, exchange_of, symbol_of
from peerd.sim.workloads.workload import inside
from peerd.sim.workloads.zipf import Zipf
from protocols.model.box import Box, contains, match
from protocols.model.lint import compile_filter
from tests.conformance.support import choices

EACH = pytest.mark.parametrize("each", WORKLOADS.values(), ids=list(WORKLOADS))
VARIANTS = (
    *WORKLOADS.values(),
    workload("zipf", dimensions=12),
    workload("uniform-25:75", sizes="fitting"),
    workload("zipf-10:90", grid=100, shuffled=True),
    workload("uniform", dimensions=1, size_max=1000, grid=10),
    workload("stocks", symbols=26**3, alpha=0.0),
    workload("files", files=2, alpha=3.0),
)


def selectivity(each: Workload, subscriptions: Sequence[Interest], events: int, rng: Random) -> float:
    points = [each.schema.point(event) for event in each.events(rng, events, subscriptions)]
    hits = sum(any(match(box, point) for box in one.boxes) for one in subscriptions for point in points)
    return hits / (len(subscriptions) * events)


# --- What all workloads promise -------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", VARIANTS, ids=repr)
def test_the_text_compiles_to_exactly_the_boxes(each: Workload) -> None:
    for interest in each.subscriptions(Random(1), 100):
        assert tuple(compile_filter(interest.filter, each.schema).boxes) == interest.boxes, interest.filter


@EACH
def test_there_are_as_many_as_asked_for(each: Workload) -> None:
    for count in (0, 1, 2, 7, 100):
        subscriptions = each.subscriptions(Random(2), count)
        assert len(subscriptions) == count
        assert len(each.events(Random(2), count, subscriptions)) == count


@EACH
def test_the_same_seed_draws_the_same_and_another_seed_does_not(each: Workload) -> None:
    def drawn(seed: int) -> object:
        rng = Random(seed)
        subscriptions = each.subscriptions(rng, 200)
        events = each.events(rng, 200, subscriptions)
        return subscriptions, events, [each.update(rng, one) for one in subscriptions]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


DIGEST = """
import hashlib
from random import Random
from peerd.sim.workloads import WORKLOADS
digest = hashlib.sha256()
for each in WORKLOADS.values():
    rng = Random(5)
    subscriptions = each.subscriptions(rng, 60)
    updates = [each.update(rng, one) for one in subscriptions]
    digest.update(repr((subscriptions, updates, each.events(rng, 60, subscriptions))).encode())
print(digest.hexdigest())
"""


def test_hash_order_cannot_be_seen() -> None:
    def digest(hash_seed: str) -> str:
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert digest("0") == digest("1") == digest("4711")


@pytest.mark.parametrize("each", VARIANTS, ids=repr)
def test_events_are_valid(each: Workload) -> None:
    subscriptions = each.subscriptions(Random(6), 50)
    for event in each.events(Random(6), 200, subscriptions):
        assert event
        assert each.schema.validate(event) == event


@pytest.mark.parametrize("each", VARIANTS, ids=repr)
def test_an_update_changes_the_boxes_and_stays_in_the_workload(each: Workload) -> None:
    rng = Random(7)
    for interest in each.subscriptions(rng, 40):
        for _ in range(3):
            changed = each.update(rng, interest)
            assert changed.boxes != interest.boxes
            assert tuple(compile_filter(changed.filter, each.schema).boxes) == changed.boxes, changed.filter
            interest = changed


@EACH
def test_an_event_inside_a_box_matches_it(each: Workload) -> None:
    rng = Random(8)
    for interest in each.subscriptions(rng, 60):
        for box in interest.boxes:
            event = inside(rng, each.schema, box)
            assert each.schema.validate(event) == event
            assert match(box, each.schema.point(event))


@EACH
def test_what_a_filter_matches_falls_into_one_of_its_boxes(each: Workload) -> None:
    subscriptions = each.subscriptions(Random(26), 60)
    matchers = [compile_filter(interest.filter, each.schema).matcher for interest in subscriptions]
    for event in each.events(Random(26), 100, subscriptions):
        point = each.schema.point(event)
        for interest, matches in zip(subscriptions, matchers, strict=True):
            boxed = any(match(box, point) for box in interest.boxes)
            assert boxed or not matches(event)
            assert boxed == matches(event) or each.name == "mixed"  # elsewhere events lie on the grid


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("uniform", 0.0006, 0.0013),
        ("uniform-25:75", 0.0001, 0.0004),
        ("uniform-10:90", 0.00002, 0.0002),
        ("zipf", 0.0009, 0.0022),
        ("zipf-25:75", 0.0002, 0.0007),
        ("zipf-10:90", 0.00005, 0.0004),
        ("stocks", 0.015, 0.03),
        ("files", 0.002, 0.0045),
        ("files-uniform", 0.0, 0.0003),
        ("ranges", 0.29, 0.40),
        ("mixed", 0.32, 0.42),
    ],
)
def test_the_selectivity_is_the_documented_one(name: str, low: float, high: float) -> None:
    """The bounds leave room for few draws: at this size that of `ranges` has a standard deviation of 0.014."""
    each = WORKLOADS[name]
    assert low <= selectivity(each, each.subscriptions(Random(9), 500), 300, Random(10)) <= high


def test_an_unknown_name_lists_the_names_in_one_line() -> None:
    with pytest.raises(ValueError) as caught:
        workload("zipff")
    message = str(caught.value)
    assert "\n" not in message
    assert all(name in message for name in WORKLOADS)


def test_parameters_can_be_changed_and_wrong_ones_are_named() -> None:
    changed = workload("zipf-25:75", dimensions=6, size_max=300, sizes="fitting")
    assert len(changed.schema.attributes) == 6
    assert len(WORKLOADS["zipf-25:75"].schema.attributes) == 4
    with pytest.raises(ValueError, match=r"zipf has no parameter 'origins'; it has: dimensions, size_max"):
        workload("zipf", origins="uniform")
    with pytest.raises(ValueError, match="ranges has no parameter 'd'; it has: none"):
        workload("ranges", d=2)
    wrong = ({"dimensions": 0}, {"size_max": 0}, {"sizes": "cut"}, {"grid": 3}, {"alpha": -1.0})
    for parameters in wrong:
        with pytest.raises(ValueError, match=next(iter(parameters))):
            workload("zipf", **parameters)
    for name, parameters in (("stocks", {"symbols": 0}), ("stocks", {"alpha": -1.0}), ("files", {"files": 1})):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            workload(name, **parameters)


# --- Zipf's law -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.8, 1.0])
def test_ranks_follow_zipfs_law(alpha: float) -> None:
    count, draws = 50, 20_000
    distribution, rng = Zipf(count, alpha), Random(11)
    seen = Counter(distribution.draw(rng) for _ in range(draws))
    weights = [1 / (rank + 1) ** alpha for rank in range(count)]
    expected = [draws * weight / sum(weights) for weight in weights]
    chi_square = sum((seen[rank] - expected[rank]) ** 2 / expected[rank] for rank in range(count))
    assert chi_square < 85.4  # 49 degrees of freedom: exceeded by one seed in 1,000
    assert all(abs(distribution.share(rank) - expected[rank] / draws) < 1e-9 for rank in range(count))


def test_zipf_never_draws_beyond_the_last_rank() -> None:
    class Last(Random):
        def random(self) -> float:
            return 1.0 - 2.0**-53

    for count in (1, 2, 3, 1001):
        assert Zipf(count, 1.0).draw(Last()) == count - 1
    for count, alpha in ((0, 1.0), (3, -0.5)):
        with pytest.raises(ValueError, match="Zipf"):
            Zipf(count, alpha)


# --- Boxes (paper 3, section 5) -------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [one for one in VARIANTS if isinstance(one, Boxes)], ids=repr)
def test_boxes_lie_in_the_domain_and_hold_a_value(each: Boxes) -> None:
    top = 1_000 * each.grid
    for interest in each.subscriptions(Random(12), 500):
        (box,) = interest.boxes
        assert len(box.lo) == each.dimensions
        for lo, hi in zip(box.lo, box.hi, strict=True):
            assert 0 <= lo < hi <= top + 1
            assert each.sizes == "fitting" or hi - 1 - lo <= each.size_max * each.grid


def test_sizes_are_uniform_and_the_skew_is_on_the_origin_only() -> None:
    """Section 5: Zipf "is applied to the origin of subscriptions only"."""
    for name in ("uniform", "zipf"):
        boxes = [interest.boxes[0] for interest in workload(name, size_max=100).subscriptions(Random(13), 3_000)]
        origins = [lo for box in boxes for lo in box.lo]
        sizes = [hi - 1 - lo for box in boxes for lo, hi in zip(box.lo, box.hi, strict=True) if lo <= 900]
        assert abs(sum(sizes) / len(sizes) - 50) < 1.5
        at_zero = origins.count(0) / len(origins)
        assert at_zero < 0.003 if name == "uniform" else abs(at_zero - 1 / 7.486) < 0.01  # H(1001) = 7.486


@pytest.mark.parametrize(("name", "percent"), [("-25:75", 25), ("-10:90", 10)])
@pytest.mark.parametrize("origins", ["uniform", "zipf"])
def test_at_least_y_percent_are_containees(origins: str, name: str, percent: int) -> None:
    """Section 5: "This method guarantees that at least Y% of the subscriptions are containees"."""
    count = 400
    boxes = [interest.boxes[0] for interest in workload(origins + name).subscriptions(Random(14), count)]
    plain = count * percent // 100
    for index in range(plain, count):
        assert any(contains(boxes[earlier], boxes[index]) for earlier in range(index))
    assert boxes[:plain] == [i.boxes[0] for i in WORKLOADS[origins].subscriptions(Random(14), plain)]


def test_containees_nest_deeper_than_one_level() -> None:
    """Section 5: the container is "a random subscription S from the current set", which grows."""
    boxes = [interest.boxes[0] for interest in WORKLOADS["zipf-10:90"].subscriptions(Random(15), 300)]
    depth: list[int] = []
    for index, box in enumerate(boxes):
        depth.append(1 + max((depth[earlier] for earlier in range(index) if contains(boxes[earlier], box)), default=0))
    assert max(depth) >= 4


def test_a_box_inside_is_any_of_them_equally_often() -> None:
    rng, outer = Random(16), Box((3,), (7,))
    seen = Counter(box_inside(rng, outer) for _ in range(10_000))
    ranges = [Box((lo,), (hi,)) for lo in range(3, 7) for hi in range(lo + 1, 8)]
    assert sorted(seen, key=repr) == sorted(ranges, key=repr)
    assert sum((times - 1_000) ** 2 / 1_000 for times in seen.values()) < 27.9  # 9 degrees of freedom, one in 1,000
    assert box_inside(rng, Box((5, 0), (6, 1))) == Box((5, 0), (6, 1))


def test_shuffled_is_another_order_of_the_same_set() -> None:
    drawn = WORKLOADS["zipf-25:75"].subscriptions(Random(17), 200)
    shuffled = workload("zipf-25:75", shuffled=True).subscriptions(Random(17), 200)
    assert shuffled != drawn
    assert sorted(one.filter for one in shuffled) == sorted(one.filter for one in drawn)


def maximal(boxes: Sequence[Box]) -> int:
    """How many distinct boxes are contained in no other."""
    kept: list[Box] = []
    for box in sorted(dict.fromkeys(boxes), key=lambda box: sum(box.lo) - sum(box.hi)):
        if not any(contains(other, box) for other in kept):
            kept.append(box)
    return len(kept)


@choices("grid", 1, 100)
def test_the_calibration_on_the_children_of_a_containment_root(grid: int) -> None:
    """Section 5: a containment tree of 10,000 (Zipf-25:75) "would have" a root with "approximately 2,000 children"."""
    counts = []
    for seed in (18, 19):
        plain = workload("zipf", grid=grid).subscriptions(Random(seed), 2_500)
        counts.append(maximal([interest.boxes[0] for interest in plain]))
    assert abs(sum(counts) / 2 - 1_943) < 0.07 * 1_943  # the specification's count, from another generator


def test_containees_add_nothing_to_the_root() -> None:
    for seed in range(3):
        boxes = [interest.boxes[0] for interest in WORKLOADS["zipf-25:75"].subscriptions(Random(seed), 1_000)]
        assert maximal(boxes) == maximal(boxes[:250])


# --- The others -----------------------------------------------------------------------------------------------------


def test_ranges_have_two_distinct_ends_and_lengths_from_1_to_100() -> None:
    """Paper 4, section V: 0 <= a < b <= 100, "which generated subscriptions of length from 1 to 100"."""
    boxes = [interest.boxes[0] for interest in WORKLOADS["ranges"].subscriptions(Random(19), 20_000)]
    lengths = Counter(box.hi[0] - 1 - box.lo[0] for box in boxes)
    assert set(lengths) == set(range(1, 101))
    assert abs(sum(length * times for length, times in lengths.items()) / len(boxes) - 34) < 0.5
    assert {event["value"] for event in WORKLOADS["ranges"].events(Random(19), 5_000)} == set(range(101))


def test_the_papers_stock_is_there_and_no_symbol_is_twice() -> None:
    """Paper 1, Figure 1."""
    assert (exchange_of(0), symbol_of(0), base_cents(0)) == ("NYSE", "OTE", 840)
    assert len({symbol_of(rank) for rank in range(26**3)}) == 26**3
    assert all(100 <= base_cents(rank) <= 1_900 for rank in range(2_000))


def test_a_quote_lies_between_low_and_high() -> None:
    for event in WORKLOADS["stocks"].events(Random(20), 2_000):
        low, price, high = (float(event[name]) for name in ("low", "price", "high"))
        assert 0.0 <= low <= price <= high <= 20.0


def test_stock_filters_constrain_one_to_three_attributes_and_symbols_are_skewed() -> None:
    each = WORKLOADS["stocks"]
    subscriptions = each.subscriptions(Random(21), 2_000)
    unbounded = each.schema.space.unbounded
    sides = Counter(
        sum(lo != free for lo, free in zip(box.lo + box.lo_text, unbounded.lo + unbounded.lo_text, strict=True))
        for interest in subscriptions
        for box in interest.boxes
    )
    assert set(sides) == {1, 2, 3}
    place = each.schema.place("symbol").position
    symbols = Counter(box.lo_text[place] for interest in subscriptions for box in interest.boxes if box.lo_text[place])
    assert symbols.most_common(1)[0][0] == "=OTE"
    assert abs(symbols["=OTE"] / symbols.total() - 1 / 5.878) < 0.03  # H(200) = 5.878


def test_a_file_filter_matches_one_file_and_popular_files_have_several() -> None:
    """Paper 5, section 4: "the filter matches one shared file by the peer"; three attributes."""
    assert len({file(rank)["name"] for rank in range(10_000)}) == 10_000
    each = WORKLOADS["files"]
    subscriptions = each.subscriptions(Random(22), 1_000)
    catalogue = [each.schema.point(file(rank)) for rank in range(10_000)]
    for interest in subscriptions[:20]:
        assert sum(match(interest.boxes[0], point) for point in catalogue) == 1
    wanted = Counter(interest.filter for interest in subscriptions)
    assert wanted.most_common(1)[0][1] > 20
    uniform = Counter(interest.filter for interest in WORKLOADS["files-uniform"].subscriptions(Random(22), 1_000))
    assert uniform.most_common(1)[0][1] < 6


def test_mixed_uses_the_whole_language_in_every_round() -> None:
    each = WORKLOADS["mixed"]
    for seed in range(5):
        text = "\n".join(interest.filter for interest in each.subscriptions(Random(seed), len(FORMS)))
        comparisons = " = | <> | != | < | <= | > | >= | BETWEEN | NOT BETWEEN | IN (| NOT IN ("
        others = " LIKE | NOT LIKE | ESCAPE | IS NULL| IS NOT NULL| AND | OR |NOT (|TRUE| and "
        wanted = [*comparisons.split("|"), *others.split("|")]
        assert [word for word in wanted if word not in text] == []


def test_mixed_has_several_boxes_absent_attributes_and_values_off_the_grid() -> None:
    each = WORKLOADS["mixed"]
    subscriptions = each.subscriptions(Random(23), 4 * len(FORMS))
    assert {1, 2, 3} <= {len(interest.boxes) for interest in subscriptions}
    events = each.events(Random(23), 2_000, subscriptions)
    for name in each.schema.names:
        assert 0.05 < sum(name not in event for event in events) / len(events) < 0.6
    prices = [float(event["price"]) for event in events if "price" in event]
    assert any(price != round(price, 2) for price in prices)
    volumes = [int(event["volume"]) for event in events if "volume" in event]
    assert min(volumes) < 0
    assert max(volumes) > 1_000


def test_mixed_events_reach_every_filter() -> None:
    each = WORKLOADS["mixed"]
    subscriptions = each.subscriptions(Random(24), len(FORMS))
    points = [each.schema.point(event) for event in each.events(Random(24), 1_000, subscriptions)]
    for interest in subscriptions:
        assert any(match(box, point) for box in interest.boxes for point in points), interest.filter
