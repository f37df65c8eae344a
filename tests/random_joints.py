"""Small random joints of states and numbers, and rows to ask them about."""

from __future__ import annotations

import itertools

import numpy as np

from conjoin import Domain, MarkovNetwork, Table, Variable
from conjoin.data import NumberMap, NumberScale, NumberStates
from conjoin.models import (
    BoostedConditional,
    ConditionalChain,
    FineNumbers,
    Joint,
    TableFactor,
)


def random_number(rng, name):
    """A column of whole numbers from 0 to 20 with 3 to 6 states.

    One of them may be a single value, and another one that there is no value.
    """
    values = np.array([-6.0, *np.sort(rng.choice(np.arange(1, 20), 5, replace=False)) + 0.5, 26.0])
    scores = np.sort(rng.normal(0, 1.2, 7)) + np.arange(7) * 0.05
    edges, single = set(rng.choice(np.arange(1, 20), 2, replace=False) + 0.5), []
    if rng.random() < 0.5:
        single = [float(rng.integers(0, 21))]
        edges = {x for x in edges if abs(x - single[0]) > 1} | {single[0] - 0.5, single[0] + 0.5}
    scale = NumberScale(name, "number", True, 1.0, 0.0, 20.0)
    number_map = NumberMap(values, scores, 1.0, np.array(single))
    edges = np.array(sorted(edges))
    return Variable.of_numbers(NumberStates(scale, number_map, edges, rng.random() < 0.3))


def random_joint(rng, hidden=None):
    """A joint of two or three numbers and one or two categories, with a hidden column or without.

    Returns the joint, and the log-probabilities of the states of its visible columns.
    """
    columns = [random_number(rng, f"n{k}") for k in range(int(rng.integers(2, 4)))]
    for k in range(int(rng.integers(1, 3))):
        column = Variable(f"c{k}", [f"s{i}" for i in range(int(rng.integers(2, 4)))])
        columns.append(column.with_absent() if rng.random() < 0.3 else column)
    columns = [columns[k] for k in rng.permutation(len(columns))]
    if rng.random() < 0.3 if hidden is None else hidden:
        columns.append(Variable("(hidden)", range(2), hidden=True))
    domain = Domain(columns)
    log_p, factors = np.zeros(domain.cards), []
    for pair in itertools.combinations(range(len(domain)), 2):
        if rng.random() < 0.7:
            table = rng.normal(0, 0.8, domain.cards[list(pair)])
            factors.append(TableFactor(pair, table))
            log_p += table.reshape([n if v in pair else 1 for v, n in enumerate(domain.cards)])
    if domain.hidden.any():
        log_p = np.logaddexp.reduce(log_p, axis=-1)
    log_p -= np.logaddexp.reduce(log_p, axis=None)
    network, fine, chain = (
        MarkovNetwork(domain, factors=factors),
        random_fine(rng, domain.observed),
        None,
    )
    if rng.random() < 0.5:
        chain = random_chain(rng, domain.observed)
        mixed = np.logaddexp(
            np.log1p(-chain.share) + log_p, np.log(chain.share) + chain_table(chain)
        )
        log_p = mixed
    return Joint(network, fine, chain), log_p


def random_chain(rng, domain):
    """Conditionals of all columns in a random order."""
    order = rng.permutation(np.flatnonzero(domain.cards > 1))
    conditionals = [
        random_conditional(rng, domain, int(v), order[:k]) for k, v in enumerate(order.tolist())
    ]
    names = tuple(domain.names[v] for v in order)
    return ConditionalChain(domain, names, tuple(conditionals), float(rng.uniform(0.1, 0.9)))


