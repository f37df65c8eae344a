"""`JointModel`: one model of a whole table, which answers any question about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.data.table import Table
from conjoin.errors import ConvergenceWarning, DataWarning, ModelError, names_lack_of_memory
from conjoin.estimator.answers import Answers, states_array
from conjoin.estimator.base import Estimator, not_fitted
from conjoin.estimator.encoding import Encoding, extra_column, weighted_rows
from conjoin.estimator.explain import Explanation, NumberExplanation
from conjoin.estimator.number_answers import NumberAnswers
from conjoin.estimator.pictures import Pictures
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.evidence import Evidence
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import MixedNetwork


class JointModel(NumberAnswers, Pictures, Estimator):
    """A joint distribution of all columns of a table.

    Parameters
    ----------
    cpd : {'auto', 'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        How the conditional of each column is learned (see `learn`); "auto" is "mixed": hybrids for
        columns of two states, trees for all others.
    discretize : 'auto', None, str, mapping or Discretizer
        How numeric columns are cut into bins (see `learn`). "auto" cuts none: numbers are numbers, and
        dates are dates. Only if settings of conditionals are given (`cpd`, `kappa`, `penalty`,
        `min_leaf`, or `refine=False`) are they cut, into five bins with about the same number of rows.
        With None, every number is a state.
    kappa, penalty, min_leaf : float, optional
        Settings of `learn`; those that are not given are chosen on held-out rows.
    refine : bool
        Whether to make the converted network thin enough for exact inference and to maximize the
        likelihood of its weights, as long as that improves the score of held-out rows (see `refine`).
        Without it, and for fewer than 50 rows, the network is the closed-form conversion of the
        conditionals.
    effort : {'quick', 'default', 'thorough'}
        How much work refining does; "quick" learns no hidden column.
    target : str, optional
        The column that `predict` predicts by default; otherwise the last one.
    unseen : {'error', 'missing'}
        Whether a value that the training table did not have is an error or counts as missing.
    required, forbidden : sequence of pairs of columns, optional
        Interactions: the conditionals of both columns of a pair always, or never, depend on the other
        one. With either, numbers are cut into bins; with forbidden ones, the network is the closed-form
        conversion, because refining may link any two columns.
    include, exclude : column names, optional
        Columns to keep although they look like identifiers or free text (a different value in almost
        every row), and columns to leave out. Columns without any value are left out in any case.
    kinds : mapping, optional
        {column: 'category', 'number' or 'date'} for columns that are not what they look like.
    random_state : int, numpy Generator, RandomState or None
        The source of randomness. With an integer, the same call gives the same result. With None,
        every `fit` and every draw (`sample`, `impute` with `draws`) is different; a generator is advanced
        by each of them. Estimates of a fitted model (`predict_proba`, say) do not change between calls.
    n_jobs : int, optional
        The number of CPDs to learn at a time.

    Attributes
    ----------
    model_ : MarkovNetwork
        The joint distribution.
    network_ : DependencyNetwork
        The conditionals that it was converted from.
    domain_ : Domain
        The columns and their states.
    n_features_in_ : int
        The number of columns of the training table, including those that were left out.
    feature_names_in_ : array of str
        Their names, if they have names.

    Notes
    -----
    The order of named columns does not change what is learned: columns are sorted by name before
    learning, and the networks are put into the order of the table afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(500) < 0.3
    >>> wet = np.where(rng.random(500) < 0.9, rain, ~rain)
    >>> X = np.where(np.stack([rain, wet], axis=1), "yes", "no").astype(object)
    >>> model = JointModel().fit(X)
    >>> model.predict(np.array([["yes", None]], dtype=object), target="v1")
    array(['yes'], dtype=object)
    >>> model.impute(np.array([[None, "no"]], dtype=object))
    array([['no', 'no']], dtype=object)
    """

    def __init__(
        self,
        cpd: Any = "auto",
        *,
        discretize: Any = "auto",
        kappa: float | None = None,
        penalty: float | None = None,
        min_leaf: float | None = None,
        refine: bool = True,
        effort: str = "default",
        target: Any = None,
        unseen: str = "error",
        required: Any = None,
        forbidden: Any = None,
        include: Any = (),
        exclude: Any = (),
        kinds: Any = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.cpd = cpd
        self.discretize = discretize
        self.kappa = kappa
        self.penalty = penalty
        self.min_leaf = min_leaf
        self.refine = refine
        self.effort = effort
        self.target = target
        self.unseen = unseen
        self.required = required
        self.forbidden = forbidden
        self.include = include
        self.exclude = exclude
        self.kinds = kinds
        self.random_state = random_state
        self.n_jobs = n_jobs

    @names_lack_of_memory
    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> JointModel:
        """Learn the joint distribution of the columns of a table.

        Parameters
        ----------
        X : array or frame
            The rows; values may be missing.
        y : array or series, optional
            The column `target`, if X does not have it; otherwise it is ignored.
        sample_weight : array of float, optional
            One non-negative weight per row. A row of weight 3 counts like three rows.
        """
        self.seed_ = integer_seed(self.random_state)
        plain = self.cpd == "auto" if isinstance(self.cpd, str) else False
        settings = (self.kappa, self.penalty, self.min_leaf, self.required, self.forbidden)
        plain &= self.refine and all(setting is None for setting in settings)
        auto = isinstance(self.discretize, str) and self.discretize == "auto"
        encoding, table = Encoding.of(
            X, "numbers" if auto and plain else self.discretize, self.unseen,
            extra_column(X, y, self.target), sample_weight,
            include=self.include, exclude=self.exclude, kinds=self.kinds,
        )  # fmt: skip
        if self.target is not None:
            encoding.name(self.target)  # raises if there is no such column
        self.encoding_ = encoding
        if self.forbidden is not None and auto and encoding.bins:
            warnings.warn(
                f"forbidden pairs need states, so the numbers of {len(encoding.bins)} columns are cut "
                "into bins, and the network is the closed-form conversion; choose bins with discretize",
                DataWarning,
                stacklevel=2,
            )
        self._learn(table)
        return self

    def _learn(self, table: MixedTable) -> None:
        """Learn from a coded table."""
        self.model_: MarkovNetwork | MixedNetwork
        self.network_: DependencyNetwork | None = None
        self.encoding_.columns = table.domain
        if table.scales:
            from conjoin.joint.mixed_learning import learn_mixed

            self.model_ = learn_mixed(
                table, effort=self.effort, random_state=self.seed_, n_jobs=self.n_jobs
            )
        else:
            from conjoin.joint.learning import learn_joint

            self.network_, self.model_ = learn_joint(
                table.categories, self.cpd, kappa=self.kappa, penalty=self.penalty,
                min_leaf=self.min_leaf, effort=self.effort,
                required=self._parents(self.required), forbidden=self._parents(self.forbidden),
                closed_form=not self.refine or self.forbidden is not None,
                random_state=self.seed_, n_jobs=self.n_jobs,
            )  # fmt: skip
        self._settle(table.domain, len(table), table)

    def _parents(self, pairs: Any) -> dict[str, list[str]] | None:
        """Return pairs of columns as {column: others}, in both directions."""
        if pairs is None:
            return None
        found: dict[str, list[str]] = {}
        for pair in pairs:
            names = [self.encoding_.name(label) for label in pair] if len(pair) == 2 else []
            if len(set(names)) != 2:
                raise ModelError(f"an interaction is a pair of two columns, not {pair!r}")
            for a, b in (names, names[::-1]):
                found.setdefault(a, []).append(b)
        return found

    def _settle(self, columns: MixedDomain, count: int, rows: MixedTable | None = None) -> None:
        """Set what follows from the columns."""
        self.columns_ = columns
        self.domain_ = columns.categories
        self.n_rows_, self.rows_ = count, rows
        self.n_features_in_ = len(self.encoding_.sources)
        labels = self.encoding_.labels
        if labels and all(isinstance(v, str) for v in labels.values()):
            self.feature_names_in_ = np.array(self.encoding_.sources, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.log_partition_: float | None = None
        self.bins_: MarkovNetwork | None = None

    @names_lack_of_memory
    def update(self, X: Any, sample_weight: npt.ArrayLike | None = None) -> JointModel:  # noqa: N803
        """Learn again from the rows of `fit` and of earlier updates together with new ones.

        Columns, states and bins stay the same: a value that is not a state counts as `unseen` says. The
        result is that of all rows at once. A model that was loaded from a file has no rows, and cannot
        be updated.

        Parameters
        ----------
        X : array or frame
            New rows. A frame may lack columns.
        sample_weight : array of float, optional
            Their weights.
        """
        self._fitted()
        rows = self._answers(X).rows
        at, weights = weighted_rows(len(rows), sample_weight, rows.weights)
        if at is not None:
            rows = rows.select(at).weighted(weights)
        self._learn(self._kept_rows("be updated").with_rows(rows))
        return self

    def _kept_rows(self, what: str) -> MixedTable:
        if self.rows_ is None:
            raise ModelError(f"a model that was loaded from a file has no rows, and cannot {what}")
        return self.rows_

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a .conjoin file, without the training rows.

        `JointModel.load` reads all of it, and `conjoin.load` its network. Nothing in the file is
        executed when it is opened.
        """
        self._fitted()
        from conjoin.estimator.files import save_estimator

        save_estimator(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> JointModel:
        """Read a model that `save` wrote."""
        from conjoin.estimator.files import load_estimator

        own: JointModel = load_estimator(cls, Path(path))
        return own

    def _fitted(self) -> Encoding:
        if not hasattr(self, "model_"):
            raise not_fitted(
                f"this {type(self).__name__} instance is not fitted yet; call 'fit' first"
            )
        return self.encoding_

    def known(self, given: Mapping[Any, Any] | str | None) -> tuple[MarkovNetwork, Evidence]:
        """Return the network and what is known, for the functions that take any model."""
        return self._discrete("this question"), self.encoding_.evidence(given)

    def mixed_known(self, given: Mapping[Any, Any] | str | None) -> MixedKnown:
        """Return the mixed network with what is known, for the functions that take any model."""
        evidence = self._fitted().mixed_evidence(given)
        assert isinstance(self.model_, MixedNetwork)
        return MixedKnown(self.model_, evidence)

    def _answers(self, X: Any, *, subset: bool = True) -> Answers:  # noqa: N803
        """Return answers for rows; columns that a frame lacks are missing."""
        rows = self._fitted().table(X, subset=subset)
        return Answers(self.model_, self.encoding_, rows, self.seed_)

    @property
    def classes_(self) -> Any:
        """The states of the column `target`, as classifiers of scikit-learn have them."""
        if self.target is None or not hasattr(self, "model_"):
            raise AttributeError("only a fitted model with `target=` has classes")
        name = self._target(None)
        if self.encoding_.is_number(name):
            raise AttributeError(f"{name!r} is a number, which has no classes")
        return states_array(self.states(name))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: a classifier or a regressor if there is a `target`."""
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        if self.target is None:
            return tags
        fitted = hasattr(self, "model_")
        if fitted and self.encoding_.is_number(self._target(None)):
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def states(self, target: Any = None) -> list[Any]:
        """Return the states of a column, in the order of the columns of `predict_proba`.

        Those of a number are ten bins with about the same number of training rows.
        """
        name = self._target(target)
        if name in self.columns_.numeric:
            return list(self.encoding_.bins[name].variable.states)
        return list(self.domain_[name].states)

    def _target(self, target: Any) -> str:
        encoding = self._fitted()
        if target is None:
            target = self.target
        return self.columns_.names[-1] if target is None else encoding.name(target)

    def log_partition(self) -> float:
        """Return log Z: exact where that fits into memory, otherwise by annealed importance sampling."""
        self._fitted()
        found = self.log_partition_
        if found is None:
            found = 0.0
            if not isinstance(self.model_, MixedNetwork):
                from conjoin.inference.engines import log_partition

                found = log_partition(self.model_).value
            self.log_partition_ = found
        return found

    @names_lack_of_memory
    def score_samples(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the log-probability of each row, in nats; missing values are summed over.

        If the table has columns of numbers, it is a log density: the probability of the states times
        the probability density of the numbers, per unit of each column. Densities depend on the units:
        they are comparable between models of the same table, and may be larger than 1.
        """
        answers = self._answers(X)
        if isinstance(self.model_, MixedNetwork):
            from conjoin.inference.mixed import log_density

            return log_density(self.model_, answers.rows)
        from conjoin.scoring.likelihood import row_log_sums

        sums, _ = row_log_sums(self.model_, answers.rows.categories.codes, self.seed_)
        return sums - self.log_partition()

    @names_lack_of_memory
    def score(self, X: Any, y: Any = None, *, metric: str = "ll") -> float:  # noqa: ARG002, N803
        """Return the mean score of the rows, in nats.

        Parameters
        ----------
        X : array or frame
            The rows.
        y : ignored
            For compatibility with scikit-learn.
        metric : {'ll', 'pll', 'cmll'}
            The mean log-probability, or another score (see `conjoin.scoring`), which needs a network of
            states.
        """
        if metric == "ll":
            return float(self.score_samples(X).mean())
        from conjoin.scoring.metrics import score

        rows = self._answers(X, subset=False).rows
        return score(self._discrete(f"the metric {metric!r}"), rows.categories, metric).mean

    def _discrete(self, what: str) -> MarkovNetwork:
        """Return the network, if it has states only."""
        self._fitted()
        if isinstance(self.model_, MixedNetwork):
            raise ModelError(
                f"{what} needs a network of states; fit with discretize='quantile:5', for example"
            )
        return self.model_

    @names_lack_of_memory
    def sample(self, n: int = 1, given: Mapping[Any, Any] | str | None = None) -> Any:
        """Draw rows, as a table of the kind that the model was fitted to.

        Parameters
        ----------
        n : int
            The number of rows.
        given : mapping or str, optional
            {column: value or condition} that all rows agree with, or text such as
            "age > 40, city=Austin".
        """
        encoding = self._fitted()
        if not isinstance(n, int | np.integer) or n < 0:
            raise ModelError(f"n must be a non-negative integer, not {n!r}")
        seed = integer_seed(self.random_state)
        drawn: Table | MixedTable
        if isinstance(self.model_, MixedNetwork):
            drawn = self.mixed_known(given).sample(n, seed)
        else:
            drawn = self._drawn_states(n, encoding.evidence(given), seed)
        if encoding.empty is None and encoding.dtype is None:
            return drawn
        if isinstance(drawn, Table):
            drawn = MixedTable(self.columns_, drawn, np.empty((n, 0)))
        values = Answers(self.model_, encoding, drawn).new_rows(np.random.default_rng([seed, 1]))
        return encoding.new(values, n)

    def _drawn_states(self, n: int, known: Evidence, seed: int) -> Table:
        from conjoin.inference import exact
        from conjoin.inference.diagnostics import MAX_R_HAT
        from conjoin.inference.plan import TooLarge
        from conjoin.inference.sampling import sample, table_diagnostics

        model = self._discrete("sampling")
        try:
            return exact.sample(model, n, known, random_state=seed)
        except TooLarge:
            table = sample(model, n, known, method="gibbs", sweeps_per_row=10, random_state=seed)
        r_hat, _ = table_diagnostics(table, 4)
        if r_hat is not None and r_hat > MAX_R_HAT:
            warnings.warn(
                f"the model is too dense for exact sampling, and the Gibbs chains that drew these "
                f"rows disagree (R-hat {r_hat:.2f}): do not trust the frequencies of the states",
                ConvergenceWarning,
                stacklevel=3,
            )
        return table

    @names_lack_of_memory
    def predict_proba(
        self,
        X: Any,  # noqa: N803
        target: Any = None,
        *,
        bins: Any = None,
        interval: float | None = None,
    ) -> Any:
        """Return the distribution of a column given the others, rows by `states(target)`.

        Parameters
        ----------
        X : array or frame
            The rows. A frame may lack columns; missing values are summed over. Values of the target
            itself are ignored.
        target : str, optional
            Any column.
        bins : sequence of numbers or dates, optional
            For a column of numbers: the cut points between bins, in place of those in `states(target)`.
            A value at a cut point belongs to the bin above it.
        interval : float, optional
            Also return how sure the probabilities are, given the number of training rows: the result is
            (probabilities, low, high), with the ends of intervals of this level, 0.9 for example. They
            come from 20 models of resampled rows (a bootstrap), so they take 20 quick fits.
        """
        name = self._target(target)
        answers = self._answers(X)
        found = self._probabilities(answers.rows, name, bins)
        if interval is None:
            return found
        from conjoin.estimator.resampling import bootstrap_interval

        low, high = bootstrap_interval(
            self,
            self._kept_rows("resample them"),
            lambda twin: twin._probabilities(answers.rows, name, bins),
            interval,
        )
        return found, np.minimum(low, found), np.maximum(high, found)

    def _probabilities(self, rows: MixedTable, name: str, bins: Any = None) -> FloatArray:
        answers = Answers(self.model_, self.encoding_, rows, self.seed_)
        if bins is None and name not in self.columns_.numeric:
            return answers.states(name)
        return self._bin_probabilities(answers, name, bins)

    @names_lack_of_memory
    def predict(self, X: Any, target: Any = None, *, statistic: str | None = None) -> Any:  # noqa: N803
        """Return one value per row: the mean of a number, the most probable state of any other column.

        Parameters
        ----------
        X : array or frame
            The rows (see `predict_proba`).
        target : str, optional
            Any column.
        statistic : {'mean', 'median', 'mode'}, optional
            What is returned of a number, or of states that are numbers. Means are not rounded to the
            resolution of the column; medians and modes are.
        """
        name = self._target(target)
        return self._answers(X).predicted(name, statistic)

    @names_lack_of_memory
    def impute(
        self,
        X: Any,  # noqa: N803
        *,
        draws: int | None = None,
        by: str = "row",
        numbers: str = "mean",
    ) -> Any:
        """Fill in missing values; the types of the table are kept.

        Parameters
        ----------
        X : array or frame
            The rows. A frame may lack columns.
        draws : int, optional
            Return a list of this many tables, filled in with draws from the distribution given the
            known values, instead of one table.
        by : {'row', 'cell'}
            The most probable states of a row together, or of each cell on its own. In a model with
            hidden columns or numbers, the former are the best states that a search found.
        numbers : {'mean', 'median', 'mode'}
            What is filled in for a number, in the type and resolution of its column. Means and medians
            are those of each cell given what the row knows; with 'mode' and ``by='row'``, the numbers
            and states of a row are the most probable ones together.
        """
        answers = self._answers(X)
        seed = self.seed_ if draws is None else integer_seed(self.random_state)
        if isinstance(X, Table | MixedTable):
            if draws is None:
                return answers.completed(by, numbers)
            return Answers(self.model_, self.encoding_, answers.rows, seed).completions(draws, seed)
        if draws is None:
            return self.encoding_.filled(X, answers.fills(by, numbers))
        drawn = Answers(self.model_, self.encoding_, answers.rows, seed).drawn(draws, seed)
        return [self.encoding_.filled(X, fills) for fills in drawn]

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Fill in missing values with the most probable states and the means of numbers."""
        return self.in_chosen_container(X, self.impute(X))

    @names_lack_of_memory
    def marginals(self, given: Mapping[Any, Any] | str | None = None, **options: Any) -> Any:
        """Return the distribution of each column given what is known (see `conjoin.marginals`).

        With columns of numbers it is a mapping of columns to {state: probability} or to a
        `NumberDistribution`.
        """
        self._fitted()
        if isinstance(self.model_, MixedNetwork):
            from conjoin.inference import mixed_questions

            return mixed_questions.marginals(self.mixed_known(given), **options)
        from conjoin.inference.engines import marginals

        return marginals(self.model_, self.encoding_.evidence(given), **options)

    @names_lack_of_memory
    def most_probable(self, given: Mapping[Any, Any] | str | None = None, **options: Any) -> Any:
        """Return the most probable row (see `conjoin.most_probable`).

        With columns of numbers it is the best row that an ascent from several starts found.
        """
        self._fitted()
        if isinstance(self.model_, MixedNetwork):
            from conjoin.inference import mixed_questions

            return mixed_questions.most_probable(self.mixed_known(given), **options)
        from conjoin.inference.engines import most_probable

        return most_probable(self.model_, self.encoding_.evidence(given), **options)

    @names_lack_of_memory
    def explain(
        self,
        row: Any,
        target: Any = None,
        state: Any = None,
        against: Any = None,
        *,
        all_sets_up_to: int = 8,
    ) -> Explanation | NumberExplanation:
        """Explain which columns moved the probability of a state, or the mean of a number, by how much.

        Parameters
        ----------
        row : mapping, or a table of one row
            {column: value}.
        target : str, optional
            The column that is predicted.
        state, against : optional
            Two of its states: by default the most probable one and the next.
        all_sets_up_to : int
            The contributions are exact (Shapley values over all sets of known columns) for at most this
            number of known columns; for more, they are averages over some orders of the columns.

        Returns
        -------
        Explanation or NumberExplanation
            Contributions of the known columns. Together with the log-odds before anything is known,
            they add up to the log-odds of the two states given the row; those to a number, together with
            its mean before anything is known, add up to its mean given the row.
        """
        from conjoin.estimator.explain import explain, explain_number

        name = self._target(target)
        rows = self._answers(row).rows
        if len(rows) != 1:
            raise ModelError(f"give one row to explain, not {len(rows)}")
        if name in self.columns_.numeric:
            if state is not None or against is not None:
                raise ModelError(
                    f"{name!r} is a number, which has no states: its mean is explained"
                )

            def means(r: MixedTable) -> FloatArray:
                return Answers(self.model_, self.encoding_, r, self.seed_).numbers(name).mean()

            return explain_number(means, rows, name, self.seed_, all_sets_up_to)
        variable = self.domain_[name]
        a, b = (None if s is None else variable.index(s) for s in (state, against))
        return explain(
            lambda r: self._probabilities(r, name), rows, name, a, b, self.seed_, all_sets_up_to
        )

    def __repr__(self) -> str:
        if not hasattr(self, "model_"):
            return super().__repr__()
        names = self.columns_.names
        columns = ", ".join(map(shown, names[:6])) + (", ..." if len(names) > 6 else "")
        start = f"<JointModel of {len(names)} columns ({columns}): "
        if isinstance(self.model_, MixedNetwork):
            size = f"{len(self.columns_.scales)} with numbers"
        else:
            hidden = self.model_.domain.hidden
            size = f"{len(self.model_.features):,} features"
            if hidden.any():
                size = f"{int(self.model_.domain.cards[hidden].prod()):,} hidden states"
        if self.network_ is not None:
            size += f", {self.network_.provenance['learned']['cpd']} CPDs"
        return f"{start}{size}, learned from {self.n_rows_:,} rows>"

    def _repr_html_(self) -> str:
        import html

        if hasattr(self, "model_"):
            from conjoin.reports import html_card

            return html_card(self.model_, self.n_rows_)
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
