"""Conditional probability distributions: P(X_i | the rest), in every form that the paper names.

Each kind knows its target, its Markov blanket, the log-probabilities of given rows, and its features.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.table import Codes
from conjoin.errors import ModelError
from conjoin.models.features import Features
from conjoin.models.tree import Tree, cpd_features
from conjoin.models.vocabulary import mask_words, set_mask

MAX_TABLE = 1 << 24
"""The most entries that a table may be written out to."""

MAX_AXES = 64
"""The most variables that a table may be over: NumPy's limit."""

SUM_TOLERANCE = 1e-6
"""How far the probabilities that a person writes may be from summing to 1."""


@runtime_checkable
class CPD(Protocol):
    """What every kind of CPD offers."""

    target: int
    cards: IntArray

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""

    def features(self) -> Features:
        """Return the distribution as a log-linear model over conjunctions that test the target."""


def log_normalized(logits: FloatArray) -> FloatArray:
    """Subtract from each row the logarithm of the sum of its exponentials.

    A row of nothing but -inf, a condition that cannot arise, becomes NaN.
    """
    top = logits.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        shifted = logits - top
        return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_distribution(variable: Variable, given: Any) -> FloatArray:
    """Return the log-probabilities of a distribution as a person writes it.

    Parameters
    ----------
    variable : Variable
        The variable it is of.
    given : mapping, sequence or number
        {state: probability}, or the probabilities in the order of the states. Of a binary variable
        a single number is the probability of the second state.
    """
    if isinstance(given, Mapping):
        for state in given:
            variable.index(state)
        absent = [s for s in variable.states if s not in given]
        if absent:
            raise ModelError(
                f"there is no probability for {variable.name} = {absent[0]}; give one for each state"
            )
        values = [given[s] for s in variable.states]
    elif isinstance(given, int | float) and len(variable) == 2:
        values = [1 - given, given]
    else:
        values = list(given) if isinstance(given, Iterable) else [given]
        if len(values) != len(variable):
            raise ModelError(
                f"{len(values)} probabilities for the {len(variable)} states of {variable.name!r} "
                f"({', '.join(map(str, variable.states))})"
            )
    if any(isinstance(v, bool) or not isinstance(v, int | float | np.number) for v in values):
        raise ModelError(f"the probabilities of {variable.name!r} must be numbers, not {values!r}")
    try:
        p = np.array(values, np.float64)
    except OverflowError:
        p = np.array([np.inf])
    if not ((p >= 0) & (p <= 1)).all():
        raise ModelError(
            f"{values!r} are not probabilities of {variable.name!r}: 0 to 1 is allowed"
        )
    if abs(p.sum() - 1) > SUM_TOLERANCE:
        raise ModelError(
            f"the probabilities of {variable.name!r}, {values!r}, sum to {p.sum():.9g}, not to 1"
        )
    with np.errstate(divide="ignore"):
        return np.log(p / p.sum())


class TreeBasedCPD:
    """A CPD whose logits are a sum of trees over the other variables."""

    cards: IntArray
    target: int
    trees: tuple[Tree, ...]

    def __init__(self, cards: IntArray, target: int, trees: Sequence[Tree]) -> None:
        self.cards, self.target, self.trees = cards, int(target), tuple(trees)
        shape = (int(cards[target]),)
        if not self.trees:
            raise ModelError("a CPD needs a tree")
        for tree in self.trees:
            if tree.value.shape[1:] != shape:
                raise ModelError(f"leaves must hold {shape[0]} numbers, one a state of the target")
            if self.target in tree.variables:
                raise ModelError("a CPD's tree must not split on its own target")

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""
        return tuple(sorted({v for tree in self.trees for v in tree.variables}))

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        return log_normalized(np.sum([tree.evaluate(codes) for tree in self.trees], axis=0))

    def features(self) -> Features:
        """Return one feature a leaf and a state, but for one state of reference."""
        targets = np.full(len(self.trees), self.target, np.int64)
        return cpd_features(self.cards, self.trees, targets)[0]


