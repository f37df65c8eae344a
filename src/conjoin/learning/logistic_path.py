"""CPDs of L1 logistic regression over all other variables, and optionally over a tree's paths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import BoolArray, FloatArray, IntArray
from conjoin.data.packed_table import pack_table
from conjoin.data.row_hashing import merge_rows
from conjoin.data.table import Codes, Table
from conjoin.learning.checkpointed_tasks import TaskRunner
from conjoin.learning.logistic_binary import Batch
from conjoin.learning.logistic_features import (
    MAX_BATCH,
    SCREENED_BATCH,
    Design,
    PathFeatures,
    batches,
)
from conjoin.learning.logistic_multinomial import Multinomial
from conjoin.learning.logistic_solver import (
    REQUIRED_SHARE,
    ROUGH,
    TOLERANCE,
    Solution,
    Solver,
)
from conjoin.learning.options import LIMITS, REQUIRED, WIDE, Limits
from conjoin.learning.screening import (
    columns_to_keep,
    mutual_information,
    screened_columns,
    strongest_tree,
)
from conjoin.learning.tree_path import TreePath, gain_needed
from conjoin.models.cpd import CPD
from conjoin.models.features import Features
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.vocabulary import full_masks, mask_words, range_masks


class LogisticPath:
    """The solutions for all targets, along the path of penalties.

    Parameters
    ----------
    table : Table
        The training rows.
    valid : Table, optional
        The rows to score.
    rules : array of int8, shape (variables, variables)
        Which variables may be features of which target.
    runner : TaskRunner, optional
        Runs the tasks, one per batch of targets.
    trees : TreePath, optional
        Trees whose paths become features too ("hybrid").
    kappa : float
        The kappa of those trees.
    most_states : int
        The maximum number of states of a target; others keep their trees.
    exhaustive : bool
        Solve with full precision, and consider all columns. Otherwise large tables are solved with
        less, and if wide, with some columns for each target (see `conjoin.learning.screening`).
    limits : Limits
        The sizes from which tables are treated differently.
    targets : sequence of int, optional
        The targets; by default all.
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
            return Design.of(cards, *merged, wide, limits.sparse_share, table.domain.ordered)

        self.design = design_of(table)
        self.valid = None if valid is None else design_of(valid)
        self.tree_scores = np.zeros(len(cards))
        if valid is not None and trees is not None and self.by_tree:
            packed = pack_table(valid, trees.data)
            for t in self.by_tree:
                self.tree_scores[t] = trees.score(t, packed, kappa)
        factor = np.array([-1.0, 1.0, REQUIRED_SHARE])[rules[self.design.var]]
        self.trees, self.kappa = trees, kappa
        left = np.setdiff1d(left, self.by_tree)
        count = len(cards) if exhaustive else columns_to_keep(self.design, limits)
        screen = count < len(cards)
        large = screen or (len(table) > limits.choice_rows and not exhaustive)
        self.tolerance = limits.large_tolerance if large else TOLERANCE
        if screen:
            order, considered = self._screen(rules, count)
            factor[~considered[self.design.var]] = -1.0
            left = order[np.isin(order, left)]
        self.batches = self._make_batches(left.tolist(), factor, screen)
        self.solutions: dict[float, list[Solution]] = {}

    def _make_batches(self, targets: list[int], factor: FloatArray, screen: bool) -> list[Solver]:
        """Return what solves the targets: batches of those with two states, then all others.

        `factor` multiplies the penalties; a feature takes no part where it is negative.
        """
        trees, cards, limits = self.trees, self.design.cards, self.limits
        tables: list[Codes] = []
        if trees is not None:
            held = self.design.codes[:0] if self.valid is None else self.valid.codes
            tables = [np.ascontiguousarray(codes.T) for codes in (self.design.codes, held)]
        made: list[Solver] = []
        features = np.arange(self.design.x.width)
        binary = [t for t in targets if cards[t] <= 2]
        most = SCREENED_BATCH if screen else MAX_BATCH
        for some in batches(self.design, binary, most, limits.batch_cells):
            paths = None if trees is None else [self._paths_of(trees, t, tables) for t in some]
            if screen:
                features = np.flatnonzero((factor[:, some] >= 0).any(axis=1))
            made.append(Batch(self.design, some, factor, features, paths, self.valid))
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
        found = self._solve([penalty], tolerance, slice(0, probe))
        if probe:
            new = _score([solutions[0] for solutions in found])
            if new < max(_score(solutions[:probe]) for solutions in self.solutions.values()):
                return None
        found += self._solve([penalty], tolerance, slice(probe, None))
        return self._keep([penalty], found)[0]

    def _probe(self) -> int:
        """Return how many batches are solved first; 0 if that would be half of them or more."""
        if self.valid is None:
            return 0
        many = np.cumsum([len(batch.targets) for batch in self.batches])
        count = int(np.searchsorted(many, self.limits.probe_targets)) + 1
        return count if 2 * count <= len(many) else 0

    def advance_all(self, penalties: Sequence[float]) -> list[FloatArray]:
        """Solve for several penalties, in descending order; return the scores of each."""
        return self._keep(penalties, self._solve(penalties, self.tolerance, slice(None)))

    def _solve(
        self, penalties: Sequence[float], tolerance: float, which: slice
    ) -> list[list[Solution]]:
        """Continue along the path with some batches; return the solutions of each."""
        some = self.batches[which]
        tasks = [(self.design, self.valid, batch, list(penalties), tolerance) for batch in some]
        what = f"logistic regression, penalty {', '.join(f'{p:g}' for p in penalties)}"
        sizes = [len(batch.targets) for batch in some]
        found = self.runner.run(_solve, tasks, what, sizes)
        for batch, solutions in zip(some, found, strict=True):
            batch.go_back(solutions[-1])  # it may have been solved elsewhere, or in an earlier run
        return found

    def _keep(self, penalties: Sequence[float], found: list[list[Solution]]) -> list[FloatArray]:
        """Keep the solutions of all batches; return the scores by target for each penalty."""
        scores = []
        for i, penalty in enumerate(sorted(penalties, reverse=True)):
            self.solutions[penalty] = [solutions[i] for solutions in found]
            by_target = self.tree_scores.copy()
            for batch, solution in zip(self.batches, self.solutions[penalty], strict=True):
                by_target[batch.targets] = solution.score
            scores.append(by_target)
        return scores

    def finish(self, penalty: float) -> None:
        """Solve all targets to full precision for a penalty that the path has advanced to."""
        found = self.solutions[penalty]
        if all(solution.tolerance <= self.tolerance for solution in found):
            return
        for batch, solution in zip(self.batches, found, strict=True):
            batch.go_back(solution)
        self._keep([penalty], self._solve([penalty], self.tolerance, slice(None)))

    def cpds(self, penalty: float) -> list[CPD]:
        """Return the CPDs of a penalty that the path has advanced to."""
        self.finish(penalty)
        owner, weights = [], []
        entries: list[tuple[IntArray, ...]] = []  # feature, variable, first and last state, negated
        count = 0
        for batch, solution in zip(self.batches, self.solutions[penalty], strict=True):
            for c, (target, state) in enumerate(
                zip(batch.column_target.tolist(), batch.column_state.tolist(), strict=True)
            ):
                used = np.flatnonzero(solution.weights[c])
                terms = batch.features[used]
                own = solution.own[batch.own_first[c] : batch.own_first[c + 1]]
                own_used = np.flatnonzero(own)
                size = 1 + len(used) + len(own_used)
                mine = count + np.arange(size)
                none = np.zeros(size, np.int64)
                own_state = np.full(size, state)
                entries.append((mine, np.full(size, target), own_state, own_state, none))
                entries.append(
                    (
                        mine[1 : 1 + len(used)],
                        self.design.var[terms],
                        self.design.state[terms],
                        self.design.last[terms],
                        none[: len(used)],
                    )
                )
                if len(own_used):
                    entries += self._path_tests(target, own_used, mine[1 + len(used) :])
                owner.append(np.full(size, target))
                weights += [solution.bias[c], *solution.weights[c, used], *own[own_used]]
                count += size
        features = self._assemble(entries, np.array(weights))
        owners = np.concatenate(owner)
        first = np.flatnonzero(
            np.diff(owners, prepend=-1, append=-1)
        )  # features are grouped by target
        result: list[CPD] = [
            LogLinearCPD(int(owners[low]), features.select(np.arange(low, high)))
            for low, high in pairwise(first.tolist())
        ]
        if self.trees is not None:
            result += self.trees.cpds(self.kappa, self.by_tree)
        return sorted(result, key=lambda cpd: cpd.target)

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

    def _assemble(self, entries: list[tuple[IntArray, ...]], weights: FloatArray) -> Features:
        cards = self.design.cards
        feature, var, first, last, negated = (
            np.concatenate([e[k] for e in entries]).astype(np.int64) for k in range(5)
        )
        mask = range_masks(first, last, mask_words(cards))
        mask = np.where(negated[:, None] == 1, full_masks(cards)[var] & ~mask, mask)
        return Features.from_tests(cards, feature, var, mask, weights)


def _score(solutions: Sequence[Solution]) -> float:
    return sum(float(solution.score.sum()) for solution in solutions)


def _solve(
    design: Design, valid: Design | None, batch: Solver, penalties: list[float], tolerance: float
) -> list[Solution]:
    """Solve one batch."""
    batch.design = design.select(batch.features)
    batch.valid = None if valid is None else valid.select(batch.features)
    found = batch.solve(penalties, tolerance)
    batch.design, batch.valid = design, valid
    return found
