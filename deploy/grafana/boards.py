"""The four dashboards. What the recording rules in `deploy/prometheus/rules.yml` have is taken from there."""

from typing import Final

from deploy.grafana.overlay import OVERLAY
from deploy.grafana.peer import PEER
from deploy.grafana.swarm import SWARM
from deploy.grafana.testbed import TESTBED

BOARDS: Final = (SWARM, OVERLAY, PEER, TESTBED)