def random_conditional(rng, domain, target, parents):
    """The conditional of a column given some others, with up to four trees."""
    nodes, values, roots = [], [], []
    for _ in range(int(rng.integers(0, 5))):
        roots.append(len(nodes))
        nodes.append(None)
        todo = [(roots[-1], 0)]
        while todo:
            place, depth = todo.pop()
            if not len(parents) or depth == 3 or rng.random() < 0.2:
                nodes[place] = (-1, 0, len(values))
                values.append(rng.integers(-300, 300, domain.cards[target]) / 256)
                continue
            column = int(rng.choice(parents))
            nodes[place] = (column, int(rng.integers(0, domain.cards[column])), len(nodes))
            todo += [(len(nodes) + k, depth + 1) for k in range(2)]
            nodes += [None, None]
    return BoostedConditional(
        rng.normal(0, 0.5, domain.cards[target]),
        np.concatenate([rng.permutation(n) for n in domain.cards.tolist()]),
        np.array(roots, np.int64),
        np.array(nodes, np.int64).reshape(-1, 3).T,
        np.array(values, np.float32).reshape(-1, domain.cards[target]),
    )


def sums_over_chain(joint, codes, v):
    """Whether so few columns are unknown beside one that a chain counts, if there is one."""
    unknown = np.delete(joint.domain.observed.cards, v)[np.delete(codes, v) < 0]
    return joint.chain is None or np.prod(unknown) <= 32


def chain_table(chain):
    """The log-probability of every joint state under a chain, tree by tree."""
    cards = chain.domain.cards.tolist()
    first = np.cumsum([0, *cards])
    table = np.zeros(cards)
    for name, conditional in zip(chain.names, chain.conditionals, strict=True):
        target = chain.domain.index(name)
        for states in itertools.product(*map(range, cards)):
            scores = conditional.start.copy()
            for node in conditional.roots.tolist():
                while (column := conditional.nodes[0, node]) >= 0:
                    rank = conditional.ranks[first[column] + states[column]]
                    threshold, below = conditional.nodes[1:, node]
                    node = below + (rank > threshold)
                scores = scores + conditional.values[conditional.nodes[2, node]]
            table[states] += scores[states[target]] - np.logaddexp.reduce(scores)
    return table


def random_fine(rng, domain):
    """Where the numbers of a domain lie within their states."""
    least = len(domain.numeric) if rng.random() < 0.7 else 1
    kept = int(rng.integers(least, len(domain.numeric) + 1))
    names = tuple(rng.permutation(domain.numeric)[:kept].tolist())
    classes, numbers = int(rng.integers(1, 4)), len(names)
    shape = classes, int(domain.cards.sum()), numbers
    roots = rng.normal(0, 0.6, (classes, numbers, numbers))
    return FineNumbers(
        domain,
        names,
        np.log(rng.dirichlet(np.full(classes, 2.0))),
        rng.normal(0, 2.0, shape[:2]) * rng.integers(0, 2),
        rng.normal(0, 0.4, (classes, numbers)),
        rng.normal(0, 0.6, shape),
        roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(numbers),
        _inside(rng, domain),
    )


def _inside(rng, domain):
    """How often numbers are inside their intervals, in logarithms; 0 for all other states."""
    logs = [
        np.where(v.numbers.intervals, -rng.random(len(v)), 0.0) if v.numbers else np.zeros(len(v))
        for v in domain
    ]
    return np.concatenate(logs)


def random_rows(rng, domain, count, missing=0):
    """Complete rows of values, or rows that lack some columns."""
    codes = np.stack([rng.integers(0, n, count) for n in domain.cards], axis=1)
    values = np.empty((count, len(domain.numeric)))
    for j, name in enumerate(domain.numeric):
        states = domain.numbers(name)
        values[:, j] = rng.integers(-1, 22, count)
        code = states.codes(values[:, j])
        values[:, j] = np.where(states.intervals[code], values[:, j], states.single[code])
        values[states.absent & (codes[:, domain.index(name)] == len(states) - 1), j] = np.nan
    for row in range(count):
        holes = rng.choice(len(domain), missing, replace=False)
        codes[row, holes] = -1
        for v in holes.tolist():
            if domain.names[v] in domain.numeric:
                values[row, domain.numeric.index(domain.names[v])] = np.nan
    return Table.of_values(domain, codes, values)
