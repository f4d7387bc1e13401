"""What a peer opens: what it kept from its earlier life, its certificate, and places that it is told to write to."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time_ns
from typing import Final

from peerd.config import Settings, SettingsError
from peerd.net import tls
from peerd.net.tls import Tls
from peerd.service import SubscriptionRecord
from peerd.store import Background, MemoryStore, Storage, Store, StoredSubscription

CERTIFICATE_WARNING: Final = timedelta(days=14)
"""How long before its end a peer speaks of its certificate. Our choice."""

_log = logging.getLogger("peerd.daemon")


def open_store(settings: Settings) -> Storage:
    """Opened and read at once, written in the background: an event loop does not wait for a disk."""
    now_ms = time_ns() // 1_000_000
    return MemoryStore(now_ms) if settings.data_dir is None else Background(Store(settings.data_dir, now_ms))


@contextmanager
def written(settings: Settings, key: str, what: str) -> Iterator[None]:
    """A place that cannot be opened for writing is a wrong setting: trying again would not help."""
    try:
        yield
    except OSError as error:
        reason = f"{error.filename}: {(error.strerror or str(error)).lower()}"
        raise SettingsError(
            f"{settings.source(key)}: {reason}; name a {what} that this peer can make and write"
        ) from None


class KeptSubscriptions:
    """Subscriptions as the store keeps them."""

    def __init__(self, store: Storage) -> None:
        self._store = store

    def records(self) -> list[SubscriptionRecord]:
        return [
            SubscriptionRecord(kept.id, kept.filter, kept.retain_s, kept.retain_max, kept.idle_s, kept.xpath)
            for kept in self._store.subscriptions.values()
        ]

    def subscription_changed(self, record: SubscriptionRecord) -> None:
        self._store.put_subscription(
            StoredSubscription(
                id=record.id,
                filter=record.filter,
                retain_s=record.retain_s,
                retain_max=record.retain_max,
                idle_s=record.idle_s,
                xpath=record.xpath,
            )
        )

    def subscription_removed(self, id_: str) -> None:
        self._store.remove_subscription(id_)


def load_tls(settings: Settings) -> Tls | None:
    if settings.tls is None:
        return None
    from peerd.certificates import expires  # whoever does without TLS need not wait for its libraries

    directory, source = Path(settings.tls), settings.source("tls")
    try:
        found, end = tls.load(directory), expires(directory)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    left = end - datetime.now(UTC)
    if left < timedelta(0):
        raise SettingsError(f"{source}: the certificate in {directory} ended on {end:%Y-%m-%d}; issue another")
    if left < CERTIFICATE_WARNING:
        _log.warning("the certificate in %s ends on %s; issue another", directory, f"{end:%Y-%m-%d}")
    return found
