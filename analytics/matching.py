"""Which publication matches which filter: a range join by buckets.

A cross join of 100,000 publications with 10,000 filters looks at a thousand million pairs. Most filters are narrow in
one or two attributes, so both sides are cut along those, and only what lies in the same bucket is compared:

- A number attribute has `STRETCHES` stretches with about as many publications in each, and one for publications that
  lack it. A region lies in a run of stretches.
- A text attribute is cut by the hash of its value, as far as a region asks for one value. (One that asks for a prefix
  or an order counts as wide.)
- Each region is filed under its own *shape*: the attributes, up to four, that leave the fewest publications, as long as
  it does not take too many buckets; without any, it is compared with all. With three or four attributes stretches are
  twice or four times as long: so many small buckets would be filled by one region that filing it would cost more than
  comparing it.
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

STRETCHES: Final = 32
"""Of an attribute. More would compare less and file more: at 32 and two attributes, regions that are a fifth of the
domain wide take about 50 rows each."""
COARSER: Final = {1: 0, 2: 0, 3: 1, 4: 2}
"""How often stretches are doubled, by how many attributes a region is filed under: regions that are a fifth of the
domain wide take about 50 rows in any case, and leave 5 %, 2 % and 1 % of the publications with two, three and four."""
CELLS_MAX: Final = 256
"""Buckets of one region at the most; beyond, fewer attributes are used."""
WIDE: Final = 0.7
"""An attribute that leaves more than this share of the publications is not worth a bucket. A guess."""
KEYS_MAX: Final = 6
"""Attributes that regions are filed under at the most, those that most regions are narrow in: each choice of some of
them is a shape under which every publication may have to be looked up."""
BROADCAST_MAX: Final = 1_000_000
"""Rows of regions that are sent to every executor whole; beyond, both sides are shuffled."""
_ACCURACY: Final = 1_000
_SAMPLED: Final = 0.1
"""Of publications, to find out where stretches begin: of few, so that they may be badly cut, all are soon compared."""
_TEXT_BUCKETS: Final = 1 << 20
_LACKING: Final = -1
_PRIME: Final = 1_000_000_007


class Key(NamedTuple):
    """An attribute that regions may be filed under."""

    number: int
    is_text: bool
    cuts: tuple[float, ...]
    """Where a number's stretches begin, but for the first."""
    distinct: int
    """How many values a text has, about."""

    def places(self, coarser: int) -> float:
        """How many buckets it has."""
        return float(max(1, self.distinct) if self.is_text else (len(self.cuts) >> coarser) + 1)


