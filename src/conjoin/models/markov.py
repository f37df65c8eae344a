"""Markov networks: weighted features, and table and tree factors (the paper's Section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray, distinct
from conjoin.data.domain import Domain
from conjoin.data.table import Codes, codes_of, joint_codes
from conjoin.errors import ModelError
from conjoin.models.cpd import log_normalized
from conjoin.models.features import Features
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.network import Network
from conjoin.models.tree import Tree, factor_features

if TYPE_CHECKING:
    from conjoin.models.hidden_states import HiddenStates


@dataclass(frozen=True, eq=False)
class TableFactor:
    """A factor as a table of log-values, -inf for a zero, with one axis per variable."""

    variables: tuple[int, ...]
    table: FloatArray

    @classmethod
    def tabulated(
        cls, scope: Sequence[int], cards: IntArray, function: Callable[[Codes], FloatArray]
    ) -> TableFactor:
        """Evaluate a function of some variables on each of their joint states."""
        shape = tuple(int(cards[v]) for v in scope)
        return cls(tuple(scope), function(joint_codes(cards, scope)).reshape(shape))

    def evaluate(self, codes: Codes) -> FloatArray:
        """Return the log-value of each row."""
        index = tuple(codes[:, v].astype(np.intp) for v in self.variables)
        return self.table[index] if index else np.full(len(codes), float(self.table))

    def condition(self, evidence: Mapping[int, int], _: IntArray) -> TableFactor:
        """Fix variables to states; a tree needs to know the numbers of states."""
        index = tuple(evidence.get(v, slice(None)) for v in self.variables)
        left = tuple(v for v in self.variables if v not in evidence)
        return TableFactor(left, np.asarray(self.table[index]))

    def renumbered(self, position: IntArray) -> TableFactor:
        """Return the factor over other positions, given the new position of each variable."""
        return TableFactor(tuple(int(position[v]) for v in self.variables), self.table)

    def tree(self, cards: IntArray) -> Tree:
        """Return the table as a complete tree."""
        return Tree.complete(self.variables, cards, self.table.ravel())


Factor = TableFactor | Tree
"""A table, or a tree whose leaves hold log-values."""


def as_table(factor: Factor, cards: IntArray) -> TableFactor:
    """Return a factor as a table."""
    if isinstance(factor, TableFactor):
        return factor
    return TableFactor.tabulated(factor.variables, cards, factor.evaluate)


class MarkovNetwork(Network):
    """A joint distribution, P(x) = exp(log_potential(x)) / Z.

    Parameters
    ----------
    domain : Domain
        The variables. Hidden ones come last; the distribution is that of the others, summed over them.
    features : Features, optional
        Weighted conjunctions.
    factors : iterable of TableFactor or Tree
        Table and tree factors, in addition to the features.
    provenance : mapping, optional
        Where the network came from.

    Examples
    --------
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    >>> mn.conditional("a", {"a": 0, "b": 1}).round(3)
    array([[0.269, 0.731]])
    >>> mn.condition({"b": 1}).log_potential([{"a": 0}, {"a": 1}])
    array([0., 1.])
    """

    kind = "Markov network"

    def __init__(
        self,
        domain: Domain,
        features: Features | None = None,
        factors: Iterable[Factor] = (),
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(domain, provenance)
        self.features = Features.empty(domain.cards) if features is None else features
        if not np.array_equal(self.features.tests.cards, domain.cards):
            raise ModelError("the features belong to another domain")
        self.factors: tuple[Factor, ...] = tuple(factors)
        for factor in self.factors:
            if isinstance(factor, TableFactor):
                shape = tuple(int(domain.cards[v]) for v in factor.variables)
                if len(set(factor.variables)) != len(shape):
                    raise ModelError(f"a factor names a variable twice: {factor.variables}")
                if factor.table.shape != shape:
                    raise ModelError(f"a factor over {factor.variables} needs shape {shape}")
                if factor.table.size and not factor.table.max() < np.inf:  # NaN is not, either
                    raise ModelError(
                        f"a factor over {factor.variables} has a log-value that is NaN or infinite; "
                        "only -inf, for probability 0, is allowed"
                    )

    def log_potential(self, rows: Any) -> FloatArray:
        """Return the logarithm of the product of all factors: log P up to the constant log Z.

        Rows are a Table, an array of codes, or mappings, and complete; hidden variables are summed over
        unless their values are given.
        """
        codes = codes_of(self.domain, rows)
        if self.domain.hidden.any():
            return self.hidden_states.log_potential(codes)
        total = self.features.evaluate(codes)
        for factor in self.factors:
            total += factor.evaluate(codes)
        return total

    @cached_property
    def hidden_states(self) -> HiddenStates:
        """The network as tables with the hidden states side by side."""
        from conjoin.models.hidden_states import HiddenStates

        return HiddenStates.of(self)

    def blankets(self) -> list[tuple[int, ...]]:
        """Return, for each variable, the variables that share a feature or a factor with it."""
        size = len(self.domain)
        pairs = []
        for _, entry in self.features.by_length():
            var = self.features.entry_var[entry].astype(np.int64)
            for a in range(var.shape[1]):
                pairs.append(distinct(var[:, [a]] * size + np.delete(var, a, axis=1)))
        for factor in self.factors:
            scope = np.array(factor.variables, np.int64)
            pairs.append((scope[:, None] * size + scope).ravel())
        linked = distinct(np.concatenate(pairs)) if pairs else np.zeros(0, np.int64)
        left, right = np.divmod(linked[linked // size != linked % size], size)
        bounds = np.searchsorted(left, np.arange(size + 1))
        return [tuple(right[bounds[i] : bounds[i + 1]].tolist()) for i in range(size)]

    def log_conditional(self, name: str, rows: Any) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        position = self.domain.index(name)
        codes = codes_of(self.domain, rows, ignored=position)
        if self.domain.hidden.any():
            return log_normalized(self.hidden_states.log_conditional(position, codes))
        logits = self.features.logits(position, codes)
        touching = [f for f in self.factors if position in f.variables]
        if touching:
            trial = codes.copy()
            for state in range(logits.shape[1]):
                trial[:, position] = state
                for factor in touching:
                    logits[:, state] += factor.evaluate(trial)
        return log_normalized(logits)

    def condition(self, evidence: Mapping[str, Any]) -> MarkovNetwork:
        """Return the network of the other variables, given the states of some.

        Log-potentials keep their values, so the ratio of the two normalisers is the probability of
        the evidence.
        """
        given = self.domain.encode_partial(evidence)
        left = [i for i in range(len(self.domain)) if i not in given]
        position = np.full(len(self.domain), -1, np.int64)
        position[left] = np.arange(len(left))
        cards = self.domain.cards
        factors = [f.condition(given, cards).renumbered(position) for f in self.factors]
        features = self.features.condition(given).without_variables(list(given))
        return MarkovNetwork(self.domain.subset(left), features, factors, self.provenance)

    def to_features(self) -> MarkovNetwork:
        """Return the same network with every factor written as features."""
        if not self.factors:
            return self
        cards = self.domain.cards
        trees = [f.tree(cards) if isinstance(f, TableFactor) else f for f in self.factors]
        parts = [self.features, factor_features(cards, trees)]
        return MarkovNetwork(self.domain, Features.concatenate(parts), provenance=self.provenance)

    def _log_linear_form(self) -> LogLinearForm:
        return LogLinearForm.of_features(self.domain, self.to_features().features)

    def _moved(self, domain: Domain, position: IntArray) -> MarkovNetwork:
        factors = [factor.renumbered(position) for factor in self.factors]
        features = self.features.moved(domain.cards, position)
        return MarkovNetwork(domain, features, factors, self.provenance)

    def in_canonical_order(self) -> MarkovNetwork:
        """Return the network over distinct features, with columns sorted by name, and features sorted.

        Ties that are broken by position, and random numbers that are drawn column by column, then do not
        depend on the order of the columns.
        """
        plain = MarkovNetwork(self.domain, self.form.features.merged(), provenance=self.provenance)
        moved = plain.reordered(self.domain.sorted_names())
        return MarkovNetwork(moved.domain, moved.features.sorted(), provenance=self.provenance)

    def merged(self) -> MarkovNetwork:
        """Return the network with equal features merged and features of weight 0 dropped."""
        features = self.features.merged().nonzero()
        return MarkovNetwork(self.domain, features, self.factors, self.provenance)

    def __repr__(self) -> str:
        parts = [f"{len(self.features):,} features"]
        for kind, name in ((TableFactor, "table"), (Tree, "tree")):
            count = sum(isinstance(f, kind) for f in self.factors)
            if count:
                parts.append(f"{count:,} {name} factors")
        shown = len(self.domain.observed)
        if shown < len(self.domain):
            parts.append(f"{len(self.domain) - shown} hidden columns")
        return f"<MarkovNetwork: {shown} variables, {', '.join(parts)}>"
