"""Random networks and tables of a given size, for benchmarks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from conjoin import BayesianNetwork, DependencyNetwork, Domain, Table, TableCPD
from conjoin.models import TreeCPD
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


def mixed_frame(
    rows: int, numbers: int, categories: int, seed: int = 0, rows_seed: int | None = None
) -> pd.DataFrame:
    """Return a frame of numbers and categories that depend on three hidden numbers.

    Numbers are skewed or not, and have two decimals; categories have 2 to 12 states, which a noisy number
    is cut into. Frames with the same `seed` and different seeds of the rows have the same distribution.
    """
    fixed = np.random.default_rng(seed)
    rng = fixed if rows_seed is None else np.random.default_rng([1, rows_seed])
    hidden = rng.normal(size=(rows, 3))
    signals = hidden @ fixed.normal(size=(3, numbers + categories))
    signals += 0.5 * np.sin(2 * hidden[:, [0]]) + rng.normal(size=signals.shape)
    columns = {}
    for i in range(numbers):
        values = 10 * signals[:, i] if i % 2 else 20 * np.exp(0.5 * signals[:, i])
        columns[f"number {i}"] = values.round(2)
    for i in range(categories):
        ends = np.quantile(signals[:, numbers + i], np.sort(fixed.random(fixed.integers(1, 12))))
        at = np.searchsorted(ends, signals[:, numbers + i])
        columns[f"category {i}"] = np.array([f"state {k}" for k in range(len(ends) + 1)])[at]
    return pd.DataFrame(columns)


def shop_frame(rows: int, seed: int = 0, missing: float = 0.03) -> pd.DataFrame:
    """Return the orders of a shop, in which relations between columns always hold.

    A city is in one region, and a product in one category. The total is price times quantity, and also
    subtotal plus tax. Customers sign up before they are last seen. `missing`: the share of empty cells.
    """
    rng = np.random.default_rng(seed)
    city = np.minimum(rng.geometric(0.12, rows) - 1, 23)
    product = np.minimum(rng.geometric(0.06, rows) - 1, 39)
    category = product * 7 % 6
    list_price = np.exp(np.random.default_rng(1).normal(3.0, 0.8, 40))
    price = (list_price[product] * rng.choice([1.0, 0.9, 0.75], rows, p=[0.6, 0.3, 0.1])).round(2)
    quantity = 1 + rng.poisson(np.where(price < 20, 3.0, 0.7))
    total = (price * quantity).round(2)
    tax = (total * np.where(category < 2, 0.07, 0.19)).round(2)
    signup = np.datetime64("2018-01-01") + rng.integers(0, 2000, rows)
    last_seen = signup + rng.exponential(250, rows).astype(np.int64)
    frame = pd.DataFrame(
        {
            "city": np.array([f"city {k:02}" for k in range(24)])[city],
            "region": np.array(["north", "south", "east", "west", "centre"])[city * 3 % 5],
            "product": np.array([f"product {k:02}" for k in range(40)])[product],
            "category": np.array([f"category {k}" for k in range(6)])[category],
            "price": price,
            "quantity": quantity,
            "subtotal": (total - tax).round(2),
            "tax": tax,
            "total": total,
            "signup": signup,
            "last_seen": last_seen,
            "rating": np.clip(rng.poisson(3.2, rows), 1, 5),
        }
    )
    return frame.mask(rng.random(frame.shape) < missing)


def random_bayesian_network(
    columns: int, *, max_parents: int = 3, reach: int = 12, seed: int = 0
) -> BayesianNetwork:
    """Return a sparse network of columns with 2 to 4 states.

    The parents of a column are among the few before it, so that exact inference is quick. Distributions
    differ more from each other the fewer parents there are.
    """
    rng = np.random.default_rng(seed)
    cards = rng.choice([2, 3, 4], columns, p=[0.6, 0.25, 0.15])
    domain = Domain.numbered(cards.tolist())
    cpds = []
    for i in range(columns):
        near = np.arange(max(0, i - reach), i)
        count = min(len(near), int(rng.choice(max_parents + 1, p=_falling(max_parents))))
        parents = sorted(rng.choice(near, count, replace=False).tolist())
        sharp = rng.uniform(0.3, 1.5)
        table = np.maximum(rng.dirichlet(np.full(cards[i], sharp), tuple(cards[parents])), 1e-4)
        cpds.append(TableCPD(cards, i, parents, np.log(table / table.sum(axis=-1, keepdims=True))))
    return BayesianNetwork(domain, cpds)


def _falling(max_parents: int) -> np.ndarray:
    """The probability of 0, 1, 2 ... parents."""
    share = np.array([0.15, 0.45, 0.3, 0.1, 0.05, 0.02])[: max_parents + 1]
    return share / share.sum()
