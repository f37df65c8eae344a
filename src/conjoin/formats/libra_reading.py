"""Reading Libra's model files: .dn, .mn and .bn, and .schema.

The first line gives the number of states of each variable; a body follows. A factor is a feature
(`weight +v0_1 -v3_0`), a `table { ... }` or `features { ... }` of such lines, or a `tree { ... }` of
nested tests `(v0_1 if-true if-false)`. Weights are logarithms; -inf is an impossible conjunction and
inf one that must hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import MAX_STATES, Domain
from conjoin.errors import FormatError, ModelError
from conjoin.formats.names_files import named_domain
from conjoin.formats.storage import MAX_ENTRIES, errors_naming, plain_float, read_text
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import CPD, MAX_AXES
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.feature_tables import scope_tables
from conjoin.models.features import Features
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.markov import Factor, MarkovNetwork, TableFactor
from conjoin.models.network import Network
from conjoin.models.table_cpd import TableCPD
from conjoin.models.tree import Tree, factor_features
from conjoin.models.tree_cpds import TreeCPD
from conjoin.models.vocabulary import full_masks, mask_words, state_masks

MAX_BRANCHES = 1 << 24
"""Maximum number of branches of a tree: one for each state of the variable of each split."""

TEST = re.compile(r"([+-]?)v([0-9]{1,9})_([0-9]{1,9})\Z")
KINDS = ("MN", "DN", "BN")


def parse_schema(line: str, path: str, number: int = 1) -> npt.NDArray[np.int64]:
    """Return the numbers of states in a line such as `2,3,2`."""
    words = [part.strip() for part in line.split(",")]
    plain = all(word.isascii() and word.isdigit() and len(word) < 10 for word in words)
    cards = np.array(words if plain else [0], np.int64)
    if (cards < 1).any() or (cards > MAX_STATES).any():
        raise FormatError(
            f"expected numbers of states, such as 2,2,3, not {line[:40]!r}", path, number
        )
    return cards


def read_schema(path: Path) -> Domain:
    """Read a .schema file: the number of states of each variable, separated by commas."""
    line = read_text(path).strip()
    return named_domain(path, parse_schema(line, str(path)))


class _Lines:
    """The lines of a file, with the number of the last one taken."""

    def __init__(self, text: str, path: str) -> None:
        self.path, self.number = path, 1
        self._lines = self._words(text)

    def _words(self, text: str) -> Iterator[list[str]]:
        for number, line in enumerate(text.split("\n"), 1):
            pieces = [line]
            if "{" in line or "}" in line:  # braces are words of their own, and end a line
                pieces = re.sub(r"([{}])", r" \1\n", line).split("\n")
            for piece in pieces:
                if words := piece.split():
                    self.number = number
                    yield words

    def take(self, wanted: str) -> list[str]:
        words = next(self._lines, None)
        if words is None:
            raise FormatError(f"the file ends where {wanted} is expected", self.path, self.number)
        return words

    def error(self, message: str) -> FormatError:
        return FormatError(message, self.path, self.number)


class _Tests:
    """Numbers for tests such as +v3_1; each distinct word is parsed once."""

    def __init__(self, cards: npt.NDArray[np.int64]) -> None:
        self.cards = cards
        self.numbers: dict[str, int] = {}
        self.var: list[int] = []
        self.state: list[int] = []
        self.negated: list[bool] = []
        self._masks = np.zeros((0, mask_words(cards)), np.uint64)

    def opposite(self, test: int) -> int:
        """Return the number of the test that holds where this one does not."""
        sign = "+" if self.negated[test] else "-"
        word = f"{sign}v{self.var[test]}_{self.state[test]}"
        if word in self.numbers:
            return self.numbers[word]
        return self._append(word, self.var[test], self.state[test])

    def _append(self, word: str, var: int, state: int) -> int:
        self.var.append(var)
        self.state.append(state)
        self.negated.append(word[0] == "-")
        return self.numbers.setdefault(word, len(self.var) - 1)

    def add(self, word: str, lines: _Lines) -> int:
        match = TEST.match(word)
        if match is None or not match[1]:
            raise lines.error(f"expected a test such as +v0_1 or -v0_1, not {word[:40]!r}")
        return self._append(word, *check_test(match, self.cards, lines.error))

    def masks(self) -> npt.NDArray[np.uint64]:
        """Return the states of each test, computed again if there are new tests."""
        if len(self._masks) != len(self.var):
            if len(self.var) * mask_words(self.cards) > MAX_ENTRIES.value:
                raise ModelError(
                    f"the tests of variables with many states are too large: {MAX_ENTRIES.exceeded()}"
                )
            single = state_masks(self.state, mask_words(self.cards))
            full = full_masks(self.cards)[np.array(self.var, np.int64)]
            negated = np.array(self.negated, bool)[:, None]
            self._masks = np.where(negated, full & ~single, single)
        return self._masks


def check_test(
    match: re.Match[str],
    cards: npt.NDArray[np.int64],
    error: Callable[[str], FormatError],
) -> tuple[int, int]:
    """Return the variable and state of a test, after checking that they exist."""
    var, state = int(match[2]), int(match[3])
    if var >= len(cards):
        raise error(f"there is no variable v{var}; the file has v0 to v{len(cards) - 1}")
    if state >= cards[var]:
        raise error(f"v{var} has no state {state}; it has {cards[var]}, counted from 0")
    return var, state


class _LibraBlock:
    """The factors of one block: features, tables and trees."""

    def __init__(self, cards: npt.NDArray[np.int64], tests: _Tests) -> None:
        self.cards, self.tests = cards, tests
        self.weights: list[float] = []
        self.lengths: list[int] = []
        self.entries: list[int] = []
        self.certain: list[list[int]] = []
        self.tables: list[_LibraBlock] = []
        self.trees: list[Tree] = []

    def read(self, lines: _Lines, features_only: bool = False) -> _LibraBlock:
        """Read factors up to the closing brace."""
        while True:
            words = lines.take("'}'")
            last = words[-1]
            if last == "}":
                if len(words) > 1:
                    self._feature(words[:-1], lines)
                return self
            if last == "{":
                if features_only:
                    raise lines.error("a table or features block can contain only features")
                if words == ["tree", "{"]:
                    self.trees.append(read_tree(lines, self.cards))
                elif words == ["table", "{"]:
                    self.tables.append(_LibraBlock(self.cards, self.tests).read(lines, True))
                elif words == ["features", "{"]:
                    self.read(lines, True)
                else:
                    raise lines.error(
                        f"expected 'tree', 'table' or 'features' before '{{', not "
                        f"{' '.join(words[:-1])[:40]!r}"
                    )
            else:
                self._feature(words, lines)

    def _feature(self, words: list[str], lines: _Lines) -> None:
        weight = parse_number(words[0], lines.error)
        known = self.tests.numbers
        tests = [known[w] if w in known else self.tests.add(w, lines) for w in words[1:]]
        if weight == np.inf:
            self.certain.append(tests)
        else:
            self._add(weight, tests)

    def _add(self, weight: float, tests: list[int]) -> None:
        self.weights.append(weight)
        self.lengths.append(len(tests))
        self.entries.extend(tests)

    def settle(self, target: int | None) -> None:
        """Replace each conjunction that must hold by impossible features that violate it.

        In the CPD of a target only tests of the target are negated: the other tests are given.
        """
        for block in (self, *self.tables):
            for tests in block.certain:
                var = self.tests.var
                free = dict.fromkeys(t for t in tests if target is None or var[t] == target)
                given = [t for t in tests if t not in free]
                if len(free) * (len(given) + 1) > MAX_ENTRIES.value:
                    raise ModelError(f"a certain feature is too long: {MAX_ENTRIES.exceeded()}")
                for test in free:  # each must hold
                    block._add(-np.inf, [*given, self.tests.opposite(test)])
            block.certain = []

    def features(self) -> Features:
        """Return the features that are not in trees or tables."""
        entries = np.array(self.entries, np.int64)
        owner = np.repeat(np.arange(len(self.weights)), self.lengths)
        var = np.array(self.tests.var, np.int64)[entries]
        mask = self.tests.masks()[entries].reshape(len(entries), mask_words(self.cards))
        return Features.from_tests(self.cards, owner, var, mask, self.weights)

    def factors(self) -> tuple[Features, list[Factor]]:
        """Return the features, and the tables and trees."""
        factors: list[Factor] = list(self.trees)
        parts = [self.features()]
        for block in self.tables:
            features = block.features()
            table = features_as_table_factor(features, sorted(set(features.entry_var.tolist())))
            if table is None:
                parts.append(features)
            else:
                factors.append(table)
        return Features.concatenate(parts), factors


def features_as_table_factor(features: Features, scope: Iterable[int]) -> TableFactor | None:
    """Return the features as one table over a scope, unless it would be too large."""
    scope = tuple(scope)
    size = np.prod(features.tests.cards[list(scope)], dtype=float)
    if size > 4 * len(features) + 64 or len(scope) > MAX_AXES:  # mostly empty
        return None
    return scope_tables(features, [scope], [np.arange(len(features))])[0]


def parse_number(word: str, error: Callable[[str], FormatError]) -> float:
    """Return a weight; `inf` and `-inf` are allowed, NaN is not."""
    try:
        value = plain_float(word)
    except ValueError:
        value = np.nan
    if value != value:
        raise error(f"expected a number, not {word[:40]!r}")
    return value


def read_tree(lines: _Lines, cards: npt.NDArray[np.int64]) -> Tree:
    """Read nested tests up to the closing brace, without recursion."""
    block: list[tuple[int, str]] = []
    while not block or block[-1][1][-1] != "}":
        text = " ".join(lines.take("the rest of a tree"))
        block.append((lines.number, text.replace("(", " ( ").replace(")", " ) ")))
    words = " ".join(text for _, text in block).split()[:-1]

    def error(message: str) -> FormatError:
        places = [number for number, text in block for _ in text.split()]
        return FormatError(message, lines.path, places[min(at, len(places) - 1)])

    var: list[int] = []
    ptr: list[int] = []
    child: list[int] = []
    value: list[float] = []
    splits: list[tuple[int, int, list[int]]] = []  # open ones: node, state, children so far
    known: dict[str, tuple[int, int]] = {}
    ways = cards.tolist()
    node = -1
    at = 0
    while at < len(words):
        word = words[at]
        if node >= 0 and not splits:
            raise error(f"expected '}}' after the tree, not {word[:40]!r}")
        if word == "(":
            at += 1
            word = words[at] if at < len(words) else "}"
            if word not in known:
                match = TEST.match(word)
                if match is None or match[1]:
                    raise error(f"expected a test such as v0_1, not {word[:40]!r}")
                known[word] = check_test(match, cards, error)
            tested, state = known[word]
            splits.append((len(var), state, []))
            var.append(tested)
            ptr.append(len(child))
            child.extend([-1] * ways[tested])
            if len(child) > MAX_BRANCHES:
                raise error(f"the tree has more than {MAX_BRANCHES:,} branches")
            at += 1
            continue
        if word == ")":
            if not splits or len(splits[-1][2]) != 2:
                raise error("a test needs two branches: (v0_1 if-true if-false)")
            node, state, (yes, no) = splits.pop()
            start, end = ptr[node], ptr[node] + ways[var[node]]
            child[start:end] = [no] * (end - start)
            child[start + state] = yes
        else:
            node = len(var)
            var.append(-1)
            ptr.append(len(value))
            value.append(parse_number(word, error))
            if value[-1] == np.inf:
                raise error("a leaf may hold -inf, not inf: make the other leaves -inf instead")
        if splits:
            if len(splits[-1][2]) == 2:
                raise error("a test needs two branches, but this one has a third")
            splits[-1][2].append(node)
        at += 1
    if node < 0 or splits:
        raise error("the tree ends before all its parentheses are closed")
    tree = Tree(
        np.array(var, np.int32),
        np.array(ptr, np.int32),
        np.array(child, np.int32),
        np.array(value, np.float64),
    )
    sure = {v: 0 for v in set(var) if v >= 0 and ways[v] == 1}  # tests of one-state variables
    return tree.condition(sure, cards) if sure else tree


def read_network(path: Path) -> Network:
    """Read a .dn, .mn or .bn file."""
    lines = _Lines(read_text(path), str(path))
    schema = lines.take("the numbers of states")
    cards = parse_schema("".join(schema), str(path), lines.number)
    head = lines.take("'MN {', 'DN {' or 'BN {'")
    if len(head) != 2 or head[1] != "{" or head[0] not in KINDS:
        raise lines.error(f"expected 'MN {{', 'DN {{' or 'BN {{', not {' '.join(head)[:40]!r}")
    domain = named_domain(path, cards)
    tests = _Tests(cards)
    if head[0] == "MN":
        block = _LibraBlock(cards, tests).read(lines)
        _expect_end(lines)
        block.settle(None)
        features, factors = block.factors()
        return MarkovNetwork(domain, features, factors, {"read_from": path.name})
    cpds: list[CPD | None] = [None] * len(domain)
    while (words := lines.take("a variable or '}'")) != ["}"]:
        match = TEST.match(f"{words[0]}_0")
        if len(words) != 2 or words[1] != "{" or match is None or match[1]:
            raise lines.error(f"expected a variable such as 'v0 {{', not {' '.join(words)!r}")
        target, _ = check_test(match, cards, lines.error)
        if cpds[target] is not None:
            raise lines.error(f"v{target} already has a distribution")
        with errors_naming(path, lines.number):
            cpds[target] = _cpd(_LibraBlock(cards, tests).read(lines), target)
    _expect_end(lines)
    absent = [i for i, cpd in enumerate(cpds) if cpd is None]
    if absent:
        raise lines.error(f"v{absent[0]} has no distribution")
    kind = DependencyNetwork if head[0] == "DN" else BayesianNetwork
    complete = [cpd for cpd in cpds if cpd is not None]
    with errors_naming(path):
        return kind(domain, complete, {"read_from": path.name})


def _expect_end(lines: _Lines) -> None:
    extra = next(lines._lines, None)
    if extra is not None:
        raise lines.error(f"expected nothing after the last '}}', not {' '.join(extra)[:40]!r}")


def _cpd(block: _LibraBlock, target: int) -> CPD:
    block.settle(target)
    if len(block.trees) == 1 and not block.tables and not block.weights:
        try:
            return TreeCPD.from_factor(block.cards, target, block.trees[0])
        except ModelError:  # the tree would grow too large; its features do not
            return LogLinearCPD(target, factor_features(block.cards, block.trees))
    if len(block.tables) == 1 and not block.trees and not block.weights:
        features = block.tables[0].features()
        parents = sorted(set(features.entry_var.tolist()) - {target})
        table = features_as_table_factor(features, [*parents, target])
        if table is not None:
            return TableCPD(block.cards, target, parents, table.table)
    parts = [block.features(), *(t.features() for t in block.tables)]
    if block.trees:
        parts.append(factor_features(block.cards, block.trees))
    return LogLinearCPD(target, Features.concatenate(parts))
