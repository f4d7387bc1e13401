"""Cells (paper, section IV): flow control and cell switching of one participant, and who of them gets which message.

Without cells (`variant = "baseline"`) there is neither, and either can be switched off.
"""

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from protocols.model.ids import Address
from protocols.overlay import Message, Outbox
from protocols.sub2sub.budget import Budget
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.flow import Flow, Limit
from protocols.sub2sub.messages import CellSwitch, FlowClosed, FlowEvent, FlowLimit, FlowQuery, FlowRate
from protocols.sub2sub.neighbourhood import Neighbourhood
from protocols.sub2sub.spreading import Spreading
from protocols.sub2sub.switching import Switching


class Cells:
    """`send` charges what it sends."""

    __slots__ = ("_budget", "_me", "flow", "switching")

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        budget: Budget,
        out: Outbox,
        send: Callable[[Address, Message], None],
        rng: Random,
    ) -> None:
        cells = config.variant == "cells"
        self._me = hood.me
        self._budget = budget
        self.flow = Flow(hood, config, out, send, rng) if cells and config.flow_control else None
        self.switching = Switching(hood, config, budget, out, send) if cells and config.switching else None

    def limits(self) -> list[Limit]:
        """What flow control lets us send into higher cells."""
        return [] if self.flow is None else list(self.flow.limits.values())

    def turn(self, spreading: Spreading, is_moving: bool, cycles: int) -> None:
        """So many cycles have ended: flow control, and, with a budget, whether to move to another cell."""
        if self.flow is not None:
            self.flow.turn(spreading.buffered, cycles)
        if self.switching is not None and self._budget.limit is not None and not is_moving:
            self.switching.turn(spreading.buffered, spreading.marked)
        spreading.marked = 0

    def on_message(self, sender: Address, message: Message) -> None:
        self._MESSAGES[type(message)](self, sender, message)

    def _on_switch(self, sender: Address, message: CellSwitch) -> None:
        if self.switching is not None:
            self.switching.on_switch(sender, message)

    def _on_event(self, sender: Address, message: FlowEvent) -> None:
        if self.flow is not None:
            self.flow.on_event(sender, message)

    def _on_query(self, sender: Address, message: FlowQuery) -> None:
        if self.flow is not None and message.controller != self._me:
            self.flow.on_query(sender, message)

    def _on_rate(self, sender: Address, message: FlowRate) -> None:
        if self.flow is not None:
            self.flow.on_rate(sender, message)

    def _on_limit(self, sender: Address, message: FlowLimit) -> None:
        if self.flow is not None:
            self.flow.on_limit(sender, message)

    def _on_closed(self, sender: Address, message: FlowClosed) -> None:
        if self.flow is not None:
            self.flow.on_closed(sender, message)

    _MESSAGES: ClassVar[dict[type, Any]] = {
        CellSwitch: _on_switch,
        FlowEvent: _on_event,
        FlowQuery: _on_query,
        FlowRate: _on_rate,
        FlowLimit: _on_limit,
        FlowClosed: _on_closed,
    }
