"""`learn_weights`: the weights of a Markov network by pseudo-likelihood or likelihood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.frames import as_table
from conjoin.data.splits import hold_out
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError
from conjoin.inference.completion import completed
from conjoin.jobs import off_main_thread, one_thread
from conjoin.models.cpd import LogLinearCPD
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features, segment_index
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network
from conjoin.models.vocabulary import mask_words, state_masks
from conjoin.progress import progress
from conjoin.scoring.conditionals import features_of
from conjoin.weights.likelihood import Expectations, Likelihood
from conjoin.weights.objective import Objective
from conjoin.weights.optimize import descend

FROM_ZERO = (0.05, 0.1, 0.2, 0.5, 1.0)
FROM_MODEL = (0.02, 0.05)
"""The standard deviations of the prior that are tried."""
FOR_LIKELIHOOD = (0.1, 0.5, 2.0)
"""Those for the likelihood, from a model."""
TOLERANCE, ROUGH = 1e-5, 1e-4
"""Stop when an iteration gains less than this part of the objective; the latter for the likelihood."""


def learn_weights(
    model: Network,
    table: Any,
    *,
    valid: Any = None,
    holdout: float = 0.1,
    objective: str = "pseudo-likelihood",
    start: str = "zero",
    prior_sd: float | Sequence[float] | None = None,
    l1: float = 0.0,
    max_iterations: int | None = None,
    patience: int | None = None,
    tolerance: float | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> MarkovNetwork:
    """Learn the weights of a network's distinct features by (pseudo-)likelihood (Section 2.2).

    Maximises the summed log conditionals of the training rows with a Gaussian prior on the weights, by
    L-BFGS. From zero this is the baseline of the paper's Section 6; from a converted network, with the
    prior centred on its weights, a few steps mend what the closed form leaves. The likelihood itself
    can be maximised instead, if the network is thin enough for exact inference (see `thin`).

    Parameters
    ----------
    model : DependencyNetwork, MarkovNetwork or BayesianNetwork
        Whose features to take.
    table : Table, 2-dimensional array, or frame
        The training rows.
    valid : Table, array or frame, optional
        Rows on which the standard deviation of the prior is chosen and, from a model, the iteration to
        stop at. Without it a share of the rows is held out for that, and all rows are used in the end.
    holdout : float
        That share.
    objective : {'pseudo-likelihood', 'likelihood'}
        What to maximise. For the likelihood every state has a weight of its own besides the model's
        features, and missing values are drawn once from the model, which must be a joint then.
    start : {'zero', 'model'}
        Begin with no weights, or with the model's own (a Markov network's).
    prior_sd : float or sequence of float, optional
        The standard deviation of the prior around the start, or several to choose from. By default
        0.05, 0.1, 0.2, 0.5 and 1 from zero, and from a model 0.02 and 0.05, or 0.1, 0.5 and 2 for
        the likelihood.
    l1 : float
        A penalty on the sum of absolute weights besides (OWL-QN); only from zero.
    max_iterations : int, optional
        At most so many: by default 100, but 10 from a model by pseudo-likelihood.
    patience : int, optional
        From a model, stop after so many iterations in a row that score no better than one before; by
        default 1, or 4 for the likelihood.
    tolerance : float, optional
        Stop when an iteration gains less than this part of the objective: by default 1e-5, or 1e-4 for
        the likelihood.
    random_state : int or numpy Generator
        Draws the rows that are held out, and missing values for the likelihood.
    n_jobs : int, optional
        How many parts of the rows to look at at a time. The result is the same for any number.

    Returns
    -------
    MarkovNetwork
        Its provenance tells what was chosen.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork, Table
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> shape = MarkovNetwork(domain, Features.from_terms(domain, [(0.0, {"a": 1, "b": 1})]))
    >>> rows = Table(domain, np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1]]))
    >>> mn = learn_weights(shape, rows, valid=rows, prior_sd=100.0)
    >>> round(float(mn.features.weights[0]), 3)  # three times as many ones as zeros where b is one
    1.099
    """
    if start not in ("zero", "model"):
        raise ModelError(f"start {start!r} is not known; use 'zero' or 'model'")
    if start == "model" and not isinstance(model, MarkovNetwork):
        raise ModelError(
            f"a {model.kind} has no weights of a joint to start from; convert it first, "
            "or use start='zero'"
        )
    if objective not in ("pseudo-likelihood", "likelihood"):
        raise ModelError(
            f"objective {objective!r} is not known; use 'pseudo-likelihood' or 'likelihood'"
        )
    exact = objective == "likelihood"
    if tolerance is None:
        tolerance = ROUGH if exact else TOLERANCE
    if patience is None:
        patience = 4 if exact else 1
    if patience < 1:
        raise ModelError(f"patience must be 1 or more, not {patience}")
    if l1 < 0 or (l1 and start == "model"):
        raise ModelError("l1 must not be negative, and goes with start='zero'")
    default = FROM_ZERO if start == "zero" else FOR_LIKELIHOOD if exact else FROM_MODEL
    given = (prior_sd,) if isinstance(prior_sd, int | float) else prior_sd
    sds = sorted(default if given is None else given)
    if not sds or not all(sd > 0 and np.isfinite(sd) for sd in sds):
        raise ModelError(f"prior_sd must be positive, not {prior_sd}")
    limit = (
        max_iterations if max_iterations is not None else 100 if start == "zero" or exact else 10
    )
    rng = np.random.default_rng(random_state)
    features = _distinct(model, start)
    if exact:
        features = _with_states(features)
    learner = _Learner(features, exact, start, l1, limit, patience, tolerance, n_jobs)

    def read(rows: Any) -> Table:
        found = as_table(rows, model.domain)
        codes_of(model.domain, found, complete=False)
        if found.weights is not None and (found.weights == 0).any():
            some = found.weights > 0
            found = Table(found.domain, found.codes[some], found.weights[some])
        return completed(model, found, int(rng.integers(2**31))) if exact else found

    train = read(table)
    if not len(train):
        raise ModelError("the table has no rows to learn from")
    record: dict[str, Any] = {"start": start, "rows": len(train), "objective": objective}

    def descend_all() -> tuple[FloatArray, float]:
        if valid is not None or (len(sds) == 1 and start == "zero"):
            held = None if valid is None else read(valid)
            if held is not None and not len(held):
                raise ModelError("the validation table has no rows")
            weights, chosen, _ = learner.best(train, held, sds, record)
            return weights, chosen
        fitted, held = hold_out(train, holdout, rng)
        if not len(fitted):
            raise ModelError(
                "the table has too few rows to hold some out; give `valid` or one prior_sd"
            )
        found, chosen, iterations = learner.best(fitted, held, sds, record)
        return learner.fit(train, chosen, iterations, found), chosen

    with one_thread():
        weights, chosen = off_main_thread(descend_all, n_jobs)
    record["prior_sd"] = chosen
    provenance = {**model.provenance, "weights": record}
    return MarkovNetwork(model.domain, replace(features, weights=weights), provenance=provenance)


def _distinct(model: Network, start: str) -> Features:
    """Return the distinct features of a network, with the weights to start from.

    A leaf of a tree, or a row of a table, is one feature for each state of its target: in a joint the
    states differ also in what they say of the other variables on the path.
    """
    if start == "model":
        return features_of(model)[0].merged()
    features, owner = features_of(model)
    if owner is not None and isinstance(model, DependencyNetwork):
        linear = np.array([isinstance(cpd, LogLinearCPD) for cpd in model.cpds])
        plain, spread = np.flatnonzero(linear[owner]), np.flatnonzero(~linear[owner])
        parts = [features.select(plain), _all_states(features.select(spread), owner[spread])]
        features = Features.concatenate(parts)
    merged = features.merged()
    return replace(merged, weights=np.where(np.isfinite(merged.weights), 0.0, merged.weights))


def _with_states(features: Features) -> Features:
    """Return features with one more for each state of each variable, where there is none."""
    cards = features.tests.cards
    var = np.repeat(np.arange(len(cards)), cards)
    state = segment_index(np.zeros(len(cards), np.int64), cards)
    masks, nothing = state_masks(state, mask_words(cards)), np.zeros(len(var))
    states = Features.from_tests(cards, np.arange(len(var)), var, masks, nothing)
    return Features.concatenate([features, states]).merged()


def _all_states(features: Features, owner: IntArray) -> Features:
    """Return each feature once for every state of its target."""
    cards = features.tests.cards
    copies = cards[owner]
    entries = segment_index(
        np.repeat(features.indptr[:-1], copies), np.repeat(features.lengths, copies)
    )
    row = np.repeat(np.arange(int(copies.sum())), np.repeat(features.lengths, copies))
    state = segment_index(np.zeros(len(copies), np.int64), copies)
    var, mask = features.entry_var[entries], features.tests.mask[features.indices[entries]]
    mine = var == np.repeat(owner, copies)[row]
    mask[mine] = state_masks(state[row[mine]], mask.shape[1])
    return Features.from_tests(cards, row, var, mask, np.repeat(features.weights, copies))


class _Learner:
    """Descends with the same settings on different rows."""

    def __init__(
        self,
        features: Features,
        exact: bool,
        start: str,
        l1: float,
        limit: int,
        patience: int,
        tolerance: float,
        n_jobs: int | None,
    ) -> None:
        self.features, self.exact, self.start, self.l1 = features, exact, start, l1
        self.expect = Expectations(features) if exact else None
        self.limit, self.patience, self.tolerance, self.n_jobs = limit, patience, tolerance, n_jobs

    def objective(self, table: Table) -> Objective | Likelihood:
        """Return what is maximised, on some rows."""
        if self.exact:
            return Likelihood(self.features, table, self.expect)
        return Objective(self.features, table, self.n_jobs)

    def best(
        self, train: Table, held: Table | None, sds: Sequence[float], record: dict[str, Any]
    ) -> tuple[FloatArray, float, int]:
        """Return the weights with the best validation score, their prior and the iterations taken.

        The descents go from the tightest prior to the widest, each from where the last one ended;
        from a model, each is stopped where the validation score is best, and by pseudo-likelihood each
        begins with the model.
        """
        objective = self.objective(train)
        check = None if held is None else self.objective(held)
        curvature = objective.curvature()
        base = self.features.weights
        now = base
        best: tuple[float, FloatArray, float, int] = (-np.inf, base, sds[0], 0)
        scores = []
        stopper = check if self.start == "model" else None
        for sd in sds:
            if stopper is not None:
                now = best[1] if self.exact else base
                best_here = (stopper.value(now), now, 0)
            for number, point in self._descent(objective, curvature, now, sd):
                now = point
                if stopper is not None:
                    score = stopper.value(now)
                    if score > best_here[0]:
                        best_here = (score, now, number)
                    elif number >= best_here[2] + self.patience:
                        break
            if stopper is None:
                score = -np.inf if check is None else check.value(now)
                best_here = (score, now, self.limit)
            scores.append([sd, best_here[0] / (check.weight if check is not None else 1.0)])
            if best_here[0] > best[0] or len(sds) == 1:
                before = best[3] if self.exact else 0
                best = (best_here[0], best_here[1], sd, before + best_here[2])
            elif self.exact or stopper is None:
                break  # wider priors fit the training rows still closer
        if check is not None:
            record["prior_sd_path"] = scores
        return best[1], best[2], best[3]

    def fit(self, train: Table, sd: float, iterations: int, found: FloatArray) -> FloatArray:
        """Return the weights after so many iterations on all rows.

        By likelihood, which takes longer, a quarter of that from what was found on most of the rows.
        """
        objective = self.objective(train)
        now = self.features.weights
        if self.exact:
            now, iterations = found, -(-iterations // 4)
        steps = self._descent(objective, objective.curvature(), now, sd)
        for _, point in islice(steps, iterations):
            now = point
        return now

    def _descent(
        self, objective: Objective | Likelihood, curvature: FloatArray, start: FloatArray, sd: float
    ) -> Iterable[tuple[int, FloatArray]]:
        """Yield the number of each iteration and the weights that it reaches."""
        centre, free = self.features.weights, objective.free

        def function(change: FloatArray) -> tuple[float, FloatArray]:
            weights = centre.copy()
            weights[free] += change
            value, gradient = objective.value_and_gradient(weights)
            prior = float(change @ change) / (2 * sd**2)
            return prior - value, change / sd**2 - gradient[free]

        scale = curvature[free] + 1 / sd**2
        begin = start[free] - centre[free]
        what = f"weights, prior sd {sd:g}"
        steps = descend(function, begin, scale=scale, l1=self.l1)
        for number, step in enumerate(progress(steps, what, self.limit), 1):
            weights = centre.copy()
            weights[free] += step.point
            yield number, weights
            if number >= self.limit or step.change < self.tolerance * abs(step.value):
                return
