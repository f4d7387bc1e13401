"""What cannot be had of a running peer, each with one line for people.

FilterError              the filter cannot be used (protocols/model/filter.py): reason, position
BadCursor, CursorExpired the place to read from is none, or gone (peerd/service/deliveries.py)
ServiceError
├── UnknownSubscription  there is none of that id (any more)
├── InvalidSubscription  its id or its kind cannot be taken
├── TooManySubscriptions
├── InvalidEvent         the event may not be published: schema, sizes
├── EventTooLarge        its encoded body is too long
├── InvalidSchema        these attributes cannot be appended
└── NotNow               try again in `retry_after` seconds
    ├── NotReady         the peer does not stand in the overlay
    └── PushedBack       faster than this peer takes events, its links carry them, or their ids can be remembered
"""


class ServiceError(Exception):
    """Somebody asked for what cannot be had."""


class UnknownSubscription(ServiceError):
    def __init__(self, id_: str) -> None:
        super().__init__(f"there is no subscription {id_!r}")


class InvalidSubscription(ServiceError):
    pass


class TooManySubscriptions(ServiceError):
    pass


class InvalidEvent(ServiceError):
    pass


class EventTooLarge(ServiceError):
    pass


class InvalidSchema(ServiceError):
    pass


class NotNow(ServiceError):
    """Try again in `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: float) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NotReady(NotNow):
    pass


class PushedBack(NotNow):
    pass
