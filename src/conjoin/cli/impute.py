"""Fill in the missing values of a table.

Fill in the missing values of a table with the values that the model finds most probable given the
rest of the row, and missing numbers with their means, in the type and resolution of the column. A
dependency network is converted first. From CSV to CSV and from Parquet to Parquet, all other columns
and values stay as they are, values that the model does not know (--unseen missing) too.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.data.table import Table
    from conjoin.models.network import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL", "TABLE")
    shared.add_output(
        parser, "FILE", f"the table to write {shared.WRITTEN_FORMATS}", "TABLE-filled.csv"
    )
    add(
        "--by",
        "choose the values of a row jointly (the default), or each cell on its own",
        choices=("row", "cell"),
        default="row",
    )
    add("--fill-absent", "also fill in cells that are probably empty because no value applies")
    add("--draw", "draw values from their distribution instead of taking the most probable ones")
    add(
        "--numbers",
        "what is filled in for a missing number (default mean)",
        choices=("mean", "median", "mode"),
        default="mean",
    )
    shared.add_shared(parser, "--rule", "--no-rules", "--missing", "--unseen")
    shared.add_random_state(parser, "drawing, and for rows that are too large for exact inference")
    shared.add_shared(parser, "--defuse", "--json")


def joint_network(model: Network, table: Table) -> Network:
    """Return a network with a joint distribution: a dependency network is converted."""
    from conjoin.conversion.closed_form import convert
    from conjoin.models.dependency import DependencyNetwork

    return convert(model, table) if isinstance(model, DependencyNetwork) else model


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import numpy as np

    from conjoin.estimator.answers import Answers
    from conjoin.formats.model_files import load
    from conjoin.formats.table_files import check_can_write, write_filled

    check_can_write(options.output)
    model = load(options.model)
    table, present = shared.known_rows(options, model.domain.observed)
    network = shared.with_wanted_rules(joint_network(model, table), options)
    rows = Answers(network, table, options.random_state)
    full = (
        rows.drawn(1)[0]
        if options.draw
        else rows.completed(options.by, options.numbers, fill_absent=options.fill_absent)
    )
    none, filled_in = np.zeros(len(table), bool), rows.holes(full)
    holes = {name: filled_in.get(name, none) for name in table.names if name in present}
    holes = shared.cells_to_fill(holes, table.domain, options)
    how = shared.dialect(options)
    write_filled(options.table, full, holes, options.output, how, defuse=options.defuse)
    cells = np.stack(list(holes.values()), axis=1)
    left = int(full.absent[:, [table.domain.index(name) for name in present]].sum())
    filled, filled_rows = int(cells.sum()), int(cells.any(axis=1).sum())
    seconds = shared.seconds(options)
    shared.print_result(
        options,
        {
            "table": options.output,
            "rows": len(table),
            "filled": filled,
            "filled_rows": filled_rows,
            "absent": left,
            "seconds": seconds,
        },
        f"{options.output}: {len(table):,} rows, {filled:,} values filled in {filled_rows:,} of them "
        f"({seconds:.2f} s)",
        *(
            [f"{left:,} cells stay empty: no value applies; --fill-absent fills them, too"]
            * (left > 0)
        ),
    )
