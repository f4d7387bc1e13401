"""The fork server: a process that has imported everything and forks peers.

Run as `python -m peerd.testbed.forkserver DIRECTORY FD`, FD being a socket that orders come by. It has one thread and
no event loop, so that a fork is a clean beginning. It reaps its children, tells who has ended, and ends with
all of them when it is told to, when it gets SIGTERM, or when the steering process is gone without having let go.
"""

import gc
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from peerd import __version__, registry
from peerd.api import openapi
from peerd.net.loop import loop_factory
from peerd.testbed import lines
from peerd.testbed.lines import PATIENCE_S, End, Fork, Forked, Gone, LetGo, Refused, Reply, Started, Unpacker
from peerd.testbed.member import live
from peerd.testbed.place import Place
from peerd.testbed.processes import Process, end_with_parent, identify
from protocols.model.lint import compile_filter
from protocols.model.schema import STOCKS

TELL_S: Final = 5.0
FRAME_BYTES: Final = 65_536


def warm_up() -> None:
    """Load what is loaded at the first use, so that every peer shares it, and let the collector leave it alone."""
    loop_factory()
    registry.kinds()
    openapi.encoded(__version__)
    compile_filter("price BETWEEN 1 AND 2 AND symbol IN ('A', 'B') OR NOT exchange LIKE 'X%'", STOCKS)
    gc.collect()
    gc.freeze()


class ForkServer:
    def __init__(self, orders: socket.socket) -> None:
        self._orders: socket.socket | None = orders
        self._selector = selectors.DefaultSelector()
        self._unpacker = Unpacker()
        self._handed: list[int] = []  # sockets that came with orders
        self._children: dict[int, int] = {}  # process -> number of the peer
        self._terms = 0  # how often it was signalled and has not looked yet
        self._ending = False
        self._kill_at: float | None = None
        self._life = os.pipe()  # its writing end is open as long as this process lives, and only here
        self._woken = os.pipe()

    def serve(self) -> None:
        for end in self._woken:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._woken[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, self._on_sigterm)
        assert self._orders is not None
        self._orders.settimeout(TELL_S)
        self._selector.register(self._woken[0], selectors.EVENT_READ, self._wake)
        self._selector.register(self._orders, selectors.EVENT_READ, self._listen)
        self._tell(Started(_this()))
        while self._children or not self._ending:
            timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            for key, _ in self._selector.select(timeout):
                key.data()
            while self._terms:
                self._terms -= 1
                self._end(PATIENCE_S)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal_all(signal.SIGKILL)
                self._kill_at = None
            self._reap()

    # --- children -----------------------------------------------------------------------------------------------------

    def _fork(self, order: Fork) -> None:
        line, parent = self._handed.pop(0), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(line)
            self._tell(Refused(f"no further process can be made: {error.strerror}"))
            return
        if pid == 0:
            code = 1
            try:
                code = self._be(order, line, parent)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(line)
        with suppress(OSError):
            os.setpgid(pid, pid)  # the child does the same: whoever comes first
        self._children[pid] = order.number
        found = identify(pid)
        self._tell(Forked(order.number, found or Process(pid, "", pid)))

    def _be(self, order: Fork, line: int, parent: int) -> int:
        """In the child: let go of everything that is the parent's, and be a peer."""
        end_with_parent(parent)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        if self._orders is not None:
            self._orders.detach()
        _close_all_but(self._life[0], line)
        return live(order, socket.socket(fileno=line), self._life[0])

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._children.pop(pid, None)
            if number is not None:
                self._tell(Gone(number, os.waitstatus_to_exitcode(status)))

    def _signal_all(self, number: signal.Signals) -> None:
        """They are this process' own children and not reaped yet: these numbers are theirs."""
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end(self, patience_s: float) -> None:
        """Let everybody leave; the second time there is no more patience."""
        kill_at = time.monotonic() + patience_s
        self._kill_at = kill_at if not self._ending else time.monotonic()
        self._ending = True
        self._signal_all(signal.SIGTERM)

    # --- what happens -------------------------------------------------------------------------------------------------

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Only noted: whoever is interrupted may be in the middle of the table of children."""
        self._terms += 1

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken[0], 4096)

    def _listen(self) -> None:
        assert self._orders is not None
        try:
            data, handed, _, _ = socket.recv_fds(self._orders, FRAME_BYTES, 16)
        except OSError:
            data, handed = b"", []
        if not data:
            self._deaf()
            if not self._ending:
                self._end(0.0)  # the steering process has been killed: nobody is interested in a graceful end
            return
        self._handed += handed
        for message in self._unpacker.feed(data):
            self._obey(lines.decode_order(message))

    def _obey(self, order: lines.Order) -> None:
        if isinstance(order, Fork):
            if self._ending:
                os.close(self._handed.pop(0))
            else:
                self._fork(order)
        elif isinstance(order, LetGo):
            self._deaf()
        elif isinstance(order, End):
            self._end(order.patience_s)

    def _deaf(self) -> None:
        """No more orders."""
        if self._orders is not None:
            self._selector.unregister(self._orders)
            self._orders.close()
            self._orders = None

    def _tell(self, reply: Reply) -> None:
        if self._orders is not None:
            with suppress(OSError):
                self._orders.sendall(lines.pack(reply))


def _nothing(number: int, frame: FrameType | None) -> None:
    """The signal's number arrives through the pipe; a handler there must be."""


def _this() -> Process:
    found = identify(os.getpid())
    assert found is not None
    return found


def _close_all_but(*kept: int) -> None:
    """Close all descriptors that were inherited, but for the standard ones and these."""
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def main(directory: str, fd: int) -> int:
    orders = socket.socket(fileno=fd)
    lock = Place(Path(directory)).lock()
    if lock is None:
        orders.sendall(lines.pack(Refused(f"a testbed is up in {directory} already; 'peerd testbed down' ends it")))
        return 1
    warm_up()
    ForkServer(orders).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
