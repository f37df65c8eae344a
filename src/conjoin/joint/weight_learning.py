"""`learn_weights`: the weights of a Markov network by pseudo-likelihood or likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.frames import as_table
from conjoin.data.holdout import hold_out
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.inference.completion import completed
from conjoin.jobs import off_main_thread, one_thread
from conjoin.joint.expectations import CompleteLikelihood, Expectations
from conjoin.joint.incomplete_rows import MarginalLikelihood, incomplete
from conjoin.joint.lbfgs import descend
from conjoin.joint.pseudo_likelihood_learning import PseudoLikelihood
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features, segment_index
from conjoin.models.log_linear_cpd import LogLinearCPD
from conjoin.models.loglinear import LogLinearForm
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network, no_hidden_variables, takes_estimators
from conjoin.models.vocabulary import mask_words, state_masks
from conjoin.progress import progress

SDS_FROM_ZERO = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Default standard deviations of the prior, from zero."""

SDS_FROM_MODEL = (0.02, 0.05)
"""Default standard deviations of the prior, from a model by pseudo-likelihood."""

SDS_FOR_LIKELIHOOD = (0.1, 0.5, 2.0)
"""Default standard deviations of the prior, from a model by likelihood."""

Objective = PseudoLikelihood | CompleteLikelihood | MarginalLikelihood
"""A function of the weights to maximise."""

SUMMED_ROWS = 1 << 10
"""Maximum number of rows whose missing values are summed out in the likelihood."""


@takes_estimators
@names_lack_of_memory
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
    prior centred on its weights, a few steps improve on the closed form. The likelihood itself can be
    maximised instead if the network is thin enough for exact inference (see `thin`).

    Parameters
    ----------
    model : DependencyNetwork, MarkovNetwork or BayesianNetwork
        The network whose features are used.
    table : Table, 2-dimensional array, or frame
        The training rows.
    valid : Table, array or frame, optional
        Validation rows, by which the standard deviation of the prior is chosen and, from a model, the
        number of iterations. Without them a share of the rows is held out, and the weights are
        finally learned from all rows.
    holdout : float
        The share of the rows to hold out.
    objective : {'pseudo-likelihood', 'likelihood'}
        The function to maximise. For the likelihood every state has a weight of its own besides the
        model's features. Missing values are summed out; if more than 1,024 rows lack some, they are
        drawn once from the model instead, which must then be a joint distribution.
    start : {'zero', 'model'}
        Start with all weights 0, or with the weights of the model (a Markov network).
    prior_sd : float or sequence of float, optional
        The standard deviation of the prior around the start, or several to choose from. By default
        0.05, 0.1, 0.2, 0.5 and 1 from zero, and from a model 0.02 and 0.05, or 0.1, 0.5 and 2 for
        the likelihood.
    l1 : float
        An additional penalty on the sum of absolute weights (OWL-QN); only from zero.
    max_iterations : int, optional
        The maximum number of iterations: by default 100, but 10 from a model by pseudo-likelihood.
    patience : int, optional
        From a model, stop after this number of consecutive iterations without a better validation
        score; by default 1, or 4 for the likelihood.
    tolerance : float, optional
        Stop when the relative gain of an iteration is smaller: by default 1e-5, or 1e-4 for the
        likelihood.
    random_state : int or numpy Generator
        Draws the rows to hold out, and missing values for the likelihood.
    n_jobs : int, optional
        The number of parts of the rows to evaluate at the same time. It does not change the result.

    Returns
    -------
    MarkovNetwork
        Its provenance records the choices.

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
    settings = _Settings.checked(
        model, objective, start, prior_sd, l1, max_iterations, patience, tolerance
    )
    no_hidden_variables(model, "given other weights")
    rng = np.random.default_rng(random_state)
    form = _starting_form(model, settings)
    train = _usable_rows(model, table, settings, rng)
    held = None if valid is None else _usable_rows(model, valid, settings, rng)
    if not len(train):
        raise ModelError("the table has no rows to learn from")
    if held is not None and not len(held):
        raise ModelError("the validation table has no rows")
    learner = _Learner(form, settings, n_jobs)
    with one_thread():
        found = off_main_thread(lambda: learner.learn(train, held, holdout, rng), n_jobs)
    record = {
        "start": start,
        "rows": len(train),
        "objective": objective,
        "prior_sd": found.prior_sd,
        **({"prior_sd_path": found.path} if found.path else {}),
    }
    provenance = {**model.provenance, "weights": record}
    features = replace(form.features, weights=found.weights)
    return MarkovNetwork(model.domain, features, provenance=provenance)


