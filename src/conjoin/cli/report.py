"""Write a page about a model.

Write one self-contained HTML page about a model: its graph, its strongest links in words, where the
conditionals of a dependency network disagree and, with a table, how reliable its predictions are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_output(parser, "HTML", "the page to write", default="report.html")
    add(
        "--data",
        metavar="FILE",
        help="the table it was learned from; strengths of links are measured under its marginals",
    )
    add(
        "--test",
        metavar="FILE",
        help="a table it was not learned from, to check its predictions on",
    )
    add(
        "--conditionals",
        metavar="DN",
        help="the dependency network that a Markov network was converted from",
    )


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import FormatError, ModelError
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.reports.page import write_report

    path = Path(options.output)
    if path.suffix.lower() not in (".html", ".htm"):
        raise FormatError("the name of the page must end in .html", options.output)
    model = shared.load_states(options.model, picture=True)
    conditionals = (
        None if options.conditionals is None else shared.load_states(options.conditionals)
    )
    if not (conditionals is None or isinstance(conditionals, DependencyNetwork)):
        raise ModelError(f"--conditionals must be a dependency network, not a {conditionals.kind}")
    what = f"{model.kind} of {len(model.domain.observed):,} variables"
    write_report(
        model,
        path,
        shared.optional_table(options.data, model.domain),
        shared.optional_table(options.test, model.domain),
        conditionals=conditionals,
        title=f"{Path(options.model).name}: a {what}",
    )
    print(f"{path}: report on a {what}")
