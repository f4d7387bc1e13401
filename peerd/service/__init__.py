"""The service: what applications ask of a running peer, whichever way they ask it.

subscriptions   what they want: made, changed, removed, waited for; interests: what a filter or an XPath means
deliveries      what has come for a subscription, its readers and their cursors
publishing      what they say: checked, let in or pushed back; ingress: how fast, and what was said already
service         the two together, and what a peer can tell of itself; crawl: a picture of the overlay
refusals        wrong use, each with one line for people
"""

from peerd.service.config import ServiceConfig
from peerd.service.publishing import Published
from peerd.service.service import About, Service
from peerd.service.subscriptions import IDLE_S, SubscriptionRecord, SubscriptionStore

__all__ = ["IDLE_S", "About", "Published", "Service", "ServiceConfig", "SubscriptionRecord", "SubscriptionStore"]
