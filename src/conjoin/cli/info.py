"""Describe a model or a table file.

Describe a model or a table file: its kind, its variables, the ranges of numbers, its features by length,
the sizes of its Markov blankets.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared
from conjoin.data.labels import shown

if TYPE_CHECKING:
    from conjoin.conversion.inconsistency import Inconsistency
    from conjoin.data.domain import Domain
    from conjoin.data.number_states import NumberStates
    from conjoin.data.table import Table
    from conjoin.models.network import Network

MAX_SIZES = 6
"""Maximum number of different numbers of states that are listed one by one."""


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
    from conjoin.formats.storage import TABLE_ENDINGS, ending

    path = Path(options.file)
    disagreements = None
    if ending(path) in TABLE_ENDINGS or path.is_dir():
        if options.inconsistency:
            raise ModelError("--inconsistency needs a dependency network, not a table")
        from conjoin.formats.table_files import read_table

        report = describe_table(
            read_table(path, missing=options.missing, **shared.dialect(options)._asdict())
        )
    else:
        from conjoin.formats.model_files import load

        model = load(path)
        report = describe_network(model)
        if options.inconsistency:
            if model.kind != "dependency network":
                raise ModelError(f"--inconsistency needs a dependency network, not a {model.kind}")
            from conjoin.conversion.inconsistency import inconsistency

            disagreements = inconsistency(model)
            report["inconsistency"] = describe_inconsistency(disagreements)
    lines = _lines(report)
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


def describe_table(table: Table) -> dict[str, Any]:
    """Return a description of a table."""
    return {
        "kind": "table",
        "rows": len(table),
        "weighted": table.weights is not None,
        "missing": int(table.holes.sum()),
        **_variables(table.domain),
    }


def describe_network(model: Network) -> dict[str, Any]:
    """Return a description of a network."""
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork, TableFactor

    report: dict[str, Any] = {"kind": model.kind, **_variables(model.domain.observed)}
    if model.domain.hidden.any():
        report["hidden"] = [len(v) for v in model.domain if v.hidden]
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


def describe_inconsistency(result: Inconsistency) -> dict[str, Any]:
    """Return how far the conditionals of a dependency network disagree, and about what."""
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
    states = _by_states({int(s): n for s, n in report["variables_by_states"].items()})
    if "numbers" in report:
        states += f"{', ' if states else ''}{len(report['numbers']):,} with numbers"
    say("variables", f"{report['n_variables']:,} ({states})")
    if "hidden" in report:
        sizes = report["hidden"]
        columns = "column" if len(sizes) == 1 else "columns"
        counts = " and ".join(f"{size:,}" for size in sizes)
        say("hidden", f"{len(sizes)} hidden {columns} with {counts} states")
    for number in report.get("numbers", ()):
        unit = {"date": " day", "datetime": " s"}.get(number["kind"], "")
        unit += "s" * (number["kind"] == "date" and number["step"] != 1)
        grid = "" if number["step"] is None else f", in steps of {number['step']:g}{unit}"
        ends = " to ".join(_rounded(number, number[end]) for end in ("low", "high"))
        say(shown(number["name"]), f"{number['kind']} from {ends}{grid}, {_states(number)}")
    names = [v["name"] for v in report["variables"]]
    if names:
        listed = ", ".join(map(shown, names[:8])) + (", ..." if len(names) > 8 else "")
        say("categories" if "numbers" in report else "names", listed)
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
        if isinstance(value, dict):  # longer records, such as scores along a path, are in --json
            short = [(k, v) for k, v in value.items() if not isinstance(v, list | dict)]
            value = ", ".join(f"{k.replace('_', ' ')} {_figure(k, v)}" for k, v in short)
        say(shown(key.replace("_", " ")), shown(value))
    return lines


def _states(number: dict[str, Any]) -> str:
    """Return the states of a column of numbers in words."""
    count, single = number["intervals"], number["single"]
    words = [f"{count:,} interval{'s' * (count != 1)}"] if count else []
    if len(single) > MAX_SIZES:
        words.append(f"{len(single):,} single values")
    elif single:
        listed = " or ".join(_rounded(number, value) for value in single)
        words.append(f"often {listed}" if count else listed)
    return ", ".join(words)


def _by_states(counts: dict[int, int]) -> str:
    """Return how many variables have how many states; of many different numbers, the least and greatest.

    Examples
    --------
    >>> _by_states({1: 1, 2: 20}), _by_states({n: 1 for n in range(2, 90)})
    ('1 of 1 state, 20 of 2 states', '88 of 2 to 89 states')
    """
    if len(counts) > MAX_SIZES:
        return f"{sum(counts.values()):,} of {min(counts):,} to {max(counts):,} states"
    return ", ".join(f"{n:,} of {s:,} state{'s' * (s != 1)}" for s, n in counts.items())


def _rounded(number: dict[str, Any], text: str) -> str:
    """Return a value of a column of numbers in a few digits; dates as they are."""
    if number["kind"] != "number":
        return text
    from conjoin.data.number_scale import number_text

    return number_text(float(text), (float(number["high"]) - float(number["low"])) / 100, 6)


def _figure(key: str, value: Any) -> Any:
    """Return an entry of the provenance in a few digits, with its unit where that is not clear."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        unit = " nats per row" if key == "held_out" else ""
        return f"{value:.4g}{unit}"
    return value
