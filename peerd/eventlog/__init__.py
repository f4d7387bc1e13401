"""The event log of a living peer: log records, written off the hot path.

log     what happened, on its way from the event loop to the disk
forms   which records are made of it: all, without receptions, or sums
"""

from peerd.eventlog.forms import Detail
from peerd.eventlog.log import EventLog, LogConfig

__all__ = ["Detail", "EventLog", "LogConfig"]
