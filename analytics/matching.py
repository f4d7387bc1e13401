"""Which publication matches which filter: a range join by buckets.

A cross join of 100,000 publications with 10,000 filters looks at a thousand million pairs. Most filters are narrow in
one or two attributes, so both sides are cut along those, and only what lies in the same bucket is compared:

- A number attribute has stretches with about as many publications in each, a text is cut by the hash of its value as
  far as a region asks for one value, and publications that lack an attribute have a bucket of their own.
- `analytics.shapes` chooses, from a sample of both sides, a few *shapes*: attributes, and how finely they are cut.
- Each region is filed under the shape that suits it best, in every bucket that it touches there. A publication is
  looked up once under each shape. So a pair meets in one bucket at the most, and nothing has to be made distinct, but
  for subscriptions that have several regions.

What meets is then compared exactly (`bounds.within`).

A bucket is one number, which Spark joins by faster than by several columns: those of a shape follow those of the shape
before, so that buckets of a run differ; all are turned (^) by the hash of the run. (Different runs might share a bucket
after all, so runs are compared too, last and by order: an equality would become part of what Spark joins by.)

Spark turns a query into Java. Java compiles no method of more than 8,000 bytes, and takes long to get to know a new
one; so the code is kept in pieces (`_apart`), and the plan stands in it as data (`_shapes`). A lambda's variable is
named here for the same reason: those of `pyspark.sql.functions` have a new name in each query.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from analytics import bounds
from analytics.bounds import ABSENT, ONE, PRESENT, Attribute
from analytics.shapes import CELLS_MAX, COARSER_MAX, NEVER, Key, Plan, cost_as_sql, plan

BROADCAST_MAX: Final = 1_000_000
"""Rows of regions that are sent to every executor whole; beyond, both sides are shuffled."""
SAMPLED: Final = 2_000
"""Publications that the driver looks at to find out where stretches begin: about 60 in each of the shortest."""
SAMPLED_VERSIONS: Final = 300
"""Versions that it looks at to choose shapes. A guess."""
_TEXTS: Final = 2**14 - 1
"""Hashes of a text. With four attributes a bucket's number has to be less than 2**63."""
_MANY: Final = 1_000_000
"""More partitions than any table has, so `coalesce` moves nothing."""
_TOO_FAR: Final = 2 * CELLS_MAX << COARSER_MAX
_VERSION: Final = ("run", "peer", "boot", "subscription_id", "version")


