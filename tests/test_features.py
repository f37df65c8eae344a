"""Features against a bit-by-bit reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from conjoin import Domain, Features
from conjoin.data import group_equal
from conjoin.models import full_masks, segment_index
from reference import all_states, feature_rows, feature_sum
from strategies import generators, random_domain, random_features


def soft(rng, features):
    """The same features with random off values, some of them 0 and some negative."""
    off = rng.normal(size=len(features.indices)) * (rng.random(len(features.indices)) < 0.5)
    return Features(features.tests, features.indptr, features.indices, features.weights, off)


@given(generators())
def test_evaluate_and_logits(rng):
    domain = random_domain(rng, max_card=5)
    states = all_states(domain)
    plain = random_features(rng, domain)
    for features in (plain, soft(rng, plain)):
        rows = feature_rows(features)
        expected = [feature_sum(rows, s) for s in states]
        np.testing.assert_allclose(features.evaluate(states), expected, atol=1e-12)
        for i, card in enumerate(domain.cards):
            tested = [r for r in rows if i in r[1]]
            logits = features.logits(i, states)
            for s in range(card):
                moved = states.copy()
                moved[:, i] = s
                by_hand = [feature_sum(tested, m) for m in moved]
                np.testing.assert_allclose(logits[:, s], by_hand, atol=1e-12)


@given(generators())
def test_blocks_do_not_change_values(rng):
    import conjoin.models.features as module

    domain = random_domain(rng)
    states = np.repeat(all_states(domain), 40, axis=0)
    features = random_features(rng, domain)
    whole = features.evaluate(states)
    saved, module.BLOCK = module.BLOCK, 1
    try:
        np.testing.assert_allclose(features.evaluate(states), whole, atol=1e-12)
    finally:
        module.BLOCK = saved


@given(generators())
def test_merge_and_concatenate(rng):
    domain = random_domain(rng)
    parts = [random_features(rng, domain) for _ in range(3)]
    parts.append(parts[0].select(np.arange(len(parts[0]))))
    joined = Features.concatenate(parts)
    states = all_states(domain)
    total = sum(p.evaluate(states) for p in parts)
    np.testing.assert_allclose(joined.evaluate(states), total, atol=1e-12)
    merged = joined.merged()
    np.testing.assert_allclose(merged.evaluate(states), total, atol=1e-12)
    sets = [
        tuple(sorted((v, tuple(s)) for v, (s, _) in t.items())) for _, t in feature_rows(merged)
    ]
    assert len(set(sets)) == len(sets) == len({str(t) for _, t in feature_rows(joined)})


@given(generators())
def test_condition(rng):
    domain = random_domain(rng)
    features = random_features(rng, domain)
    if rng.random() < 0.5:
        features = soft(rng, features)
    chosen = [i for i in range(len(domain)) if rng.random() < 0.5]
    evidence = {i: int(rng.integers(domain.cards[i])) for i in chosen}
    smaller = features.condition(evidence)
    assert not set(smaller.entry_var.tolist()) & set(evidence)
    states = all_states(domain)
    for i, s in evidence.items():
        states[:, i] = s
    np.testing.assert_allclose(smaller.evaluate(states), features.evaluate(states), atol=1e-12)


def test_impossible_conjunctions():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    features = Features.from_terms(domain, [(-np.inf, {"a": 1, "b": 1}), (2.0, {"a": 1})])
    states = all_states(domain)
    assert features.evaluate(states).tolist() == [0, 0, 2, -np.inf]
    assert features.logits(0, states[:2]).tolist() == [[0, 2], [0, -np.inf]]


def test_tests_of_one_variable_are_joined():
    domain = Domain({"a": [0, 1, 2], "b": [0, 1]})
    full = full_masks(domain.cards)
    masks = np.array([[0b011], [0b110], [0b11], [0b001], [0b010]], np.uint64)
    built = Features.from_tests(domain.cards, [0, 0, 0, 1, 1], [0, 0, 1, 0, 0], masks, [1.0, 5.0])
    # a in {0,1} and a in {1,2} is a = 1; b in {0,1} always holds; a = 0 and a = 1 never does.
    assert feature_rows(built) == [(1.0, {0: ({1}, 0.0)})]
    assert full.tolist() == [[7], [3]]


def test_more_than_64_states():
    domain = Domain({"a": range(130), "b": range(64), "c": range(65)})
    when = {"a": [5, 64, 129], "b": [63], "c": [64]}
    features = Features.from_terms(domain, [(1.0, when)])
    assert feature_rows(features) == [
        (1.0, {0: ({5, 64, 129}, 0.0), 1: ({63}, 0.0), 2: ({64}, 0.0)})
    ]
    codes = np.array([[129, 63, 64], [128, 63, 64], [5, 63, 64], [64, 62, 64]], np.uint8)
    assert features.evaluate(codes).tolist() == [1, 0, 1, 0]
    assert features.logits(0, codes[:1])[0].nonzero()[0].tolist() == [5, 64, 129]
    everything = Features.from_terms(domain, [(1.0, {"b": list(range(64))})])
    assert everything.lengths.tolist() == [0]


def test_constant_feature():
    domain = Domain({"a": [0, 1]})
    features = Features.from_terms(domain, [(2.0, {}), (1.0, {"a": 1})])
    assert features.evaluate(np.array([[0], [1]], np.uint8)).tolist() == [2, 3]
    assert features.describe(domain) == ["2  always", "1  a=1"]


@pytest.mark.parametrize("packed", [0, 1000])
@pytest.mark.parametrize("spread", [1, 2**60])
def test_rows_that_share_a_key_are_kept_apart(packed, spread):
    rng = np.random.default_rng(0)
    for size in (0, 1, 20, 20, 20):
        key = rng.integers(0, 3, size).astype(np.uint64) * np.uint64(spread)
        second = rng.integers(0, 3, size).astype(np.uint64)
        order, starts, first = group_equal(key, second, max_packed=packed)
        groups = [sorted(g.tolist()) for g in np.split(order, starts[1:]) if len(g)]
        expected = {}
        for i, pair in enumerate(zip(key.tolist(), second.tolist(), strict=True)):
            expected.setdefault(pair, []).append(i)
        assert sorted(groups) == sorted(expected.values())
        assert [g[0] for g in groups] == first.tolist()


@pytest.mark.parametrize("lengths", [[], [0], [2, 0, 3]])
def test_segment_index(lengths):
    starts = np.arange(len(lengths)) * 10
    expected = [s + i for s, n in zip(starts, lengths, strict=True) for i in range(n)]
    assert segment_index(starts, np.array(lengths, np.int64)).tolist() == expected


def test_conditions_take_any_collection():
    domain = Domain({"a": [0, 1], "b": ["p", "q", ("r", 1)]})
    for states in (["p", "q"], {"p", "q"}, ("p", "q")):
        features = Features.from_terms(domain, [(1.0, {"b": states})])
        assert features.evaluate(np.array([[0, 0], [0, 1], [0, 2]], np.uint8)).tolist() == [1, 1, 0]
    features = Features.from_terms(domain, [(1.0, {"b": ("r", 1)})])
    assert features.evaluate(np.array([[0, 2]], np.uint8)).tolist() == [1]
