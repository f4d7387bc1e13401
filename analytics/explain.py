"""Forensics: the way that one event took, and for a delivery that is missing, where and why it stopped.

Only lines about this event, and those that say how the swarm was (peers, subscriptions, links, faults), are parsed, so
this needs no store. Another look, at the lines that tell latencies, says whose clock was wrong. A line that was cut off
could be about anything, so such lines are counted.

What remains is small. Tables made of it are held by the executors, and their plans end there (`localCheckpoint`): Spark
would take longer to plan than to look. What is shown is collected.

The way is a tree: a participant's first copy hangs below the sender's. For a missing delivery the questions are asked
in this order, and the first answer ends them:

1. Was it owed at all? If not: which of the conditions did not hold.
2. Had the subscriber's peer received the event? Then it was lost inside.
3. Has somebody written down that he dropped the copy for that peer?
4. Otherwise the event stopped on its way: the nearest peer by links that had it, and the first on the way that had not.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics import parse
from analytics.clocks import clocks, corrected, differences
from analytics.faults import GRACE_US, faults, risks
from analytics.ingest import NoLogs, left_out, read_lines, segments
from analytics.lives import lives
from analytics.matching import cross
from analytics.places import Places
from analytics.progress import Progress, silent
from analytics.runs import runs, until_the_end
from analytics.schema import LIFE
from analytics.session import tune
from analytics.store import of_kind
from analytics.truth import known_attributes
from analytics.versions import FOREVER, versions

SHOWN: Final = 200
"""Copies that are shown of an event's way; all are counted."""

CONTEXT: Final = r'"kind"\s*:\s*"(peer|subscription|participant|fault|control|link)"'
TIMED: Final = r'"kind"\s*:\s*"(publish|deliver)"'
"""What tells whose clock was wrong."""

Found = dict[str, Any]


def explain(
    spark: SparkSession,
    logs: str,
    event: str,
    subscription: str | None = None,
    run: str | None = None,
    take_open: bool = False,
    progress: Progress = silent,
) -> Found:
    """What became of an event; `NoLogs` if there is no such event or subscription."""
    found = segments(Places(spark), logs)
    files = [*found.closed, *(found.open if take_open else ())]
    tune(spark, sum(file.size for file in files))
    lines = read_lines(spark, files)
    with progress.step("clocks"):
        wrong = _wrong_clocks(lines)
    about = F.col("text").contains(event) | F.col("text").rlike(CONTEXT) | parse.cut_off()
    with progress.step("reading"):
        rows = parse.parsed(lines.where(about)).localCheckpoint()
        notes = [*left_out(0 if take_open else len(found.open)), *parse.told(rows)]
    records = parse.records(rows)
    if wrong.count():
        records = corrected(records, wrong).localCheckpoint()
    chosen = records if run is None else records.where(F.col("run") == run)
    try:
        publication = _publication(chosen, event, notes)
    except NoLogs:
        if run is not None:
            _check_run(records, run)
        raise
    own = records.where(F.col("run") == publication["run"])
    with progress.step("subscriptions"):
        explained = _Explained(own, publication)
    with progress.step("the way"):
        result = explained.result(subscription)
    off = wrong.where(F.col("run") == publication["run"]).orderBy("peer").collect()
    result["notes"] = [*notes, *[_off(row["peer"], row["offset_s"]) for row in off]]
    return result


def _wrong_clocks(lines: DataFrame) -> DataFrame:
    timed = parse.records(parse.parsed(lines.where(F.col("text").rlike(TIMED))))
    return clocks(differences(of_kind(timed, "deliver"), of_kind(timed, "publish"))).localCheckpoint()


def _off(peer: str, offset_s: float) -> str:
    how = "ahead" if offset_s > 0 else "behind"
    return f"the clock of {_short(peer)} was {abs(offset_s):,.0f} s {how}; its times are corrected, to the second"


def _check_run(records: DataFrame, run: str) -> None:
    names = sorted(row["run"] for row in records.select("run").distinct().collect())
    if names and run not in names:
        raise NoLogs(f"there is no run {run!r} in the logs; there are {', '.join(names)}")


