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

A bucket is one number, which Spark joins by faster than by several columns: a shape's number, then 14 bits for each of
its attributes, so that buckets of a run differ; all are turned (^) by the hash of the run. (Different runs might share
a bucket after all, so runs are compared too, last and by order: an equality would become part of what Spark joins by.)
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics import bounds
from analytics.bounds import ABSENT, ONE, PRESENT, Attribute
from analytics.shapes import AXES_MAX, CELLS_MAX, NEVER, Axis, Key, Plan, Shape, cost_as_sql, plan

BROADCAST_MAX: Final = 1_000_000
"""Rows of regions that are sent to every executor whole; beyond, both sides are shuffled."""
SAMPLED: Final = 2_000
"""Publications that the driver looks at to find out where stretches begin: about 60 in each of the shortest."""
SAMPLED_VERSIONS: Final = 300
"""Versions that it looks at to choose shapes. A guess."""
_BITS: Final = 14
"""Of a bucket's number, for each attribute."""
_TEXTS: Final = 2**_BITS - 1
_VERSION: Final = ("run", "peer", "boot", "subscription_id", "version")


def matches(publications: DataFrame, versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Pairs of a publication and a version that matches it, both of one run. All runs have these attributes.

    A pair has the columns of both sides but for `attributes` and `regions`; `publications` has no column with the name
    of one in `versions`, save `run`. Versions that ended before the publication are left out (`served_us`, `at_us`,
    `grace_us`).
    """
    some = _rows(bounds.points(_sample(publications, ("run", "event_id"), SAMPLED), attributes))
    few = _rows(bounds.regions(_sample(versions, _VERSION, SAMPLED_VERSIONS), attributes))
    told = versions.selectExpr(
        "count(*) AS versions", "max(json_array_length(regions)) AS most", "min(run) AS first", "max(run) AS last"
    ).first()
    assert told is not None
    if told["first"] == told["last"]:  # runs need not be compared
        publications = publications.where(F.col("run") == told["first"])
    chosen = plan(attributes, some, few, _all(some), max(1.0, told["versions"] / SAMPLED_VERSIONS))
    filed = _filed(bounds.regions(versions, attributes), chosen).withColumnRenamed("run", "filed_run")
    if chosen.rows <= BROADCAST_MAX:
        filed = F.broadcast(_side_by_side(filed))
    looked_up = _looked_up(bounds.points(publications, attributes).drop("attributes"), chosen)
    served = F.expr("served_us >= at_us - grace_us")
    same = F.expr("true" if told["first"] == told["last"] else "run >= filed_run AND run <= filed_run")
    met = looked_up.join(filed, "bucket").where(bounds.within(attributes) & served & same)
    return _once(met.drop("bucket", "filed_run", *bounds.columns(attributes)), told["most"] or 0)


def _side_by_side(filed: DataFrame) -> DataFrame:
    """The same in order of buckets: what a publication meets then lies together in memory, and is read faster."""
    return filed.repartition(1).sortWithinPartitions("bucket").localCheckpoint()


def _sample(table: DataFrame, names: Sequence[str], size: int) -> DataFrame:
    """Rows by lot: those with the smallest hashes."""
    return table.withColumn("lot", F.xxhash64(*names)).orderBy("lot").limit(size)


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


def _all(sample: Sequence[dict[str, Any]]) -> float:
    """How many rows there are, about: hashes are spread evenly, so the largest in a sample tells what share it is."""
    if len(sample) < SAMPLED:
        return float(len(sample))
    largest: int = max(row["lot"] for row in sample)
    return len(sample) * 2**64 / (largest + 2**63 + 1)


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
    edges = [edge for place, key in enumerate(chosen.keys) for edge in _edges(place, key)]
    costs = [_cost(shape, chosen) for shape in chosen.shapes]
    slots = [bound for slot in range(AXES_MAX) for bound in _slot(slot, chosen)]
    placed = regions.selectExpr("*", f"{_apart(edges or ['0'])} AS edges")
    priced = placed.selectExpr("*", f"{_apart(costs)} AS costs")
    shaped = priced.selectExpr("*", "int(array_position(costs, array_min(costs))) - 1 AS shape")
    boxed = shaped.selectExpr("*", f"{_apart(slots)} AS box")
    values, cells = [], "1"
    for slot in range(AXES_MAX):
        values.append(f"box[{2 * slot}] + (cell div ({cells})) % box[{2 * slot + 1}]")
        cells += f" * box[{2 * slot + 1}]"
    each = f"explode_outer(slice(sequence(1, greatest(1, {cells})), 1, {cells})) AS cell"
    spread = boxed.selectExpr(*regions.columns, "shape", "box", each)
    numbered = spread.withColumn("cell", F.expr("cell - 1"))
    return numbered.selectExpr(*regions.columns, f"{_bucket('shape', values)} AS bucket")


def _looked_up(points: DataFrame, chosen: Plan) -> DataFrame:
    """Publications, once for each shape."""
    keys = [f"{_place(f'v{key.number}', key)} AS b{place}" for place, key in enumerate(chosen.keys)]
    placed = points.selectExpr("*", *keys)
    buckets = []
    for n, shape in enumerate(chosen.shapes):
        values = [f"coalesce({_coarse(f'b{axis.place}', axis)} + 1, 0)" for axis in shape]
        buckets.append(_bucket(str(n), values + ["0"] * (AXES_MAX - len(values))))
    told = placed.selectExpr(*points.columns, f"{_apart(buckets)} AS buckets")
    return told.selectExpr(*points.columns, "explode_outer(buckets) AS bucket")


def _apart(values: Sequence[str]) -> str:
    """These values as an array that Spark makes in a step of its own.

    What depends on this plan must not be compiled into one piece with what comes next: Java would have to get to know
    the join anew for each plan, which takes longer than the join. (Spark never compiles a function with a lambda into
    such a piece; and `explode_outer` has no filter put before it, for which everything would be worked out twice.)
    """
    return f"transform(array({', '.join(values)}), x -> x)"


def _bucket(shape: str, values: Sequence[str]) -> str:
    number = f"bigint({shape})"
    for value in values:
        number = f"(shiftleft({number}, {_BITS}) | ({value}))"
    return f"(xxhash64(run) ^ {number})"


def _place(column: str, key: Key) -> str:
    """In which stretch a number lies, by halving; the hash of a text."""

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        below, above = search(low, middle), search(middle + 1, high)
        return f"CASE WHEN {column} < {key.cuts[middle]!r}D THEN {below} ELSE {above} END"

    placed = f"int(pmod(xxhash64({column}), {_TEXTS}))" if key.is_text else search(0, len(key.cuts))
    return f"if({column} IS NULL, NULL, {placed})"


def _coarse(stretch: str, axis: Axis) -> str:
    return f"shiftright({stretch}, {axis.coarser})" if axis.coarser else stretch


def _coarse_bucket(bucket: str, axis: Axis) -> str:
    return f"if({bucket} = 0, 0, {_coarse(f'({bucket} - 1)', axis)} + 1)" if axis.coarser else bucket


def _edges(place: int, key: Key) -> tuple[str, str]:
    """The first and the last bucket that a region takes along a key, at the finest; the last is null if it cannot be
    filed under it. Publications that lack the key have bucket 0."""
    i = key.number
    first = f"if((how{i} & {ABSENT}) <> 0, 0, {_place(f'lo{i}', key)} + 1)"
    if not key.is_text:
        return first, f"if((how{i} & {PRESENT}) <> 0, {_place(f'hi{i}', key)} + 1, 0)"
    one = f"(how{i} & {ONE + ABSENT}) = {ONE}"
    return first, f"CASE WHEN (how{i} & {PRESENT}) = 0 THEN 0 WHEN {one} THEN {_place(f'lo{i}', key)} + 1 END"


def _first(axis: Axis) -> str:
    return _coarse_bucket(f"edges[{2 * axis.place}]", axis)


def _taken(axis: Axis) -> str:
    """How many buckets a region takes along a key."""
    return f"greatest(0, {_coarse_bucket(f'edges[{2 * axis.place + 1}]', axis)} - {_first(axis)} + 1)"


def _cost(shape: Shape, chosen: Plan) -> str:
    """What it costs to file a region under the shape, as `shapes.cost` has it."""
    takens = [_taken(axis) for axis in shape]
    shares = [f"least(1D, {_taken(axis)} / {chosen.keys[axis.place].places(axis.coarser)})" for axis in shape]
    cells = " * ".join(takens or ["1"])
    known = [f"edges[{2 * axis.place + 1}] IS NOT NULL" for axis in shape]
    told = cost_as_sql(cells, " * ".join(shares or ["1"]), chosen.publications)
    return f"if({' AND '.join([*known, f'{cells} <= {CELLS_MAX}'])}, {told}, {NEVER!r}D)"


def _slot(slot: int, chosen: Plan) -> tuple[str, str]:
    """Where a region's buckets begin along an attribute of its shape, and how many there are: one if it has not so
    many attributes."""
    having = [(n, shape[slot]) for n, shape in enumerate(chosen.shapes) if slot < len(shape)]
    firsts = " ".join(f"WHEN {n} THEN {_first(axis)}" for n, axis in having)
    takens = " ".join(f"WHEN {n} THEN {_taken(axis)}" for n, axis in having)
    return (f"CASE shape {firsts} ELSE 0 END", f"CASE shape {takens} ELSE 1 END") if having else ("0", "1")