def matches(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Pairs of a publication and a version that matches it, both of one run. All runs have these attributes.

    A pair has the columns of both sides but for `attributes` and `regions`; `publications` has no column with the name
    of one in `versions`, save `run`. Versions that ended before the publication are left out (`served_us`, `at_us`,
    `grace_us`).
    """
    of_events, of_versions = _told(publications, versions)
    some = [bounds.sampled_point(text, attributes) for text in of_events["sample"] or ()]
    few = [region for text in of_versions["sample"] or () for region in bounds.sampled_regions(text, attributes)]
    times = max(1.0, of_versions["rows"] / SAMPLED_VERSIONS)
    chosen = plan(attributes, some, few, float(of_events["rows"]), times)
    is_one_run = of_versions["first"] == of_versions["last"]
    filed = _filed(bounds.regions(versions, attributes), chosen).withColumnRenamed("run", "filed_run")
    if is_one_run:  # runs need not be compared
        publications = publications.where(F.col("run") == of_versions["first"])
    if chosen.rows <= BROADCAST_MAX:
        filed = F.broadcast(_side_by_side(filed))
    looked_up = _looked_up(bounds.points(publications, attributes).drop("attributes"), chosen)
    served = F.expr("served_us >= at_us - grace_us")
    same = F.expr("true" if is_one_run else "run >= filed_run AND run <= filed_run")
    met = looked_up.join(filed, "bucket").where(bounds.within(attributes) & served & same)
    return _once(met.drop("bucket", "filed_run", *bounds.columns(attributes)), of_versions["most"] or 0)


def _side_by_side(filed: DataFrame) -> DataFrame:
    """The same in order of buckets: what a publication meets then lies together in memory, and is read faster.

    Spark leaves out a sort that a join follows, but for one that it does not see behind another `explode`.
    """
    others = [name for name in filed.columns if name != "bucket"]
    return filed.sortWithinPartitions("bucket").selectExpr(*others, "explode(array(bucket)) AS bucket")


def _told(publications: DataFrame, versions: DataFrame) -> list[Row]:
    """Of each side, in one query: how many rows, of which runs, and a sample by lot: those with the smallest hashes."""

    def told(table: DataFrame, text: str, most: str, names: Sequence[str], size: int) -> DataFrame:
        sample = f"min_by({text}, xxhash64({', '.join(names)}), {size}) AS sample"
        return table.selectExpr("count(*) AS rows", "min(run) AS first", "max(run) AS last", f"{most} AS most", sample)

    events = told(publications, "attributes", "0", ("run", "event_id"), SAMPLED)
    filters = told(versions, "regions", "max(json_array_length(regions))", _VERSION, SAMPLED_VERSIONS)
    return events.unionAll(filters).collect()


def cross(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """The same by looking at every pair: the slow, obvious twin, for few publications, tests and benchmarks."""
    points = bounds.points(publications, attributes).drop("attributes")
    regions = bounds.regions(versions, attributes)
    served = F.col("served_us") >= F.col("at_us") - F.col("grace_us")
    other = regions.withColumnRenamed("run", "other_run")
    pairs = points.crossJoin(other).where((F.col("run") == F.col("other_run")) & served & bounds.within(attributes))
    most = regions.agg(F.max("count").alias("most")).first()
    return _once(pairs.drop("other_run", *bounds.columns(attributes)), (most and most["most"]) or 0)


def _once(found: DataFrame, regions_most: int) -> DataFrame:
    """Pairs once, though several regions of a version may hold the publication."""
    if regions_most <= 1:
        return found.drop("count")
    several = found.where("count > 1").dropDuplicates(["event_id", *_VERSION])
    return found.where("count = 1").unionByName(several).drop("count")


# --- Buckets ----------------------------------------------------------------------------------------------------------


def _filed(regions: DataFrame, chosen: Plan) -> DataFrame:
    """Regions, once for each `bucket` that they take."""
    first, last = zip(*map(_ends, chosen.keys), strict=True) if chosen.keys else ((), ())
    placed = _apart(regions.selectExpr("*", f"{_ints(first)} AS first", f"{_ints(last)} AS last"))
    begin, end = (f"{_coarse(f'{name}[axis.key]')} * axis.step" for name in ("first", "last"))
    taken = f"greatest(0, {_coarse('last[axis.key]')} - {_coarse('first[axis.key]')} + 1)"
    along_one = f"struct({begin} AS begin, {end} AS end, {taken} AS taken, axis.step, axis.places)"
    axes = f"transform(shape.axes, axis -> {along_one})"
    boxes = f"transform({_shapes(chosen)}, shape -> struct(shape.start, {axes} AS axes))"
    cells = "aggregate(box.axes, 1D, (cells, axis) -> cells * axis.taken)"
    share = "aggregate(box.axes, 1D, (share, axis) -> share * least(1D, axis.taken / axis.places))"
    cost = f"if({cells} > {CELLS_MAX}, {NEVER!r}D, {cost_as_sql(cells, share, chosen.publications)})"
    cheapest = f"array_min(transform({boxes}, box -> struct({cost} AS cost, {cells} AS cells, box)))"
    along = "transform(sequence(axis.begin, axis.end, axis.step), at -> at + bucket)"
    every = f"flatten(transform(buckets, bucket -> {along}))"
    buckets = f"aggregate(filed.box.axes, array(filed.box.start), (buckets, axis) -> {every})"
    shaped = _apart(placed.selectExpr(*regions.columns, f"{cheapest} AS filed"))
    spread = shaped.selectExpr(*regions.columns, f"explode_outer(if(filed.cells > 0, {buckets}, NULL)) AS bucket")
    return spread.withColumn("bucket", F.expr(_OF_RUN))


def _apart(table: DataFrame) -> DataFrame:
    """The same: Spark makes what comes before and what comes after two pieces of code, since `coalesce` is none. In
    one, it would be a method of more than 8,000 bytes, which Java does not compile but interprets."""
    return table.coalesce(_MANY)


def _looked_up(points: DataFrame, chosen: Plan) -> DataFrame:
    """Publications, once for each shape."""
    placed = points.selectExpr("*", f"{_ints(_place(f'v{key.number}', key) for key in chosen.keys)} AS place")
    each = placed.selectExpr("*", f"explode({_shapes(chosen)}) AS shape")
    bucket = f"aggregate(shape.axes, shape.start, (bucket, axis) -> bucket + {_coarse('place[axis.key]')} * axis.step)"
    return each.selectExpr(*points.columns, f"{bucket} AS bucket").withColumn("bucket", F.expr(_OF_RUN))


_OF_RUN: Final = "xxhash64(run) ^ bucket"


def _shapes(chosen: Plan) -> str:
    """The plan as data: what Java compiles does not depend on it, and is compiled once. Of each shape where its buckets
    start, and of each axis how far its buckets lie apart."""
    told, start = [], 0
    for shape in chosen.shapes:
        axes, step = [], 1
        for axis in shape:
            key = chosen.keys[axis.place]
            places = key.places(axis.coarser)
            axes.append(f"struct({axis.place} AS key, {axis.coarser} AS coarser, {step}L AS step, {places}D AS places)")
            step *= (_TEXTS if key.is_text else places) + 1
        told.append(f"struct({start}L AS start, cast(array({', '.join(axes)}) AS {_AXES}) AS axes)")
        start += step
    return f"array({', '.join(told)})"


_AXES: Final = "array<struct<key: int, coarser: int, step: bigint, places: double>>"


def _ints(values: Iterable[str]) -> str:
    return f"cast(array({', '.join(values)}) AS array<int>)"


def _coarse(place: str) -> str:
    """The bucket along an axis: 0 for what lacks the attribute, whose place is -1."""
    return f"(shiftright({place}, axis.coarser) + 1)"


def _place(column: str, key: Key) -> str:
    """In which stretch a number lies; the hash of a text."""
    if key.is_text:
        place = f"int(pmod(xxhash64({column}), {_TEXTS}))"
    else:
        cuts = ", ".join(f"{cut!r}D" for cut in key.cuts)
        place = f"size(filter(cast(array({cuts}) AS array<double>), cut -> cut <= {column}))"
    return f"if({column} IS NULL, -1, {place})"


def _ends(key: Key) -> tuple[str, str]:
    """The first and the last place that a region takes along a key; too many if it cannot be filed under it."""
    i = key.number
    low = _place(f"lo{i}", key)
    one = f"(how{i} & {ONE + ABSENT}) = {ONE}"
    last = f"if({one}, {low}, {_TOO_FAR})" if key.is_text else _place(f"hi{i}", key)
    return f"if((how{i} & {ABSENT}) <> 0, -1, {low})", f"if((how{i} & {PRESENT}) <> 0, {last}, -1)"
