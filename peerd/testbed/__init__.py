"""Many real peers on this machine, without containers.

Starting an interpreter and importing everything takes a third of a second and 30 MB. So one process does it once, the
*fork server*, and every peer is a fork of it and shares most of that memory. Three kinds of processes, then:

    steering process ──orders──► fork server ──fork──► peer, peer, peer, …
           ▲                                             │
           └──────────────one line to each peer──────────┘

The steering process is `peerd testbed up` or `peerd testbed run`. With every order to fork it hands over one end of a
socket pair, so peers tell it directly what they see and the fork server has nothing to do but to fork, to reap and, in
the end, to make an end. Everything that applications do goes over real HTTP (`peerd.client`), everything between peers
over real TCP on loopback.

Who ends with whom: peers end when the fork server does, however it ends; the fork server ends with the steering process
unless that one has let go of it (`up`). What a testbed consists of is written down in `testbed.json`, with the start
time of every process, so that `down` never ends a process that merely has got the same number.

    processes.py    a process beyond doubt: number, start time and group; its memory and time
    place.py        the directory of a testbed and its `testbed.json`
    lines.py        what the processes tell each other
    forkserver.py   the fork server
    member.py       what a forked process does: a peer, watched
    watch.py        a sink that tells the steering process what happened, in batches
    bed.py          the steering side: up, kill, look, down
    run.py          a workload, kills, and what was owed: the same oracle as the simulator's
    structure.py    when the overlay of living peers has converged
    readers.py      applications that read their deliveries over HTTP
    faultlog.py     what the testbed did to its peers, as log records
    survey.py       how a testbed is, seen from outside: `peerd testbed status`
"""
