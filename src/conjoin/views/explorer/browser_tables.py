"""A network as the browser reads it: a junction tree, and tables of log-values for its cliques.

Hidden columns are not variables of the tree. The joint states of all hidden columns are *lanes*: every
table of the browser has one value per lane, side by side. The tables themselves are stored compactly:
one that is the same in all lanes has no lanes, and the log-values of a learned hidden column are nearly
all of low rank. Given the lane, each state of each column has a value of its own; what remains of a table
after these are taken out is the product of a few numbers per cell and a basis that all tables share. The
browser multiplies them out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.inference.compilation import compiled, refusal
from conjoin.inference.plan import Plan
from conjoin.models.network import Network

TOLERANCE = 1e-13
"""Maximum error of a log-value, relative to the largest one; rounding alone is not much less."""

MAX_CELLS = 1 << 22
"""Maximum number of cells of all tables, lanes included, that a browser can update while one waits."""


@dataclass(frozen=True, eq=False)
class LaneTable:
    """A table of log-values over some variables."""

    variables: tuple[int, ...]  # the variables, in the order of the axes
    # The log-values. With lanes, the last axis is the lane or, with low rank, a row of the basis
    values: FloatArray
    has_lanes: bool  # whether the values differ between lanes
    clique: int = -1  # the clique it belongs to, -1 if it has no variables
    low_rank: bool = False  # whether the last axis is to be multiplied by the basis


def compact(tables: list[LaneTable], lanes: int) -> tuple[list[LaneTable], FloatArray]:
    """Return the same log-potential in less space, and the basis; if that fails, the tables as given.

    Tables with impossible cells stay as they are.
    """
    empty = np.zeros((0, lanes))
    wide = [t for t in tables if t.has_lanes and np.isfinite(t.values).all()]
    if not wide or lanes < 8:
        return tables, empty
    alone, rest = _without_single_states(wide)
    matrix = np.concatenate([t.values.reshape(-1, lanes) for t in rest] or [empty])
    basis = _row_space(matrix)
    size = sum(t.values.size for t in alone) + len(matrix) * len(basis) + basis.size
    if size >= sum(t.values.size for t in wide):
        return tables, empty
    small = [replace(t, values=t.values @ basis.T, low_rank=True) for t in rest]
    return [t for t in tables if t not in wide] + alone + small, basis


def _without_single_states(
    tables: list[LaneTable],
) -> tuple[list[LaneTable], list[LaneTable]]:
    """Split tables into the differences that single states make to the first cell, and the rest."""
    alone: dict[tuple[int, ...], LaneTable] = {}
    rest = []

    def add(table: LaneTable, variables: tuple[int, ...], values: FloatArray) -> None:
        known = alone.get(variables)
        clique = table.clique if variables else -1
        total = values if known is None else known.values + values
        alone[variables] = LaneTable(
            variables, total, True, clique if known is None else known.clique
        )

    for table in tables:
        values = table.values
        axes = values.ndim - 1
        origin = values[(0,) * axes]
        add(table, (), origin)
        left = values - origin
        for axis, v in enumerate(table.variables):
            line = values[tuple(slice(None) if a == axis else 0 for a in range(axes))] - origin
            add(table, (v,), line)
            left = left - line.reshape(
                [-1 if a == axis else 1 for a in range(axes)] + [len(origin)]
            )
        if axes > 1:
            rest.append(replace(table, values=left))
    return list(alone.values()), rest


def _row_space(matrix: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the rows of a matrix, found from random combinations of them."""
    lanes = matrix.shape[1]
    largest = float(np.abs(matrix).max(initial=0.0))
    rng = np.random.default_rng(0)
    count = 16
    while largest > 0:
        mixed = rng.normal(size=(min(count, len(matrix)), len(matrix))) @ matrix
        _, singular, basis = np.linalg.svd(mixed, full_matrices=False)
        basis = basis[singular > 1e-14 * singular[0]]
        if np.abs(matrix - (matrix @ basis.T) @ basis).max() <= TOLERANCE * largest:
            return basis
        if count >= min(lanes, len(matrix)):
            break
        count *= 2
    return np.zeros((0, lanes)) if largest == 0 else np.eye(lanes)


@dataclass(frozen=True, eq=False)
class BrowserTree:
    """A junction tree with its log-values."""

    sizes: list[int]  # the number of states of each variable of the tree
    places: list[int]  # the variable of each visible column, -1 for a column with a single state
    # The variables of each clique, those it shares with its parent last; children come first.
    cliques: list[list[int]]
    shared: list[int]  # how many variables each clique shares with its parent
    parents: list[int]  # the parent of each clique, -1 for roots
    lanes: int  # the number of joint states of the hidden columns
    tables: list[LaneTable]  # the log-values; their sum is the log-potential
    basis: FloatArray  # what tables of low rank are multiplied by