class TreeCPD(TreeBasedCPD):
    """A probabilistic decision tree: its leaves hold the target's log-probabilities.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    tree : Tree
        Leaves of shape (states of the target,).

    Examples
    --------
    >>> domain = Domain({"wet": ["no", "yes"], "sky": ["sun", "cloud", "rain"]})
    >>> cpd = TreeCPD.of(domain, "wet", ("sky", {"rain": 0.9, ("sun", "cloud"): 0.1}))
    >>> print(*cpd.features().describe(domain), sep="\\n")
    -2.19722  wet=yes ∧ sky≠rain
    2.19722  wet=yes ∧ sky=rain
    """

    def __init__(self, cards: IntArray, target: int, tree: Tree) -> None:
        super().__init__(cards, target, [tree])

    @property
    def tree(self) -> Tree:
        """The tree."""
        return self.trees[0]

    @classmethod
    def of(cls, domain: Domain, target: str, tree: Any) -> TreeCPD:
        """Build by names.

        Parameters
        ----------
        domain : Domain
            The variables.
        target : str
            The target's name.
        tree : nested tuples
            A distribution of the target (see `log_distribution`), or a split
            ``(variable, {state: tree, ...})`` where a tuple of states may share a branch.
        """
        variable = domain[target]
        grown = grow_named(domain, tree, lambda leaf: log_distribution(variable, leaf))
        return cls(domain.cards, domain.index(target), grown)

    def to_factor(self) -> Tree:
        """Return the tree with a split on the target under each leaf, single numbers below it."""
        old, ways = self.tree, range(int(self.cards[self.target]))
        value = log_normalized(old.value)

        def visit(token: Any) -> object:
            node, state = token
            if state is not None:
                return value[old.ptr[node], state]
            if old.var[node] < 0:
                return self.target, [(node, s) for s in ways]
            return int(old.var[node]), [(c, None) for c in old.children(node, self.cards)]

        return Tree.grow((0, None), visit)

    @classmethod
    def from_factor(cls, cards: IntArray, target: int, factor: Tree) -> TreeCPD:
        """Build from a tree that splits on the target too, its leaves holding single numbers."""
        var, ptr, child = factor.var.tolist(), factor.ptr.tolist(), factor.child.tolist()
        value, ways = factor.value.tolist(), cards.tolist()
        states = range(ways[target])

        def below(node: int) -> list[int]:
            return child[ptr[node] : ptr[node] + ways[var[node]]]

        def settle(node: int, state: int) -> int:
            while var[node] == target:
                node = child[ptr[node] + state]
            return node

        def visit(token: Any) -> object:
            # A node of the new tree is where each state of the target has got to in the old one:
            # one number while they are together, a tuple once they have parted.
            if isinstance(token, int):
                if var[token] >= 0 and var[token] != target:
                    return var[token], below(token)
                token = (token,) * len(states)
            nodes = [settle(node, state) for node, state in zip(token, states, strict=True)]
            split = next((var[node] for node in nodes if var[node] >= 0), None)
            if split is None:
                return [value[ptr[node]] for node in nodes]
            moved = {n: below(n) if var[n] == split else [n] * ways[split] for n in set(nodes)}
            return split, [tuple(moved[n][s] for n in nodes) for s in range(ways[split])]

        return cls(cards, target, Tree.grow(0, visit, max_leaves=100 * len(var) + 1000))


