"""`JointModel`: one model of a whole table, which answers any question about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.labels import shown
from conjoin.errors import ConvergenceWarning, ModelError
from conjoin.estimator.base import Estimator, not_fitted
from conjoin.estimator.encoding import Encoding
from conjoin.estimator.explain import Explanation
from conjoin.estimator.seeds import integer_seed
from conjoin.inference.evidence import Evidence
from conjoin.inference.results import Assignment, Marginals
from conjoin.models.markov import MarkovNetwork

if TYPE_CHECKING:
    from conjoin.explorer.page import Explorer


class JointModel(Estimator):
    """A joint distribution of all columns of a table.

    Parameters
    ----------
    cpd : {'auto', 'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        How the conditional of each column is learned (see `learn`); "auto" is "mixed": hybrids for
        columns of two states, trees for all others.
    discretize : 'auto', None, str, mapping or Discretizer
        How numeric columns are cut into bins (see `learn`). "auto" cuts columns with more than 20
        distinct numbers, or with more than 5 if some have a fraction, into five bins with
        about the same number of rows.
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
        self.include = include
        self.exclude = exclude
        self.kinds = kinds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> JointModel:  # noqa: ARG002, N803
        """Learn the joint distribution of the columns.

        Parameters
        ----------
        X : array or frame
            The rows; values may be missing.
        y : ignored
            For compatibility with scikit-learn. A column to be predicted must be part of X.
        """
        from conjoin.joint.learning import learn_joint

        self.seed_ = integer_seed(self.random_state)
        encoding, table = Encoding.of(
            X, self.discretize, self.unseen,
            include=self.include, exclude=self.exclude, kinds=self.kinds,
        )  # fmt: skip
        if self.target is not None:
            encoding.name(self.target)  # raises if there is no such column
        self.network_, self.model_ = learn_joint(
            table, self.cpd, kappa=self.kappa, penalty=self.penalty, min_leaf=self.min_leaf,
            effort=self.effort, closed_form=not self.refine, random_state=self.seed_,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        self.encoding_ = encoding
        self.domain_ = table.domain
        self.marginals_ = table.marginals()
        self.n_rows_ = len(table)
        self.n_features_in_ = len(encoding.sources)
        if encoding.labels and all(isinstance(v, str) for v in encoding.labels.values()):
            self.feature_names_in_ = np.array(encoding.sources, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.log_partition_: float | None = None
        return self

    def _fitted(self) -> Encoding:
        if not hasattr(self, "model_"):
            raise not_fitted(
                f"this {type(self).__name__} instance is not fitted yet; call 'fit' first"
            )
        return self.encoding_

    def known(self, given: Mapping[Any, Any] | str | None) -> tuple[MarkovNetwork, Evidence]:
        """Return the network and what is known, for the functions that take any model."""
        encoding = self._fitted()
        return self.model_, encoding.evidence(given)

    def states(self, target: Any = None) -> list[Any]:
        """Return the states of a column, in the order of the columns of `predict_proba`."""
        name = self._target(target)
        return list(self.domain_[name].states)

    def _target(self, target: Any) -> str:
        encoding = self._fitted()
        if target is None:
            target = self.target
        return self.domain_.names[-1] if target is None else encoding.name(target)

    def log_partition(self) -> float:
        """Return log Z: exact where that fits into memory, otherwise by annealed importance sampling."""
        self._fitted()
        found = self.log_partition_
        if found is None:
            from conjoin.inference.engines import log_partition

            found = self.log_partition_ = log_partition(self.model_).value
        return found

    def score_samples(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the log-probability of each row, in nats; missing values are summed over."""
        from conjoin.scoring.likelihood import row_log_sums

        table = self._fitted().table(X, subset=True)
        sums, _ = row_log_sums(self.model_, table.codes, self.seed_)
        return sums - self.log_partition()

    def score(self, X: Any, y: Any = None, *, metric: str = "ll") -> float:  # noqa: ARG002, N803
        """Return the mean score of the rows, in nats.

        Parameters
        ----------
        X : array or frame
            The rows.
        y : ignored
            For compatibility with scikit-learn.
        metric : {'ll', 'pll', 'cmll'}
            The mean log-probability, or another score (see `conjoin.scoring`).
        """
        if metric == "ll":
            return float(self.score_samples(X).mean())
        from conjoin.scoring.metrics import score

        return score(self.model_, self._fitted().table(X), metric).mean

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
        from conjoin.inference import exact
        from conjoin.inference.diagnostics import MAX_R_HAT
        from conjoin.inference.plan import TooLarge
        from conjoin.inference.sampling import sample, table_diagnostics

        encoding = self._fitted()
        if not isinstance(n, int | np.integer) or n < 0:
            raise ModelError(f"n must be a non-negative integer, not {n!r}")
        known = encoding.evidence(given)
        seed = integer_seed(self.random_state)
        try:
            table = exact.sample(self.model_, n, known, random_state=seed)
        except TooLarge:
            table = sample(
                self.model_, n, known, method="gibbs", sweeps_per_row=10, random_state=seed
            )
            r_hat, _ = table_diagnostics(table, 4)
            if r_hat is not None and r_hat > MAX_R_HAT:
                warnings.warn(
                    f"the model is too dense for exact sampling, and the Gibbs chains that drew these "
                    f"rows disagree (R-hat {r_hat:.2f}): do not trust the frequencies of the states",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return encoding.new(table.codes, np.random.default_rng([seed, 1]))

    def predict_proba(self, X: Any, target: Any = None) -> FloatArray:  # noqa: N803
        """Return the distribution of a column given the others, rows by `states(target)`.

        Parameters
        ----------
        X : array or frame
            The rows. A frame may lack columns; missing values are summed over. Values of the target
            itself are ignored.
        target : str, optional
            Any column.
        """
        from conjoin.estimator.predict import probabilities

        name = self._target(target)
        table = self.encoding_.table(X, subset=True)
        return probabilities(self.model_, table, self.domain_.index(name), self.seed_)

    def predict(self, X: Any, target: Any = None) -> Any:  # noqa: N803
        """Return the most probable state of a column for each row (see `predict_proba`)."""
        best = self.predict_proba(X, target).argmax(axis=1)
        return _array(self.states(target))[best]

    def impute(self, X: Any, *, draws: int | None = None, by: str = "row") -> Any:  # noqa: N803
        """Fill in missing values; the types of the table are kept.

        Parameters
        ----------
        X : array or frame
            The rows.
        draws : int, optional
            Return a list of this many tables, filled in with draws from the distribution given the
            known values, instead of one table with the most probable values.
        by : {'row', 'cell'}
            The most probable values of a row together, or of each cell on its own.
        """
        from conjoin.estimator.impute import imputed_codes

        encoding = self._fitted()
        table = encoding.table(X)
        random_state = self.seed_ if draws is None else self.random_state
        found = imputed_codes(self.model_, table, draws, by, random_state)
        if draws is None:
            return encoding.filled(X, table, found)
        return [encoding.filled(X, table, codes) for codes in found]

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Fill in missing values with the most probable ones (see `impute`)."""
        return self.in_chosen_container(X, self.impute(X))

    def marginals(self, given: Mapping[Any, Any] | str | None = None, **options: Any) -> Marginals:
        """Return the distribution of each column given what is known (see `conjoin.marginals`)."""
        from conjoin.inference.engines import marginals

        known = self._fitted().evidence(given)
        return marginals(self.model_, known, **options)

    def most_probable(
        self, given: Mapping[Any, Any] | str | None = None, **options: Any
    ) -> Assignment:
        """Return the most probable row (see `conjoin.most_probable`)."""
        from conjoin.inference.engines import most_probable

        known = self._fitted().evidence(given)
        return most_probable(self.model_, known, **options)

    def explain(
        self, row: Any, target: Any = None, state: Any = None, against: Any = None
    ) -> Explanation:
        """Explain which columns moved the probability of a state, and by how much.

        Parameters
        ----------
        row : mapping, or a table of one row
            {column: value}.
        target : str, optional
            The column that is predicted.
        state, against : optional
            Two of its states: by default the most probable one and the next.

        Returns
        -------
        Explanation
            Contributions of the columns, which add up to the log-odds of the two states. Hidden columns
            of the model are summed out.
        """
        from conjoin.estimator.explain import explain

        name = self._target(target)
        table = self.encoding_.table(row, subset=True)
        if len(table) != 1:
            raise ModelError(f"give one row to explain, not {len(table)}")
        variable = self.domain_[name]
        a, b = (None if s is None else variable.index(s) for s in (state, against))
        return explain(
            self.model_, table.codes, self.domain_.index(name), self.marginals_, a, b, self.seed_,
        )  # fmt: skip

    def to_networkx(self) -> Any:
        """Return the graph of the model as a networkx graph."""
        self._fitted()
        from conjoin.reports import to_networkx

        return to_networkx(self.model_)

    def plot(self, **options: Any) -> Any:
        """Draw the graph of the model."""
        self._fitted()
        from conjoin.reports import plot

        return plot(self.model_, **options)

    def report(self, path: str | Path, X: Any = None) -> None:  # noqa: N803
        """Write an HTML page about the model and, given rows it was not fitted to, its predictions."""
        encoding = self._fitted()
        from conjoin.reports import write_report

        rows = None if X is None else encoding.table(X)
        write_report(self.model_, path, valid=rows, conditionals=self.network_)

    def explore(self, X: Any = None, *, title: str | None = None) -> Explorer:  # noqa: N803
        """Return a page on which the model can be explored; a notebook shows it.

        Parameters
        ----------
        X : array or frame, optional
            Rows to compare the model with: their frequencies are marked beside its probabilities. The
            rows themselves are not part of the page.
        title : str, optional
            The heading.

        Returns
        -------
        Explorer
            ``.save(path)`` writes the page to a file, ``.open()`` shows it in a browser.
        """
        encoding = self._fitted()
        from conjoin.explorer.page import explore

        rows = None if X is None else encoding.table(X)
        heading = title or f"{self.n_rows_:,} rows of {self.n_features_in_:,} columns"
        return explore(self.model_, rows, title=heading)

    def __repr__(self) -> str:
        if not hasattr(self, "model_"):
            return super().__repr__()
        names = self.domain_.names
        columns = ", ".join(map(shown, names[:6])) + (", ..." if len(names) > 6 else "")
        learned = self.network_.provenance["learned"]["cpd"]
        hidden = self.model_.domain.hidden
        size = f"{len(self.model_.features):,} features"
        if hidden.any():
            size = f"{int(self.model_.domain.cards[hidden].prod()):,} hidden states"
        return (
            f"<JointModel of {len(names)} columns ({columns}): {size}, {learned} CPDs learned from "
            f"{self.n_rows_:,} rows>"
        )

    def _repr_html_(self) -> str:
        import html

        if hasattr(self, "model_"):
            from conjoin.reports import html_card

            return html_card(self.model_)
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _array(states: list[Any]) -> Any:
    """Return states as an array: of their own type if they are numbers, otherwise of objects."""
    if all(isinstance(s, int | float) and not isinstance(s, bool) for s in states):
        return np.array(states)
    result = np.empty(len(states), object)
    result[:] = states
    return result
