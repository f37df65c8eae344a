"""Log-likelihood: the logarithm of the joint probability of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.frames import as_table
from conjoin.errors import DataError, names_lack_of_memory
from conjoin.inference.completion import row_log_sums
from conjoin.inference.engines import log_partition
from conjoin.inference.joint_rows import JointRows
from conjoin.inference.results import LogValue
from conjoin.models.network import Network, takes_estimators
from conjoin.scoring.result import Score


@dataclass(frozen=True, eq=False)
class LogLikelihood(Score):
    """The mean log-probability of the rows of a table."""

    exact: bool  # whether all scores are exact up to rounding
    # log Z, which the log-potentials of all rows are reduced by; it has an error if it was estimated
    log_z: LogValue
    variables: int  # the number of variables

    @property
    def normalized(self) -> float:
        """The mean divided by the number of variables."""
        return self.mean / max(1, self.variables)

    def report(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        more = {
            "exact": self.exact,
            "estimated": not self.exact,
            "log_z": self.log_z.value,
            "log_z_error": self.log_z.error,
            "method": self.log_z.run.method,
        }
        return {**super().report(), **more}

    def notes(self) -> list[str]:
        """Return how certain the score is."""
        if self.exact:
            return ["exact"]
        if not self.log_z.run.exact:
            return [f"estimated: {self.log_z}"]
        return ["estimated: rows with many missing values were sampled"]

    def __repr__(self) -> str:
        how = "exact" if self.exact else "estimated"
        return f"<Score: ll {self.mean:.4f} ± {self.stderr:.4f} on {self.rows:,} rows, {how}>"


@takes_estimators
@names_lack_of_memory
def log_likelihood(
    model: Network,
    table: Any,
    *,
    random_state: int = 0,
    max_memory: float | None = None,
) -> LogLikelihood:
    """Score a network by the log-probability of the rows of a table, in nats.

    Missing values and hidden columns are summed out. Scores are exact if exact inference fits into
    memory; otherwise log Z is estimated by annealed importance sampling. Complete rows of a Bayesian
    network are always scored exactly.

    Parameters
    ----------
    model : MarkovNetwork, BayesianNetwork or JointModel
        The model to score. With numbers, the score is a log-density, per unit of each number.
    table : Table, 2-dimensional array, or frame
        The rows, with their weights if they have some.
    random_state : int
        The seed, where something has to be estimated.
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default three quarters of the memory that is free.

    Returns
    -------
    LogLikelihood
        The mean over the rows, its standard error, and the score of each row.

    Examples
    --------
    >>> from conjoin import Domain, Features, MarkovNetwork, Table
    >>> domain = Domain({"a": [0, 1], "b": [0, 1]})
    >>> mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.0, {"a": 1, "b": 1})]))
    >>> score = log_likelihood(mn, Table.from_rows(domain, [(1, 1), (0, None)]))
    >>> score.by_row.round(3).tolist()  # log(e / (3 + e)), log(2 / (3 + e))
    [-0.744, -1.051]
    """
    domain = model.domain.observed
    rows = as_table(table, domain).over(domain)
    if not len(rows):
        raise DataError("the table has no rows to score")
    sums, exact = row_log_sums(model, rows.codes, random_state)
    whole = log_partition(getattr(model, "network", model), max_memory=max_memory)
    if rows.numbers is not None or getattr(model, "chain", None) is not None:
        sums = JointRows(model, rows, random_state).log_density() + whole.value
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    return LogLikelihood(
        "ll",
        sums - whole.value,
        weights,
        {},
        int((rows.codes != rows.missing).sum()),
        bool(exact.all()) and whole.run.exact,
        whole,
        len(domain),
    )
