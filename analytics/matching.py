"""Which publication matches which filter: a range join by buckets.

A cross join of 100,000 publications with 10,000 filters looks at a thousand million pairs. Most filters are narrow in
one or two attributes, so both sides are cut along those, and only what lies in the same bucket is compared:

- A number attribute has `BUCKETS` stretches with about as many publications in each, and one for publications that lack
  it. A region lies in a run of stretches.
- A text attribute is cut by the hash of its value, as far as a region asks for one value. (One that asks for a prefix
  or an order counts as wide.)
- Each region is filed under its own *shape*: the one or two attributes that leave the fewest publications, as long as
  it does not take too many buckets; without any, it is compared with all.
- A publication is looked up once under each shape that is in use. So a pair meets in one bucket at the most, and
  nothing has to be made distinct, but for subscriptions that have several regions.

What meets is then compared exactly (`bounds.within`).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics import bounds
from analytics.bounds import Attribute

BUCKETS: Final = 32
"""Stretches of an attribute. More would compare less and file more: at 32 and two attributes, regions that are a fifth
of the domain wide take about 50 rows each."""
CELLS_MAX: Final = 256
"""Buckets of one region at the most; beyond, its second attribute is not used."""
WIDE: Final = 0.7
"""An attribute that leaves more than this share of the publications is not worth a bucket. A guess."""
KEYS_MAX: Final = 6
"""Attributes that regions are filed under at the most, those that most regions are narrow in: each pair of them is a
shape under which every publication may have to be looked up."""
BROADCAST_MAX: Final = 1_000_000
"""Rows of regions that are sent to every executor whole; beyond, both sides are shuffled."""
_ACCURACY: Final = 1_000
_TEXT_BUCKETS: Final = 1 << 20
_LACKING: Final = -1


class Key(NamedTuple):
    """An attribute that regions may be filed under."""

    number: int
    is_text: bool
    cuts: tuple[float, ...]
    """Where a number's stretches begin, but for the first."""
    distinct: int
    """How many values a text has, about."""


