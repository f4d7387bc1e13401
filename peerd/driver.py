"""Performing effects: the one function that the daemon and the simulator share.

A state machine returns effects; somebody has to carry them out, in order. What "send" means differs between a socket
and a simulated link; which effects there are, and that none is forgotten, does not. A host lists its actions once, as a
table from the type of an effect to the function that carries it out for the peer `origin`.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from protocols.overlay import (
    Active,
    CancelTimer,
    Deliver,
    Effect,
    Reception,
    Report,
    Send,
    SetTimer,
)

Origin = TypeVar("Origin")
Origin_contra = TypeVar("Origin_contra", contravariant=True)
Actions: TypeAlias = dict[type, Callable[[Any, Any], None]]


class Host(Protocol[Origin_contra]):
    """What somebody must be able to do who runs peers."""

    def send(self, origin: Origin_contra, effect: Send) -> None: ...
    def set_timer(self, origin: Origin_contra, effect: SetTimer) -> None: ...
    def cancel_timer(self, origin: Origin_contra, effect: CancelTimer) -> None: ...
    def active(self, origin: Origin_contra, effect: Active) -> None: ...
    def deliver(self, origin: Origin_contra, effect: Deliver) -> None: ...
    def reception(self, origin: Origin_contra, effect: Reception) -> None: ...
    def report(self, origin: Origin_contra, effect: Report) -> None: ...


def actions(host: Host[Origin]) -> Actions:
    """The table of a host's actions. `Watch` and `Unwatch` end in the peer and never come here."""
    return {
        Send: host.send,
        SetTimer: host.set_timer,
        CancelTimer: host.cancel_timer,
        Active: host.active,
        Deliver: host.deliver,
        Reception: host.reception,
        Report: host.report,
    }


def perform(table: Actions, origin: object, effects: list[Effect]) -> None:
    """Carry out the effects of one step, in order."""
    for effect in effects:
        table[type(effect)](origin, effect)
