"""`conjoin sample`: rows drawn from a model."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from conjoin.cli.arguments import add_jobs, add_seed, check_seed_and_jobs
from conjoin.cli.given import QUOTING


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sample",
        help="draw rows from a model",
        description="Draw rows from a model by Gibbs sampling, or exactly, some variables given if "
        "wanted. For a dependency network the variables are drawn in their order.",
    )
    parser.add_argument("model", metavar="MODEL", help="the model (.conjoin, .mn, .dn, .uai, .bif)")
    parser.add_argument("-n", type=int, required=True, metavar="N", help="how many rows to draw")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the table (.csv, .parquet, .data)"
    )
    parser.add_argument("--given", metavar="CONDITIONS", default="", help=QUOTING)
    parser.add_argument(
        "--exact",
        action="store_true",
        help="draw independent rows from the exact distribution, if exact inference fits into memory",
    )
    parser.add_argument(
        "--burn-in",
        metavar="K",
        type=int,
        default=100,
        help="sweeps before the first row (default 100)",
    )
    parser.add_argument(
        "--thin", metavar="K", type=int, default=1, help="sweeps from row to row (default 1)"
    )
    parser.add_argument(
        "--chains", metavar="N", type=int, default=4, help="independent chains (default 4)"
    )
    add_seed(parser, "the seed")
    add_jobs(parser)
    parser.add_argument(
        "--json", action="store_true", help="print a summary with diagnostics, for programs"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.cli.given import parse_given
    from conjoin.errors import ModelError
    from conjoin.formats.files import check_can_write, load, write_table
    from conjoin.inference import exact
    from conjoin.inference.diagnostics import MAX_R_HAT
    from conjoin.inference.sampling import sample, table_diagnostics

    started = time.perf_counter()
    check_can_write(options.output)
    if options.n < 1:
        raise ModelError(f"-n must be 1 or more, not {options.n}")
    check_seed_and_jobs(options)
    model = load(options.model)
    given = parse_given(options.given, model.domain)
    if sys.stderr.isatty():
        print("drawing (the first run also compiles, once)", file=sys.stderr)
    r_hat = ess = None
    if options.exact:
        table = exact.sample(model, options.n, given, random_state=options.seed)
    else:
        table = sample(
            model,
            options.n,
            given,
            method="gibbs",
            burn_in=options.burn_in,
            thin=options.thin,
            chains=options.chains,
            random_state=options.seed,
            n_jobs=options.jobs,
        )
        r_hat, ess = table_diagnostics(table, options.chains)
    write_table(table, options.output)
    seconds = time.perf_counter() - started
    if r_hat is not None and r_hat > MAX_R_HAT:
        print(
            f"conjoin: the chains disagree (R-hat {r_hat:.2f}): do not trust how often each state "
            "occurs; draw with --exact, or with more --burn-in and --thin",
            file=sys.stderr,
        )
    if options.json:
        report = {
            "table": options.output,
            "rows": len(table),
            "given": {k: str(v) for k, v in given.items()},
            "exact": options.exact,
            "chains": None if options.exact else options.chains,
            "burn_in": None if options.exact else options.burn_in,
            "thin": None if options.exact else options.thin,
            "r_hat": r_hat,
            "ess": ess,
            "seconds": seconds,
        }
        print(json.dumps(report))
        return
    way = "drawn exactly" if options.exact else f"from {options.chains} chains"
    if r_hat is not None and ess is not None:
        way += f", R-hat at most {r_hat:.3f}, effective size at least {ess:,.0f}"
    print(f"{options.output}: {len(table):,} rows {way} ({seconds:.2f} s)")