def _publication(records: DataFrame, event: str, notes: Sequence[str]) -> Found:
    like = of_kind(records, "publish").where(F.col("event_id").startswith(event))
    published = like.orderBy(F.col("event_id") != event, "event_id", "run").limit(3).collect()
    published = [row for row in published if row["event_id"] == event] or published
    if not published:
        heard = records.where(F.col("event_id").startswith(event)).limit(1).collect()
        if heard:
            raise NoLogs(f"event {event} was received, but who published it is not in these logs; --open may help")
        noted = "".join(f"; {note}" for note in notes)
        raise NoLogs(
            f"there is no event {event} in these logs; ids are in tables/accuracy_by_event.csv of a report{noted}"
        )
    if len(ids := dict.fromkeys(row["event_id"] for row in published)) > 1:
        raise NoLogs(f"several events begin with {event}: {', '.join(ids)}, …")
    if len({row["run"] for row in published}) > 1:
        raise NoLogs(
            f"event {event} is in several runs, choose one with --run: {', '.join(row['run'] for row in published)}"
        )
    return dict(published[0].asDict())


class _Explained:
    """One event in one run."""

    def __init__(self, everything: DataFrame, publication: Found) -> None:
        self._runs = runs(everything).localCheckpoint()
        self._records = records = until_the_end(everything, self._runs)
        self._event = publication
        self._at_us: int = publication["ts_us"]
        same = F.col("event_id") == publication["event_id"]
        rows = [row.asDict() for row in records.where(same).orderBy("ts_us", "order", "seq").collect()]
        self._copies = [row for row in rows if row["kind"] in ("receive", "touch")]
        self._deliveries = [row for row in rows if row["kind"] == "deliver"]
        self._drops = [row for row in rows if row["kind"] == "drop"]
        self._lives = lives(everything, self._runs).localCheckpoint()
        self._faults = faults(records, self._lives).localCheckpoint()
        self._versions = versions(of_kind(records, "subscription"), self._lives).localCheckpoint()
        self._grace_us: int = self._runs.collect()[0]["grace_us"]
        self._had = self._seen()

    def _seen(self) -> dict[str, int]:
        """By peer, when it first had the event."""
        seen = {self._event["peer"]: self._at_us}
        for row in self._copies:
            if row["kind"] == "receive":
                seen.setdefault(row["peer"], row["ts_us"])
        return seen

    def result(self, subscription: str | None) -> Found:
        matching = self._matching()
        at_risk = self._at_risk()
        result: Found = {
            "event_id": self._event["event_id"],
            "run": self._event["run"],
            "overlay": self._event["overlay"],
            "publisher": self._event["peer"],
            "published_us": self._at_us,
            "attributes": self._event["attributes"],
            "at_risk": at_risk,
            "copies": len(self._copies),
            "peers": len(self._had),
            "deliveries": [
                _brief(row, "peer", "subscription_id", "hops", "latency_us", "ts_us") for row in self._deliveries
            ],
            "drops": [_brief(row, "peer", "reason", "receiver", "ts_us") for row in self._drops],
            "way": self._way(),
        }
        missing = [row for row in matching if self._is_owed(row) and not self._delivered(row)]
        if subscription is None:
            result["missing"] = [self._verdict(row, at_risk) for row in missing]
        else:
            result["subscriptions"] = self._about(subscription, matching, at_risk)
        return result

    # --- what should have come ----------------------------------------------------------------------------------------

    def _matching(self) -> list[Found]:
        """The versions of subscriptions that match the event, whenever they were."""
        [attributes] = known_attributes(self._runs)
        if not attributes:
            raise NoLogs("no peer has said what the attributes are (no 'started' record in these logs)")
        row = self._event
        spark = self._records.sparkSession
        point = spark.createDataFrame(
            [(row["run"], row["event_id"], 0, 0, row["attributes"])],
            "run string, event_id string, at_us long, grace_us long, attributes string",
        )
        found = cross(point, self._versions.drop("overlay", "filter", "coarse"), attributes)
        return [row.asDict() for row in found.collect()]

    def _is_owed(self, version: Found) -> bool:
        return not self._why_not(version)

    def _why_not(self, version: Found) -> str:
        """Why a matching version was owed nothing; empty if it was."""
        if version["active_us"] == FOREVER:
            return "it never became active"
        if version["active_us"] >= self._at_us - self._grace_us:
            return f"it became active {_after(version['active_us'] - self._at_us)} the publication"
        if version["ended_us"] < self._at_us:
            return f"it had ended {_seconds(self._at_us - version['ended_us'])} before the publication"
        if version["ended_us"] < self._at_us + self._grace_us + GRACE_US:
            lasted = _seconds(version["ended_us"] - self._at_us)
            return f"it, or its peer, ended {lasted} after the publication, within 10 s"
        return ""

    def _delivered(self, version: Found) -> bool:
        key = version["peer"], version["boot"], version["subscription_id"]
        return any((row["peer"], row["boot"], row["subscription_id"]) == key for row in self._deliveries)

    def _at_risk(self) -> bool:
        windows = [window for row in risks(self._faults).collect() for window in row["windows"]]
        return any(
            w["start_us"] <= self._at_us and (w["end_us"] is None or self._at_us <= w["end_us"]) for w in windows
        )

    def _about(self, subscription: str, matching: Sequence[Found], at_risk: bool) -> list[Found]:
        """What became of the delivery to a subscription, at each peer that has one of that name: callers choose names,
        so two peers may have the same."""
        asked = self._versions.where(F.col("subscription_id") == subscription).orderBy("peer", "added_us")
        filters: dict[str, str] = {}
        for row in asked.collect():
            if row["peer"] not in filters or row["added_us"] <= self._at_us:
                filters[row["peer"]] = row["filter"]
        if not filters:
            raise NoLogs(f"there is no subscription {subscription} in run {self._event['run']}")
        same = sorted((row for row in matching if row["subscription_id"] == subscription), key=itemgetter("added_us"))
        outcomes = []
        for peer, filter_ in filters.items():
            mine = [row for row in same if row["peer"] == peer]
            outcomes.append(self._outcome(subscription, peer, filter_, mine, at_risk))
        return outcomes

    def _outcome(self, subscription: str, peer: str, filter_: str, mine: Sequence[Found], at_risk: bool) -> Found:
        """`filter_` is what it asked for when the event was published, `mine` are its versions that match."""
        own = [row for row in self._deliveries if (row["peer"], row["subscription_id"]) == (peer, subscription)]
        owed = [row for row in mine if self._is_owed(row)]
        about = {"subscription_id": subscription, "peer": peer}
        if own:
            why = f"after {own[0]['hops']} hops and {(own[0]['ts_us'] - self._at_us) / 1000:g} ms"
            return {**about, "verdict": "delivered", "why": why, "way": self._way_to(peer)}
        if owed:
            return self._verdict(owed[0], at_risk)
        why = self._why_not(mine[-1]) if mine else f"its filter does not match: {filter_}"
        return {**about, "verdict": "not owed", "why": why, "way": []}

    # --- what became of it --------------------------------------------------------------------------------------------

    def _verdict(self, version: Found, at_risk: bool) -> Found:
        peer = version["peer"]
        why, way = self._why_missing(peer)
        return {
            "subscription_id": version["subscription_id"],
            "peer": peer,
            "verdict": "missing, at risk" if at_risk else "missing",
            "why": "; ".join([why, *self._circumstances(peer)]),
            "way": way,
        }

    def _why_missing(self, peer: str) -> tuple[str, list[Found]]:
        copies = [row for row in self._copies if row["peer"] == peer and row["kind"] == "receive"]
        if copies:
            wanted = any(row["matched"] for row in copies)
            lost = "its participant did not want it" if not wanted else "its participant wanted it"
            return f"the event reached the peer, {lost}, and it was not delivered", self._way_to(peer)
        dropped = [row for row in self._drops if row["receiver"] == peer]
        if dropped:
            row = dropped[0]
            return f"{_short(row['peer'])} dropped the copy for it: {row['reason']}", self._way_to(row["peer"])
        return self._where_it_stopped(peer)

    def _where_it_stopped(self, peer: str) -> tuple[str, list[Found]]:
        """By links as they stood at the time: the nearest peer that had the event."""
        links = self._links()
        before: dict[str, str] = {peer: ""}
        waiting = deque([peer])
        while waiting:
            here = waiting.popleft()
            for other in sorted(links.get(here, ())):
                if other in self._had:
                    gap = f"{_short(other)} had the event and has a link to {_short(here)}, which it never reached"
                    return gap, self._way_to(other)
                if other not in before:
                    before[other] = here
                    waiting.append(other)
        return "no peer that had the event was linked with it, or with peers that are", []

    def _links(self) -> dict[str, set[str]]:
        earlier = of_kind(self._records, "link").where(F.col("ts_us") <= self._at_us + self._grace_us)
        last = earlier.groupBy(*LIFE, "participant", "link", "receiver").agg(
            F.max_by("change", F.struct("ts_us", "seq")).alias("last")
        )
        found: dict[str, set[str]] = {}
        for row in last.where(F.col("last") == "up").select("peer", "receiver").distinct().collect():
            found.setdefault(row["peer"], set()).add(row["receiver"])
            found.setdefault(row["receiver"], set()).add(row["peer"])
        return found

    def _circumstances(self, peer: str) -> list[str]:
        """What else happened around that time."""
        near = self._faults.where(
            (F.col("ts_us") >= self._at_us - GRACE_US) & (F.col("ts_us") <= self._at_us + GRACE_US)
        )
        told = []
        for row in near.orderBy("ts_us").limit(5).collect():
            whose = "the peer itself" if row["about"] == peer else _short(row["about"] or "the run")
            told.append(f"{row['fault']} of {whose} {_after(row['ts_us'] - self._at_us)} the publication")
        return told

    # --- the way ------------------------------------------------------------------------------------------------------

    def _way(self) -> list[Found]:
        columns = ("peer", "participant", "sender", "hops", "matched", "duplicate", "kind", "ts_us")
        return [_brief(row, *columns) for row in self._copies[:SHOWN]]

    def _way_to(self, peer: str) -> list[Found]:
        """From the publisher to a peer, by first copies."""
        first: dict[str, Found] = {}
        for row in self._copies:
            if row["kind"] == "receive":
                first.setdefault(row["peer"], row)
        steps: list[Found] = []
        while peer in first and len(steps) <= len(first):
            row = first.pop(peer)
            steps.append(_brief(row, "sender", "peer", "hops", "ts_us"))
            peer = row["sender"]
        return steps[::-1]


