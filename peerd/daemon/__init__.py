"""A peer as a process: everything composed, from settings to a graceful end.

daemon      its life: find the swarm, build, join, serve, leave
search      which swarm it belongs to, and through whom it gets in
door        what other peers are told of the swarm, and who is let in
watching    metrics, and the event log
opening     what is read at the start: data directory, certificates
"""

from peerd.daemon.daemon import Built, Daemon

__all__ = ["Built", "Daemon"]
