"""The paper's experiments (section 4) at a scale that a test can afford (in full: `python -m benchmarks gosskip`)."""

from math import log2

import pytest

from benchmarks.bench_gosskip import experiment, growth

PEERS = 250
EVENTS = 800

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("workload", ["files", "files-uniform"])
def test_hops_links_and_the_gain_of_the_tuned_default(workload: str) -> None:
    paper = experiment(workload, "paper", PEERS, EVENTS)
    tuned = experiment(workload, "default", PEERS, EVENTS)
    for outcome in (paper, tuned):
        assert outcome.false_negatives == 0
        assert outcome.expected > 0
        assert outcome.links_max <= 2 * log2(PEERS)
        assert max(outcome.hops) <= 2 * log2(PEERS)
    # half of the bits of a distance between two random places
    assert paper.mode[0] in (3, 4)
    assert tuned.mean <= 0.9 * paper.mean


def test_noise_is_spread_over_the_peers() -> None:
    """No peer receives more than a few times what it would if all noise were shared out evenly."""
    outcome = experiment("files", "default", PEERS, EVENTS)
    mean = sum(outcome.noise) / len(outcome.noise)
    assert 0 < max(outcome.noise) <= 6 * mean


def test_newcomers_get_their_event_as_soon_as_they_have_their_neighbours() -> None:
    hops, missing = growth("paper", 75, 150)
    assert missing == 0
    assert sum(count for taken, count in hops.items() if taken <= log2(150)) > hops.total() / 2
