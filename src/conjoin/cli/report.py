"""`conjoin report`: one page about a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="write a page about a model",
        description="Write one self-contained HTML page about a model: its graph, its strongest links in "
        "words, where the conditionals of a dependency network disagree and, with a table, whether its "
        "predictions come true.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model, in any format")
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        default="report.html",
        help="the page (default report.html)",
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="the table it was learned from: strengths are by its marginals",
    )
    parser.add_argument(
        "--test",
        metavar="FILE",
        help="a table it was not learned from, to hold predictions against",
    )
    parser.add_argument(
        "--conditionals",
        metavar="DN",
        help="the dependency network that a Markov network was converted from",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import FormatError, ModelError
    from conjoin.formats.files import load, read_table
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.reports.page import write_report

    path = Path(options.output)
    if path.suffix.lower() not in (".html", ".htm"):
        raise FormatError("the page must end in .html", options.output)
    model = load(options.model)
    train, test = (
        None if name is None else read_table(name, model.domain)
        for name in (options.data, options.test)
    )
    conditionals = None
    if options.conditionals is not None:
        source = load(options.conditionals)
        if not isinstance(source, DependencyNetwork):
            raise ModelError(f"--conditionals must be a dependency network, not a {source.kind}")
        conditionals = source
    title = f"{Path(options.model).name}: a {model.kind} of {len(model.domain):,} variables"
    write_report(model, path, train, test, conditionals=conditionals, title=title)
    print(f"{path}: report on a {model.kind} of {len(model.domain):,} variables")
