"""CPDs of L1 logistic regression over all other variables, and optionally over a tree's paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.parent_rules import REQUIRED
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.jobs import TaskRunner
from conjoin.learning.logistic_binary import Batch
from conjoin.learning.logistic_features import (
    MAX_BATCH,
    REQUIRED_SHARE,
    ROUGH,
    SCREENED_BATCH,
    TOLERANCE,
    Design,
    PathFeatures,
    Solution,
    batches,
)
from conjoin.learning.logistic_multinomial import Multinomial
from conjoin.learning.options import LIMITS, WIDE, Limits
from conjoin.learning.screening import (
    columns_to_keep,
    mutual_information,
    screened_columns,
    strongest_tree,
)
from conjoin.learning.tree_path import HeldRows, TreePath, gain_needed
from conjoin.models.cpd import CPD
from conjoin.models.features import Features
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.vocabulary import full_masks, mask_words, range_masks

Solver = Batch | Multinomial
"""Some targets that are solved together: a column per binary target, or per state of any other."""


class LogisticPath:
    """The solutions for all targets, along the path of penalties.

    `most_states`: the maximum number of states of a target; others keep their trees. `exhaustive`: solve
    large tables with full precision, too, and consider all columns (see `conjoin.learning.screening`).
    """

    def __init__(
        self,
        table: Table,
        valid: Table | None,
        rules: npt.NDArray[np.int8],
        runner: TaskRunner | None = None,
        trees: TreePath | None = None,
        kappa: float = 1.0,
        most_states: int = WIDE,
        exhaustive: bool = True,
        limits: Limits = LIMITS,
        targets: Sequence[int] | None = None,
    ) -> None:
        self.runner, self.limits = runner or TaskRunner(), limits
        cards = table.domain.cards
        left = np.arange(len(cards)) if targets is None else np.array(targets, np.int64)
        wide: list[int] = []
        self.by_tree: list[int] = []
        if trees is not None:
            required = (rules == REQUIRED).any(axis=1)
            wide = np.flatnonzero((cards > WIDE) & ~required).tolist()
            self.by_tree = left[cards[left] > most_states].tolist()

        def design_of(rows: Table) -> Design:
            merged = merge_rows(rows.codes, rows.weights)
            return Design.of(cards, *merged, wide, table.domain.ordered)

        self.design = design_of(table)
        self.valid = None if valid is None else design_of(valid)
        self.tree_scores = np.zeros(len(cards))
        if valid is not None and trees is not None and self.by_tree:
            rows = HeldRows.of(valid)
            for t in self.by_tree:
                self.tree_scores[t] = trees.score(t, rows, kappa)
        factor = np.array([-1.0, 1.0, REQUIRED_SHARE])[rules[self.design.var]]
        self.trees, self.kappa = trees, kappa
        left = np.setdiff1d(left, self.by_tree)
        count = (
            len(cards) if exhaustive else columns_to_keep(len(cards), self.design.x.x.size, limits)
        )
        screen = count < len(cards)
        large = screen or (len(table) > limits.choice_rows and not exhaustive)
        self.tolerance = limits.large_tolerance if large else TOLERANCE
        if screen:
            order, considered = self._screen(rules, count)
            factor[~considered[self.design.var]] = -1.0
            left = order[np.isin(order, left)]
        self.batches = self._make_batches(left.tolist(), factor, screen)
        self.solutions: dict[float, list[Solution]] = {}
        self.reached: list[Solution | None] = [None] * len(self.batches)  # where they continue

    def _make_batches(self, targets: list[int], factor: FloatArray, screen: bool) -> list[Solver]:
        """Return what solves the targets: batches of those with two states, then all others."""
        trees, cards, limits = self.trees, self.design.cards, self.limits
        tables: list[Codes] = []
        if trees is not None:
            held = self.design.codes[:0] if self.valid is None else self.valid.codes
            tables = [np.ascontiguousarray(codes.T) for codes in (self.design.codes, held)]
        made: list[Solver] = []
        features = np.arange(self.design.x.width)
        binary = [t for t in targets if cards[t] <= 2]
        most = SCREENED_BATCH if screen else MAX_BATCH
        for group in batches(self.design, binary, most, limits.batch_cells):
            paths = None if trees is None else [self._paths_of(trees, t, tables) for t in group]
            if screen:
                features = np.flatnonzero((factor[:, group] >= 0).any(axis=1))
            made.append(Batch(self.design, group, factor, features, paths, self.valid))
        for t in targets:
            if cards[t] > 2:
                path = None if trees is None else self._paths_of(trees, t, tables)
                rows = limits.curvature_rows
                made.append(Multinomial(self.design, t, factor, path, self.valid, rows))
        return made

    def _screen(self, rules: npt.NDArray[np.int8], count: int) -> tuple[IntArray, BoolArray]:
        """Return the targets, similar ones together, and the variables that each of them considers."""
        information = mutual_information(self.design)
        order, parent = strongest_tree(information)
        considered = screened_columns(information, rules, parent, count)
        if self.trees is not None:
            threshold = gain_needed(self.kappa)
            for t in self.trees.targets:
                tree = self.trees.trees[t]
                nodes, _ = tree.visible(threshold)
                inner = nodes[(tree.yes[nodes] >= 0) & (tree.gains[nodes] > threshold)]
                considered[self.trees.data.set_var[tree.split[inner]], t] = True
        return order, considered

    def _paths_of(self, trees: TreePath, target: int, tables: Sequence[Codes]) -> PathFeatures:
        """Return the path features of a target, on the training and the validation rows."""
        tree = trees.trees[target]
        threshold = gain_needed(self.kappa)
        order, number = tree.visible(threshold)
        parent = np.array([-1, *number[tree.parent[order[1:]]]], np.int64)
        depth = np.zeros(len(order), np.int64)
        for node in range(1, len(order)):
            depth[node] = depth[parent[node]] + 1
        leaf, valid_leaf = (
            number[tree.leaves(columns, trees.data, threshold)].astype(np.int32)
            for columns in tables
        )
        return PathFeatures(leaf, parent, depth, valid_leaf)

    def advance(self, penalty: float) -> FloatArray | None:
        """Solve for a penalty; if there are validation rows, only precisely enough to compare scores.

        Returns the summed log-likelihood of the validation rows by target; or None, if the first
        targets together score lower than with an earlier penalty, and the others were not solved.
        """
        probe = self._probe() if self.solutions else 0
        tolerance = self.tolerance if self.valid is None else ROUGH
        solutions = self._solve(penalty, tolerance, slice(0, probe))
        if probe:
            best = max(_score(earlier[:probe]) for earlier in self.solutions.values())
            if _score(solutions) < best:
                return None
        solutions += self._solve(penalty, tolerance, slice(probe, None))
        self.solutions[penalty] = solutions
        scores = self.tree_scores.copy()
        for batch, solution in zip(self.batches, solutions, strict=True):
            scores[batch.targets] = solution.score
        return scores

    def _probe(self) -> int:
        """Return how many batches are solved first; 0 if that would be half of them or more."""
        if self.valid is None:
            return 0
        many = np.cumsum([len(batch.targets) for batch in self.batches])
        count = int(np.searchsorted(many, self.limits.probe_targets)) + 1
        return count if 2 * count <= len(many) else 0

    def _solve(self, penalty: float, tolerance: float, which: slice) -> list[Solution]:
        """Continue along the path with some batches; return the solution of each."""
        batches = self.batches[which]
        tasks = [
            (self.design, self.valid, batch, start, penalty, tolerance)
            for batch, start in zip(batches, self.reached[which], strict=True)
        ]
        sizes = [len(batch.targets) for batch in batches]
        stage = f"logistic regression, penalty {penalty:g}"
        self.reached[which] = solutions = self.runner.run(_solve, tasks, stage, sizes)
        return solutions

    def cpds(self, penalty: float) -> list[CPD]:
        """Return the CPDs of a penalty that the path has advanced to, solved to full precision."""
        solutions = self.solutions[penalty]
        if any(solution.tolerance > self.tolerance for solution in solutions):
            self.reached = list(solutions)
            self.solutions[penalty] = solutions = self._solve(penalty, self.tolerance, slice(None))
        result: list[CPD] = [
            self._cpd(target, batch, solution)
            for batch, solution in zip(self.batches, solutions, strict=True)
            for target in batch.targets
        ]
        if self.trees is not None:
            result += self.trees.cpds(self.kappa, self.by_tree)
        return sorted(result, key=lambda cpd: cpd.target)

    def _cpd(self, target: int, batch: Solver, solution: Solution) -> LogLinearCPD:
        weights: list[float] = []
        entries: list[tuple[IntArray, ...]] = []  # feature, variable, first and last state, negated
        for c in np.flatnonzero(batch.column_target == target).tolist():
            used = np.flatnonzero(solution.weights[c])
            terms = batch.features[used]
            own = solution.own[batch.own_first[c] : batch.own_first[c + 1]]
            own_used = np.flatnonzero(own)
            number = len(weights) + np.arange(1 + len(used) + len(own_used))
            none = np.zeros_like(number)
            state = none + batch.column_state[c]
            entries.append((number, none + target, state, state, none))
            alone = number[1 : 1 + len(used)]
            ends = self.design.state[terms], self.design.last[terms]
            entries.append((alone, self.design.var[terms], *ends, none[: len(used)]))
            if len(own_used):
                entries += self._path_tests(target, own_used, number[1 + len(used) :])
            weights += [solution.bias[c], *solution.weights[c, used], *own[own_used]]
        feature, var, first, last, negated = (
            np.concatenate(columns).astype(np.int64) for columns in zip(*entries, strict=True)
        )
        cards = self.design.cards
        mask = range_masks(first, last, mask_words(cards))
        mask = np.where(negated[:, None] == 1, full_masks(cards)[var] & ~mask, mask)
        return LogLinearCPD(
            target, Features.from_tests(cards, feature, var, mask, np.array(weights))
        )

    def _path_tests(
        self, target: int, nodes: IntArray, features: IntArray
    ) -> list[tuple[IntArray, ...]]:
        """Return the tests on the paths to some nodes."""
        assert self.trees is not None
        tree, data = self.trees.trees[target], self.trees.data
        order, _ = tree.visible(gain_needed(self.kappa))
        entries: list[tuple[IntArray, ...]] = []
        at = order[nodes]
        while len(at):  # up all paths together
            above = tree.parent[at]
            split = tree.split[above]
            negated = (tree.yes[above] != at).astype(np.int64)
            sets = (data.set_var[split], data.set_state[split], data.set_last[split])
            entries.append((features, *sets, negated))
            at, features = above[above != 0], features[above != 0]
        return entries


def _score(solutions: Sequence[Solution]) -> float:
    return sum(float(solution.score.sum()) for solution in solutions)


def _solve(
    design: Design,
    valid: Design | None,
    batch: Solver,
    start: Solution | None,
    penalty: float,
    tolerance: float,
) -> Solution:
    batch.design = design.select(batch.features)
    batch.valid = None if valid is None else valid.select(batch.features)
    solution = batch.solve(penalty, start, tolerance)
    batch.design, batch.valid = design, valid
    return solution
