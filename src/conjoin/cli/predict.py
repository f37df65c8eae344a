"""`conjoin predict`: one column of a table, predicted from the others by a model."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from conjoin.cli.arguments import add_seed, check_seed_and_jobs

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.data.table import Table


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "predict",
        help="predict a column of a table from the others",
        description="Predict one column of a table, any of them, from the others. Missing values, and "
        "columns that the table lacks, are integrated over; values of the column itself are not looked "
        "at. A dependency network is converted first.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model (.conjoin, .mn, .dn, .uai, .bif)")
    parser.add_argument("table", metavar="TABLE", help="the table (.csv, .parquet, .data)")
    parser.add_argument("--target", metavar="NAME", required=True, help="the column to predict")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a .csv file instead of printing it"
    )
    add_seed(parser, "the seed, if sampled")
    parser.add_argument("--json", action="store_true", help="print a JSON object, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    import csv
    import io
    from pathlib import Path

    from conjoin.cli.impute import joint_of
    from conjoin.errors import ModelError
    from conjoin.estimator.predict import probabilities
    from conjoin.formats.files import load
    from conjoin.formats.storage import write_bytes

    if options.output is not None:
        if Path(options.output).suffix != ".csv":
            raise ModelError(f"{options.output}: predictions are written as .csv")
        if not Path(options.output).absolute().parent.is_dir():
            raise ModelError(
                f"there is no folder {str(Path(options.output).parent)!r}; make it first"
            )
    check_seed_and_jobs(options)
    model = load(options.model)
    target = model.domain.index(options.target)
    table = _read(options.table, model.domain, options.target)
    p = probabilities(joint_of(model, table), table, target, options.seed)
    states = [str(s) for s in model.domain.variables[target].states]
    best = p.argmax(axis=1)
    if options.json:
        report = {
            "target": options.target,
            "states": states,
            "predicted": [states[s] for s in best],
            "probabilities": p.tolist(),
        }
        text = json.dumps(report, ensure_ascii=False) + "\n"
    else:
        page = io.StringIO()
        writer = csv.writer(page, lineterminator="\n")
        writer.writerow([options.target, *(f"P({s})" for s in states)])
        writer.writerows(
            [states[s], *(f"{x:.6g}" for x in row)] for s, row in zip(best, p, strict=True)
        )
        text = page.getvalue()
    if options.output is None:
        sys.stdout.write(text)
        return
    write_bytes(Path(options.output), text.encode())
    print(f"{options.output}: {len(table):,} rows of {options.target}", file=sys.stderr)


def _read(path: str, domain: Domain, target: str) -> Table:
    """Read the columns that are there, the target's left out."""
    import numpy as np

    from conjoin.data.table import Table
    from conjoin.errors import DataError, did_you_mean
    from conjoin.formats.files import read_table, table_columns

    names = table_columns(path)
    present = None if names is None else [n for n in domain.names if n in names and n != target]
    if names is None:
        return read_table(path, domain)
    if not present:
        raise DataError(
            f"{path} has no column of the model. " + did_you_mean(names[0], domain.names)
        )
    at = [domain.index(n) for n in present]
    part = read_table(path, domain.subset(at))
    codes = np.full((len(part), len(domain)), -1, np.int64)
    codes[:, at] = np.where(part.codes == part.missing, -1, part.codes.astype(np.int64))
    return Table(domain, codes)
