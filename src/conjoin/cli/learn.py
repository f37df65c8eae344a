"""Learn a model from a table.

Learn a model from a table: one conditional distribution per variable, turned into one joint
distribution. A result written as .conjoin, .mn or .uai is that joint distribution, a Markov
network; a result written as .dn is the dependency network of the conditionals; one written as .bif,
.xdsl (GeNIe), .net (Hugin) or .bn is a Bayesian network. Columns of numbers and dates are modelled as
numbers if the result is written as .conjoin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conjoin.cli import arguments as shared
from conjoin.cli.training_table import training_table
from conjoin.errors import ModelError

if TYPE_CHECKING:
    from conjoin.data.mixed_table import MixedTable
    from conjoin.data.table import Table
    from conjoin.learning.checkpoint import Checkpoint
    from conjoin.models.markov import MarkovNetwork
    from conjoin.models.mixed import MixedNetwork
    from conjoin.models.network import Network

FEATURE_METHODS = ("top-down", "bottom-up", "generate-select", "staged")
"""The methods of `learn_features`."""

BAYESIAN = (".bif", ".xdsl", ".net", ".bn")
"""The formats that hold Bayesian networks only."""

TABLE_CELLS = {".bif": 1 << 14, ".xdsl": 1 << 14, ".net": 1 << 14, ".uai": 1 << 14}
"""The maximum size of a conditional in formats that write it out as a table."""

FOR_CONDITIONALS = {
    "cpd": "auto",
    "kappa": None,
    "penalty": None,
    "folds": None,
    "min_leaf": None,
    "closed_form": False,
    "checkpoint": None,
}
"""The options for conditionals, with their defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "table",
        metavar="TRAIN",
        help=f"the training table {shared.TABLE_FORMATS}, or a folder of .parquet files",
    )
    shared.add_output(
        parser, "MODEL", "the model to write (.conjoin, .mn, .uai, .dn, .bif, .xdsl, .net, .bn)"
    )
    add(
        "--valid",
        metavar="FILE",
        help="a table on which to tune kappa and the penalty (default: a tenth of TRAIN)",
    )
    add(
        "--cpd",
        choices=("auto", "tree", "logistic", "hybrid", "mixed", "boosted", "table"),
        default="auto",
        help="the kind of conditional: decision trees; L1-regularised logistic regression; the same "
        "with the paths of the target's tree as further features (hybrid); hybrid for variables of two "
        "states and trees for the others (mixed, which is what auto chooses); or sums of small trees. "
        "In Bayesian networks also tables; there, auto chooses between tables and trees",
    )
    add(
        "--kappa",
        metavar="K",
        type=float,
        help="the structure prior of trees, between 0 and 1: smaller values give smaller trees "
        "(default: tuned)",
    )
    add("--penalty", metavar="L", type=float, help="the L1 penalty of regressions (default: tuned)")
    add(
        "--folds",
        metavar="N",
        type=int,
        help="tune kappa and the penalty by cross-validation with N folds",
    )
    add("--min-leaf", metavar="N", type=float, help="minimum number of rows in a leaf")
    add(
        "--structure",
        choices=("order", "break-cycles"),
        help="learn a Bayesian network: by a search for the best order of the columns (order, the "
        "default for .bif, .xdsl, .net and .bn), or by removing the least essential edges on cycles of "
        "the dependency network",
    )
    add(
        "--features",
        choices=FEATURE_METHODS,
        help="search for the features of a Markov network instead of learning conditionals: top-down, "
        "from single states to conjunctions; bottom-up, from rows; generate-select, by parts of rows, of "
        "which an L1 penalty chooses; or staged, by the gradients of an L1 penalty "
        "(docs/feature-search.md)",
    )
    add(
        "--closed-form",
        action="store_true",
        help="keep the Markov network as converted. By default, a network learned from 50 rows or more "
        "is refined: rows held out choose among thin networks that maximise the likelihood, with and "
        "without a hidden column",
    )
    add(
        "--effort",
        choices=("quick", "default", "thorough"),
        default="default",
        help="how much work refining does; quick learns no hidden column, and neither does any other "
        "file format than .conjoin",
    )
    add(
        "--discretize",
        metavar="HOW",
        action="append",
        help="cut numeric columns into bins: quantile:N or width:N (N bins), mdl:TARGET (the cuts that "
        "are most informative about that column) or dependence (the cuts that tell something about any "
        "other column), for all columns of numbers with more than N distinct values (5 for mdl and "
        "dependence); COLUMN=HOW for one column, where HOW may also be cut points: age=30,40,65. May be "
        "repeated. By default, columns of more than 20 different numbers, or of more than 5 if some have "
        "a fraction, are not cut but modelled as numbers; only other formats than .conjoin, and options "
        "for conditionals, cut them into quantile:5",
    )
    shared.add_columns(parser)
    add(
        "--checkpoint",
        metavar="FOLDER",
        help="save finished work in this folder and resume from it if it exists; it is deleted once "
        "the model is written",
    )
    shared.add_random_state(parser, "choosing the rows held out")
    shared.add_jobs(parser)
    shared.add_json(parser)


