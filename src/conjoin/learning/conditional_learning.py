"""`learn_conditionals`: a table becomes a dependency network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import check_states
from conjoin.data.frames import as_table
from conjoin.data.holdout import sample_rows
from conjoin.data.parent_rules import REQUIRED, parent_rules
from conjoin.data.row_hashing import in_content_order
from conjoin.data.table import Table, codes_of
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.jobs import TaskRunner
from conjoin.learning.options import (
    KAPPAS,
    LAMBDAS,
    LIMITS,
    MIDDLE,
    WIDE,
    Limits,
    Options,
    check_setting,
    leaf_options,
)
from conjoin.learning.tuning import choose, split_rows
from conjoin.models.cpd import CPD
from conjoin.models.dependency import DependencyNetwork

if TYPE_CHECKING:
    from conjoin.learning.tuning import Path

KINDS = ("tree", "logistic", "hybrid", "mixed", "boosted")


@names_lack_of_memory
def learn_conditionals(
    table: Any,
    cpd: Any = "hybrid",
    *,
    valid: Any = None,
    holdout: float = 0.1,
    kappa: float | None = None,
    penalty: float | None = None,
    min_leaf: float | None = 10.0,
    pseudo: float = 1.0,
    forbidden: Mapping[str, Iterable[str]] | None = None,
    required: Mapping[str, Iterable[str]] | None = None,
    random_state: int | np.random.Generator = 0,
    n_jobs: int | None = None,
    exhaustive: bool = False,
    limits: Limits = LIMITS,
) -> DependencyNetwork:
    """Learn one conditional distribution per variable from a table.

    The result does not depend on the order of rows and columns.

    Parameters
    ----------
    table : Table, 2-dimensional array, or frame of pandas, polars or pyarrow
        The training rows (see `as_table`). A row in which X is missing does not train X's CPD. Where
        a parent is missing, a tree sends the row to the larger branch, and logistic regression omits
        the parent's terms.
    cpd : {'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        The kind of CPD:

        * "hybrid": L1-regularised logistic regression over all other variables, multinomial for more
          than two states, with the conjunctions on the paths of the target's own tree as further
          features. A variable with more than 32 states keeps its tree.
        * "tree": probabilistic decision trees.
        * "logistic": logistic regression alone.
        * "mixed": hybrids for binary variables and trees for all others, which is much faster if many
          variables have several states.
        * "boosted": sums of small trees. Their number is chosen for each variable on the validation rows.
        * A classifier of scikit-learn, LightGBM or XGBoost that can be expressed as conjunctions (see
          `read_classifier`): a copy is fitted for each variable, with its own settings and without
          tuning.

        Columns whose states are ordered (`Variable.ordered`) are also tested for "at most this state"
        by trees and logistic regression.
    valid : Table, array or frame, optional
        Rows on which kappa or the penalty is chosen, one for the whole network, by the sum of the log
        conditionals. Without it a share of the rows is held out for this, and the final network is
        learned from all rows.
    holdout : float
        The share of rows held out.
    kappa : float, optional
        The strength of the structure prior of trees, instead of choosing one: a split must gain
        -log(kappa) nats.
    penalty : float, optional
        The L1 penalty, instead of choosing one: it is multiplied with the sum of the absolute weights
        and added to the summed log-loss of the rows.
    min_leaf : float, optional
        The minimum number of rows in each branch of a split. With None, 10 and 5 are tried, the latter
        with 0.3 times the pseudo-count, and trees are scored on the rows on which kappa is chosen.
    pseudo : float
        The count added to each state in a leaf (add-one smoothing).
    forbidden, required : mapping, optional
        {variable: [parents]} that its CPD must not depend on, or must: a tree splits on them before
        all others, as long as both branches have enough rows; in logistic regression their terms
        have a thousandth of the penalty. Boosted trees and other classifiers cannot be made to use
        a parent, so requiring one is an error.
    random_state : int or numpy Generator
        Selects the rows that are held out.
    n_jobs : int, optional
        The number of parallel jobs, as in joblib; -1 is all cores. The result does not depend on it.
    exhaustive : bool
        By default, hybrids of large tables are learned in time linear in their size. Kappa and the
        penalty are chosen on at most 20,000 rows, and scored on as many others; weights are learned
        from at most 150,000 distinct rows. If there are many columns and rows, each regression
        considers the columns that tell most about its target, and those that its tree tests; 50 to
        100 targets choose kappa and the penalty. With True, all rows and columns are always
        considered.
    limits : Limits
        The sizes from which tables are treated differently; for experiments.

    Returns
    -------
    DependencyNetwork
        Its provenance has the settings that were chosen, and the scores along the path.

    Examples
    --------
    >>> import numpy as np
    >>> from conjoin import Domain, Table
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(500) < 0.3
    >>> wet = rng.random(500) < np.where(rain, 0.9, 0.1)
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> table = Table(domain, np.stack([rain, wet], axis=1).astype(int))
    >>> dn = learn_conditionals(table, "tree")
    >>> dn.blanket("wet")
    ('rain',)
    """
    if isinstance(cpd, str) and cpd not in KINDS:
        raise ModelError(f"unknown cpd {cpd!r}; use {', '.join(map(repr, KINDS))}, or a classifier")
    if cpd == "boosted" and (kappa is not None or penalty is not None):
        raise ModelError("boosted trees have neither kappa nor penalty; leave them out")
    table = as_table(table)
    if not len(table):
        raise ModelError("the table has no rows to learn from")
    check_states(table.domain)
    names = table.domain.names
    table = in_content_order(table.reordered(table.domain.sorted_names()))
    if valid is not None:
        valid = as_table(valid, table.domain)
        codes_of(table.domain, valid, complete=False)
        valid = in_content_order(valid.reordered(table.domain.names))
    leaves = leaf_options(min_leaf, pseudo)
    rules = parent_rules(table.domain, forbidden, required)
    _check_required(table, rules, cpd)
    rng = np.random.default_rng(random_state)
    learner = _ConditionalsLearner(table, valid, leaves, rules, TaskRunner(n_jobs), limits)
    if not isinstance(cpd, str):
        from conjoin.classifiers import learn_classifiers

        cpds = learn_classifiers(table, cpd, rules, learner.runner)
        dn = learner.network(cpds, {"cpd": type(cpd).__name__, "rows": len(table)})
    elif cpd == "boosted":
        from conjoin.learning.boosted_cpds import learn_boosted_cpds

        split = split_rows(table, valid, holdout, rng)
        cpds, record = learn_boosted_cpds(table, split, leaves[0].min_leaf, rules, learner.runner)
        dn = learner.network(cpds, {"cpd": "boosted", "rows": len(table), **record})
    else:
        rows, held = table, valid
        if cpd in ("hybrid", "mixed") and not exhaustive:
            learner.rng = rng
            rows = sample_rows(table, limits.choice_rows * (2 if valid is None else 1), rng)
            holdout = max(holdout, 1 - limits.choice_rows / len(rows))
            held = None if valid is None else sample_rows(valid, limits.choice_rows, rng)
        split = split_rows(rows, held, holdout, rng)
        if learner.rng is not None:
            from conjoin.learning.screening import choosing_targets

            learner.choosing = choosing_targets(split[0], limits)
        dn = learner.path(cpd, split, kappa, penalty)
    return dn.reordered(names)


def _check_required(table: Table, rules: npt.NDArray[np.int8], cpd: Any) -> None:
    """Reject required parents that no CPD can depend on, or none of this kind be made to."""
    for parent, target in np.argwhere(rules == REQUIRED):
        names = table.domain.names
        required = f"{names[parent]!r} is required for {names[target]!r}, but "
        if np.count_nonzero(table.counts(int(parent))) < 2:
            raise ModelError(
                f"{required}has only one state in the table: nothing can depend on it; leave it out of "
                "`required`"
            )
        if cpd == "boosted" or not isinstance(cpd, str):
            kind = "boosted trees" if isinstance(cpd, str) else f"a {type(cpd).__name__}"
            raise ModelError(
                f"{required}{kind} cannot be made to use it; leave `required` out, or learn 'tree', "
                "'logistic' or 'hybrid' CPDs"
            )


class _ConditionalsLearner:
    """Learns one network, with the settings that all kinds share."""

    def __init__(
        self,
        table: Table,
        valid: Table | None,
        leaves: Sequence[Options],
        rules: npt.NDArray[np.int8],
        runner: TaskRunner,
        limits: Limits,
    ) -> None:
        self.limits = limits
        self.table, self.valid, self.leaves, self.rules = table, valid, leaves, rules
        self.options, self.runner = leaves[0], runner
        self.kappa: float | None = None
        self.most_states = WIDE
        self.last: Path | None = None
        self.trees: Any = None
        self.rng: np.random.Generator | None = None  # draws samples of rows, if that is allowed
        self.choosing: range | None = None  # the targets that choose for all, if not all do

    def network(self, cpds: Iterable[CPD], record: dict[str, Any]) -> DependencyNetwork:
        """Return the network of some CPDs, with a record of how they were learned."""
        return DependencyNetwork(self.table.domain, cpds, {"learned": record})

    def path(
        self,
        cpd: str,
        split: tuple[Table, Table],
        kappa: float | None,
        penalty: float | None,
    ) -> DependencyNetwork:
        """Learn trees, logistic regression or both, with the given kappa and penalty or the best ones."""
        record: dict[str, Any] = {"cpd": cpd, "rows": len(self.table)}
        if cpd == "mixed":
            self.most_states = 2
            cpd = "hybrid" if (self.table.domain.cards == 2).any() else "tree"
        build, value = self._trees, 1.0
        if cpd != "logistic":
            value = self._leaves_and_kappa(split, kappa, record)
        if cpd != "tree":
            self.kappa = value if cpd == "hybrid" else None
            self.trees = self.last
            self.last = None
            build = self._logistic
            value = choose(
                build, split, LAMBDAS, penalty, "penalty", 2, self.runner, record, MIDDLE
            )
        path = self.last
        everything = split[0] is self.table and self.choosing is None
        if path is None or not everything:  # nothing was chosen, or not on all rows and targets
            self.last = self.trees = None
            path = build(self.table, None, self.runner.labelled("all rows"))
            path.advance(value)
        return self.network(path.cpds(value), record)

    def _leaves_and_kappa(
        self, split: tuple[Table, Table], kappa: float | None, record: dict[str, Any]
    ) -> float:
        """Choose kappa, and the settings of leaves if there are several; return kappa."""
        values, given = KAPPAS, kappa
        if kappa is not None and len(self.leaves) > 1:
            check_setting(kappa, "kappa")
            values, given = (kappa,), None
        candidates = []
        for options in self.leaves:
            self.options, self.last = options, None
            tried: dict[str, Any] = {}
            value = choose(self._trees, split, values, given, "kappa", 1, self.runner, tried)
            score = max((score for _, score in tried.get("kappa_path", ())), default=0.0)
            candidates.append((score, options, value, tried, self.last))
        _, self.options, value, tried, self.last = max(candidates, key=lambda each: each[0])
        record.update(tried)
        if len(self.leaves) > 1:
            record.update(min_leaf=self.options.min_leaf, pseudo=self.options.pseudo)
        return value

    def _trees(self, table: Table, valid: Table | None, runner: TaskRunner) -> Path:
        from conjoin.learning.tree_path import TreePath

        targets = None if valid is None else self.choosing
        self.last = TreePath(table, valid, self.options, self.rules, runner, targets)
        return self.last

    def _logistic(self, table: Table, valid: Table | None, runner: TaskRunner) -> Path:
        from conjoin.learning.logistic_path import LogisticPath
        from conjoin.learning.tree_path import TreePath

        trees, targets = self.trees, None if valid is None else self.choosing
        if self.kappa is not None and trees is None:
            trees = TreePath(table, None, self.options, self.rules, runner, targets)
            trees.advance(self.kappa)
        most = self.limits.weight_rows
        if self.rng and 64 * trees.data.sets.shape[1] > most:  # counts distinct rows
            table = sample_rows(table, most, self.rng)
        kappa, exhaustive = self.kappa or 1.0, self.rng is None
        self.last = LogisticPath(
            table,
            valid,
            self.rules,
            runner,
            trees,
            kappa,
            self.most_states,
            exhaustive,
            self.limits,
            targets,
        )
        return self.last
