"""Whom a peer has to do with: lives of other peers, and endpoints where nobody has answered yet.

**Lives.** A remote is one life of a peer, (id, boot). A greeting from a later boot ends all earlier ones: their
messages come back as refused, and a connection that still claims an earlier boot is refused itself. An endpoint without
an id is a remote of its own until somebody answers there; then its messages go to that one.

**Invented addresses.** Members name third ones, and may name some that do not exist. So there is a bound on the remotes
without a connection; messages to more of them come back at once, not as refused. Remotes that nothing waits for make
room first: all that is lost with them is their back-off.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from peerd.net.config import NetConfig
from peerd.net.lanes import Remote
from protocols.model.ids import Address

if TYPE_CHECKING:
    from peerd.net.connection import Connection

BOOTS_MAX: Final = 65_536
"""Peers whose latest boot is remembered. A guess: far more than one peer ever talks to."""

FOUND_MAX: Final = 4_096
"""Addresses whose remotes are at hand. A guess: as many as a peer can be connected with."""


class Remotes:
    """`own` tells this peer's id and boot; `watch` is called when there is one remote more to look after."""

    def __init__(self, config: NetConfig, own: Callable[[], tuple[str, int]], watch: Callable[[], None]) -> None:
        self._config = config
        self._own = own
        self._watch = watch
        self.lives: dict[tuple[str, int], Remote] = {}
        self.found: dict[Address, Remote] = {}
        """Some of them by the addresses of their participants, for whoever looks one up for every message."""
        self.answers: dict[str, Connection] = {}
        """Endpoints that were dialled, and what stands there now."""
        self._calls: dict[str, Remote] = {}  # endpoints that somebody is to answer at
        self._unconnected: dict[Remote, None] = {}  # of both kinds
        self._boots: dict[str, int] = {}

    def __iter__(self) -> Iterator[Remote]:
        return iter([*self.lives.values(), *self._calls.values()])

    def __len__(self) -> int:
        return len(self.lives) + len(self._calls)

    def of(self, address: Address) -> Remote | None:
        """Where messages to this address wait; None if nobody else lives there, or there is no room."""
        peer, at = address.peer, address.at
        known = self.lives.get((peer, address.boot))
        if known is not None:
            if len(self.found) >= FOUND_MAX:
                self.found.clear()
            self.found[address] = known
            return known
        if self.is_over(address):
            return None
        if not peer:
            standing = self.answers.get(at)
            if standing is not None and standing.remote is not None and standing.remote.connection is standing:
                return standing.remote
            if at in self._calls:
                return self._calls[at]
        if not self._has_room(1):
            return None
        if peer:
            remote = self.lives[peer, address.boot] = Remote(peer, address.boot, at, self._config)
        else:
            remote = self._calls[at] = Remote("", 0, at, self._config)
        self._unconnected[remote] = None
        self._watch()
        return remote

    def is_own(self, address: Address) -> bool:
        return (address.peer, address.boot) == self._own()

    def is_over(self, address: Address) -> bool:
        """Whether nobody else can live under this address."""
        return address.peer == self._own()[0] or self.is_former(address.peer, address.boot)

    def is_former(self, peer: str, boot: int) -> bool:
        return boot < self._boots.get(peer, 0)

    def met(self, peer: str, boot: int, at: str) -> Remote:
        """The remote of a life that a connection has come up with."""
        remote = self.lives.get((peer, boot))
        if remote is None:
            remote = self.lives[peer, boot] = Remote(peer, boot, at, self._config)
        self._unconnected.pop(remote, None)
        return remote

    def supersede(self, peer: str, boot: int) -> list[Remote]:
        """This life of the peer ends all earlier ones, which are returned."""
        if boot <= self._boots.get(peer, -1):
            return []
        self._boots.pop(peer, None)
        if len(self._boots) >= BOOTS_MAX:
            del self._boots[next(iter(self._boots))]
        self._boots[peer] = boot
        return [remote for remote in self.lives.values() if remote.peer == peer and remote.boot < boot]

    def part(self, remote: Remote) -> None:
        """The remote has no connection any more."""
        self._unconnected[remote] = None
        self._has_room(0)

    def forget(self, remote: Remote) -> None:
        remote.stop_timer()
        self.found.clear()
        self._unconnected.pop(remote, None)
        if remote.peer:
            self.lives.pop((remote.peer, remote.boot), None)
        else:
            self._calls.pop(remote.at, None)

    def forget_idle(self, now: float) -> None:
        """Those that nothing waits for, and whose back-off is long over."""
        for remote in list(self._unconnected):
            if not remote.busy and now >= remote.not_before + self._config.backoff_max_s:
                self.forget(remote)

    def _has_room(self, more: int) -> bool:
        """Whether there may be so many more remotes without a connection. Forgets some that nothing waits for."""
        excess = len(self._unconnected) + more - self._config.unconnected_max
        if excess > 0:
            for remote in [remote for remote in self._unconnected if not remote.busy][:excess]:
                self.forget(remote)
        return len(self._unconnected) + more <= self._config.unconnected_max