def _brief(row: Mapping[str, Any], *columns: str) -> Found:
    return {name: row[name] for name in columns}


# --- As text ----------------------------------------------------------------------------------------------------------


def told(found: Found) -> str:
    """For people."""
    at_us = found["published_us"]
    when = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")
    counts = f"{len(found['deliveries'])} deliveries, {len(found['drops'])} drops"
    lines = [
        f"event {found['event_id']} of run {found['run']} ({found['overlay']})",
        f"published {when} by {_short(found['publisher'])}: {found['attributes']}",
        f"{found['copies']} copies reached {found['peers'] - 1} other peers; {counts}",
        *(["at risk: a fault was near"] if found["at_risk"] else []),
        *[f"note: {note}" for note in found["notes"]],
    ]
    if "subscriptions" in found:
        return "\n".join(
            [*lines, *[line for each in found["subscriptions"] for line in ("", *_verdict_lines(each, at_us))]]
        )
    lines += ["", *_tree(found)]
    for row in found["drops"]:
        whose = f" for {_short(row['receiver'])}" if row["receiver"] else ""
        lines.append(f"dropped by {_short(row['peer'])}{whose}: {row['reason']}")
    if not found["missing"]:
        lines.append("nothing that was owed is missing")
    for verdict in found["missing"]:
        lines += ["", *_verdict_lines(verdict, at_us)]
    return "\n".join(lines)


