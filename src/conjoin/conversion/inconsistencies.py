"""How far the conditionals of a dependency network disagree with each other.

Under a product distribution q, the log-potential g_i of each CPD splits into interactions, one for
each set B of variables (the Hoeffding decomposition). If the conditionals are consistent, the CPDs of
all members of B say the same of B; if not, the spread of what they say is the disagreement about B.
The average over all orders keeps the mean of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.conversion.base import Product, resolve_base
from conjoin.conversion.dn2mn import check_kind, check_positive, convert
from conjoin.conversion.expand import rows_by_length, seen_from_target
from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.row_hashing import code_numbers, group_equal
from conjoin.data.table import Codes, Table, code_dtype
from conjoin.errors import ModelError
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features, segment_index

MAX_WORK = 3_000_000
"""How many table entries may be looked at; sets of variables that would need more are left out."""
BLOCK = 1 << 21


@dataclass(frozen=True)
class Interaction:
    """What the CPDs of some variables say of their interaction.

    Attributes
    ----------
    variables : tuple of str
        The variables.
    disagreement : float
        How far the CPDs are from their mean, root mean square, in nats.
    opinions : dict
        The strength that each variable's CPD gives to the interaction, root mean square, in nats.
        The sign tells whether it points the way of the strongest opinion or the other.
    """

    variables: tuple[str, ...]
    disagreement: float
    opinions: dict[str, float]


@dataclass(frozen=True)
class Inconsistency:
    """How far the conditionals of a network disagree, in nats of log-odds.

    Attributes
    ----------
    total : float
        The root mean square of `by_variable`: 0, to rounding, if the network is consistent.
    by_variable : dict
        For each variable, how far its CPD is from what all CPDs say on average.
    interactions : list of Interaction
        Those that CPDs disagree about, most contested first.
    max_size : int
        Interactions of up to this many variables were looked at one by one.
    complete : bool
        Whether there are no larger ones. If there are, `total` and `by_variable` count them too, but are
        estimated on random rows.
    """

    total: float
    by_variable: dict[str, float]
    interactions: list[Interaction]
    max_size: int
    complete: bool

    def __str__(self) -> str:
        scope = (
            "" if self.complete else f", listed: interactions of up to {self.max_size} variables"
        )
        lines = [f"inconsistency {self.total:.4g} nats (root mean square over variables{scope})"]
        for item in self.interactions[:10]:
            said = ", ".join(f"{name} says {value:+.3g}" for name, value in item.opinions.items())
            lines.append(f"  {item.disagreement:.4g}  {' × '.join(item.variables)}: {said}")
        if len(self.interactions) > 10:
            lines.append(f"  ... and {len(self.interactions) - 10:,} more")
        return "\n".join(lines)


def inconsistency(
    dn: DependencyNetwork,
    table: Table | None = None,
    *,
    base: Any = None,
    max_size: int | None = None,
    rows: int = 2048,
    random_state: int | np.random.Generator = 0,
) -> Inconsistency:
    """Measure how far the conditionals of a network disagree, and about what.

    Parameters
    ----------
    dn : DependencyNetwork
        Its CPDs must be positive.
    table : Table, optional
        Its marginals are the distribution that the spread is measured under.
    base : None, 'marginals', 'uniform', mapping
        That distribution, as for `convert`; it must be a product of marginals.
    max_size : int, optional
        List interactions of up to this many variables. By default all, or as many as a bounded
        amount of work allows; if that is not all, the totals are estimated on random rows.
    rows : int
        How many such rows.
    random_state : int or numpy Generator
        Draws those rows.

    Returns
    -------
    Inconsistency

    Examples
    --------
    The paper's second example: the two conditionals contest one pair.

    >>> from conjoin import DependencyNetwork, Domain, TableCPD
    >>> domain = Domain({"x1": ["F", "T"], "x2": ["F", "T"]})
    >>> dn = DependencyNetwork(domain, [
    ...     TableCPD.of(domain, "x1", ["x2"], {"T": 4 / 5, "F": 1 / 5}),
    ...     TableCPD.of(domain, "x2", ["x1"], {"T": 1 / 5, "F": 4 / 5}),
    ... ])
    >>> print(inconsistency(dn))
    inconsistency 0.6931 nats (root mean square over variables)
      0.6931  x1 × x2: x1 says +0.693, x2 says -0.693
    """
    check_kind(dn)
    distribution, _ = resolve_base(dn.domain, base, table)
    if not isinstance(distribution, Product):
        raise ModelError("inconsistency needs a product of marginals as its base, not instances")
    if any((marginal <= 0).any() for marginal in distribution.marginals):
        raise ModelError("inconsistency needs a base under which every state is possible")
    features, owner = dn.features()
    check_positive(dn, features, owner)
    longest = int(features.lengths.max(initial=1))
    if max_size is None:
        max_size = _affordable(features, owner, longest)
    elif max_size < 2:
        raise ModelError(f"max_size must be 2 or more, not {max_size}")
    if rows < 1:
        raise ModelError(f"rows must be 1 or more, not {rows}")
    q = distribution.bind(features.tests).probability()
    spread = np.zeros(len(dn.domain))
    found: list[tuple[float, IntArray, FloatArray]] = []
    for size in range(2, min(max_size, longest) + 1):
        for group in _by_interaction(features, owner, q, size):
            _compare(group, features, q, distribution.marginals, spread, found)
    complete = max_size >= longest
    if not complete:
        spread = _spread_of_rows(dn, distribution, rows, random_state)
    interactions = [
        Interaction(
            tuple(dn.domain.names[v] for v in variables),
            value,
            {dn.domain.names[v]: float(o) for v, o in zip(variables, opinions, strict=True)},
        )
        for value, variables, opinions in sorted(found, key=lambda item: -item[0])
    ]
    return Inconsistency(
        float(np.sqrt(spread.mean())) if len(spread) else 0.0,
        dict(zip(dn.domain.names, np.sqrt(spread).tolist(), strict=True)),
        interactions,
        max_size,
        complete,
    )


def _spread_of_rows(
    dn: DependencyNetwork, base: Product, rows: int, random_state: int | np.random.Generator
) -> FloatArray:
    """Return the squared distance of each CPD from the mean of all, without looking at interactions.

    The mean of all is the average over all orders. What it says of X_i is compared with X_i's CPD on
    rows of independent variables; of each, the mean over X_i's own states is taken away.
    """
    rng = np.random.default_rng(random_state)
    drawn = [rng.choice(len(q), rows, p=q) for q in base.marginals]
    codes: Codes = np.stack(drawn, axis=1).astype(code_dtype(dn.domain.cards))
    mean = convert(dn, base=base, orders="all", max_length=2).features
    spread = np.zeros(len(dn.domain))
    for i, q in enumerate(base.marginals):
        difference = dn.cpds[i].log_probabilities(codes) - mean.logits(i, codes)
        difference -= (difference @ q)[:, None]
        spread[i] = ((difference**2) @ q).mean()
    return spread


def _affordable(features: Features, owner: IntArray, longest: int) -> int:
    """Return the largest size of interactions that can all be looked at."""
    work = np.zeros(longest + 1)
    for rows, targets, _ in rows_by_length(features, owner):
        # Elementary symmetric sums of the numbers of states: the cells of all sets of each size.
        var = features.tests.var[rows]
        states = np.where(var == targets[:, None], 0, features.tests.cards[var]).astype(float)
        sums = np.zeros((rows.shape[1] + 1, len(rows)))
        sums[1] = features.tests.cards[targets]
        for column in states.T:
            sums[2:] += sums[1:-1] * column
        work[: len(sums)] += sums.sum(axis=1)
    affordable = np.flatnonzero(np.cumsum(work[2:]) <= MAX_WORK)
    return max(2, len(affordable) + 1)


@dataclass(frozen=True, eq=False)
class _Terms:
    """Parts of features on sets of variables of one size, sorted by set."""

    tests: npt.NDArray[np.int32]
    owner: IntArray
    weight: FloatArray
    starts: IntArray


def _by_interaction(
    features: Features, owner: IntArray, q: FloatArray, size: int
) -> Iterator[_Terms]:
    """Yield the parts of all features on sets of `size` variables, in blocks of whole sets."""
    natural = np.arange(len(features.tests.cards))[None]
    tests, owners, weights = [], [], []
    for rows, targets, weight in rows_by_length(features, owner):
        k = rows.shape[1]
        if k < size:
            continue
        _, rows = seen_from_target(rows, targets, features.tests.var, natural)
        for others in combinations(range(1, k), size - 1):
            removed = [j for j in range(1, k) if j not in others]
            tests.append(np.sort(rows[:, [0, *others]], axis=1))
            owners.append(targets)
            weights.append(weight * q[rows[:, removed]].prod(axis=1))
    if not tests:
        return
    all_tests = np.concatenate(tests)
    var = features.tests.var[all_tests]
    keys = [code[var].sum(axis=1, dtype=np.uint64) for code in code_numbers(natural.size)]
    order, starts, _ = group_equal(keys[0], keys[1])
    all_tests, all_owners = all_tests[order], np.concatenate(owners)[order]
    all_weights = np.concatenate(weights)[order]
    ends = np.append(starts[1:], len(order))
    entries = np.cumsum((ends - starts) * features.tests.cards[var[order][starts]].prod(axis=1))
    block = entries // BLOCK
    for number in np.unique(block):
        which = np.flatnonzero(block == number)
        part = slice(starts[which[0]], ends[which[-1]])
        yield _Terms(
            all_tests[part],
            all_owners[part],
            all_weights[part],
            np.append(starts[which], part.stop) - part.start,
        )


def _compare(
    terms: _Terms,
    features: Features,
    q: FloatArray,
    marginals: list[FloatArray],
    spread: FloatArray,
    found: list[tuple[float, IntArray, FloatArray]],
) -> None:
    """Add each set's disagreement to its variables, and list the sets that are contested."""
    vocabulary = features.tests
    centred = vocabulary.members() - q[:, None]
    width = int(vocabulary.cards.max(initial=1))
    p = np.zeros((len(marginals), width))
    for i, marginal in enumerate(marginals):
        p[i, : len(marginal)] = marginal
    sets = vocabulary.var[terms.tests[terms.starts[:-1]]].astype(np.int64)
    cells = vocabulary.cards[sets].prod(axis=1)
    n_sets, size = sets.shape
    set_of = np.repeat(np.arange(n_sets), np.diff(terms.starts))
    member = (sets[set_of] == terms.owner[:, None]).argmax(axis=1)

    # One table a set and a member: what that member's CPD says of each joint state of the set.
    first = np.cumsum(cells) - cells
    total = int(cells.sum())
    row = np.repeat(np.arange(len(set_of)), cells[set_of])
    cell = segment_index(np.zeros(len(set_of), np.int64), cells[set_of])
    value = terms.weight[row]
    stride = np.ones((n_sets, size), np.int64)
    for axis in range(size - 2, -1, -1):
        stride[:, axis] = stride[:, axis + 1] * vocabulary.cards[sets[:, axis + 1]]
    for axis in range(size):
        state = cell // stride[set_of, axis][row] % vocabulary.cards[sets[:, axis]][set_of][row]
        value = value * centred[terms.tests[row, axis], state]
    index = member[row] * total + first[set_of][row] + cell
    said = np.bincount(index, value, minlength=size * total).reshape(size, total)
    scale = np.bincount(index, np.abs(value), minlength=size * total).reshape(size, total)

    set_of_cell = np.repeat(np.arange(n_sets), cells)
    at = segment_index(np.zeros(n_sets, np.int64), cells)
    probability = np.ones(total)
    for axis in range(size):
        state = at // stride[set_of_cell, axis] % vocabulary.cards[sets[:, axis]][set_of_cell]
        probability *= p[sets[set_of_cell, axis], state]
    difference = said - said.mean(axis=0)
    # Differences within rounding of what was added up are none.
    difference[np.abs(difference) <= 1e-13 * scale.max(axis=0)] = 0.0
    squares = np.add.reduceat(difference**2 * probability, first, axis=1)
    np.add.at(spread, sets.T, squares)

    contested = np.flatnonzero(squares.sum(axis=0))
    strength = np.add.reduceat(said**2 * probability, first, axis=1)
    loudest = strength.argmax(axis=0)
    direction = said[loudest[set_of_cell], np.arange(total)]
    toward = np.add.reduceat(said * direction * probability, first, axis=1)
    opinion = np.where(toward < 0, -1, 1) * np.sqrt(strength)
    for s in contested.tolist():
        value_s = float(np.sqrt(squares[:, s].mean()))
        found.append((value_s, sets[s], opinion[:, s]))
