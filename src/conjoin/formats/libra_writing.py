"""Writing Libra's model files, whose format `conjoin.formats.libra_reading` describes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from conjoin.errors import FormatError
from conjoin.formats.names_files import write_named
from conjoin.formats.storage import ending
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import Factor, MarkovNetwork, TableFactor
from conjoin.models.network import Network
from conjoin.models.rule_cpd import RuleCPD
from conjoin.models.table_cpd import TableCPD
from conjoin.models.tree import Tree, factor_features
from conjoin.models.tree_cpds import TreeCPD
from conjoin.models.vocabulary import Vocabulary

NUMBER = "%.14g"
"""The format of numbers: Python prints 14 digits twice as fast as 17."""


def write_network(model: Network, path: Path) -> None:
    """Write a .dn, .mn or .bn file."""
    kind = ending(path)[1:].upper()
    if not len(model.domain):
        raise FormatError("Libra's formats cannot hold a model without variables", str(path))
    pieces = [",".join(map(str, model.domain.cards)), "\n", kind, " {\n"]
    if isinstance(model, MarkovNetwork):
        pieces += feature_lines(model.features, path)
        for factor in model.factors:
            pieces += _factor_lines(factor, model.domain.cards, path)
    else:
        assert isinstance(model, DependencyNetwork | BayesianNetwork)
        for cpd in model.cpds:
            pieces += [f"v{cpd.target} {{\n", *_cpd_lines(cpd, path), "}\n"]
    pieces.append("}\n")
    write_named(path, "".join(pieces).encode(), model.domain)


def words_of_tests(tests: Vocabulary) -> list[str]:
    """Return the words for each test: +v0_1, or -v0_0 -v0_2 for a set of several states."""
    words = []
    for var, member in zip(tests.var.tolist(), tests.members(), strict=True):
        states = np.flatnonzero(member).tolist()
        if len(states) == 1:
            words.append(f" +v{var}_{states[0]}")
        else:
            outside = [s for s in range(int(tests.cards[var])) if not member[s]]
            words.append("".join(f" -v{var}_{s}" for s in outside))
    return words


def feature_lines(features: Features, path: Path) -> list[str]:
    """Return the pieces of the lines of features, one line per feature."""
    if features.soft_rows().any():
        raise FormatError(
            "Libra's formats cannot hold features with off values, which averaging over all orders "
            "makes; use the native format (.conjoin), a larger max_length, or orders 'rotations'",
            str(path),
        )
    tests = words_of_tests(features.tests)
    words = [tests[t] for t in features.indices.tolist()]
    ends = features.indptr.tolist()
    parts = zip(features.weights.tolist(), ends[:-1], ends[1:], strict=True)
    return [f"{NUMBER % weight}{''.join(words[low:high])}\n" for weight, low, high in parts]


def _factor_lines(factor: Factor, cards: npt.NDArray[np.int64], path: Path) -> list[str]:
    if isinstance(factor, TableFactor):
        return table_lines(factor)
    if one_against_rest(factor, cards):
        return tree_lines(factor, cards)
    return feature_lines(factor_features(cards, [factor]), path)


def _cpd_lines(cpd: CPD, path: Path) -> list[str]:
    if isinstance(cpd, TableCPD):
        return table_lines(TableFactor((*cpd.parents, cpd.target), cpd.table))
    if isinstance(cpd, TreeCPD | RuleCPD):
        tree = cpd if isinstance(cpd, TreeCPD) else TreeCPD(cpd.cards, cpd.target, cpd.trees[0])
        factor = tree.to_factor()
        if one_against_rest(tree.tree, cpd.cards):
            return tree_lines(factor, cpd.cards)
    return feature_lines(cpd.features(), path)


def table_lines(factor: TableFactor) -> list[str]:
    """Return the pieces of a table block, one line per joint state."""
    lines = ["table {\n"]
    for index in np.ndindex(*factor.table.shape):
        tests = "".join(f" +v{v}_{s}" for v, s in zip(factor.variables, index, strict=True))
        lines.append(f"{NUMBER % factor.table[index]}{tests}\n")
    return [*lines, "}\n"]


def one_against_rest(tree: Tree, cards: npt.NDArray[np.int64]) -> bool:
    """Return whether at most one branch of each split is shared by several states."""
    for node in np.flatnonzero(tree.var >= 0).tolist():
        children = tree.children(node, cards)
        if sum(children.count(c) > 1 for c in set(children)) > 1:
            return False
    return True


def tree_lines(tree: Tree, cards: npt.NDArray[np.int64]) -> list[str]:
    """Return the pieces of a tree block; splits into several branches become chains."""
    pieces = ["tree {\n"]
    # The work left, last item first: text to write, or a node and its states that are still possible.
    stack: list[str | tuple[int, tuple[int, ...] | None]] = [(0, None)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        node, states = item
        if tree.var[node] < 0:
            pieces.append(" " + NUMBER % tree.value[tree.ptr[node]])
            continue
        children = tree.children(node, cards)
        states = tuple(range(len(children))) if states is None else states
        left = {children[s] for s in states}
        if len(left) == 1:
            stack.append((left.pop(), None))
            continue
        # Test a state that does not share its branch; all other states follow the other branch.
        alone = next(s for s in states if sum(children[t] == children[s] for t in states) == 1)
        rest = tuple(s for s in states if s != alone)
        pieces.append(f"\n(v{tree.var[node]}_{alone}")
        stack += [")", (node, rest), (children[alone], None)]
    return [*pieces, "\n}\n"]
