"""`conjoin impute`: missing values of a table, filled in by a model."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import add_seed, check_seed_and_jobs

if TYPE_CHECKING:
    from conjoin.data.table import Table
    from conjoin.models.network import Network


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "impute",
        help="fill in the missing values of a table",
        description="Fill in the missing values of a table with those that a model finds most probable "
        "given the rest of the row. A dependency network is converted first. From CSV to CSV and from "
        "Parquet to Parquet, columns that the model does not know and values that are there stay as "
        "they are; a hole in a column of numbers that were cut into bins gets the bin.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model (.conjoin, .mn, .dn, .uai, .bif)")
    parser.add_argument("table", metavar="TABLE", help="the table (.csv, .parquet, .data)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the full table (.csv, .parquet, .data)",
    )
    parser.add_argument(
        "--by",
        choices=("row", "cell"),
        default="row",
        help="the most probable values of a row together, or of each cell (default row)",
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="draw values from their distribution instead of taking the most probable",
    )
    add_seed(parser, "the seed")
    parser.add_argument("--json", action="store_true", help="print a summary for programs")
    parser.set_defaults(run=run)


def joint_of(model: Network, table: Table) -> Network:
    """Return a model with a joint distribution: dependency networks are converted."""
    from conjoin.conversion.convert import convert
    from conjoin.models.dependency import DependencyNetwork

    return convert(model, table) if isinstance(model, DependencyNetwork) else model


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.data.table import Table
    from conjoin.estimator.impute import imputed_codes
    from conjoin.formats.files import check_can_write, load, read_table, write_filled

    started = time.perf_counter()
    check_can_write(options.output)
    check_seed_and_jobs(options)
    model = load(options.model)
    table = read_table(options.table, model.domain)
    holes = table.codes == table.missing
    codes = imputed_codes(
        joint_of(model, table), table, 1 if options.draw else None, options.by, options.seed
    )
    full = codes[0] if options.draw else codes
    filled = Table.adopt(model.domain, full, table.weights)
    write_filled(options.table, filled, holes, options.output)
    cells, rows = int(holes.sum()), int(holes.any(axis=1).sum())
    seconds = time.perf_counter() - started
    if options.json:
        report = {"table": options.output, "rows": len(table), "filled": cells, "seconds": seconds}
        print(json.dumps(report))
        return
    print(
        f"{options.output}: {len(table):,} rows, {cells:,} values filled in {rows:,} of them "
        f"({seconds:.2f} s)"
    )
