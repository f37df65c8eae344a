"""Describe a model or a table file.

Describe a model or a table file: its kind, its variables, the ranges of numbers, the relations that
always hold, its features by length, the sizes of its Markov blankets.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared
from conjoin.data.labels import shown

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.data.number_states import NumberStates
    from conjoin.data.rules import Rule
    from conjoin.data.table import Table
    from conjoin.models.network import Network

LISTED = 8
"""Maximum number of states that are listed of a column."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    parser.add_argument("file", metavar="FILE", help="a model or a table")
    add(
        "--inconsistency",
        "for a dependency network: also measure how far its conditionals disagree, and about what",
    )
    shared.add_shared(parser, "--missing", "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.storage import TABLE_ENDINGS, check_ending, ending

    path = Path(options.file)
    disagreements = None
    if ending(path) in TABLE_ENDINGS or path.is_dir():
        if options.inconsistency:
            raise ModelError("--inconsistency needs a dependency network, not a table")
        from conjoin.formats.table_files import read_table

        how = shared.dialect(options)._asdict()
        table = read_table(path, missing=options.missing, **how)
        report = describe_table(table)
        columns = column_lines(table.domain, table.holes, weights=table.weights)
    else:
        from conjoin.formats.model_files import FORMATS, load

        check_ending(path, dict.fromkeys([*FORMATS, *TABLE_ENDINGS], ""), "model or table")
        model = load(path)
        report, columns = describe_network(model), column_lines(model.domain.observed)
        if options.inconsistency:
            if model.kind != "dependency network":
                raise ModelError(f"--inconsistency needs a dependency network, not a {model.kind}")
            from conjoin.conversion.inconsistency import inconsistency

            disagreements = inconsistency(model)
            report["inconsistency"] = asdict(disagreements)
    lines = _lines(report, columns)
    if disagreements is not None:
        lines += [f"  {line}" for line in str(disagreements).split("\n")]
    shared.print_result(options, report, *lines)


def _variables(domain: Domain) -> dict[str, Any]:
    categories = [v for v in domain if v.numbers is None]
    counts = Counter(sorted(len(v) for v in categories))
    report: dict[str, Any] = {
        "n_variables": len(domain),
        "variables_by_states": {str(card): count for card, count in counts.items()},
        "variables": [
            {"name": v.name, "states": [shared.plain(s) for s in v.states]} for v in categories
        ],
    }
    if domain.numeric:
        report["numbers"] = [_number(domain.numbers(name)) for name in domain.numeric]
    return report


def _number(numbers: NumberStates) -> dict[str, Any]:
    """Return a description of a column of numbers."""
    scale = numbers.scale
    return {
        "name": scale.name,
        "kind": scale.kind,
        "step": scale.step,
        "low": scale.text(scale.low),
        "high": scale.text(scale.high),
        "intervals": int(numbers.intervals.sum()),
        "single": [scale.text(x) for x in numbers.map.atoms.tolist()],
    }


def _rules(rules: Sequence[Rule]) -> dict[str, Any]:
    """Return a description of the relations that always hold, if there are any."""
    listed = [
        {"rule": r.text, "support": r.support, "exceptions": r.exceptions, "words": r.words()}
        for r in rules
    ]
    return {"rules": listed} if listed else {}


def describe_table(table: Table) -> dict[str, Any]:
    """Return a description of a table."""
    from conjoin.data.rule_search import find_rules

    return {
        "kind": "table",
        "rows": len(table),
        "weighted": table.weights is not None,
        "missing": int(table.holes.sum()),
        **_variables(table.domain),
        **_rules(find_rules(table)),
    }


def describe_network(model: Network) -> dict[str, Any]:
    """Return a description of a network."""
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork, TableFactor

    report: dict[str, Any] = {"kind": model.kind, **_variables(model.domain.observed)}
    report |= _rules(model.rules)
    if model.domain.hidden.any():
        report["hidden"] = [len(v) for v in model.domain if v.hidden]
    chain = getattr(model, "chain", None)
    if chain is not None:
        report["chain"] = {"share": chain.share, "order": list(chain.names)}
    features = None
    if isinstance(model, MarkovNetwork):
        features = model.features
        tables = sum(isinstance(f, TableFactor) for f in model.factors)
        report["table_factors"] = tables
        report["tree_factors"] = len(model.factors) - tables
    elif isinstance(model, DependencyNetwork):
        features = model.features()[0]
    if hasattr(model, "cpds"):
        report["cpds"] = dict(Counter(type(cpd).__name__ for cpd in model.cpds))
    if features is not None:
        lengths = Counter(sorted(features.lengths.tolist()))
        report["n_features"] = len(features)
        report["features_by_length"] = {str(length): count for length, count in lengths.items()}
        soft = int(features.soft_rows().sum())
        if soft:
            report["features_with_off_values"] = soft
    hidden = set(model.domain.hidden.nonzero()[0].tolist())
    blankets = model.blankets()[: len(model.domain.observed)]
    sizes = sorted(len(set(b) - hidden) for b in blankets)
    if sizes:
        report["blankets"] = {
            "min": sizes[0],
            "median": (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2,
            "mean": sum(sizes) / len(sizes),
            "max": sizes[-1],
        }
    if model.provenance:
        report["provenance"] = model.provenance
    return report


def _lines(report: dict[str, Any], columns: list[str]) -> list[str]:
    lines = [report["kind"]]

    def say(label: str, text: str) -> None:
        lines.append(f"  {label:<21} {text}")

    if "rows" in report:
        weighted = ", weighted" if report["weighted"] else ""
        say("rows", f"{report['rows']:,}{weighted}; {report['missing']:,} cells missing")
    numeric = len(report.get("numbers", ()))
    say("variables", f"{report['n_variables']:,}, {numeric:,} of them numbers or dates")
    if "hidden" in report:
        sizes = report["hidden"]
        noun = "column" if len(sizes) == 1 else "columns"
        counts = " and ".join(f"{size:,}" for size in sizes)
        say("hidden", f"{len(sizes)} hidden {noun} with {counts} states")
    if "chain" in report:
        say("chain", f"a share of {report['chain']['share']:.0%} where few columns are unknown")
    if "cpds" in report:
        say("CPDs", ", ".join(f"{n:,} {kind}" for kind, n in report["cpds"].items()))
    for label, key in (("table factors", "table_factors"), ("tree factors", "tree_factors")):
        if report.get(key):
            say(label, f"{report[key]:,}")
    if report.get("n_features"):
        lengths = report["features_by_length"].items()
        tests = ", ".join(f"{n:,} of {length} test{'s' * (length != '1')}" for length, n in lengths)
        say("features", f"{report['n_features']:,} ({tests})")
    for k, rule in enumerate(report.get("rules", ())):
        say("" if k else "always holds", rule["words"])
    if "blankets" in report:
        b = report["blankets"]
        say("Markov blankets", f"{b['min']} to {b['max']} variables, {b['mean']:.1f} on average")
    for label, text in _history(report):
        say(label, shown(text))
    return [*lines, *(f"  {line}" for line in columns)]


def _history(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how a model was made in words: labels and texts; the rest is in --json."""
    record = report.get("provenance", {})
    learned, refined = record.get("learned", {}), record.get("refined", {})
    if "table" in record:
        rows = f", {learned['rows']:,} rows" if "rows" in learned else ""
        yield "learned from", f"{record['table']}{rows}"
    if learned:
        chosen = [f"{k} {learned[k]:g}" for k in ("kappa", "penalty") if k in learned]
        yield "conditionals", ", ".join([f"{learned['cpd']} CPDs", *chosen])
    if refined:
        yield "refined", refined["chosen"]
        score = (refined.get("held_out") or {}).get(refined["chosen"])
        if score is not None:
            states = ", numbers counted as intervals" if "numbers" in report else ""
            yield "rows held out", f"log-likelihood {score:.2f} nats per row{states}"
    if "left_out" in record:
        yield "left out", "; ".join(f"{k} ({why})" for k, why in record["left_out"].items())
    if "read_from" in record:
        yield "read from", str(record["read_from"])


def column_lines(
    domain: Domain, holes: Any = None, limit: int | None = None, weights: Any = None
) -> list[str]:
    """Return the kind and the values of each column as a table, and the share of missing values."""
    import numpy as np

    rows = [["column", "kind", *([] if holes is None else ["missing"]), "values"]]
    for i, v in enumerate(domain.variables[:limit]):
        if v.numbers is None:
            states = ", ".join(map(shown, v.values[:LISTED])) + ", ..." * (len(v.values) > LISTED)
            count = len(v.values)
            kind, values = "category", f"{count:,} state{'s' * (count != 1)}: {states}"
        else:
            scale = v.numbers.scale
            kind, values = scale.kind, f"{scale.short(scale.low)} to {scale.short(scale.high)}"
            unit = {"date": " days", "datetime": " s"}.get(kind, "")
            if scale.step is not None and (kind, scale.step) != ("date", 1):
                values += f", in steps of {scale.step:g}{unit}"
        values += "; or absent" * v.absent
        shares = [] if holes is None else [f"{np.average(holes[:, i], weights=weights):.0%}"]
        rows.append([shown(v.name), kind, *shares, values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    room = shutil.get_terminal_size().columns - 3 if sys.stdout.isatty() else None
    return [line[:room] for line in lines]
