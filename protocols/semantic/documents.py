"""What a relay says about the document of an event that a remote peer has sent."""

from protocols.model.event import Event
from protocols.model.xpath.document import document_of


def fault_of(event: Event) -> str:
    """What is wrong with the event's document; empty if nothing is, or it has none."""
    document = document_of(event.body)
    return document.fault if document is not None else ""