def matches(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Pairs of a publication and a version that matches it, both of one run. All runs have these attributes.

    A pair has the columns of both sides but for `attributes` and `regions`; `publications` has no column with the name
    of one in `versions`, save `run`. Versions that ended before the publication are left out (`served_us`, `at_us`,
    `grace_us`).
    """
    points = bounds.points(publications, attributes).drop("attributes")
    regions = bounds.regions(versions, attributes).persist()
    keys = _keys(points, regions, attributes)
    filed = _filed(regions, keys).persist()
    counts = {tuple(row["shape"]): row["rows"] for row in _shapes(filed).collect()}
    looked_up = _looked_up(points, keys, list(counts))
    filed = filed.drop("shape")
    if sum(counts.values()) <= BROADCAST_MAX:
        filed = F.broadcast(filed)
    served = F.col("served_us") >= F.col("at_us") - F.col("grace_us")
    met = looked_up.join(filed, ["run", "bucket"]).where(served & bounds.within(attributes))
    found = met.drop("bucket", *_bound_columns(attributes))
    once = found.where("count = 1")
    several = found.where("count > 1").dropDuplicates(["run", "event_id", "peer", "boot", "subscription_id", "version"])
    return once.unionByName(several).drop("count")


def cross(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """The same by looking at every pair: the slow, obvious twin, for tests and benchmarks."""
    points = bounds.points(publications, attributes).drop("attributes")
    regions = bounds.regions(versions, attributes)
    served = F.col("served_us") >= F.col("at_us") - F.col("grace_us")
    other = regions.withColumnRenamed("run", "other_run")
    pairs = points.crossJoin(other).where((F.col("run") == F.col("other_run")) & served & bounds.within(attributes))
    found = pairs.drop("other_run", *_bound_columns(attributes))
    return found.dropDuplicates(["run", "event_id", "peer", "boot", "subscription_id", "version"]).drop("count")


def _bound_columns(attributes: Sequence[Attribute]) -> list[str]:
    names = ("v", "lo", "hi", "lo_open", "hi_open", "present", "absent", "prefix")
    return [f"{name}{number}" for number in range(len(attributes)) for name in names]


# --- Buckets ----------------------------------------------------------------------------------------------------------


def _keys(points: DataFrame, regions: DataFrame, attributes: Sequence[Attribute]) -> list[Key]:
    """The attributes that most regions are narrow in."""
    if not attributes:
        return []
    narrow = [F.count_if(_is_narrow(number, each)).alias(str(number)) for number, each in enumerate(attributes)]
    counts = regions.agg(*narrow).first()
    assert counts is not None
    ranked = sorted((-counts[str(number)], number) for number in range(len(attributes)) if counts[str(number)])
    chosen = sorted(number for _, number in ranked[:KEYS_MAX])
    shares = [step / BUCKETS for step in range(1, BUCKETS)]
    facts = [
        F.approx_count_distinct(f"v{number}").alias(str(number))
        if attributes[number].is_text
        else F.percentile_approx(f"v{number}", shares, _ACCURACY).alias(str(number))
        for number in chosen
    ]
    seen = points.agg(*facts).first() if facts else None
    return [_key(number, attributes[number].is_text, None if seen is None else seen[str(number)]) for number in chosen]


def _key(number: int, is_text: bool, seen: Any) -> Key:
    return Key(number, True, (), seen or 0) if is_text else Key(number, False, tuple(sorted(set(seen or ()))), 0)


def _shapes(filed: DataFrame) -> DataFrame:
    return filed.groupBy("shape").agg(F.count("*").alias("rows"))


def _is_narrow(i: int, attribute: Attribute) -> Column:
    if attribute.is_text:
        return _asks_for_one(i) | ~F.col(f"present{i}")
    unbounded = (F.col(f"lo{i}") == float("-inf")) & (F.col(f"hi{i}") == float("inf"))
    return ~unbounded | ~F.col(f"absent{i}") | ~F.col(f"present{i}")


def _asks_for_one(i: int) -> Column:
    return (F.col(f"lo{i}") == F.col(f"hi{i}")) & F.col(f"prefix{i}").isNull()


def _stretch(column: str, cuts: Sequence[float]) -> Column:
    """In which stretch a number lies, by halving. Written as SQL: thousands of calls into Java would take seconds."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below, above = search(low, middle), search(middle + 1, high)
        return f"CASE WHEN {column} < {cuts[middle]!r}D THEN {below} ELSE {above} END"

    return F.expr(search(0, len(cuts)))


def _hashed(value: Column) -> Column:
    return F.pmod(F.xxhash64(value), F.lit(_TEXT_BUCKETS)).cast("int")


def _point_bucket(key: Key) -> Column:
    name = f"v{key.number}"
    placed = _hashed(F.col(name)) if key.is_text else _stretch(name, key.cuts)
    return F.when(F.col(name).isNull(), _LACKING).otherwise(placed)


def _region_buckets(key: Key) -> Column:
    """The buckets of a region along one attribute; null if it cannot be filed under it."""
    i = key.number
    lacking = F.when(F.col(f"absent{i}"), F.array(F.lit(_LACKING))).otherwise(F.array().cast("array<int>"))
    if key.is_text:
        value = F.array(_hashed(F.col(f"lo{i}")))
        present = F.when(~F.col(f"present{i}"), F.array().cast("array<int>")).when(_asks_for_one(i), value)
    else:
        run = F.sequence(_stretch(f"lo{i}", key.cuts), _stretch(f"hi{i}", key.cuts))
        possible = F.col(f"present{i}") & (F.col(f"lo{i}") <= F.col(f"hi{i}"))
        present = F.when(possible, run).otherwise(F.array().cast("array<int>"))
    return F.concat(present, lacking)


def _filed(regions: DataFrame, keys: Sequence[Key]) -> DataFrame:
    """Regions with the shape that each is filed under, once for each of its buckets."""
    regions = regions.withColumns({f"k{place}": _region_buckets(key) for place, key in enumerate(keys)})
    options = []
    for place, key in enumerate(keys):
        stretches = max(1, key.distinct) if key.is_text else len(key.cuts) + 1
        share = F.coalesce(F.size(f"k{place}") / F.lit(float(stretches)), F.lit(1.0))
        share = F.when(F.col(f"k{place}").isNull(), 1.0).otherwise(share)
        options.append(F.struct(share.alias("share"), F.lit(place).alias("place"), F.col(f"k{place}").alias("buckets")))
    if not options:
        return regions.withColumns({"shape": F.array().cast("array<int>"), "bucket": _bucket([])})
    unused = [f"k{place}" for place in range(len(keys))]
    ranked = F.array_sort(F.filter(F.array(*options), lambda option: option["share"] <= WIDE))
    chosen = regions.withColumn("ranked", ranked)
    first, second = F.get("ranked", F.lit(0)), F.get("ranked", F.lit(1))
    both = second.isNotNull() & (F.size(first["buckets"]) * F.size(second["buckets"]) <= CELLS_MAX)
    pair = F.when(first["place"] < second["place"], F.struct(first.alias("a"), second.alias("b"))).otherwise(
        F.struct(second.alias("a"), first.alias("b"))
    )
    chosen = chosen.withColumn("pair", F.when(both, pair)).withColumn("one", F.when(first.isNotNull() & ~both, first))
    shape = (
        F.when(F.col("pair").isNotNull(), F.array("pair.a.place", "pair.b.place"))
        .when(F.col("one").isNotNull(), F.array("one.place"))
        .otherwise(F.array().cast("array<int>"))
    )
    cells = F.flatten(
        F.transform(
            "pair.a.buckets",
            lambda a: F.transform(
                "pair.b.buckets", lambda b: _bucket([F.col("pair.a.place"), a, F.col("pair.b.place"), b])
            ),
        )
    )
    single = F.transform("one.buckets", lambda a: _bucket([F.col("one.place"), a]))
    buckets = F.coalesce(cells, single, F.array(_bucket([])))
    return chosen.withColumns({"shape": shape, "bucket": F.explode(buckets)}).drop("ranked", "pair", "one", *unused)


def _looked_up(points: DataFrame, keys: Sequence[Key], shapes: Sequence[tuple[int, ...]]) -> DataFrame:
    """Publications, once for each shape in use."""
    named = {f"b{place}": _point_bucket(key) for place, key in enumerate(keys)}
    buckets = []
    for shape in sorted(shapes):
        parts: list[Column] = []
        for place in shape:
            parts += [F.lit(place), F.col(f"b{place}")]
        buckets.append(_bucket(parts))
    placed = points.withColumns(named) if named else points
    if not buckets:
        return placed.drop(*named).withColumn("bucket", _bucket([])).where(F.lit(False))
    return placed.withColumn("bucket", F.explode(F.array(*buckets))).drop(*named)


def _bucket(parts: Sequence[Column]) -> Column:
    """One number for a place in a shape. Different places may share one: what meets is compared anyway."""
    return F.xxhash64(F.lit(len(parts)), *[part.cast("int") for part in parts])
