"""Write a page on which a model can be explored.

Write one self-contained HTML page on which a model can be explored: choose states and see all other
distributions change. The page needs no network. If the model is too large for a browser, the page says
so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL")
    shared.add_output(parser, "HTML", "the page to write", default="MODEL.html")
    add(
        "--data FILE",
        "a table to compare the model with: its frequencies are marked beside the probabilities",
    )
    shared.add_shared(parser, "--missing", "--unseen")
    add("--title TEXT", "the heading (default the name of the model's file)")
    add("--open", "open the page in a browser")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import load
    from conjoin.views.explorer.explorer_page import explore

    path = shared.page_path(options.output)
    model = load(options.model)
    page = explore(
        model,
        shared.optional_table(options.data, model.domain, options),
        title=shared.page_title(options),
        file=Path(options.model).name,
    )
    page.save(path)
    if page.too_large:
        print(f"{path}: the model is too large to be explored in a browser; the page says why")
    else:
        print(
            f"{path}: {page.columns:,} columns, {path.stat().st_size / 1e6:.2f} MB; open it in a browser"
        )
    if options.open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
