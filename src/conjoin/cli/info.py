"""`conjoin info`: what is in a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conjoin.conversion.inconsistencies import Inconsistency
    from conjoin.data.table import Table
    from conjoin.models.features import Features
    from conjoin.models.network import Network


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "info",
        help="tell what is in a model or table file",
        description="Tell what is in a model or table file: its kind, its variables, its features by "
        "length, the sizes of its Markov blankets.",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a model or a table")
    parser.add_argument(
        "--build",
        action="store_true",
        help="describe the installed package instead: whether its kernels were compiled when it was "
        "built or are compiled on first use, and why",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    parser.add_argument(
        "--inconsistency",
        action="store_true",
        help="of a dependency network, also tell how far its conditionals disagree, and about what",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    if options.build:
        describe_build(options.json)
        return
    from conjoin.conversion.inconsistencies import inconsistency
    from conjoin.errors import ModelError
    from conjoin.formats.files import TABLE_ENDINGS, load, read_table
    from conjoin.formats.storage import ending
    from conjoin.models.dependency import DependencyNetwork

    if options.file is None:
        raise ModelError("FILE is missing: name a model or a table, or ask for --build")
    path = Path(options.file)
    if ending(path) in TABLE_ENDINGS:
        if options.inconsistency:
            raise ModelError("--inconsistency goes with a dependency network, not with a table")
        report = describe_table(read_table(path))
    else:
        model = load(path)
        report = describe_network(model)
        if options.inconsistency:
            if not isinstance(model, DependencyNetwork):
                raise ModelError(
                    f"--inconsistency goes with a dependency network, not a {model.kind}"
                )
            found = inconsistency(model)
            report["inconsistency"] = describe_inconsistency(found)
    if options.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        print("\n".join(_lines(report)))
        if options.inconsistency:
            print("\n".join(f"  {line}" for line in str(found).split("\n")))


def describe_build(as_json: bool) -> None:
    """Print which machine code is in use, and why."""
    from conjoin import __version__
    from conjoin.kernels.build_info import describe

    report = {"conjoin": __version__, **describe()}
    if as_json:
        print(json.dumps(report))
        return
    for key, value in report.items():
        print(f"{key.replace('_', ' '):<12}{value}")


def _variables(domain: Any) -> dict[str, Any]:
    states: dict[str, int] = {}
    for card in sorted(domain.cards.tolist()):
        states[str(card)] = states.get(str(card), 0) + 1
    return {
        "n_variables": len(domain),
        "variables_by_states": states,
        "variables": [{"name": v.name, "states": [_label(s) for s in v.states]} for v in domain],
    }


def _label(state: Any) -> Any:
    return state if isinstance(state, str | int | float) else str(state)


def describe_table(table: Table) -> dict[str, Any]:
    """Return what there is to say of a table."""
    return {
        "kind": "table",
        "rows": len(table),
        "weighted": table.weights is not None,
        "missing": int((table.codes == table.missing).sum()),
        **_variables(table.domain),
    }


def describe_network(model: Network) -> dict[str, Any]:
    """Return what there is to say of a model."""
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork, TableFactor

    report: dict[str, Any] = {"kind": model.kind, **_variables(model.domain)}
    features: Features | None = None
    if isinstance(model, MarkovNetwork):
        features = model.features
        tables = sum(isinstance(f, TableFactor) for f in model.factors)
        report["table_factors"] = tables
        report["tree_factors"] = len(model.factors) - tables
    elif isinstance(model, DependencyNetwork):
        features = model.features()[0]
    if hasattr(model, "cpds"):
        kinds = [type(cpd).__name__ for cpd in model.cpds]
        report["cpds"] = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    if features is not None:
        lengths = features.lengths.tolist()
        report["n_features"] = len(lengths)
        report["features_by_length"] = {str(n): lengths.count(n) for n in sorted(set(lengths))}
        soft = int(features.soft_rows().sum())
        if soft:
            report["features_with_off_values"] = soft
    sizes = sorted(len(b) for b in model.blankets())
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


def describe_inconsistency(result: Inconsistency) -> dict[str, Any]:
    """Return how far the conditionals of a dependency network disagree."""
    return {
        "total": result.total,
        "by_variable": result.by_variable,
        "interactions": [
            {"variables": i.variables, "disagreement": i.disagreement, "opinions": i.opinions}
            for i in result.interactions
        ],
        "max_size": result.max_size,
        "complete": result.complete,
    }


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [report["kind"]]

    def say(label: str, text: str) -> None:
        lines.append(f"  {label:<22}{text}")

    if "rows" in report:
        weighted = ", weighted" if report["weighted"] else ""
        say("rows", f"{report['rows']:,}{weighted}; {report['missing']:,} cells missing")
    states = ", ".join(f"{n:,} of {s} states" for s, n in report["variables_by_states"].items())
    say("variables", f"{report['n_variables']:,} ({states})")
    names = [v["name"] for v in report["variables"]]
    say("names", ", ".join(names[:8]) + (", ..." if len(names) > 8 else ""))
    if "cpds" in report:
        say("CPDs", ", ".join(f"{n:,} {kind}" for kind, n in report["cpds"].items()))
    for label, key in (("table factors", "table_factors"), ("tree factors", "tree_factors")):
        if report.get(key):
            say(label, f"{report[key]:,}")
    if "n_features" in report:
        say("features", f"{report['n_features']:,}")
        for length, count in report["features_by_length"].items():
            say(f"  of {length} test{'s' if length != '1' else ''}", f"{count:,}")
    if "blankets" in report:
        b = report["blankets"]
        say("Markov blankets", f"{b['min']} to {b['max']} variables, {b['mean']:.1f} on average")
    for key, value in report.get("provenance", {}).items():
        if isinstance(value, dict):  # the scores along a path are for programs
            short = [(k, v) for k, v in value.items() if not isinstance(v, list | dict)]
            value = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in short)
        say(key.replace("_", " "), str(value))
    return lines