class _Learned(NamedTuple):
    """A model, what was found while learning it, and what it was learned from, in words."""

    model: Network | MixedNetwork
    found: Mapping[str, Any]
    source: str


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.data.table import Table
    from conjoin.formats.model_files import check_can_save, save
    from conjoin.formats.storage import ending
    from conjoin.learning.checkpoint import Checkpoint
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork
    from conjoin.models.mixed import MixedNetwork

    started = time.perf_counter()
    to_dn = ending(Path(options.output)) == ".dn"
    to_bn = options.structure is not None or ending(Path(options.output)) in BAYESIAN
    _check_bayesian(options, to_bn)
    kind = BayesianNetwork if to_bn else DependencyNetwork if to_dn else MarkovNetwork
    check_can_save(kind, options.output)
    kept = None if options.checkpoint is None else Checkpoint(options.checkpoint)
    if kept is not None and kept.path.absolute() == Path(options.output).absolute():
        raise ModelError("the checkpoint and the model cannot have the same name")
    if options.features is not None:
        _check_features(options, to_dn)
    table, left_out = training_table(options, _needs_states(options))
    shared.announce("learning")
    try:
        if not isinstance(table, Table):
            learned = _learn_numbers(table, options)
        elif options.features is not None:
            learned = _learn_features(table, options)
        elif to_bn:
            learned = _learn_bayesian(table, kept, options)
        else:
            learned = _learn_joint(table, kept, options, to_dn)
    except KeyboardInterrupt:
        if kept is None:
            raise
        raise KeyboardInterrupt(f"the same command resumes from {options.checkpoint}") from None
    model, record = learned.model, {"table": Path(options.table).name}
    source: dict[str, Any] = {**record, "left_out": left_out} if left_out else record
    if isinstance(model, MixedNetwork):
        model = replace(model, provenance={**model.provenance, **source})
    else:
        model.provenance.update(source)
    save(model, options.output)
    if kept is not None:
        kept.remove()
    seconds = time.perf_counter() - started
    if options.json:
        shared.print_json(
            {"model": options.output, "kind": model.kind, "seconds": seconds, **learned.found}
        )
        return
    print(f"{options.output}: {model.kind} from {learned.source} ({seconds:.2f} s)")


def _learn_joint(
    table: Table, kept: Checkpoint | None, options: argparse.Namespace, to_dn: bool
) -> _Learned:
    """Learn the recommended joint distribution, or its conditionals."""
    from conjoin.formats.storage import ending
    from conjoin.joint.learning import learn_joint

    native = ending(Path(options.output)) == ".conjoin"
    dn, joint = learn_joint(
        table,
        options.cpd,
        valid=shared.optional_table(options.valid, table.domain, options),
        effort=options.effort if native else "quick",
        closed_form=options.closed_form or to_dn,
        folds=options.folds,
        kappa=options.kappa,
        penalty=options.penalty,
        min_leaf=options.min_leaf,
        random_state=options.random_state,
        n_jobs=options.jobs,
        checkpoint=kept,
    )
    found = dn.provenance["learned"]
    words = f"{options.cpd} CPDs"
    words += "".join(f", {k} {found[k]:g}" for k in ("kappa", "penalty") if k in found)
    if to_dn:
        return _Learned(dn, found, f"{_size(table)}, {words}")
    return _Learned(joint, found, f"{_size(table)}, {words}, {_refinement(joint)}")


