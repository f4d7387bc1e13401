"""The figures of section 5 in small: how few peers receive what they do not want, and how few miss what they do."""

import pytest

from benchmarks.bench_semantic import containment, similarity


@pytest.mark.slow
def test_figure_3_the_tree_loses_nothing_and_gets_more_accurate_with_size() -> None:
    ratios = {}
    for peers in (60, 300):
        summary = containment(peers, 60)
        assert summary.false_negatives == 0
        assert summary.invariant_violations == 0
        ratios[peers] = summary.fp_ratio
    assert ratios[300] < ratios[60]
    assert ratios[300] < 0.25


@pytest.mark.slow
def test_figure_3_more_reorganisation_is_more_accurate() -> None:
    always, never = (containment(250, 60, reorganise=policy).fp_ratio for policy in ("always", "never"))
    assert always <= never


@pytest.mark.slow
def test_peek_leaves_the_relays_of_the_virtual_root() -> None:
    summary = containment(250, 60, peek="true")
    assert summary.false_negatives == 0
    assert summary.fp_ratio < 0.03


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_figure_4_the_graph() -> None:
    """A lower rho favours false positives over false negatives; the tuned profile halves both; and neighbours that are
    not all alike (`alike_max`) miss less than half of what the paper's rule does."""
    full_fp, full_fn = similarity(600, 60, {"peek": "false"})
    half_fp, half_fn = similarity(600, 60, {"peek": "false", "rho": "0.5"})
    tuned_fp, tuned_fn = similarity(600, 60, {"profile": "tuned-similarity"})
    _, closed_fn = similarity(600, 60, {"profile": "paper-similarity"})
    assert full_fp < 30
    assert full_fn < 5
    assert half_fn < 5
    assert half_fn < closed_fn / 2
    assert half_fp < full_fp
    assert half_fn >= full_fn
    assert tuned_fp < half_fp / 2
    assert tuned_fn < half_fn / 2
