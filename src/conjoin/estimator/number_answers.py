"""What `JointModel` says about columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.errors import DataError
from conjoin.estimator.answers import as_array
from conjoin.estimator.fitted import Fitted
from conjoin.inference.number_distribution import NumberDistributions


class NumberAnswers(Fitted):
    """Quantiles, intervals, densities and cumulative probabilities of a column given the others.

    In all methods, `X` are rows as for `JointModel.predict_proba`, and `target` is a column of numbers or
    dates. Numbers and dates can be given as such or as text.
    """

    def _numbers(self, X: Any, target: Any) -> tuple[str, NumberDistributions]:  # noqa: N803
        name = self._target(target)
        self.domain_.scale(name)  # raises if it has states
        return name, self._answers(X, name).number(name)

    def distribution(self, X: Any, target: Any = None) -> Any:  # noqa: N803
        """Return the distribution of a number given one row: a `NumberDistribution`.

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

    def density(self, X: Any, values: Any, target: Any = None) -> FloatArray:  # noqa: N803
        """Return the probability density of a number given the rest of each row, rows by `values`.

        `values` may also be one number. The density is per unit of the column (per day for dates) and
        integrates to 1. It is that of a point, so its sum over recorded values, such as whole numbers, is
        only nearly 1; ``distribution(X, target).probability(40, 40)`` is the probability of what is
        recorded as 40, and these add up to 1.
        """
        return self._at(X, values, target, "density")

    def cdf(self, X: Any, values: Any, target: Any = None) -> FloatArray:  # noqa: N803
        """Return the probability that a number is at most each of `values`, rows by `values`."""
        return self._at(X, values, target, "cdf")

    def _at(self, X: Any, values: Any, target: Any, what: str) -> FloatArray:  # noqa: N803
        name, numbers = self._numbers(X, target)
        one = isinstance(values, str) or np.ndim(values) == 0
        at = self.domain_.scale(name).numbers([values] if one else list(values))
        found = np.stack([getattr(numbers, what)(x) for x in at.tolist()], axis=1)
        return found[:, 0] if one else found
