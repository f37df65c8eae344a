"""Fill in the missing values of a table.

Fill in the missing values of a table with the values that the model finds most probable given the
rest of the row, and missing numbers with their means, in the type and resolution of the column. A
dependency network is converted first. From CSV to CSV and from Parquet to Parquet, all other columns
and values stay as they are, values that the model does not know (--unseen missing) too. In a column that
was cut into bins, a missing value is filled in with the bin.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.data.table import Table
    from conjoin.models.network import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_table(parser)
    shared.add_output(parser, "FILE", f"the table to write {shared.TABLE_FORMATS}")
    add(
        "--by",
        choices=("row", "cell"),
        default="row",
        help="choose the values of a row jointly (the default), or each cell on its own",
    )
    add(
        "--draw",
        action="store_true",
        help="draw values from their distribution instead of taking the most probable ones",
    )
    add(
        "--numbers",
        choices=("mean", "median", "mode"),
        default="mean",
        help="what is filled in for a missing number (default mean)",
    )
    shared.add_missing(parser)
    shared.add_unseen(parser)
    shared.add_random_state(parser, "drawing, and for rows that are too large for exact inference")
    shared.add_defuse(parser)
    shared.add_json(parser)


def joint_network(model: Network, table: Table) -> Network:
    """Return a network with a joint distribution: a dependency network is converted."""
    from conjoin.conversion.convert import convert
    from conjoin.models.dependency import DependencyNetwork

    return convert(model, table) if isinstance(model, DependencyNetwork) else model


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import numpy as np

    from conjoin.data.table import Table
    from conjoin.estimator.impute import imputed_codes
    from conjoin.formats.model_files import load
    from conjoin.formats.table_files import check_can_write, write_filled
    from conjoin.models.mixed import MixedNetwork

    started = time.perf_counter()
    check_can_write(options.output)
    model = load(options.model)
    if isinstance(model, MixedNetwork):
        from conjoin.cli import mixed

        _report(mixed.impute(model, options), started, options.json)
        return
    table = shared.known_table(options.table, model.domain, options)
    missing = (table.codes == table.missing).T
    holes = dict(zip(table.domain.names, missing, strict=True))
    holes = shared.cells_to_fill(holes, table.domain, options)
    joint = joint_network(model, table)
    draws = 1 if options.draw else None
    codes = imputed_codes(joint, table, draws, options.by, options.random_state)
    filled = Table.adopt(model.domain.observed, codes[0] if options.draw else codes, table.weights)
    write_filled(options.table, filled, holes, options.output, defuse=options.defuse)
    cells = np.stack(list(holes.values()), axis=1)
    done = {
        "table": options.output,
        "rows": len(table),
        "filled": int(cells.sum()),
        "filled_rows": int(cells.any(axis=1).sum()),
    }
    _report(done, started, options.json)


def _report(done: dict[str, Any], started: float, as_json: bool) -> None:
    """Print what was done."""
    seconds = time.perf_counter() - started
    if as_json:
        shared.print_json({**done, "seconds": seconds})
        return
    print(
        f"{done['table']}: {done['rows']:,} rows, {done['filled']:,} values filled in "
        f"{done['filled_rows']:,} of them ({seconds:.2f} s)"
    )
