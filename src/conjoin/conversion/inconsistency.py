"""How far the conditionals of a dependency network disagree with each other.

The log-potential of each CPD is a sum of interactions, one for each set of variables (see
`decomposition`). If the conditionals are consistent, the CPDs of all members of a set have the same
interaction; if not, the spread of these interactions is the disagreement about the set. The average over
all orders keeps their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.conversion.base_distribution import Product, resolve_base
from conjoin.conversion.closed_form import check_kind, check_positive, convert
from conjoin.conversion.decomposition import InteractionTables, decompose
from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown
from conjoin.data.table import Codes, code_dtype
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import conditionals_of

MAX_WORK = 3_000_000
"""Default of the maximum number of table entries to compute."""


@dataclass(frozen=True)
class Interaction:
    """An interaction of some variables about which their CPDs disagree, in nats."""

    variables: tuple[str, ...]
    disagreement: float  # the distance of the CPDs from their mean, root mean square
    # The root mean square of the interaction in each variable's CPD, negative if it points away from
    # the strongest one.
    opinions: dict[str, float]


@dataclass(frozen=True)
class Inconsistency:
    """How far the conditionals of a network disagree, in nats of log-odds.

    Attributes
    ----------
    total : float
        The root mean square of `by_variable`: 0, to rounding, if the network is consistent.
    by_variable : dict
        For each variable, the distance of its CPD from the mean of all CPDs.
    interactions : list of Interaction
        The interactions about which CPDs disagree, most contested first.
    max_size : int
        The largest number of variables of an interaction that was computed.
    complete : bool
        Whether there are no larger ones. If not, `total` and `by_variable` are estimated on random rows.
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
            said = ", ".join(
                f"{shown(name)} says {value:+.3g}" for name, value in item.opinions.items()
            )
            lines.append(
                f"  {item.disagreement:.4g}  {' × '.join(map(shown, item.variables))}: {said}"
            )
        if len(self.interactions) > 10:
            lines.append(f"  ... and {len(self.interactions) - 10:,} more")
        return "\n".join(lines)


@names_lack_of_memory
def inconsistency(
    dn: DependencyNetwork,
    table: Any = None,
    *,
    base: Any = None,
    max_size: int | None = None,
    max_work: int = MAX_WORK,
    rows: int = 2048,
    random_state: int | np.random.Generator = 0,
) -> Inconsistency:
    """Measure how far the conditionals of a network disagree, and about which interactions.

    Parameters
    ----------
    dn : DependencyNetwork
        Its CPDs must be positive.
    table : Table, 2-dimensional array, or frame, optional
        Data whose marginals are the distribution under which the disagreement is measured.
    base : None, 'marginals', 'uniform', mapping
        That distribution, as for `convert`; it must be a product of marginals.
    max_size : int, optional
        The largest number of variables of interactions to list. By default as large as `max_work`
        allows. If there are larger interactions, the totals are estimated on random rows.
    max_work : int
        The maximum number of table entries to compute if `max_size` is not given.
    rows, random_state : int, int or numpy Generator
        The number of random rows, and what draws them.

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
    dn = conditionals_of(dn)
    check_kind(dn)
    distribution, _ = resolve_base(dn.domain, base, table)
    if not isinstance(distribution, Product):
        raise ModelError("inconsistency needs a product of marginals as its base, not instances")
    if any((marginal <= 0).any() for marginal in distribution.marginals):
        raise ModelError("inconsistency needs a base under which every state is possible")
    if max_size is not None and max_size < 2:
        raise ModelError(f"max_size must be 2 or more, not {max_size}")
    if rows < 1:
        raise ModelError(f"rows must be 1 or more, not {rows}")
    form = dn.form
    check_positive(dn)
    longest = int(form.features.lengths.max(initial=1))
    if max_size is None:
        max_size = _affordable_size(dn, longest, max_work)
    spread = np.zeros(len(dn.domain))
    contested: list[Interaction] = []
    for size in range(2, min(max_size, longest) + 1):
        for tables in decompose(form, distribution.marginals, size):
            contested += _compare(tables, dn.domain.names, spread)
    complete = max_size >= longest
    if not complete:
        spread = _spread_of_rows(dn, distribution, rows, random_state)
    return Inconsistency(
        float(np.sqrt(spread.mean())) if len(spread) else 0.0,
        dict(zip(dn.domain.names, np.sqrt(spread).tolist(), strict=True)),
        sorted(contested, key=lambda item: (-item.disagreement, item.variables)),
        max_size,
        complete,
    )


def _spread_of_rows(
    dn: DependencyNetwork, base: Product, rows: int, random_state: int | np.random.Generator
) -> FloatArray:
    """Estimate the squared distance of each CPD from the mean of all, the average over all orders.

    Their log-odds, less the mean over the states, are compared on rows of independent variables.
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


def _affordable_size(dn: DependencyNetwork, longest: int, max_work: int) -> int:
    """Return the largest size up to which all interactions can be computed."""
    features, owner = dn.form.features, dn.form.owner
    assert owner is not None
    work = np.zeros(longest + 1)
    for rows, entry in features.by_length():
        # Elementary symmetric sums of the numbers of states: the cells of all sets of each size.
        var, targets = features.entry_var[entry], owner[rows]
        states = np.where(var == targets[:, None], 0, features.tests.cards[var]).astype(float)
        sums = np.zeros((entry.shape[1] + 1, len(rows)))
        sums[1] = features.tests.cards[targets]
        for column in states.T:
            sums[2:] += sums[1:-1] * column
        work[: len(sums)] += sums.sum(axis=1)
    affordable = np.flatnonzero(np.cumsum(work[2:]) <= max_work)
    return max(2, len(affordable) + 1)


def _compare(
    tables: InteractionTables, names: tuple[str, ...], spread: FloatArray
) -> list[Interaction]:
    """Add the disagreement about each set to its variables, and return the contested interactions."""
    values, sets = tables.values, tables.sets
    difference = values - values.mean(axis=0)
    rounding = 1e-13 * tables.magnitude.max(axis=0)
    difference[np.abs(difference) <= rounding] = 0.0
    squares = tables.mean_squares(difference)
    np.add.at(spread, sets.T, squares)

    strength = tables.mean_squares(values)
    set_of_cell = np.repeat(np.arange(len(sets)), np.diff(tables.first, append=values.shape[1]))
    strongest = values[strength.argmax(axis=0)[set_of_cell], np.arange(values.shape[1])]
    toward = np.add.reduceat(values * strongest * tables.probability, tables.first, axis=1)
    opinion = np.where(toward < 0, -1, 1) * np.sqrt(strength)
    disagreement = np.sqrt(squares.mean(axis=0))
    return [
        Interaction(
            tuple(names[v] for v in sets[s]),
            float(disagreement[s]),
            {names[v]: float(o) for v, o in zip(sets[s], opinion[:, s], strict=True)},
        )
        for s in np.flatnonzero(disagreement).tolist()
    ]
