"""Learn a model from a table.

Learn a model from a table: one conditional distribution per variable, turned into one joint
distribution. A result written as .conjoin, .mn or .uai is that joint distribution, a Markov
network; a result written as .dn is the dependency network of the conditionals; one written as .bif
or .bn is a Bayesian network. The states of columns of numbers and dates are intervals; where numbers
lie within these is part of the joint distribution in a .conjoin file only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conjoin.cli import arguments as shared
from conjoin.cli.training_table import training_table
from conjoin.errors import ModelError

if TYPE_CHECKING:
    from conjoin.data.rules import Rule
    from conjoin.data.table import Table
    from conjoin.models.network import Network

MAX_COLUMNS = 12
"""Maximum number of columns that are described."""

FEATURE_METHODS = ("top-down", "bottom-up")
"""The methods of `learn_features`."""

BAYESIAN = (".bif", ".bn")
"""The formats that hold Bayesian networks only."""

TABLE_CELLS = {".bif": 1 << 14, ".uai": 1 << 14}
"""The maximum size of a conditional in formats that write it out as a table."""

SHOWN = 6
"""Number of columns, or of relations, that are named."""

FOR_CONDITIONALS = {
    "cpd": "auto",
    "kappa": None,
    "penalty": None,
    "min_leaf": None,
    "closed_form": False,
}
"""The options for conditionals, with their defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    parser.add_argument(
        "table",
        metavar="TRAIN",
        help=f"the training table {shared.TABLE_FORMATS}, or a folder of .parquet files",
    )
    shared.add_output(
        parser,
        "MODEL",
        "the model to write (.conjoin, .mn, .uai, .dn, .bif, .bn)",
        "TABLE.conjoin",
    )
    add(
        "--valid FILE", "a table on which to tune kappa and the penalty (default: a tenth of TRAIN)"
    )
    add(
        "--cpd",
        "the kind of conditional: decision trees; L1-regularised logistic regression; the same "
        "with the paths of the target's tree as further features (hybrid); hybrid for variables of two "
        "states and trees for the others (mixed, which is what auto chooses); or sums of small trees "
        "(boosted). In Bayesian networks also tables; there, auto chooses between tables and trees",
        choices=("auto", "tree", "logistic", "hybrid", "mixed", "boosted", "table"),
        default="auto",
    )
    add(
        "--kappa K",
        "the structure prior of trees, between 0 and 1: smaller values give smaller trees "
        "(default: tuned)",
        type=float,
    )
    add("--penalty L", "the L1 penalty of regressions (default: tuned)", type=float)
    add("--min-leaf N", "minimum number of rows in a leaf", type=float)
    add(
        "--structure",
        "learn a Bayesian network: by a search for the best order of the columns (order, the "
        "default for .bif and .bn), or by removing the least essential edges on cycles of "
        "the dependency network",
        choices=("order", "break-cycles"),
    )
    add(
        "--features",
        "search for the features of a Markov network instead of learning conditionals: top-down, "
        "from single states to conjunctions, or bottom-up, from rows",
        choices=FEATURE_METHODS,
    )
    add(
        "--closed-form",
        "keep the Markov network as converted. By default, a network learned from 50 rows or more "
        "is refined: rows held out choose among thin networks that maximise the likelihood, with and "
        "without a hidden column",
    )
    add(
        "--effort",
        "how much work refining does; quick learns no hidden column, and neither does any other "
        "file format than .conjoin",
        choices=("quick", "default", "thorough"),
        default="default",
    )
    add(
        "--include COLUMN ...",
        "keep a column that would be left out because it has a different value in almost every "
        "row; may be repeated",
    )
    add("--exclude COLUMN ...", "leave a column out; may be repeated")
    add(
        "--kind COLUMN=KIND ...",
        "read a column as category, number or date, whatever it looks like; may be repeated",
    )
    add(
        "--no-absent",
        "treat every empty cell as a value that got lost. By default, being absent is a state of a "
        "column if other columns tell which of its cells are empty",
    )
    shared.add_shared(parser, "--rule", "--no-rules", "--missing")
    shared.add_random_state(parser, "choosing the rows held out")
    shared.add_shared(parser, "--jobs", "--json")


class _Learned(NamedTuple):
    """A model, what was found while learning it, and what it was learned from, in words."""

    model: Network
    record: Mapping[str, Any]
    source: str


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.cli.info import column_lines
    from conjoin.formats.model_files import check_can_save, save
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork

    to_dn = _ending(options) == ".dn"
    to_bn = options.structure is not None or _ending(options) in BAYESIAN
    _check_bayesian(options, to_bn)
    kind = BayesianNetwork if to_bn else DependencyNetwork if to_dn else MarkovNetwork
    check_can_save(kind, options.output)
    if options.features is not None:
        _check_features(options, to_dn)
    table, left_out = training_table(options)
    rules = _rules(table, options)
    if options.features is not None:
        learned = _learn_features(table, options)
    elif to_bn:
        learned = _learn_bayesian(table, options)
    else:
        learned = _learn_joint(table, options, to_dn)
    provenance = {**learned.model.provenance, "table": Path(options.table).name}
    if left_out:
        provenance["left_out"] = left_out
    model = learned.model.with_provenance(provenance).with_rules(rules)
    save(model, options.output)
    if getattr(model, "fine", None) is not None and _ending(options) != ".conjoin":
        said = (
            "holds the intervals of numbers; only .conjoin also holds where they lie within these"
        )
        print(f"conjoin: {_ending(options)} {said}", file=sys.stderr)
    seconds = shared.seconds(options)
    report = {"model": options.output, "kind": model.kind, "seconds": seconds, **learned.record}
    report["rules"] = [rule.words() for rule in rules]
    words = f"{options.output}: {model.kind} from {learned.source} ({seconds:.2f} s)"
    columns = column_lines(table.domain, table.holes | table.absent, MAX_COLUMNS, table.weights)
    if (more := len(table.domain) - MAX_COLUMNS) > 0:
        columns.append(f"... and {more:,} more (conjoin info {options.output})")
    shared.print_result(
        options, report, words, *columns, *_absent(table), *_relations(rules, options)
    )