def grow_named(domain: Domain, spec: Any, leaf: Callable[[Any], FloatArray]) -> Tree:
    """Build a tree from nested splits ``(variable, {state or tuple of states: tree})``."""

    def visit(node: Any) -> object:
        spec = specs[node]
        if not isinstance(spec, tuple):
            return leaf(spec)
        if len(spec) != 2 or not isinstance(spec[1], Mapping):
            raise ModelError(f"a split must be (variable, {{states: tree}}), not {spec!r}")
        name, branches = spec
        variable = domain[name]
        children: list[Hashable] = [None] * len(variable)
        for states, below in branches.items():
            specs.append(below)
            for code in variable.indices(states):
                if children[code] is not None:
                    raise ModelError(
                        f"the split on {name!r} has two branches for {variable.states[code]!r}"
                    )
                children[code] = len(specs) - 1
        if None in children:
            left = variable.states[children.index(None)]
            raise ModelError(f"the split on {name!r} has no branch for {left!r}")
        return domain.index(name), children

    specs = [spec]
    return Tree.grow(0, visit)


class BoostedTreesCPD(TreeBasedCPD):
    """A sum of trees: the leaves hold scores, which are added and normalised.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    trees : sequence of Tree
        Leaves of shape (states of the target,).

    Examples
    --------
    >>> domain = Domain({"wet": ["no", "yes"], "sky": ["sun", "cloud", "rain"]})
    >>> cpd = BoostedTreesCPD.of(domain, "wet", [
    ...     {"no": 0.0, "yes": -1.0}, ("sky", {"rain": [0.0, 3.0], ("sun", "cloud"): [0.0, 0.5]})])
    >>> cpd.log_probabilities(np.array([[0, 2]], np.uint8)).round(3)
    array([[-2.127, -0.127]])
    """

    @classmethod
    def of(cls, domain: Domain, target: str, trees: Iterable[Any]) -> BoostedTreesCPD:
        """Build by names, as `TreeCPD.of` does, with a score for each state in the leaves."""
        variable = domain[target]

        def scores(leaf: Any) -> FloatArray:
            if isinstance(leaf, Mapping):
                given = {variable.index(state): value for state, value in leaf.items()}
                leaf = [given.get(code, 0.0) for code in range(len(variable))]
            values = np.asarray(leaf, np.float64)
            if values.shape != (len(variable),) or not np.isfinite(values).all():
                raise ModelError(f"a leaf needs {len(variable)} scores, not {leaf!r}")
            return values

        grown = [grow_named(domain, tree, scores) for tree in trees]
        return cls(domain.cards, domain.index(target), grown)


