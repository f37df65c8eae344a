"""Chains of conditionals: growing their trees, learning them, and what a joint says with them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin import Domain, MarkovNetwork, Table, load, log_partition, marginals, sample, save
from conjoin.cli.main import main
from conjoin.errors import ModelError
from conjoin.inference import JointRows
from conjoin.joint import learn_joint
from conjoin.kernels import boosting
from conjoin.kernels.layouts import TreeNodes
from conjoin.learning import Boosting, CodedRows, learn_boosted_conditional, state_ranks
from conjoin.models import Joint, TableFactor
from conjoin.scoring import log_likelihood
from random_joints import chain_table, random_chain, random_joint

seeds = st.integers(0, 2**32 - 1)


def slow_tree(codes, slopes, least, ridge, rate, most):
    """The values that a tree gives to each row: always the split that gains most, tried one by one."""

    def quality(rows):
        g, h = slopes[rows].sum(axis=0)
        return float((g**2 / (h + ridge)).sum())

    def best_split(rows):
        best = 0.0, None
        for v in range(codes.shape[1]):
            for threshold in np.unique(codes[rows, v])[:-1]:
                low = codes[rows, v] <= threshold
                if min(low.sum(), (~low).sum()) < least:
                    continue
                gain = quality(rows[low]) + quality(rows[~low]) - quality(rows)
                if gain > best[0] + 1e-9:
                    best = gain, (rows[low], rows[~low])
        return best

    leaves = [(np.arange(len(codes)), *best_split(np.arange(len(codes))))]
    while len(leaves) < most and any(parts for _, _, parts in leaves):
        k = max(range(len(leaves)), key=lambda k: leaves[k][1])
        low, high = leaves[k][2]
        leaves[k] = low, *best_split(low)
        leaves.append((high, *best_split(high)))
    values = np.empty((len(codes), slopes.shape[2]))
    for rows, _, _ in leaves:
        g, h = slopes[rows].sum(axis=0)
        values[rows] = np.rint(rate * g / (h + ridge) * 256) / 256
    return values


@given(seeds)
def test_trees_are_grown_from_the_best_splits(seed):
    rng = np.random.default_rng(seed)
    count, states, most = (
        int(rng.integers(10, 60)),
        int(rng.integers(2, 5)),
        int(rng.integers(2, 7)),
    )
    codes = rng.integers(0, 4, (count, 3)).astype(np.uint8)
    target = rng.integers(0, states, count)
    scores = rng.normal(0, 1, (count, states)).astype(np.float32)
    slopes = np.empty((count, 2, states), np.float32)
    boosting.write_slopes(scores, target, np.ones(count), np.arange(count), slopes)
    p = np.exp(scores.astype(float))
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(slopes[:, 0], np.eye(states)[target] - p, atol=1e-6)
    np.testing.assert_allclose(slopes[:, 1], p * (1 - p), atol=1e-6)
    tree = TreeNodes(*np.zeros((3, 2 * most - 1), np.int64))
    values = np.zeros((most, states), np.float32)
    boosting.grow_tree(
        codes, np.array([0, 4, 8, 12]), slopes, np.ones(count), np.arange(count), 3.0, 2.0, 0.0, 0.3,
        1 / 256, tree, values,
    )  # fmt: skip
    added = np.zeros((count, states), np.float32)
    boosting.add_tree(codes, tree, values, added)
    expected = slow_tree(codes, slopes.astype(float), 3, 2.0, 0.3, most)
    np.testing.assert_allclose(added, expected, atol=1 / 256 + 1e-6)
    losses = np.empty(count)
    boosting.log_losses(scores, target, losses)
    np.testing.assert_allclose(losses, -np.log(p[np.arange(count), target]), atol=1e-6)


@given(seeds)
def test_a_chain_is_the_product_of_its_conditionals(seed):
    rng = np.random.default_rng(seed)
    domain = random_joint(rng)[0].domain.observed
    chain = random_chain(rng, domain)
    table = chain_table(chain)
    assert np.exp(table).sum() == pytest.approx(1.0, abs=1e-12)
    codes = np.array(list(itertools.product(*map(range, domain.cards))))[:: int(rng.integers(1, 9))]
    np.testing.assert_allclose(chain.log_likelihood(codes), table[tuple(codes.T)], atol=1e-12)
    for v, card in enumerate(domain.cards):
        rest = codes.copy()
        rest[:, v] = 0  # what a row says of the column itself does not count
        expected = np.stack([table[tuple(np.where(np.arange(len(domain)) == v, s, rest).T)]
                             for s in range(card)], axis=1)  # fmt: skip
        np.testing.assert_allclose(chain.log_likelihoods(rest, v), expected, atol=1e-12)
    twin = chain.reordered(Domain([domain[n] for n in rng.permutation(domain.names)]))
    at = [domain.index(name) for name in twin.domain.names]
    np.testing.assert_allclose(
        twin.log_likelihood(np.ascontiguousarray(codes[:, at])), table[tuple(codes.T)], atol=1e-12
    )


def test_where_too_much_is_unknown_the_network_answers():
    rng = np.random.default_rng(1)
    domain = Domain({f"v{k}": list("abcd") for k in range(9)})
    factor = TableFactor((0, 8), rng.normal(0, 1, (4, 4)))
    joint = Joint(MarkovNetwork(domain, factors=[factor]), None, random_chain(rng, domain))
    codes = np.full((1, 9), -1)
    codes[0, domain.index(joint.chain.names[-1])] = 2
    row = Table.adopt(domain, np.where(codes < 0, 255, codes).astype(np.uint8))
    for name in joint.chain.names[:-1]:
        of_network = JointRows(Joint(joint.network), row).states(name)
        np.testing.assert_array_equal(JointRows(joint, row).states(name), of_network)
    last = {joint.chain.names[-1]: "c"}
    assert marginals(joint, last).run.by_network
    of_network = marginals(joint.network, last)
    for name, p in marginals(joint, last).items():
        assert p == pytest.approx(of_network[name], abs=1e-12)
    most = dict.fromkeys(joint.chain.names[1:], "a")  # the rest is known, so the chain counts
    first = joint.chain.names[0]
    assert not marginals(joint, most).run.by_network
    assert marginals(joint, most)[first] != pytest.approx(
        marginals(joint.network, most)[first], abs=1e-3
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_joint_sums_to_one_and_is_saved_as_it_is(seed, tmp_path):
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    domain = joint.domain.observed
    network = Joint(joint.network, None, random_chain(rng, domain))
    codes = np.array(list(itertools.product(*map(range, domain.cards))))
    found = log_likelihood(network, Table(domain, codes)).by_row
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-9)
    row = dict(zip(domain.names, domain.decode(codes[-1]).values(), strict=True))
    whole = log_partition(network, row).value - log_partition(network.network).value
    assert whole == pytest.approx(found[-1], abs=1e-9)
    path = tmp_path / "model.conjoin"
    save(network, path)
    np.testing.assert_array_equal(log_likelihood(load(path), Table(domain, codes)).by_row, found)


def test_rows_are_drawn_from_the_mixture():
    rng = np.random.default_rng(5)
    domain = Domain({f"v{k}": list("abcd") for k in range(7)})  # too many joint states for a factor
    chain = random_chain(rng, domain)
    joint = Joint(MarkovNetwork(domain), None, chain)  # a uniform network
    rows = sample(joint, 40_000, random_state=3)
    expected = np.exp(chain_table(chain)) * chain.share + (1 - chain.share) / 4**7
    for pair in itertools.combinations(range(7), 2):
        cells = np.bincount(rows.codes[:, pair[0]] * 4 + rows.codes[:, pair[1]], minlength=16)
        others = tuple(set(range(7)) - set(pair))
        p = expected.sum(axis=others).ravel()
        assert np.abs(cells / 40_000 - p).max() < 5 * np.sqrt(0.25 / 40_000)


def rule_table(rng, count):
    """A class that is a rule of four columns, with exceptions, and columns that say nothing."""
    codes = rng.integers(0, 3, (count, 7))
    codes[:, 6] = (codes[:, 0] + codes[:, 1] * codes[:, 2] + (codes[:, 3] == 1)) % 3
    wrong = rng.random(count) < 0.05
    codes[wrong, 6] = rng.integers(0, 3, wrong.sum())
    domain = Domain({**{f"x{k}": list("abc") for k in range(6)}, "class": list("uvw")})
    return Table(domain, codes)


def log_loss(joint, table, name):
    p = JointRows(joint, table).states(name)
    return -np.log(p[np.arange(len(p)), table.codes[:, table.domain.index(name)]]).mean()


def test_rules_of_many_columns_are_learned():
    rng = np.random.default_rng(0)
    _, joint = learn_joint(rule_table(rng, 5_000))
    held = rule_table(rng, 4_000)
    best = -(0.95 + 0.05 / 3) * np.log(0.95 + 0.05 / 3) - 0.05 * 2 / 3 * np.log(0.05 / 3)
    assert joint.chain is not None
    with_chain, without = (log_loss(j, held, "class") for j in (joint, Joint(joint.network)))
    assert best - 0.02 < with_chain < min(best + 0.05, without - 0.005)


def test_info_and_reports_tell_of_a_chain(tmp_path, capsys):
    rng = np.random.default_rng(6)
    joint, _ = random_joint(rng)
    chain = replace(random_chain(rng, joint.domain.observed), share=0.375)
    path = tmp_path / "m.conjoin"
    save(Joint(joint.network, joint.fine, chain), path)
    assert main(["info", str(path)]) == 0
    assert "a share of 38% where few columns are unknown" in capsys.readouterr().out
    assert main(["report", str(path), "-o", str(tmp_path / "r.html")]) == 0
    assert "a chain of predictions" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_order_of_rows_and_columns_does_not_matter():
    rng = np.random.default_rng(2)
    table = rule_table(rng, 5_000)
    names = rng.permutation(table.names).tolist()
    twin = table.select(rng.permutation(len(table))).reordered(names)
    first, second = learn_joint(table)[1], learn_joint(twin)[1]
    assert first.chain is not None
    assert first.chain.names == second.chain.names
    np.testing.assert_allclose(
        JointRows(first, table).states("class"),
        JointRows(second, table.reordered(names)).states("class"),
        rtol=0,
        atol=1e-12,
    )


def test_independent_columns_have_no_chain():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (1_000, 5))
    _, joint = learn_joint(Table(Domain({f"v{k}": list("abc") for k in range(5)}), codes))
    assert joint.chain is None


def coded(rng, count):
    domain = Domain({"city": list("abcdefgh"), "size": list("xyz"), "y": [0, 1]})
    codes = np.stack([rng.integers(0, n, count) for n in domain.cards], axis=1)
    far = np.isin(codes[:, 0], [1, 4, 6])  # scattered in the order of the labels
    codes[:, 2] = rng.random(count) < np.where(far, 0.9, 0.1)
    return CodedRows(domain, codes, np.ones(count))


def test_states_beside_which_the_target_is_similar_are_neighbours():
    rows = coded(np.random.default_rng(0), 4_000)
    ranks = state_ranks(rows, 2, np.array([0, 1]))[:8]
    assert sorted(ranks) == list(range(8))
    assert set(ranks[[1, 4, 6]]) in ({0, 1, 2}, {5, 6, 7})
    rows.codes[rows.codes[:, 0] == 4, 0] = 1
    rows.codes[:3, 0] = 4  # too few rows to tell where the state belongs
    ranks = state_ranks(rows, 2, np.array([0, 1]))[:8]
    assert set(ranks[[1, 6]]) in ({0, 1}, {6, 7}) and 0 < ranks[4] < 7


def test_conditionals_stop_when_held_out_rows_gain_no_more():
    rng = np.random.default_rng(1)
    rows, held = coded(rng, 4_000), coded(rng, 1_000)
    learned = learn_boosted_conditional(rows, 2, np.array([0, 1]), held, Boosting())
    assert 3 <= learned.rounds < 60
    best = np.log(0.9) * 0.9 + np.log(0.1) * 0.1
    assert learned.log_probabilities.mean() == pytest.approx(best, abs=0.03)
    weighted = replace(rows, weights=np.full(4_000, 2.0))
    twice = learn_boosted_conditional(weighted, 2, np.array([0, 1]), None, Boosting(rounds=5))
    assert twice.rounds == 5


@pytest.mark.parametrize("damage", ["column", "below", "value", "later", "short"])
def test_damaged_chains_are_refused(damage):
    rng = np.random.default_rng(4)
    domain = Domain({f"v{k}": list("abc") for k in range(4)})
    chain = random_chain(rng, domain)
    while not len(chain.conditionals[-1].columns):
        chain = random_chain(rng, domain)
    last = chain.conditionals[-1]
    nodes, values, names = last.nodes.copy(), last.values.copy(), chain.names
    split = int(np.flatnonzero(nodes[0] >= 0)[0])
    if damage == "column":
        nodes[0, split] = 4
    elif damage == "below":
        nodes[2, split] = split  # a circle
    elif damage == "value":
        values[0, 0] = np.nan
    elif damage == "later":
        names = (names[-1], *names[:-1])
    else:
        names = names[:-1]
    broken = replace(last, nodes=nodes, values=values)
    conditionals = (*chain.conditionals[:-1], broken)
    if damage == "later":
        conditionals = (broken, *chain.conditionals[:-1])
    with pytest.raises(ModelError, match="chain|damaged"):
        replace(chain, names=names, conditionals=conditionals[: len(names)])