@dataclass(frozen=True)
class _Settings:
    """The settings of `learn_weights`, checked and with defaults filled in."""

    exact: bool
    start: str
    prior_sds: tuple[float, ...]
    l1: float
    max_iterations: int
    patience: int
    tolerance: float

    @classmethod
    def checked(
        cls,
        model: Network,
        objective: str,
        start: str,
        prior_sd: float | Sequence[float] | None,
        l1: float,
        max_iterations: int | None,
        patience: int | None,
        tolerance: float | None,
    ) -> _Settings:
        """Check the arguments of `learn_weights`."""
        if start not in ("zero", "model"):
            raise ModelError(f"unknown start {start!r}; use 'zero' or 'model'")
        if start == "model" and not isinstance(model, MarkovNetwork):
            raise ModelError(
                f"a {model.kind} has no weights of a joint distribution to start from; convert it "
                "first, or use start='zero'"
            )
        if objective not in ("pseudo-likelihood", "likelihood"):
            raise ModelError(
                f"unknown objective {objective!r}; use 'pseudo-likelihood' or 'likelihood'"
            )
        if l1 < 0 or (l1 and start == "model"):
            raise ModelError("l1 must not be negative, and needs start='zero'")
        exact, from_zero = objective == "likelihood", start == "zero"
        if patience is None:
            patience = 4 if exact else 1
        if patience < 1:
            raise ModelError(f"patience must be 1 or more, not {patience}")
        default = SDS_FROM_ZERO if from_zero else SDS_FOR_LIKELIHOOD if exact else SDS_FROM_MODEL
        given = (prior_sd,) if isinstance(prior_sd, int | float) else prior_sd
        sds = tuple(sorted(default if given is None else given))
        if not sds or not all(sd > 0 and np.isfinite(sd) for sd in sds):
            raise ModelError(f"prior_sd must be positive, not {prior_sd}")
        if max_iterations is None:
            max_iterations = 100 if from_zero or exact else 10
        if tolerance is None:
            tolerance = 1e-4 if exact else 1e-5
        return cls(exact, start, sds, l1, max_iterations, patience, tolerance)

    @property
    def stops_early(self) -> bool:
        """Whether a descent stops where the validation score is best."""
        return self.start == "model"


def _usable_rows(
    model: Network, table: Any, settings: _Settings, rng: np.random.Generator
) -> Table:
    """Return the rows of positive weight, with missing values drawn if too many rows lack them."""
    rows = as_table(table, model.domain)
    codes_of(model.domain, rows, complete=False)
    rows = in_content_order(rows)
    if rows.weights is not None and (rows.weights == 0).any():
        some = rows.weights > 0
        rows = Table(rows.domain, rows.codes[some], rows.weights[some])
    if not settings.exact or np.count_nonzero(incomplete(rows)) <= SUMMED_ROWS:
        return rows
    return completed(model, rows, int(rng.integers(2**31)))


def _starting_form(model: Network, settings: _Settings) -> LogLinearForm:
    """Return the distinct features of a network, with the weights to start from.

    For the likelihood every state of every variable has a feature of its own besides.
    """
    features, owner = model.form.features, model.form.owner
    if settings.start == "zero" and isinstance(model, DependencyNetwork) and owner is not None:
        # A leaf of a tree or a row of a table is one feature for each state of its target: in a joint
        # distribution the states also differ in their effect on the other variables of the path.
        linear = np.array([isinstance(cpd, LogLinearCPD) for cpd in model.cpds])[owner]
        plain, spread = np.flatnonzero(linear), np.flatnonzero(~linear)
        parts = [features.select(plain), _all_states(features.select(spread), owner[spread])]
        features = Features.concatenate(parts)
    features = features.merged()
    if settings.start == "zero":
        weights = np.where(np.isfinite(features.weights), 0.0, features.weights)
        features = replace(features, weights=weights)
    if settings.exact:
        features = _with_states(features)
    return LogLinearForm.of_features(model.domain, features)


def _with_states(features: Features) -> Features:
    """Return the features with one more of weight 0 for each state that has none."""
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


@dataclass(frozen=True, eq=False)
class _Found:
    """The weights that a descent reached.

    Attributes
    ----------
    score : float
        The validation score, -inf if there are no validation rows.
    weights : array of float
        The weights.
    prior_sd : float
        The standard deviation of the prior.
    iterations : int
        The number of iterations it took.
    path : list
        The mean validation score of each standard deviation that was tried.
    """

    score: float
    weights: FloatArray
    prior_sd: float
    iterations: int
    path: list[list[float]] = field(default_factory=list)


