"""`learn`: a table becomes a dependency network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import FloatArray
from conjoin.data.frames import as_table
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError
from conjoin.learning.options import KAPPAS, LAMBDAS, Options, parent_rules
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork

KINDS = ("tree", "logistic", "hybrid", "boosted")


class Path(Protocol):
    """Models of all targets along a path of one setting."""

    def advance(self, value: float) -> FloatArray:
        """Go on to a value; return the validation score of each target."""

    def cpds(self, value: float) -> Sequence[CPD]:
        """Return the CPDs at a value that was reached."""


def learn(
    table: Any,
    cpd: Any = "tree",
    *,
    valid: Any = None,
    holdout: float = 0.1,
    folds: int | None = None,
    kappa: float | None = None,
    penalty: float | None = None,
    min_leaf: float = 10.0,
    pseudo: float = 1.0,
    forbidden: Mapping[str, Iterable[str]] | None = None,
    required: Mapping[str, Iterable[str]] | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
) -> DependencyNetwork:
    """Learn one conditional distribution a variable from a table.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame of pandas, polars or pyarrow
        The training rows (see `as_table`). A row without a value of X does not train X's CPD. Where
        a parent is missing, a tree sends the row with the larger branch, and logistic regression
        leaves the parent's terms out.
    cpd : {'tree', 'logistic', 'hybrid', 'boosted'}, or a classifier
        Probabilistic decision trees; L1-regularised logistic regression over all other variables,
        multinomial for more than two states; or the latter with the conjunctions on the paths of the
        target's own tree as further features; or sums of small trees, as many for each variable as
        the validation rows ask for. Or a classifier of scikit-learn, LightGBM or XGBoost
        that can be read as conjunctions (see `read_classifier`): a copy is fitted for each variable,
        with its own settings and without tuning.
    valid : Table, array or frame, optional
        Rows on which kappa or the penalty is chosen, one for the whole network, by the sum of the log
        conditionals. Without it a share of the rows is held out for that, and all rows are used in
        the end.
    holdout : float
        That share.
    folds : int, optional
        Choose by cross-validation with so many folds instead.
    kappa : float, optional
        The strength of the structure prior of trees, instead of choosing one: a split must gain
        -log(kappa) nats.
    penalty : float, optional
        The L1 penalty, instead of choosing one: it is multiplied with the sum of the absolute weights
        and added to the summed log-loss of the rows.
    min_leaf : float
        The least number of rows in each branch of a split.
    pseudo : float
        The count added to each state in a leaf (add-one smoothing).
    forbidden, required : mapping, optional
        {variable: [parents]} that its CPD must not depend on, or that its tree splits on first.
    random_state : int or numpy Generator
        Draws the rows that are held out, or the folds.
    n_jobs : int, optional
        How many CPDs to learn at a time, as joblib understands it; -1 is all cores. The result is
        the same for any number.

    Returns
    -------
    DependencyNetwork
        Its provenance tells what was chosen, and the scores along the path.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain, Table
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(500) < 0.3
    >>> wet = rng.random(500) < np.where(rain, 0.9, 0.1)
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> table = Table(domain, np.stack([rain, wet], axis=1).astype(int))
    >>> dn = learn(table, "tree")
    >>> dn.blanket("wet")
    ('rain',)
    """
    if isinstance(cpd, str) and cpd not in KINDS:
        raise ModelError(
            f"cpd {cpd!r} is not known; use {', '.join(map(repr, KINDS))}, or a classifier"
        )
    table = as_table(table)
    if not len(table):
        raise ModelError("the table has no rows to learn from")
    if valid is not None:
        valid = as_table(valid, table.domain)
        codes_of(table.domain, valid, complete=False)
    options = Options(min_leaf, pseudo)
    rules = parent_rules(table.domain, forbidden, required)
    if not isinstance(cpd, str):
        from conjoin.learning.classifiers import learn_classifiers

        cpds = learn_classifiers(table, cpd, rules=rules, n_jobs=n_jobs)
        told = {"cpd": type(cpd).__name__, "rows": len(table)}
        return DependencyNetwork(table.domain, cpds, {"learned": told})
    splits = _splits(table, valid, holdout, folds, np.random.default_rng(random_state))
    record: dict[str, Any] = {"cpd": cpd, "rows": len(table)}
    if cpd == "boosted":
        return _boosted(table, valid, splits, options, rules, n_jobs, record)
    maker = _Maker(options, rules, n_jobs)
    build = maker.tree
    value = 1.0
    if cpd != "logistic":
        value = _choose(build, splits, KAPPAS, kappa, "kappa", record)
    if cpd != "tree":
        maker.kappa, maker.last = (value if cpd == "hybrid" else None), None
        build = maker.logistic
        value = _choose(build, splits, LAMBDAS, penalty, "penalty", record)
    path = maker.last
    if path is None or valid is None:  # nothing was chosen, or not on all rows
        path = build(table, None)
        path.advance(value)
    return DependencyNetwork(table.domain, path.cpds(value), {"learned": record})


def _boosted(
    table: Table,
    valid: Table | None,
    splits: list[tuple[Table, Table]],
    options: Options,
    rules: npt.NDArray[np.int8],
    n_jobs: int | None,
    record: dict[str, Any],
) -> DependencyNetwork:
    """Boost with the number of trees that the validation rows ask for, on average over the splits."""
    from conjoin.learning.boosted import learn_boosted

    found = [learn_boosted(train, held, options, rules, None, n_jobs) for train, held in splits]
    cpds, rounds, _ = found[0]
    if valid is None:
        rounds = np.round(np.stack([r for _, r, _ in found]).mean(axis=0)).astype(np.int64)
        cpds, _, _ = learn_boosted(table, None, options, rules, rounds, n_jobs)
    record["trees"] = rounds.tolist()
    record["score"] = float(sum(s.sum() for _, _, s in found)) / _held_weight(splits)
    return DependencyNetwork(table.domain, cpds, {"learned": record})


class _Maker:
    """Builds paths with the same settings, and remembers the last one."""

    def __init__(self, options: Options, rules: npt.NDArray[np.int8], n_jobs: int | None) -> None:
        self.options, self.rules, self.n_jobs = options, rules, n_jobs
        self.kappa: float | None = None
        self.last: Path | None = None

    def tree(self, table: Table, valid: Table | None) -> Path:
        from conjoin.learning.trees import TreePath

        self.last = TreePath(table, valid, self.options, self.rules, self.n_jobs)
        return self.last

    def logistic(self, table: Table, valid: Table | None) -> Path:
        from conjoin.learning.logistic import LogisticPath
        from conjoin.learning.trees import TreePath

        trees = None
        if self.kappa is not None:
            trees = TreePath(table, None, self.options, self.rules, self.n_jobs)
            trees.advance(self.kappa)
        self.last = LogisticPath(table, valid, self.rules, self.n_jobs, trees, self.kappa or 1.0)
        return self.last


def _splits(
    table: Table, valid: Table | None, holdout: float, folds: int | None, rng: np.random.Generator
) -> list[tuple[Table, Table]]:
    """Return the pairs of training and validation rows that a setting is chosen on."""
    if valid is not None:
        return [(table, valid)]
    if folds is None and not 0 < holdout < 1:
        raise ModelError(f"holdout must be a share between 0 and 1, not {holdout}")
    if folds is not None and not 2 <= folds <= len(table):
        raise ModelError(f"folds must be 2 to the number of rows, not {folds}")
    order = rng.permutation(len(table))
    if folds is None:
        parts = [order[: max(1, round(holdout * len(table)))]]
    else:
        parts = np.array_split(order, folds)
    pairs = []
    for part in parts:
        out = np.zeros(len(table), bool)
        out[part] = True
        pairs.append((_rows(table, ~out), _rows(table, out)))
    return pairs


def _held_weight(splits: list[tuple[Table, Table]]) -> float:
    """Return the weight of all validation rows."""
    weights = (len(v) if v.weights is None else float(v.weights.sum()) for _, v in splits)
    return max(sum(weights), 1e-300)


def _rows(table: Table, chosen: npt.NDArray[np.bool_]) -> Table:
    weights = None if table.weights is None else table.weights[chosen]
    return Table(table.domain, table.codes[chosen], weights)


def _choose(
    make: Callable[[Table, Table | None], Path],
    splits: list[tuple[Table, Table]],
    values: Sequence[float],
    given: float | None,
    name: str,
    record: dict[str, Any],
) -> float:
    """Return the value with the best score, trying one after the other until the score falls."""
    if given is not None:
        if not given > 0 or not np.isfinite(given):
            raise ModelError(f"{name} must be a positive number, not {given}")
        record[name] = given
        return given
    paths = [make(train, valid) for train, valid in splits if len(train)]
    if not paths:
        record[name] = values[0]
        return values[0]
    weight = _held_weight(splits)
    scores: list[float] = []
    for value in values:
        scores.append(float(sum(path.advance(value).sum() for path in paths)) / weight)
        if scores[-1] < max(scores) - 1e-9:
            break
    best = values[int(np.argmax(scores))]
    record[name] = best
    record[f"{name}_path"] = [[v, s] for v, s in zip(values, scores, strict=False)]
    return best
