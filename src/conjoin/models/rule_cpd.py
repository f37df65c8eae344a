"""CPDs written as an ordered list of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain
from conjoin.errors import ModelError
from conjoin.models.cpd import log_distribution
from conjoin.models.tree import Tree
from conjoin.models.tree_cpds import TreeBasedCPD

MAX_LEAVES = 100_000
"""Maximum number of leaves of the tree that a rule set is turned into."""


class RuleCPD(TreeBasedCPD):
    """A rule set: the first rule whose condition holds gives the distribution.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    rules : sequence of (condition, log-probabilities)
        A condition is {position: allowed state codes}; the last rule's condition is empty.

    Examples
    --------
    >>> domain = Domain({"grass": ["dry", "wet"], "rain": ["no", "yes"], "hose": ["off", "on"]})
    >>> cpd = RuleCPD.of(domain, "grass", [
    ...     ({"rain": "yes"}, {"dry": 0.05, "wet": 0.95}),
    ...     ({"hose": "on"}, {"dry": 0.1, "wet": 0.9}),
    ...     ({}, {"dry": 0.99, "wet": 0.01}),
    ... ])
    >>> print(*cpd.features().describe(domain), sep="\\n")
    -4.59512  grass=wet ∧ rain=no ∧ hose=off
    2.19722  grass=wet ∧ rain=no ∧ hose=on
    2.94444  grass=wet ∧ rain=yes
    """

    def __init__(
        self,
        cards: IntArray,
        target: int,
        rules: Sequence[tuple[Mapping[int, Iterable[int]], npt.ArrayLike]],
    ) -> None:
        self.conditions = tuple(
            {int(v): frozenset(int(s) for s in states) for v, states in when.items()}
            for when, _ in rules
        )
        if not self.conditions or self.conditions[-1]:
            raise ModelError(
                "the last rule must have no condition: it applies when no other rule does"
            )
        if not all(self.conditions[:-1]):
            raise ModelError("a rule without a condition always holds; put it last")
        self.table: FloatArray = np.array([p for _, p in rules], np.float64)
        super().__init__(cards, target, [self._tree(cards)])

    def _tree(self, cards: IntArray) -> Tree:
        def visit(token: Any) -> object:
            number, known = token  # rules before this one do not hold
            allowed = dict(known)
            for rule in range(number, len(self.conditions)):
                open_tests = []
                for var, states in sorted(self.conditions[rule].items()):
                    left = allowed.get(var, frozenset(range(int(cards[var]))))
                    if not left & states:
                        break  # this rule cannot hold here
                    if not left <= states:
                        open_tests.append((var, left & states, left - states))
                else:
                    if not open_tests:
                        return self.table[rule]
                    var, inside, outside = open_tests[0]
                    yes, no = (
                        frozenset({**allowed, var: side}.items()) for side in (inside, outside)
                    )
                    return var, [
                        (rule, yes) if s in inside else (rule + 1, no)
                        for s in range(int(cards[var]))
                    ]
            raise AssertionError("the last rule always holds")

        try:
            return Tree.grow((0, frozenset()), visit, MAX_LEAVES)
        except ModelError:
            raise ModelError(
                f"these rules overlap in more than {MAX_LEAVES:,} ways; use fewer rules, or "
                "log-odds terms, which are added up instead of ordered"
            ) from None

    def moved(self, cards: IntArray, position: IntArray) -> RuleCPD:
        """Return the CPD over reordered variables, given the new position of each."""
        conditions = [{int(position[v]): s for v, s in when.items()} for when in self.conditions]
        rules = list(zip(conditions, self.table, strict=True))
        return RuleCPD(cards, position[self.target], rules)

    @classmethod
    def of(
        cls, domain: Domain, target: str, rules: Iterable[tuple[Mapping[str, Any], Any]]
    ) -> RuleCPD:
        """Build by names: ({variable: state or list of states}, distribution) pairs, in order."""
        variable = domain[target]
        coded = []
        for when, p in rules:
            condition = {domain.index(n): domain[n].indices(states) for n, states in when.items()}
            coded.append((condition, log_distribution(variable, p)))
        return cls(domain.cards, domain.index(target), coded)