def browser_tree(model: Network, max_cells: int = MAX_CELLS) -> BrowserTree:
    """Return the junction tree of a network; `TooLarge` is raised if it needs more cells."""
    ready = compiled(model)
    domain = ready.domain
    hidden = np.flatnonzero(domain.hidden)
    lanes = int(domain.cards[hidden].prod())
    plan = ready.plan(tuple(hidden.tolist()), 8 * max_cells / lanes)
    tree = plan.tree
    if plan.cells * lanes > max_cells:
        raise refusal(8.0 * plan.cells * lanes, None, 8.0 * max_cells)
    first = tree.first.tolist()
    cliques = [tree.var[low:high].tolist() for low, high in pairwise(first)]
    home = tree.clique_of.tolist()
    shared = [sum(home[v] != c for v in clique) for c, clique in enumerate(cliques)]
    parts = _per_scope(plan, domain.cards, hidden.tolist(), lanes)
    tables, basis = compact(_per_clique(parts, cliques, home, tree.size.tolist()), lanes)
    places = [max(-1, int(plan.place[v])) for v in range(len(domain.observed))]
    return BrowserTree(
        tree.size.tolist(), places, cliques, shared, tree.parent.tolist(), lanes, tables, basis
    )


def _terms(plan: Plan, cards: list[int]) -> Iterator[tuple[list[int], FloatArray]]:
    """Yield the variables and the log-values of each term of a plan."""
    terms = plan.terms
    first, var, arg = terms.first.tolist(), terms.var.tolist(), terms.arg.tolist()
    n_tables = len(terms.bases)
    for t, (low, high) in enumerate(pairwise(first)):
        scope = var[low:high]
        shape = [cards[v] for v in scope]
        if t < n_tables:
            base = int(terms.bases[t])
            size = int(np.prod(shape, dtype=np.int64))
            yield scope, terms.values[base : base + size].reshape(shape)
            continue
        holds = np.ones(())
        for v, start in zip(scope, arg[low:high], strict=True):
            holds = np.multiply.outer(holds, terms.numbers[start : start + cards[v]])
        weight = float(terms.weights[t - n_tables])
        yield scope, np.multiply(weight, holds, out=np.zeros_like(holds), where=holds != 0)


def _per_scope(
    plan: Plan, domain_cards: IntArray, hidden: list[int], lanes: int
) -> list[LaneTable]:
    """Return one table per set of variables: the sum of its terms, with lanes if one has them."""
    place = plan.place.tolist()
    size = plan.tree.size.tolist()
    cards = [size[p] if p >= 0 else int(domain_cards[v]) for v, p in enumerate(place)]
    lane_shape = [cards[v] for v in hidden]
    sums: dict[tuple[tuple[int, ...], bool], FloatArray] = {}
    for scope, values in _terms(plan, cards):
        fixed = [v for v in scope if place[v] < 0 and v not in hidden]
        values = values[tuple(0 if v in fixed else slice(None) for v in scope)]
        left = [v for v in scope if v not in fixed]
        shown = sorted((v for v in left if place[v] >= 0), key=lambda v: place[v])
        within = any(v in hidden for v in left)
        if within:
            absent = [v for v in hidden if v not in left]
            values = values.reshape(*values.shape, *[1] * len(absent))
            left = [*left, *absent]
        values = values.transpose([left.index(v) for v in [*shown, *(hidden if within else [])]])
        shape = [cards[v] for v in shown]
        if within:
            values = np.broadcast_to(values, [*shape, *lane_shape]).reshape(*shape, lanes)
        key = tuple(place[v] for v in shown), within
        sums[key] = sums[key] + values if key in sums else np.array(values)
    return [LaneTable(scope, values, within) for (scope, within), values in sums.items()]


def _per_clique(
    tables: list[LaneTable], cliques: list[list[int]], home: list[int], sizes: list[int]
) -> list[LaneTable]:
    """Name the clique of each table; where tables without lanes fill a clique, they become one."""
    at: dict[int, list[LaneTable]] = {}
    result = []
    for table in tables:
        clique = min((home[v] for v in table.variables), default=-1)
        if clique < 0 or table.has_lanes:
            result.append(replace(table, clique=clique))
        else:
            at.setdefault(clique, []).append(replace(table, clique=clique))
    for clique, group in at.items():
        scope = tuple(cliques[clique])
        shape = [sizes[v] for v in scope]
        if sum(t.values.size for t in group) <= np.prod(shape, dtype=float):
            result += group
            continue
        whole = np.zeros(shape)
        for t in group:
            order = sorted(range(len(t.variables)), key=lambda i: scope.index(t.variables[i]))
            spread = [sizes[v] if v in t.variables else 1 for v in scope]
            whole = whole + t.values.transpose(order).reshape(spread)
        result.append(LaneTable(scope, whole, False, clique))
    return result
