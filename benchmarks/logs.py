"""Log records of an invented run, written as fast as text can be: for benchmarks of the analytics, which need millions.

Peers with stock-like subscriptions live through the run; each event goes from its publisher along a made-up path to
every subscriber that wants it, and to some peers that do not. So the truth comes out clean: nothing is missing.
"""

from pathlib import Path
from random import Random
from typing import Final

SEGMENT_BYTES: Final = 64 * 2**20
START_US: Final = 1_767_225_600_000_000
SYMBOLS: Final = 500
SCHEMA: Final = (
    '{"attributes":[{"name":"symbol","type":"string"},{"name":"price","type":"float","min":0.0,"max":20.0,'
    '"precision":0.01},{"name":"volume","type":"int","min":0,"max":1000,"precision":1,"exact":true}]}'
)


class Log:
    """Numbers and writes records, in segments as a peer closes them."""

    def __init__(self, directory: Path, run: str) -> None:
        self._directory = directory / f"run={run}" / "peer=sim"
        self._directory.mkdir(parents=True)
        self._run = run
        self._lines: list[str] = []
        self._size = 0
        self._segments = 0
        self._seq: dict[int, int] = {}
        self.records = 0

    def write(self, ts_us: int, peer: int, kind: str, fields: str) -> None:
        self.records += 1
        seq = self._seq[peer] = self._seq.get(peer, 0) + 1
        line = (
            f'{{"v":1,"ts_us":{ts_us},"seq":{seq},"run":"{self._run}","peer":"{peer:032x}","boot":7,'
            f'"overlay":"invented","order":{self.records},"participant":0,"kind":"{kind}",{fields}}}\n'
        )
        self._lines.append(line)
        self._size += len(line)
        if self._size >= SEGMENT_BYTES:
            self.close()

    def close(self) -> None:
        if self._lines:
            path = self._directory / f"{self._segments:06}.jsonl"
            path.write_text("".join(self._lines), "utf-8")
            self._segments += 1
            self._lines, self._size = [], 0


def invent(directory: Path, records: int, peers: int = 500, subscriptions: int = 2_000, seed: int = 1) -> int:
    """Write about so many records; how many it were in the end."""
    rng, log = Random(seed), Log(directory, "invented")
    for peer in range(peers):
        detail = '"version":"0","parameters":{},"log_detail":"full","log_sample":1.0'
        log.write(START_US, peer, "peer", f'"change":"started","about":null,"schema":{SCHEMA},{detail}')
        log.write(START_US, peer, "participant", '"change":"joined","box":null')
    wanted: dict[int, list[tuple[float, float, int, int]]] = {}
    for number in range(subscriptions):
        peer, symbol, low = number % peers, rng.randrange(SYMBOLS), rng.randrange(1_800) / 100
        high = round(low + 2.0, 2)
        box = f'{{"symbol":{{"eq":"S{symbol}"}},"price":{{"ge":{low},"le":{high}}}}}'
        about = f'"subscription_id":"s{number}"'
        log.write(START_US + 1, peer, "subscription", f'"change":"added",{about},"filter":"","boxes":[{box}]')
        log.write(START_US + 1_000, peer, "subscription", f'"change":"active",{about},"filter":null,"boxes":[]')
        wanted.setdefault(symbol, []).append((low, high, peer, number))
    event = 0
    while log.records < records:
        event += 1
        ts_us = START_US + 1_000_000 + event * 1_000
        if event % 1_000 == 0:
            for peer in range(peers):
                log.write(ts_us, peer, "peer", '"change":"alive","about":null')
                log.write(
                    ts_us,
                    peer,
                    "traffic",
                    '"message":"ev","sent":40,"received":40,"sent_bytes":6000,"received_bytes":6000',
                )
        _publish(rng, log, event, ts_us, peers, wanted)
    end = START_US + 60_000_001 + event * 1_000
    for peer in range(peers):
        log.write(end - 1, peer, "peer", '"change":"alive","about":null')
    log.write(end, peers, "control", '"fact":"run.end","value":0.0,"detail":{}')
    log.close()
    return log.records


def _publish(
    rng: Random, log: Log, event: int, ts_us: int, peers: int, wanted: dict[int, list[tuple[float, float, int, int]]]
) -> None:
    publisher, symbol, price = rng.randrange(peers), rng.randrange(SYMBOLS), rng.randrange(2_000) / 100
    id_ = f'"event_id":"{publisher:032x}-7-{event}"'
    attributes = f'{{"symbol":"S{symbol}","price":{price},"volume":{rng.randrange(1_000)}}}'
    log.write(ts_us, publisher, "publish", f'{id_},"attributes":{attributes},"bytes":60')
    hits: dict[int, list[int]] = {}
    for low, high, peer, number in wanted.get(symbol, ()):
        if low <= price <= high:
            hits.setdefault(peer, []).append(number)
    sender = publisher
    others = [peer for peer in rng.sample(range(peers), 30) if peer not in hits]
    for hops, peer in enumerate([*hits, *others], 1):
        at_us = ts_us + hops * 5_000
        matched = "true" if peer in hits else "false"
        about = f'{id_},"sender":"{sender:032x}","hops":{hops},"matched":{matched}'
        log.write(at_us, peer, "receive", f'{about},"duplicate":false,"bytes":150')
        for number in hits.get(peer, ()):
            told = f'{id_},"subscription_id":"s{number}","hops":{hops},"latency_us":{hops * 5_000}'
            log.write(at_us, peer, "deliver", told)
        sender = peer