def _verdict_lines(verdict: Found, at_us: int) -> list[str]:
    lines = [
        f"subscription {verdict['subscription_id']} at {_short(verdict['peer'])}: {verdict['verdict']}",
        f"  {verdict['why']}",
    ]
    for step in verdict["way"]:
        after_ms = (step["ts_us"] - at_us) / 1000
        lines.append(f"  {_short(step['sender'])} -> {_short(step['peer'])}  hop {step['hops']}, after {after_ms:g} ms")
    return lines


def _tree(found: Found) -> list[str]:
    """First copies below their senders; what came again is only counted."""
    children: dict[str, list[Found]] = {}
    placed, again = {found["publisher"]}, 0
    for row in found["way"]:
        if row["kind"] != "receive" or row["duplicate"] or row["peer"] in placed:
            again += 1
            continue
        placed.add(row["peer"])
        children.setdefault(row["sender"], []).append(row)
    delivered: dict[str, list[str]] = {}
    for row in found["deliveries"]:
        delivered.setdefault(row["peer"], []).append(row["subscription_id"])
    lines: list[str] = []

    def show(peer: str, text: str, depth: int) -> None:
        got = f"  delivered to {', '.join(delivered[peer])}" if peer in delivered else ""
        lines.append(f"{'  ' * depth}{_short(peer)}{text}{got}")
        for row in children.pop(peer, ()):
            wanted = "" if row["matched"] else ", unwanted"
            show(row["peer"], f"  {(row['ts_us'] - found['published_us']) / 1000:g} ms{wanted}", min(depth + 1, 30))

    show(found["publisher"], "", 0)
    for sender in list(children):  # copies whose sender's own copy is not in the log
        show(sender, "  (how it got here is not known)", 0)
    if again:
        lines.append(f"and {again} copies that came again or only told of it")
    if found["copies"] > len(found["way"]):
        lines.append(f"and {found['copies'] - len(found['way'])} copies more")
    return lines


def _short(peer: str) -> str:
    return peer[:8]


def _seconds(us: int) -> str:
    return f"{us / 1e6:.3f} s"


def _after(us: int) -> str:
    return f"{_seconds(us)} after" if us >= 0 else f"{_seconds(-us)} before"