def _learn_bayesian(table: Table, kept: Checkpoint | None, options: argparse.Namespace) -> _Learned:
    """Learn a Bayesian network."""
    from conjoin.bayesian.learning import to_bayesian_network
    from conjoin.formats.storage import ending
    from conjoin.learning.learn import learn

    valid = shared.optional_table(options.valid, table.domain, options)
    leaf = 10.0 if options.min_leaf is None else options.min_leaf
    ordered = table.reordered(table.domain.sorted_names())
    dn = learn(
        ordered,
        "tree" if options.cpd in ("auto", "table") else options.cpd,
        valid=None if valid is None else valid.reordered(ordered.domain.names),
        folds=options.folds,
        kappa=options.kappa,
        penalty=options.penalty,
        min_leaf=leaf,
        random_state=options.random_state,
        n_jobs=options.jobs,
        checkpoint=kept,
    )
    model = to_bayesian_network(
        dn.reordered(table.domain.names),
        table,
        options.structure or "order",
        cpd=options.cpd,
        valid=valid,
        kappa=options.kappa,
        min_leaf=leaf,
        max_cells=TABLE_CELLS.get(ending(Path(options.output))),
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    found = model.provenance["bayesian"]
    words = f"{found['edges']:,} edges, {found['cpd']} CPDs, {found['method']}"
    return _Learned(model, found, f"{_size(table)}, {words}")


def _learn_features(table: Table, options: argparse.Namespace) -> _Learned:
    """Learn a Markov network by a search for features."""
    from conjoin.feature_search.learning import learn_features

    model = learn_features(
        table,
        options.features,
        valid=shared.optional_table(options.valid, table.domain, options),
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    found = {"features": len(model.features), "method": options.features}
    words = f"{len(model.features):,} features, {options.features}"
    return _Learned(model, found, f"{_size(table)}, {words}")


def _learn_numbers(table: MixedTable, options: argparse.Namespace) -> _Learned:
    """Learn from a table with numbers."""
    from conjoin.joint.mixed_learning import learn_mixed

    model = learn_mixed(
        table, effort=options.effort, random_state=options.random_state, n_jobs=options.jobs
    )
    columns = f"{len(table.names)} columns, {len(table.scales)} with numbers"
    return _Learned(model, {}, f"{len(table):,} rows of {columns}")


def _check_bayesian(options: argparse.Namespace, to_bn: bool) -> None:
    """Reject options that Bayesian networks do not have, and those that only they have."""
    if not to_bn and options.cpd == "table":
        raise ModelError(
            "--cpd table is for Bayesian networks; write one as .bif, or add --structure order"
        )
    markov = {"closed_form": False, "effort": "default", "features": None}
    other = _changed(options, markov) if to_bn else None
    if other is not None:
        raise ModelError(
            f"{other} is for Markov networks, and this is a Bayesian one; leave it out"
        )


def _check_features(options: argparse.Namespace, to_dn: bool) -> None:
    """Reject options that a search for features does not have."""
    other = _changed(options, {**FOR_CONDITIONALS, "effort": "default"})
    if other is not None:
        raise ModelError(f"{other} is for conditionals, and --features learns none; leave one out")
    if to_dn:
        raise ModelError("--features learns a Markov network; write it as .conjoin, .mn or .uai")


def _needs_states(options: argparse.Namespace) -> str | None:
    """Return the option because of which numbers have to be cut into bins, if there is one."""
    from conjoin.formats.storage import ending

    if ending(Path(options.output)) != ".conjoin":
        return f"a model in the format {ending(Path(options.output))}"
    others = {"valid": None, "features": None, "structure": None}
    return _changed(options, {**FOR_CONDITIONALS, **others})


def _changed(options: argparse.Namespace, defaults: dict[str, Any]) -> str | None:
    """Return the first option that differs from its default, if there is one."""
    for name, default in defaults.items():
        if getattr(options, name) != default:
            return f"--{name.replace('_', '-')}"
    return None


def _size(table: Table) -> str:
    """Return the number of rows and columns of a table in words."""
    columns = f"{len(table.domain)} variables"
    if table.weights is None:
        return f"{len(table):,} rows of {columns}"
    return f"{table.weights.sum():,.0f} rows ({len(table):,} distinct) of {columns}"


def _refinement(joint: MarkovNetwork) -> str:
    """Describe how the joint distribution was refined."""
    if "refined" in joint.provenance:
        return str(joint.provenance["refined"]["chosen"])
    return "closed form"