def matches(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Pairs of a publication and a version that matches it, both of one run. All runs have these attributes.

    A pair has the columns of both sides but for `attributes` and `regions`; `publications` has no column with the name
    of one in `versions`, save `run`. Versions that ended before the publication are left out (`served_us`, `at_us`,
    `grace_us`).
    """
    regions = bounds.regions(versions, attributes)
    keys = _keys(publications.sample(fraction=_SAMPLED, seed=1), regions, attributes)
    shaped = _shaped(regions, keys).persist()
    shapes = shaped.groupBy("shape").agg(F.sum(F.size("buckets")).alias("rows"), F.max("count").alias("most")).collect()
    filed = shaped.withColumn("bucket", F.explode("buckets")).drop("shape", "buckets")
    filed = filed.withColumnRenamed("run", "filed_run")
    if sum(row["rows"] for row in shapes) <= BROADCAST_MAX:
        filed = F.broadcast(filed)
    points = bounds.points(publications, attributes).drop("attributes")
    looked_up = _looked_up(points, keys, [tuple(row["shape"]) for row in shapes])
    served = F.col("served_us") >= F.col("at_us") - F.col("grace_us")
    same = F.col("run") == F.col("filed_run")
    met = looked_up.join(filed, "bucket").where(same & served & bounds.within(attributes))
    found = met.drop("bucket", "filed_run", *_bound_columns(attributes))
    return _once(found, max((row["most"] for row in shapes), default=0))


def cross(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """The same by looking at every pair: the slow, obvious twin, for few publications, tests and benchmarks."""
    points = bounds.points(publications, attributes).drop("attributes")
    regions = bounds.regions(versions, attributes)
    served = F.col("served_us") >= F.col("at_us") - F.col("grace_us")
    other = regions.withColumnRenamed("run", "other_run")
    pairs = points.crossJoin(other).where((F.col("run") == F.col("other_run")) & served & bounds.within(attributes))
    most = regions.agg(F.max("count").alias("most")).first()
    return _once(pairs.drop("other_run", *_bound_columns(attributes)), (most and most["most"]) or 0)


def _once(found: DataFrame, regions_most: int) -> DataFrame:
    """Pairs once, though several regions of a version may hold the publication."""
    if regions_most <= 1:
        return found.drop("count")
    several = found.where("count > 1").dropDuplicates(["run", "event_id", "peer", "boot", "subscription_id", "version"])
    return found.where("count = 1").unionByName(several).drop("count")


def _bound_columns(attributes: Sequence[Attribute]) -> list[str]:
    names = ("v", "lo", "hi", "lo_open", "hi_open", "present", "absent", "prefix")
    return [f"{name}{number}" for number in range(len(attributes)) for name in names]


# --- Buckets ----------------------------------------------------------------------------------------------------------


def _keys(publications: DataFrame, regions: DataFrame, attributes: Sequence[Attribute]) -> list[Key]:
    """The attributes that most regions are narrow in."""
    if not attributes:
        return []
    narrow = [F.count_if(_is_narrow(number, each)).alias(str(number)) for number, each in enumerate(attributes)]
    counts = regions.agg(*narrow).first()
    assert counts is not None
    ranked = sorted((-counts[str(number)], number) for number in range(len(attributes)) if counts[str(number)])
    chosen = sorted(number for _, number in ranked[:KEYS_MAX])
    shares = [step / STRETCHES for step in range(1, STRETCHES)]
    facts = [
        F.approx_count_distinct(f"v{number}").alias(str(number))
        if attributes[number].is_text
        else F.percentile_approx(f"v{number}", shares, _ACCURACY).alias(str(number))
        for number in chosen
    ]
    seen = bounds.points(publications, attributes).agg(*facts).first() if facts else None
    return [_key(number, attributes[number].is_text, None if seen is None else seen[str(number)]) for number in chosen]


def _key(number: int, is_text: bool, seen: Any) -> Key:
    return Key(number, True, (), seen or 0) if is_text else Key(number, False, tuple(sorted(set(seen or ()))), 0)


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


def _edges(place: int, key: Key) -> dict[str, Column]:
    """Where a region lies along an attribute: from bucket `low` to `high`, if it may be there at all (`there`)."""
    i = key.number
    lowest, highest, there = f"low{place}", f"high{place}", f"there{place}"
    if key.is_text:
        hashed = _hashed(F.col(f"lo{i}"))
        return {lowest: hashed, highest: hashed, there: F.col(f"present{i}")}
    possible = F.col(f"present{i}") & (F.col(f"lo{i}") <= F.col(f"hi{i}"))
    return {lowest: _stretch(f"lo{i}", key.cuts), highest: _stretch(f"hi{i}", key.cuts), there: possible}


def _option(place: int, key: Key) -> Column:
    """How a region would be filed under one attribute, from its edges; null if it cannot be.

    It takes the buckets from `low` to `high` if it is there (`present`), and the one of publications that lack the
    attribute (`absent`). `share` is the share of all buckets that it takes.
    """
    i = key.number
    low, high, present, absent = (
        F.col(name) for name in (f"low{place}", f"high{place}", f"there{place}", f"absent{i}")
    )
    taken = F.when(present, high - low + 1).otherwise(0) + absent.cast("int")
    counts = F.array(*[F.lit(key.places(coarser)) for coarser in range(max(COARSER.values()) + 1)])
    fields = {"low": low, "high": high, "present": present, "absent": absent, "counts": counts}
    under = F.struct(
        F.lit(place).alias("place"),
        F.lit(key.is_text).alias("is_text"),
        *[column.alias(name) for name, column in fields.items()],
    )
    option = F.struct((taken / key.places(0)).alias("share"), under.alias("under"))
    return F.when(_asks_for_one(i) | ~F.col(f"present{i}"), option) if key.is_text else option


def _coarse(bucket: Column, is_text: Column, coarser: int | Column) -> Column:
    return F.when(is_text, bucket).otherwise(F.call_function("shiftright", bucket, _int(coarser)))


def _int(value: int | Column) -> Column:
    return F.lit(value) if isinstance(value, int) else value


def _taken(under: Column, coarser: int) -> Column:
    """How many buckets a region takes along an attribute."""
    low, high = (_coarse(under[name], under["is_text"], coarser) for name in ("low", "high"))
    return F.when(under["present"], high - low + 1).otherwise(0) + under["absent"].cast("int")


def _buckets(under: Column, coarser: Column) -> Column:
    low, high = (_coarse(under[name], under["is_text"], coarser) for name in ("low", "high"))
    none = F.array().cast("array<int>")
    there = F.when(under["present"], F.sequence(low, high)).otherwise(none)
    return F.concat(there, F.when(under["absent"], F.array(F.lit(_LACKING))).otherwise(none))


def _shaped(regions: DataFrame, keys: Sequence[Key]) -> DataFrame:
    """Regions with the `shape` that each is filed under, and its `buckets` there."""
    if not keys:
        return regions.withColumns({"shape": F.array().cast("array<int>"), "buckets": F.array(_origin(F.lit("")))})
    edges: dict[str, Column] = {}
    for place, key in enumerate(keys):
        edges |= _edges(place, key)
    options = F.array(*[_option(place, key) for place, key in enumerate(keys)])
    ranked = F.array_sort(F.filter(options, lambda option: option["share"] <= WIDE))
    placed = regions.withColumns(edges)  # on their own: Spark would plan them again wherever they are used
    chosen = placed.withColumn("ranked", F.transform(ranked, lambda option: option["under"]))
    sizes = [_size(n) for n in COARSER if n <= len(keys)]
    best = F.array_min(F.filter(F.array(*sizes), lambda size: size.isNotNull()))["attributes"]
    chosen = chosen.withColumn("attributes", F.coalesce(best, F.lit(0)))
    coarser = F.element_at(F.create_map(*[F.lit(x) for pair in COARSER.items() for x in pair]), F.col("attributes"))
    chosen = chosen.withColumns({"coarser": coarser, "under": F.array_sort(F.slice("ranked", 1, F.col("attributes")))})
    shape = F.transform("under", lambda under: under["place"])
    buckets = F.aggregate(
        "under",
        F.array(_origin(F.array_join(shape.cast("array<string>"), ","))),
        lambda found, under: F.flatten(
            F.transform(
                _buckets(under, F.col("coarser")), lambda bucket: F.transform(found, lambda to: _further(to, bucket))
            )
        ),
    )
    filed = {"shape": shape, "buckets": F.array_distinct(buckets)}
    return chosen.withColumns(filed).drop("ranked", "attributes", "coarser", "under", *edges)


def _size(attributes: int) -> Column:
    """What it comes to if so many attributes are used, the narrowest first: the share of the publications that are
    left. Null if there are not so many, or it would take too many buckets."""
    coarser = COARSER[attributes]
    first = F.slice("ranked", 1, attributes)
    cells = F.aggregate(first, F.lit(1), lambda product, under: product * _taken(under, coarser))
    left = F.aggregate(
        first, F.lit(1.0), lambda product, under: product * _taken(under, coarser) / under["counts"][coarser]
    )
    possible = (F.size("ranked") >= attributes) & (cells <= CELLS_MAX)
    return F.when(possible, F.struct(left.alias("left"), F.lit(attributes).alias("attributes")))


def _looked_up(points: DataFrame, keys: Sequence[Key], shapes: Sequence[tuple[int, ...]]) -> DataFrame:
    """Publications, once for each shape in use."""
    named = {f"b{place}": _point_bucket(key) for place, key in enumerate(keys)}
    placed = points.withColumns(named) if named else points
    if not shapes:
        return placed.drop(*named).withColumn("bucket", F.lit(0).cast("long")).where(F.lit(False))
    buckets = []
    for shape in sorted(shapes):
        bucket = _origin(F.lit(",".join(map(str, shape))))
        for place in shape:
            along = _coarse(F.col(f"b{place}"), F.lit(keys[place].is_text), COARSER[len(shape)])
            bucket = _further(bucket, along)
        buckets.append(bucket)
    return placed.withColumn("bucket", F.explode(F.array(*buckets))).drop(*named)


# A bucket of a shape in a run is one number. Different ones may share a number: what meets is compared anyway.


def _origin(shape: Column) -> Column:
    return F.xxhash64("run", shape)


def _further(bucket: Column, along: Column) -> Column:
    """The bucket that lies so far along the next attribute."""
    return bucket * F.lit(_PRIME) + along
