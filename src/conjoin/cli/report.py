"""Write a page about a model.

Write one self-contained HTML page about a model: every column with its distribution, what goes with what
in words and, with tables, how good predictions are, what looks odd, and what gradient boosting would do.
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
        help="the table it was learned from: it is described, compared with the model, and searched "
        "for odd values",
    )
    add(
        "--test",
        metavar="FILE",
        help="a table it was not learned from, to check its predictions on; together with --data, they "
        "are compared with gradient boosting, if LightGBM or scikit-learn is installed",
    )
    add(
        "--conditionals",
        metavar="DN",
        help="the dependency network that a Markov network was converted from",
    )
    shared.add_missing(parser)
    shared.add_unseen(parser)
    add("--title", metavar="TEXT", help="the heading (default the name of the model's file)")
    add("--explorer", action="store_true", help="put the explorer at the end of the page")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.explorer.page import explore
    from conjoin.formats.model_files import load
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.reports.page import write_report
    from conjoin.reports.subject import columns_of_model

    path = shared.page_path(options.output)
    model = load(options.model)
    conditionals = (
        None if options.conditionals is None else shared.load_states(options.conditionals)
    )
    if not (conditionals is None or isinstance(conditionals, DependencyNetwork)):
        raise ModelError(f"--conditionals must be a dependency network, not a {conditionals.kind}")
    train, test = (
        shared.optional_table(name, model.domain, options) for name in (options.data, options.test)
    )
    file = Path(options.model).name
    write_report(
        model,
        path,
        train,
        test,
        conditionals=conditionals,
        title=shared.page_title(options),
        explorer=explore(model, train, file=file).html if options.explorer else None,
    )
    columns = columns_of_model(model).names
    print(f"{path}: report on a {model.kind} of {len(columns):,} columns; open it in a browser")
