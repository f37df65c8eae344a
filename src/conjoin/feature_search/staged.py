"""L1 over all weights at once, with features introduced in stages (Lee, Ganapathi and Koller, 2006).

The L1-regularised likelihood is a convex function of the weights of all possible features, and almost all
of its best weights are 0. A feature of weight 0 can stay out as long as the gradient of its weight, the
difference between its count in the rows and its expected count, is at most the penalty. So features enter
by their gradients, in stages, all weights are learned again after each, and when no gradient exceeds the
penalty, the weights are the best ones for all features together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.feature_search.candidates import CandidateSearch, total_weight
from conjoin.feature_search.growing_network import GrowingNetwork, Objective, maximised
from conjoin.feature_search.task import FeatureTask
from conjoin.feature_search.weight_methods import Method, learning_method
from conjoin.models.markov import MarkovNetwork
from conjoin.progress import progress

SLACK = 0.05
"""A gradient must exceed the penalty by this share for its feature to be introduced."""

PENALTIES = (128.0, 32.0, 8.0, 2.0, 0.5)
"""Default penalties, from which held-out rows choose, in rows."""


@dataclass(frozen=True)
class Staged:
    """Settings of L1 in stages.

    Attributes
    ----------
    objective : {'likelihood', 'pseudo-likelihood'}
        The score that weights maximise (see `TopDown`).
    max_cells : int, optional
        The budget of exact inference: the number of cells of all its tables. By default 32,768, or twice
        the cells of the network to start from.
    penalty : float, optional
        The penalty per unit of absolute weight, in rows. By default a path from 128 to 0.5, from which
        held-out rows choose.
    max_stages : int
        Maximum number of stages for each penalty.
    batch : int, optional
        Maximum number of features per stage; by default half the number of columns, at least 32.
    max_tests : int
        Maximum number of tests of a feature.
    draws : int
        Number of rows that are drawn from the network to rank candidates, at first.
    max_iterations : int
        Maximum number of iterations in which the weights are learned again after a stage.
    tolerance : float
        The relative gain of an iteration at which they are good enough.
    """

    objective: str = "likelihood"
    max_cells: int | None = None
    penalty: float | None = None
    max_stages: int = 10
    batch: int | None = None
    max_tests: int = 4
    draws: int = 1 << 13
    max_iterations: int = 100
    tolerance: float = 1e-5

    def learn(self, task: FeatureTask) -> tuple[MarkovNetwork, dict[str, Any]]:
        """Return the network and a record of the stages."""
        grown = GrowingNetwork.of(task.start)
        if not task.given:  # all weights are penalised, those of single states, too
            grown = GrowingNetwork(
                grown.domain, grown.fixed, grown.features, np.zeros(len(grown.features))
            )
        method = learning_method(self.objective, grown, self.max_cells, task)
        search = CandidateSearch(grown, task.train, self.max_tests, self.draws, task.rng)
        path = PENALTIES if self.penalty is None else (self.penalty,)
        best, chosen, record = grown, path[0], []
        top = -np.inf
        for penalty in progress(path, "penalties", len(path)):
            grown = self._stages(grown, method, search, task, penalty)
            (on_held,) = method.objectives(grown, [task.held])
            score = on_held.value(grown.features.weights) / on_held.total
            used = int(np.count_nonzero(grown.features.weights - grown.centre))
            record.append({"penalty": penalty, "features": used, "held_out": score})
            if score <= top:
                break  # smaller penalties fit the training rows even more closely
            best, chosen, top = grown, penalty, score
        used_features = np.flatnonzero(best.features.weights)
        best = best.selected(used_features)
        if task.everything is not None:
            (objective,) = method.objectives(best, [task.everything])
            scale = total_weight(task.everything) / total_weight(task.train)
            best = best.reweighted(self.fit(best, objective, chosen * scale))
        return best.network(), {"objective": self.objective, "penalty": chosen, "path": record}

    def _stages(
        self,
        grown: GrowingNetwork,
        method: Method,
        search: CandidateSearch,
        task: FeatureTask,
        penalty: float,
    ) -> GrowingNetwork:
        """Introduce features as long as gradients exceed the penalty."""
        rows = total_weight(task.train)
        batch = max(32, len(task.train.domain) // 2) if self.batch is None else self.batch

        def score(share: FloatArray, expected: FloatArray) -> FloatArray:
            return rows * np.abs(share - expected)

        for stage in range(self.max_stages + 1):
            (objective,) = method.objectives(grown, [task.train])
            grown = grown.reweighted(self.fit(grown, objective, penalty))
            if stage == self.max_stages:
                break
            found = search.find(grown, method, score, batch, (1 + SLACK) * penalty)
            added = method.accept(found.features)
            if not len(added):
                break
            search.extend(added)
            grown = grown.extended(added)
        return grown

    def fit(self, grown: GrowingNetwork, objective: Objective, penalty: float) -> FloatArray:
        """Return the weights that maximise an objective minus the penalty."""
        return maximised(
            objective, grown.features.weights, grown.centre, l1=penalty,
            max_iterations=self.max_iterations, tolerance=self.tolerance,
        )  # fmt: skip
