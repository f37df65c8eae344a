"""Random domains, networks and options for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from conjoin import BayesianNetwork, DependencyNetwork, Domain, Features, MarkovNetwork, TableCPD
from conjoin.models import (
    BoostedTreesCPD,
    LogLinearCPD,
    RuleCPD,
    TableFactor,
    Tree,
    TreeCPD,
)

seeds = st.integers(0, 2**32 - 1)


@st.composite
def generators(draw):
    return np.random.default_rng(draw(seeds))


def random_domain(rng, low=2, high=4, max_card=3):
    n = int(rng.integers(low, high + 1))
    cards = np.where(rng.random(n) < 0.08, 1, rng.integers(2, max_card + 1, n))
    return Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})


def random_states(rng, card):
    """A set of states that is neither empty nor, if there are several, full."""
    if card == 1:
        return {0}
    size = int(rng.integers(1, card))
    return set(rng.choice(card, size, replace=False).tolist())


def random_features(rng, domain, count=6, must=None):
    terms = []
    for _ in range(int(rng.integers(1, count + 1))):
        scope = [i for i in range(len(domain)) if rng.random() < 0.6]
        if must is not None and must not in scope:
            scope.append(must)
        when = {
            domain.names[i]: {
                domain.variables[i].states[s] for s in random_states(rng, len(domain.variables[i]))
            }
            for i in scope
        }
        terms.append((float(rng.normal()), when))
    return Features.from_terms(domain, terms)


def random_tree(rng, cards, variables, leaf, depth=3):
    """A tree that may test a variable twice on a path, with splits of two or more ways."""

    def visit(token):
        level = token.count("/")
        if level >= depth or not len(variables) or rng.random() < 0.25:
            return leaf()
        v = int(rng.choice(variables))
        ways = rng.integers(0, rng.integers(1, cards[v] + 1), cards[v])
        return v, [f"{token}/{way}" for way in ways]

    return Tree.grow("", visit)


def random_markov_network(rng, domain=None):
    domain = random_domain(rng) if domain is None else domain
    cards, everyone = domain.cards, np.arange(len(domain))
    factors = [
        random_tree(rng, cards, everyone, rng.normal),
    ]
    scope = tuple(rng.permutation(everyone)[: int(rng.integers(1, len(domain) + 1))].tolist())
    factors.append(TableFactor(scope, rng.normal(size=[cards[v] for v in scope])))
    return MarkovNetwork(domain, random_features(rng, domain), factors)


CPD_KINDS = ("table", "tree", "boosted", "rules", "loglinear")


def logistic_cpd(domain, target, bias, weights):
    """Logistic regression of binary variables, by position: logit P(1) = bias + sum w_j x_j."""
    name = domain.names[target]
    terms = [(w, {name: 1, domain.names[j]: 1}) for j, w in weights.items()]
    return LogLinearCPD.of(domain, name, [(bias, {name: 1}), *terms])


def random_cpd(rng, domain, target, kind):
    cards = domain.cards
    others = np.array([i for i in range(len(domain)) if i != target], np.int64)
    card = int(cards[target])

    def log_p():
        return np.log(rng.dirichlet(np.full(card, 2.0)))

    if kind == "table":
        parents = rng.permutation(others)[: int(rng.integers(0, min(3, len(others)) + 1))]
        shape = [*cards[parents].tolist(), card]
        table = np.log(rng.dirichlet(np.full(card, 2.0), size=int(np.prod(shape[:-1]))))
        return TableCPD(cards, target, parents, table.reshape(shape))
    if kind == "tree":
        return TreeCPD(cards, target, random_tree(rng, cards, others, log_p))
    if kind == "boosted":
        trees = [random_tree(rng, cards, others, lambda: rng.normal(size=card)) for _ in range(3)]
        return BoostedTreesCPD(cards, target, trees)
    if kind == "rules":
        rules = []
        for _ in range(int(rng.integers(0, 4))):
            scope = [i for i in others if rng.random() < 0.6]
            if scope:
                rules.append(({int(i): random_states(rng, cards[i]) for i in scope}, log_p()))
        return RuleCPD(cards, target, [*rules, ({}, log_p())])
    return LogLinearCPD(target, random_features(rng, domain, must=target))


def random_dependency_network(rng, domain=None, kinds=CPD_KINDS):
    domain = random_domain(rng) if domain is None else domain
    return DependencyNetwork(
        domain,
        [random_cpd(rng, domain, i, str(rng.choice(kinds))) for i in range(len(domain))],
    )


def random_bayesian_network(rng, domain=None):
    domain = random_domain(rng) if domain is None else domain
    order = rng.permutation(len(domain))
    cpds = []
    for place, target in enumerate(order.tolist()):
        parents = [int(p) for p in order[:place] if rng.random() < 0.6]
        shape = [*(int(domain.cards[p]) for p in parents), int(domain.cards[target])]
        rows = rng.dirichlet(np.full(shape[-1], 2.0), size=int(np.prod(shape[:-1])))
        cpds.append(TableCPD(domain.cards, target, parents, np.log(rows).reshape(shape)))
    return BayesianNetwork(domain, cpds)


def random_marginals(rng, domain):
    return [rng.dirichlet(np.ones(c)) for c in domain.cards]
