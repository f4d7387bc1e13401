"""What is kept, and what a place must be able to do that keeps it."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from protocols.model.bounds import ENDPOINT_MAX
from protocols.model.schema import Schema

CONTACTS_MAX: Final = 64
"""As many as a peer remembers of those it has lost (specification, section 1)."""


class StoreError(ValueError):
    """The data directory cannot be used; the message is one line that says what to do."""


class StoredSwarm(msgspec.Struct, frozen=True, kw_only=True):
    """The swarm that the peer belongs to. Its id is made of name, overlay, parameters and the first schema."""

    name: str
    overlay: str
    parameters: dict[str, Any]
    schema: Schema
    first_schema: Schema


class StoredSubscription(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    filter: str
    retain_s: Annotated[float, Meta(ge=0)]
    retain_max: Annotated[int, Meta(ge=1)]
    idle_s: Annotated[float, Meta(ge=0)] | None
    """None: it stays, however long nobody reads it."""
    xpath: str = ""
    """Instead of a filter."""


class Storage(Protocol):
    """What a daemon needs of a place for its state. Writing never raises: a full disk is told, and the peer goes on."""

    @property
    def peer(self) -> str:
        """The id of this peer, 32 hexadecimal digits."""

    @property
    def boot(self) -> int:
        """The number of this life: more than that of every earlier one, and at least the time of its start in ms."""

    @property
    def swarm(self) -> StoredSwarm | None: ...

    @property
    def contacts(self) -> tuple[str, ...]: ...

    @property
    def subscriptions(self) -> Mapping[str, StoredSubscription]: ...

    def save_swarm(self, swarm: StoredSwarm) -> None: ...

    def save_contacts(self, endpoints: Sequence[str]) -> None:
        """The best of them first; those beyond `CONTACTS_MAX` are left out."""

    def put_subscription(self, subscription: StoredSubscription) -> None: ...

    def remove_subscription(self, id_: str) -> None: ...

    def close(self) -> None: ...


def new_identity() -> str:
    return token_hex(16)


def next_boot(stored: int | None, now_ms: int) -> int:
    """Growing even if the clock was set back since, and even if the stored number was lost."""
    return max(now_ms, 0 if stored is None else stored + 1)


def chosen_contacts(endpoints: Sequence[str]) -> tuple[str, ...]:
    fitting = dict.fromkeys(at for at in endpoints if at and len(at) <= ENDPOINT_MAX)
    return tuple(fitting)[:CONTACTS_MAX]
