"""What `JointModel` says about the rows of a table: predictions, numbers, missing values, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.table import Table
from conjoin.errors import DataError, ModelError, names_lack_of_memory
from conjoin.estimator.answers import as_array
from conjoin.estimator.encoding import target_column
from conjoin.estimator.explain import Explanation, NumberExplanation
from conjoin.estimator.fitted import Fitted
from conjoin.estimator.scikit_learn import integer_seed
from conjoin.inference.number_distribution import NumberDistributions


class RowAnswers(Fitted):
    """Predictions, probabilities, numbers, imputation, explanations and scores of rows.

    Where `target` is a column of numbers or dates, these can be given as such or as text.
    """

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
            Any column; by default the target of the model, or else the last column.
        bins : sequence of numbers or dates, optional
            For a column of numbers: the cut points between bins, in place of those in `states(target)`.
            A value at a cut point belongs to the bin above it.
        interval : float, optional
            Also return how sure the probabilities are, given the number of training rows: the result is
            (probabilities, low, high), with the ends of intervals of this level, 0.9 for example. They
            come from 20 models of the same rows with random weights (a bootstrap), so the first call
            takes 20 quick fits. The models are kept.
        """
        name = self._target(target)
        answers = self._answers(X, name)
        found = answers.probabilities(name, bins)
        if interval is None:
            return found
        from conjoin.estimator.resampling import bootstrap_interval

        low, high = bootstrap_interval(
            self,
            self._kept_rows("resample them"),
            lambda twin: twin._of_rows(answers.table).probabilities(name, bins),
            interval,
        )
        return found, np.minimum(low, found), np.maximum(high, found)

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
        return self._answers(X, name).predicted(name, statistic)

    def _numbers(self, X: Any, target: Any) -> tuple[str, NumberDistributions]:  # noqa: N803
        name = self._target(target)
        self.domain_.scale(name)  # raises if it has states
        return name, self._answers(X, name).number(name)

    def distribution(self, X: Any, target: Any = None) -> Any:  # noqa: N803
        """Return the distribution of a number given one row: a `NumberDistribution`.

        It has the density, the probability of values up to another, and those of ranges.

        Examples
        --------
        >>> from conjoin import JointModel
        >>> rng = np.random.default_rng(0)
        >>> X = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 500).round(2)
        >>> model = JointModel(effort="quick").fit(X)
        >>> model.distribution({"v0": 1.5}, "v1").probability(low=0) > 0.9
        True
        """
        _, numbers = self._numbers(X, target)
        return numbers[0]

    def quantiles(
        self,
        X: Any,  # noqa: N803
        q: float | Sequence[float] = (0.05, 0.5, 0.95),
        target: Any = None,
    ) -> Any:
        """Return quantiles of a number given the rest of each row, rows by probabilities.

        A quantile is a value of the column's own type and resolution.
        """
        name, numbers = self._numbers(X, target)
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise DataError(f"the probabilities of quantiles must be between 0 and 1, not {q}")
        found = np.stack([numbers.quantile(p) for p in wanted.tolist()], axis=1)
        result = as_array(found, self.domain_.scale(name))
        return result[:, 0] if np.ndim(q) == 0 else result

    def interval(self, X: Any, level: float = 0.9, target: Any = None) -> Any:  # noqa: N803
        """Return the central interval of about a given probability, rows by (low, high).

        Recorded values whose middle is between the two quantiles belong to it.
        """
        name, numbers = self._numbers(X, target)
        ends = np.stack(numbers.interval(level), axis=1)
        return as_array(ends, self.domain_.scale(name))

    @names_lack_of_memory
    def impute(
        self,
        X: Any,  # noqa: N803
        *,
        draws: int | None = None,
        by: str = "row",
        numbers: str = "mean",
        fill_absent: bool = False,
    ) -> Any:
        """Fill in missing values; known values and the types of the table are kept.

        Cells that are probably empty because no value applies stay empty.

        Parameters
        ----------
        X : array or frame
            The rows. A frame may lack columns.
        draws : int, optional
            Return a list of this many tables, filled in with draws from the distribution given the
            known values, instead of one table.
        by : {'row', 'cell'}
            The most probable states of a row together, or of each cell on its own. In a model with
            hidden columns, the former are the best states that a search found; in a model with numbers
            that tell about states, each cell stands alone.
        numbers : {'mean', 'median', 'mode'}
            What is filled in for a number given what its row knows, in the type and resolution of its
            column.
        fill_absent : bool
            Also fill in cells that are probably empty because no value applies.
        """
        answers = self._answers(X)
        seed = self.seed_ if draws is None else integer_seed(self.random_state)
        if draws is not None and draws < 1:
            raise ModelError(f"draws must be 1 or more, not {draws}")
        tables = (
            [answers.completed(by, numbers, fill_absent=fill_absent)]
            if draws is None
            else self._of_rows(answers.table, seed).drawn(draws)
        )
        if not isinstance(X, Table):
            tables = [self.encoding_.filled(X, answers.fills(table)) for table in tables]
        return tables[0] if draws is None else tables

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Fill in missing values with the most probable states and the means of numbers."""
        return self._in_chosen_container(X, self.impute(X, fill_absent=True))

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
        rows = self._answers(row, name).table
        if len(rows) != 1:
            raise ModelError(f"give one row to explain, not {len(rows)}")
        if name in self.domain_.numeric:
            if state is not None or against is not None:
                raise ModelError(
                    f"{name!r} is a number, which has no states: its mean is explained"
                )

            def means(r: Table) -> FloatArray:
                return self._of_rows(r).number(name).mean()

            return explain_number(means, rows, name, self.seed_, all_sets_up_to)
        variable = self.domain_[name]
        a, b = (None if s is None else variable.index(s) for s in (state, against))
        return explain(
            lambda r: self._of_rows(r).states(name), rows, name, a, b, self.seed_, all_sets_up_to
        )

    def log_partition(self) -> float:
        """Return log Z: exact where that fits into memory, otherwise by annealed importance sampling."""
        self._fitted()
        found = self.log_partition_
        if found is None:
            from conjoin.inference.engines import log_partition

            found = self.log_partition_ = log_partition(self.model_).value
        return found

    @names_lack_of_memory
    def score_samples(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the log-probability of each row, in nats; missing values are summed over.

        If the table has columns of numbers, it is a log density: the probability of the states times
        the probability density of the numbers, per unit of each column. Densities depend on the units:
        they are comparable between models of the same table, and may be larger than 1.
        """
        rows = self._fitted().table(X, subset=True)
        return self._of_rows(rows).log_density()

    @names_lack_of_memory
    def score(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
        *,
        metric: str | None = None,
    ) -> float:
        """Return how well the target is predicted, or the mean score of the rows, in nats.

        Parameters
        ----------
        X : array or frame
            The rows.
        y : array or series, optional
            The true values of the target, by default those in X. Rows without one do not count; a
            category that the model does not know is predicted wrongly.
        sample_weight : array of float, optional
            One weight per row; "pll" and "cmll" ignore it.
        metric : {'ll', 'pll', 'cmll'}, optional
            By default accuracy, or R2 if the target is a number; without a target, "ll", the mean
            log-probability of X. "cmll" needs a network of states (see `conjoin.scoring`).
        """
        encoding = self._fitted()
        if metric is None and encoding.target is not None:
            answers = self._of_rows(encoding.table(X, subset=True))
            truth = encoding.target_of(X) if y is None else target_column(y, len(answers.table))
            return answers.score(encoding.target, truth, sample_weight)
        if metric in (None, "ll"):
            return float(np.average(self.score_samples(X), weights=sample_weight))
        from conjoin.scoring.metrics import score

        return score(self, encoding.table(X), str(metric)).mean