def _learn_joint(table: Table, options: argparse.Namespace, to_dn: bool) -> _Learned:
    """Learn the recommended joint distribution, or its conditionals."""
    from conjoin.joint.joint_learning import learn_joint

    dn, joint = learn_joint(
        table,
        options.cpd,
        valid=shared.optional_table(options.valid, table.domain, options),
        effort=options.effort if _ending(options) == ".conjoin" else "quick",
        closed_form=options.closed_form or to_dn,
        kappa=options.kappa,
        penalty=options.penalty,
        min_leaf=options.min_leaf,
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    record = dn.provenance["learned"]
    words = f"{options.cpd} CPDs"
    words += f" of {record['library']}" if "library" in record else ""
    words += "".join(f", {k} {record[k]:g}" for k in ("kappa", "penalty") if k in record)
    if to_dn:
        return _Learned(dn, record, f"{_size(table)}, {words}")
    refined = joint.provenance.get("refined", {}).get("chosen", "closed form")
    return _Learned(joint, record, f"{_size(table)}, {words}, {refined}")


def _learn_bayesian(table: Table, options: argparse.Namespace) -> _Learned:
    """Learn a Bayesian network."""
    from conjoin.learning.conditional_learning import learn_conditionals
    from conjoin.research.bayesian_learning import to_bayesian_network

    valid = shared.optional_table(options.valid, table.domain, options)
    leaf = 10.0 if options.min_leaf is None else options.min_leaf
    ordered = table.reordered(table.domain.sorted_names())
    dn = learn_conditionals(
        ordered,
        "tree",
        valid=None if valid is None else valid.reordered(ordered.domain.names),
        kappa=options.kappa,
        min_leaf=leaf,
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    model = to_bayesian_network(
        dn.reordered(table.domain.names),
        table,
        options.structure or "order",
        cpd=options.cpd,
        valid=valid,
        kappa=options.kappa,
        min_leaf=leaf,
        max_cells=TABLE_CELLS.get(_ending(options)),
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    record = model.provenance["bayesian"]
    words = f"{record['edges']:,} edges, {record['cpd']} CPDs, {record['method']}"
    return _Learned(model, record, f"{_size(table)}, {words}")


def _learn_features(table: Table, options: argparse.Namespace) -> _Learned:
    """Learn a Markov network by a search for features."""
    from conjoin.research.feature_search.feature_learning import learn_features

    model = learn_features(
        table,
        options.features,
        valid=shared.optional_table(options.valid, table.domain, options),
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    record = {"features": len(model.features), "method": options.features}
    words = f"{len(model.features):,} features, {options.features}"
    return _Learned(model, record, f"{_size(table)}, {words}")


def _check_bayesian(options: argparse.Namespace, to_bn: bool) -> None:
    """Reject options that Bayesian networks do not have, and those that only they have."""
    if not to_bn and options.cpd == "table":
        raise ModelError(
            "--cpd table is for Bayesian networks; write one as .bif, or add --structure order"
        )
    if to_bn and options.cpd not in ("auto", "table", "tree"):
        raise ModelError(f"Bayesian networks have tables or trees, not --cpd {options.cpd}")
    markov = {"penalty": None, "closed_form": False, "effort": "default", "features": None}
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


def _ending(options: argparse.Namespace) -> str:
    """Return the ending of the model's file, which names its format."""
    from conjoin.formats.storage import ending

    return ending(Path(options.output))


def _changed(options: argparse.Namespace, defaults: dict[str, Any]) -> str | None:
    """Return the first option that differs from its default, if there is one."""
    for name, default in defaults.items():
        if getattr(options, name) != default:
            return f"--{name.replace('_', '-')}"
    return None


def _size(table: Table) -> str:
    """Return the number of rows and columns of a table in words."""
    columns = f"{len(table.domain)} variables"
    if table.domain.numeric:
        columns += f", {len(table.domain.numeric)} with numbers"
    if table.weights is None:
        return f"{len(table):,} rows of {columns}"
    return f"{table.weights.sum():,.0f} rows ({len(table):,} distinct) of {columns}"


def _rules(table: Table, options: argparse.Namespace) -> Sequence[Rule]:
    """Return the relations that the model keeps; only .conjoin files hold them."""
    from conjoin.data.rule_text import rules_of

    if _ending(options) == ".conjoin":
        return rules_of(table, shared.wanted_rules(options))
    if options.rule:
        raise ModelError(
            "only .conjoin files hold rules; leave --rule out, or write a .conjoin file"
        )
    return ()


def _relations(rules: Sequence[Rule], options: argparse.Namespace) -> list[str]:
    """Say which relations hold."""
    if not rules:
        return []
    start = "1 relation always holds" if len(rules) == 1 else f"{len(rules)} relations always hold"
    more = f"; and {len(rules) - SHOWN:,} more (conjoin info {options.output})" * (
        len(rules) > SHOWN
    )
    return [f"{start}: {'; '.join(rule.words() for rule in rules[:SHOWN])}{more}"]


def _absent(table: Table) -> list[str]:
    """Say of which columns being absent is a state."""
    names = [v.name for v in table.domain if v.absent]
    if not names:
        return []
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))
    return [f"Empty cells say that no value applies: {listed} (--no-absent: that it got lost)"]
