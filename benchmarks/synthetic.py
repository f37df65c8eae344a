"""Random networks of a given size, for benchmarks."""

from __future__ import annotations

import numpy as np

from conjoin import DependencyNetwork, Domain, Table, TreeCPD
from conjoin.models.tree import Tree


def random_tree(
    rng: np.random.Generator, cards: np.ndarray, target: int, leaves: int, depth: int
) -> Tree:
    """Grow a random tree with about the given number of leaves and at most the given depth."""
    others = np.delete(np.arange(len(cards)), target)
    splits: dict[tuple[int, ...], int] = {}
    frontier: list[tuple[int, ...]] = [()]
    used: dict[tuple[int, ...], frozenset[int]] = {(): frozenset()}
    while len(frontier) < leaves and frontier:
        path = frontier.pop(int(rng.integers(len(frontier))))
        if len(path) >= depth:
            frontier.append(path)
            if all(len(p) >= depth for p in frontier):
                break
            continue
        free = [v for v in rng.choice(others, depth + 1, replace=False) if v not in used[path]]
        variable = int(free[0])
        splits[path] = variable
        for branch in range(2):
            frontier.append((*path, branch))
            used[(*path, branch)] = used[path] | {variable}

    def visit(path: tuple[int, ...]) -> object:
        if path not in splits:
            p = rng.dirichlet(np.full(cards[target], 2.0))
            return np.log(p)
        variable = splits[path]
        first = int(rng.integers(cards[variable]))
        return variable, [(*path, int(s != first)) for s in range(cards[variable])]

    return Tree.grow((), visit)


def random_network(
    n_variables: int, leaves_a_tree: int, depth: int = 10, card: int = 2, seed: int = 0
) -> DependencyNetwork:
    """Return a dependency network of random trees."""
    rng = np.random.default_rng(seed)
    domain = Domain.numbered([card] * n_variables)
    return DependencyNetwork(
        domain,
        [
            TreeCPD(domain.cards, i, random_tree(rng, domain.cards, i, leaves_a_tree, depth))
            for i in range(n_variables)
        ],
    )


def random_table(domain: Domain, rows: int, seed: int = 0) -> Table:
    """Return a table of independent columns with random marginals."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(card, rows, p=rng.dirichlet(np.full(card, 2.0))) for card in domain.cards]
    return Table(domain, np.stack(columns, axis=1))