class TableCPD(TreeBasedCPD):
    """A full table: one distribution for each joint state of the parents.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    parents : sequence of int
        The parents' positions.
    table : array of float
        Log-probabilities, one axis a parent and the target's last.

    Examples
    --------
    >>> domain = Domain({"x1": [False, True], "x2": [False, True]})
    >>> cpd = TableCPD.of(domain, "x1", ["x2"], {True: 4 / 5, False: 2 / 5})
    >>> np.exp(cpd.log_probabilities(np.array([[0, 0], [0, 1]], np.uint8))).round(3)
    array([[0.6, 0.4],
           [0.2, 0.8]])
    """

    def __init__(
        self, cards: IntArray, target: int, parents: Sequence[int], table: npt.ArrayLike
    ) -> None:
        self.parents = tuple(int(p) for p in parents)
        self.table: FloatArray = np.asarray(table, np.float64)
        shape = tuple(int(cards[p]) for p in (*self.parents, target))
        if self.table.shape != shape:
            raise ModelError(f"a table of shape {shape} is needed, not {self.table.shape}")
        if len({*self.parents, target}) != len(shape):
            raise ModelError("the parents of a table must differ from each other and the target")
        self.cards, self.target = cards, int(target)

    @cached_property
    def trees(self) -> tuple[Tree, ...]:  # type: ignore[override]
        """The table as a complete tree."""
        leaves = self.table.reshape(-1, self.table.shape[-1])
        return (Tree.complete(self.parents, self.cards, leaves),)

    @property
    def blanket(self) -> tuple[int, ...]:
        """The parents, in order."""
        return tuple(sorted(self.parents))

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        index = tuple(codes[:, p].astype(np.intp) for p in self.parents)
        rows = self.table[index] if index else np.tile(self.table, (len(codes), 1))
        return log_normalized(rows)

    @classmethod
    def of(
        cls, domain: Domain, target: str, parents: Sequence[str], rows: Mapping[Any, Any] | Any
    ) -> TableCPD:
        """Build by names.

        Parameters
        ----------
        domain : Domain
            The variables.
        target : str
            The target's name.
        parents : sequence of str
            The parents' names.
        rows : mapping
            {(state of each parent): distribution}; one parent's state needs no tuple. Without
            parents, the distribution itself.
        """
        positions = [domain.index(p) for p in parents]
        variable = domain[target]
        if not parents:
            return cls(domain.cards, domain.index(target), (), log_distribution(variable, rows))
        size = np.prod(domain.cards[positions], dtype=float) * len(variable)
        if size > MAX_TABLE or len(positions) >= MAX_AXES:
            raise ModelError(
                f"a table of {target!r} given {len(positions)} variables would have {size:.2g} "
                "entries; use rules or log-odds"
            )
        table = np.full([*domain.cards[positions], len(variable)], np.nan)
        if not isinstance(rows, Mapping):
            raise ModelError(
                f"the rows of {target!r} must be a mapping {{(states of {list(parents)}): "
                "distribution}"
            )
        for key, row in rows.items():
            states = key if isinstance(key, tuple) and len(key) == len(parents) else (key,)
            if len(states) != len(parents):
                raise ModelError(f"the row {key!r} must name a state of each of {list(parents)}")
            index = tuple(
                domain.variables[p].index(s) for p, s in zip(positions, states, strict=True)
            )
            if not np.isnan(table[index]).all():
                raise ModelError(f"the row {key!r} of {target!r} is given twice")
            table[index] = log_distribution(variable, row)
        for index in product(*(range(len(domain.variables[p])) for p in positions)):
            if np.isnan(table[index]).any():
                where = ", ".join(
                    f"{domain.names[p]} = {domain.variables[p].states[s]}"
                    for p, s in zip(positions, index, strict=True)
                )
                raise ModelError(f"the table of {target!r} has no row for {where}; add it")
        return cls(domain.cards, domain.index(target), positions, table)