class _Learner:
    """Descends with the same settings on different rows."""

    def __init__(self, form: LogLinearForm, settings: _Settings, n_jobs: int | None) -> None:
        self.form, self.settings, self.n_jobs = form, settings, n_jobs
        self.expectations = Expectations(form.features) if settings.exact else None

    def learn(
        self, train: Table, held: Table | None, holdout: float, rng: np.random.Generator
    ) -> _Found:
        """Return the weights for the best prior; without validation rows some rows are held out."""
        settings = self.settings
        if held is not None or (len(settings.prior_sds) == 1 and not settings.stops_early):
            return self.best(train, held)
        fitted, held = hold_out(train, holdout, rng)
        if not len(fitted):
            raise ModelError(
                "the table has too few rows to hold some out; give `valid` or one prior_sd"
            )
        found = self.best(fitted, held)
        return replace(found, weights=self.fit_all(train, found))

    def best(self, train: Table, held: Table | None) -> _Found:
        """Return the weights with the best validation score.

        The descents go from the tightest prior to the widest, each from the end of the one before,
        apart from those by pseudo-likelihood from a model, which all start at the model.
        """
        settings, base = self.settings, self.form.features.weights
        objective = self._objective(train)
        check = None if held is None else self._objective(held)
        curvature = objective.curvature()
        best, now, path = None, base, []
        for sd in settings.prior_sds:
            found = self._descend(objective, curvature, now, sd, check)
            if check is not None:
                path.append([sd, found.score / check.weight])
            if best is None or found.score > best.score:
                before = best.iterations if best is not None and settings.exact else 0
                best = replace(found, iterations=before + found.iterations, path=path)
            elif settings.exact or not settings.stops_early:
                break  # wider priors fit the training rows even more closely
            restart = best.weights if settings.exact else base
            now = restart if settings.stops_early else found.weights
        assert best is not None
        return best

    def fit_all(self, train: Table, found: _Found) -> FloatArray:
        """Return the weights after the chosen number of iterations on all rows.

        By likelihood, which takes longer, a quarter of them, from the weights found on most rows.
        """
        objective = self._objective(train)
        now, iterations = self.form.features.weights, found.iterations
        if self.settings.exact:
            now, iterations = found.weights, -(-iterations // 4)
        steps = self._steps(objective, objective.curvature(), now, found.prior_sd)
        for point in islice(steps, iterations):
            now = point
        return now

    def _objective(self, table: Table) -> Objective:
        """Return the function to maximise, on some rows."""
        if not self.settings.exact:
            return PseudoLikelihood(self.form, table, self.n_jobs)
        kind = MarginalLikelihood if incomplete(table).any() else CompleteLikelihood
        return kind(self.form.features, table, self.expectations)

    def _descend(
        self,
        objective: Objective,
        curvature: FloatArray,
        start: FloatArray,
        sd: float,
        check: Objective | None,
    ) -> _Found:
        """Descend with one prior; from a model, stop where the validation score is best."""
        settings, now = self.settings, start
        stopper = check if settings.stops_early else None
        if stopper is None:
            for point in self._steps(objective, curvature, start, sd):
                now = point
            score = -np.inf if check is None else check.value(now)
            return _Found(score, now, sd, settings.max_iterations)
        best = _Found(stopper.value(start), start, sd, 0)
        for number, point in enumerate(self._steps(objective, curvature, start, sd), 1):
            score = stopper.value(point)
            if score > best.score:
                best = _Found(score, point, sd, number)
            elif number >= best.iterations + settings.patience:
                break
        return best

    def _steps(
        self,
        objective: Objective,
        curvature: FloatArray,
        start: FloatArray,
        sd: float,
    ) -> Iterator[FloatArray]:
        """Yield the weights that each iteration reaches."""
        settings, centre, free = self.settings, self.form.features.weights, objective.free

        def moved(change: FloatArray) -> FloatArray:
            weights = centre.copy()
            weights[free] += change
            return weights

        def function(change: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = objective.value_and_gradient(moved(change))
            prior = float(change @ change) / (2 * sd**2)
            return prior - value, change / sd**2 - gradient[free]

        scale = curvature[free] + 1 / sd**2
        steps = descend(function, start[free] - centre[free], scale=scale, l1=settings.l1)
        label = f"weights, prior sd {sd:g}"
        limited = progress(steps, label, settings.max_iterations)
        for number, step in enumerate(limited, 1):
            yield moved(step.point)
            finished = step.change < settings.tolerance * abs(step.value)
            if finished or number >= settings.max_iterations:
                return
