"""Write a page about a model.

Write one self-contained HTML page about a model: what matters in short, every column with its
distribution, what goes with what in words and, with tables, how good predictions are, what looks odd, and
what gradient boosting would do. The findings link to an explorer, which is written beside the report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL")
    shared.add_output(parser, "HTML", "the page to write", default="MODEL-report.html")
    add(
        "--data FILE",
        "the table it was learned from: it is described, compared with the model, and searched "
        "for odd values",
    )
    add(
        "--test FILE",
        "a table it was not learned from, to check its predictions on; together with --data, they "
        "are compared with gradient boosting, if scikit-learn is installed",
    )
    add("--target NAME", "the column that matters most: the findings are about it")
    add("--conditionals DN", "the dependency network that a Markov network was converted from")
    shared.add_shared(parser, "--missing", "--unseen")
    add("--title TEXT", "the heading (default the name of the model's file)")
    add("--explorer", "put the explorer at the end of the page instead of beside it")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.model_files import load
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.views.explorer.explorer_page import explore
    from conjoin.views.reports.report_page import write_report

    path = shared.page_path(options.output)
    model = load(options.model)
    conditionals = None if options.conditionals is None else load(options.conditionals)
    if not (conditionals is None or isinstance(conditionals, DependencyNetwork)):
        raise ModelError(f"--conditionals must be a dependency network, not a {conditionals.kind}")
    train, test = (
        shared.optional_table(name, model.domain, options) for name in (options.data, options.test)
    )
    title = shared.page_title(options)
    made = explore(model, train, title=title, file=Path(options.model).name)
    beside = Path(path).with_name(f"{shared.bare_name(options.model)}.html")
    if beside == Path(path):
        beside = beside.with_stem(f"{beside.stem}-explorer")
    write_report(
        model,
        path,
        train,
        test,
        conditionals=conditionals,
        title=title,
        explorer=made.html if options.explorer else None if made.too_large else beside.name,
        target=options.target,
    )
    columns = len(model.domain.observed)
    print(f"{path}: report on a {model.kind} of {columns:,} columns; open it in a browser")
    if not options.explorer and not made.too_large:
        made.save(beside)
        print(f"{beside}: the explorer that it links to")