class RuleCPD(TreeBasedCPD):
    """A rule set: the first rule whose condition holds gives the distribution.

    Parameters
    ----------
    cards : array of int
        The number of states of each variable of the domain.
    target : int
        The target's position.
    rules : sequence of (condition, log-probabilities)
        A condition is {position: allowed state codes}; that of the last rule is empty.

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

    MAX_LEAVES = 100_000

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
            raise ModelError("the last rule must have no condition: it says what holds otherwise")
        if not all(self.conditions[:-1]):
            raise ModelError("a rule without a condition always holds; put it last")
        self.table: FloatArray = np.array([p for _, p in rules], np.float64)
        super().__init__(cards, target, [self._tree(cards)])

    def _tree(self, cards: IntArray) -> Tree:
        def visit(token: Any) -> object:
            number, known = token
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
                    rest = [item for item in known if item[0] != var]
                    yes = (rule, tuple(sorted([*rest, (var, inside)], key=lambda i: i[0])))
                    no = (rule + 1, tuple(sorted([*rest, (var, outside)], key=lambda i: i[0])))
                    return var, [yes if s in inside else no for s in range(int(cards[var]))]
            raise AssertionError("the last rule always holds")

        try:
            return Tree.grow((0, ()), visit, self.MAX_LEAVES)
        except ModelError:
            raise ModelError(
                f"these rules overlap in more than {self.MAX_LEAVES:,} ways; use fewer rules, or "
                "log-odds terms, which are added up instead of ordered"
            ) from None

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        choice = np.full(len(codes), -1)
        for rule, condition in enumerate(self.conditions):
            holds = choice < 0
            for var, states in condition.items():
                holds &= np.isin(codes[:, var], list(states))
            choice[holds] = rule
        return log_normalized(self.table[choice])

    @classmethod
    def of(
        cls, domain: Domain, target: str, rules: Iterable[tuple[Mapping[str, Any], Any]]
    ) -> RuleCPD:
        """Build by names: ({variable: state or list of states}, distribution) pairs, in order."""
        variable = domain[target]
        return cls(
            domain.cards,
            domain.index(target),
            [(encode_condition(domain, when), log_distribution(variable, p)) for when, p in rules],
        )


def encode_condition(domain: Domain, when: Mapping[str, Any]) -> dict[int, frozenset[int]]:
    """Return {position: allowed codes} of {name: state, or list or set of states}."""
    return {
        domain.index(name): frozenset(domain[name].indices(states)) for name, states in when.items()
    }


class LogLinearCPD:
    """A log-linear CPD: weighted conjunctions, each testing the target (Section 4.2).

    Logistic and multinomial regression are the case of conjunctions of two tests.

    Parameters
    ----------
    target : int
        The target's position.
    features : Features
        Those that do not test the target cancel and are dropped.

    Examples
    --------
    >>> domain = Domain({"ill": ["no", "yes"], "fever": ["no", "yes"]})
    >>> cpd = LogLinearCPD.of(domain, "ill", [
    ...     (-2.0, {"ill": "yes"}), (3.0, {"ill": "yes", "fever": "yes"})])
    >>> cpd.log_probabilities(np.array([[0, 1]], np.uint8)).round(3)
    array([[-1.313, -0.313]])
    """

    def __init__(self, target: int, features: Features) -> None:
        self.target, self.cards = int(target), features.tests.cards
        tested = np.zeros(len(features), bool)
        tested[features.entry_feature[features.entry_var == target]] = True
        self._features = features if tested.all() else features.select(np.flatnonzero(tested))

    @property
    def blanket(self) -> tuple[int, ...]:
        """The positions of the variables that the distribution depends on."""
        present = np.unique(self._features.entry_var).tolist()
        return tuple(v for v in present if v != self.target)

    def log_probabilities(self, codes: Codes) -> FloatArray:
        """Return log P(X = state | the rest of the row), rows by states."""
        return log_normalized(self._features.logits(self.target, codes))

    def features(self) -> Features:
        """Return the features."""
        return self._features

    @classmethod
    def of(
        cls, domain: Domain, target: str, terms: Iterable[tuple[float, Mapping[str, Any]]]
    ) -> LogLinearCPD:
        """Build by names: (weight, {variable: state or list of states}) pairs."""
        position = domain.index(target)
        listed = list(terms)
        for weight, when in listed:
            if target not in when:
                raise ModelError(
                    f"the term {weight} {dict(when)!r} says nothing of {target!r}, so it has no "
                    f"effect; name a state of {target!r} in it"
                )
        return cls(position, Features.from_terms(domain, listed))

    @classmethod
    def logistic(
        cls, cards: IntArray, target: int, bias: float, weights: Mapping[int, float]
    ) -> LogLinearCPD:
        """Build logistic regression over binary variables: logit P(X = 1) = bias + sum w_j x_j."""
        one = set_mask([1], mask_words(cards))
        others = sorted(weights)
        if target in others or any(not 0 <= v < len(cards) for v in (target, *others)):
            raise ModelError(f"the weights must be of variables other than the target: {others}")
        if any(cards[v] != 2 for v in (target, *others)):
            raise ModelError("logistic regression of this form is over binary variables")
        feature = [0, *(f for f in range(1, len(others) + 1) for _ in range(2))]
        var = [target, *(v for j in others for v in (target, j))]
        mask = np.tile(one, (len(var), 1))
        weight = [bias, *(weights[j] for j in others)]
        return cls(target, Features.from_tests(cards, feature, var, mask, weight))
