"""Peers that run elsewhere, in containers or on other machines, and are reached over HTTP alone.

    looks.py       asks a peer over HTTP who it is, whether it stands, and where its links lead
    members.py     the peers that a few names stand for, which come, go and come back
    driver.py      the workload driver: gives them subscriptions, publishes, knows what is owed and what is missing
    ledger.py      what the driver has counted, and the same as metrics
    faults.py      what is done to the peers: announced by whoever does it, or found out
    desk.py        the driver's own HTTP: metrics, how far it is, the announcements of faults
    docker.py      as much of a Docker engine's API as chaos needs
    chaos.py       stops, kills, pauses and cuts off containers, and heals them again
    preflight.py   whether this machine can hold so many containers

The testbed next door (`peerd.testbed`) owns the processes of its peers and is told by them what they saw. Here nothing
is known but what an application could know: what it handed in and what it has read. The truth is the same oracle's.
"""
