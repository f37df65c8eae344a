"""Draw rows from a model.

Draw rows from a model, given evidence if there is any: independent rows from the exact
distribution, or rows of Gibbs chains. The chains of a dependency network update its variables in
the order of the file.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from conjoin.cli import arguments as shared

if TYPE_CHECKING:
    from conjoin.data.table import Table
    from conjoin.inference.evidence import Evidence
    from conjoin.models.mixed import MixedNetwork
    from conjoin.models.network import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    add("-n", type=int, required=True, metavar="N", help="number of rows to draw")
    shared.add_output(parser, "FILE", f"the table to write {shared.TABLE_FORMATS}")
    shared.add_given(parser)
    add(
        "--method",
        choices=("auto", "exact", "gibbs"),
        default="auto",
        help="independent rows from the exact distribution, Gibbs chains, or exact if that fits into "
        "memory and Gibbs otherwise (auto, the default)",
    )
    shared.add_number(
        parser, "--burn-in", "K", 100, "gibbs: sweeps of each chain before its first row"
    )
    shared.add_number(
        parser, "--sweeps-per-row", "K", 1, "gibbs: sweeps from one row of a chain to the next"
    )
    shared.add_number(parser, "--chains", "N", 4, "gibbs: number of chains")
    shared.add_random_state(parser, "drawing")
    shared.add_jobs(parser)
    shared.add_defuse(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.model_files import load
    from conjoin.formats.table_files import check_can_write, write_table
    from conjoin.inference.diagnostics import MAX_R_HAT
    from conjoin.inference.results import Run
    from conjoin.inference.sampling import table_diagnostics
    from conjoin.models.left_out import naming_left_out
    from conjoin.models.mixed import MixedNetwork

    started = time.perf_counter()
    check_can_write(options.output)
    if options.n < 1:
        raise ModelError(f"-n must be 1 or more, not {options.n}")
    model = load(options.model)
    if isinstance(model, MixedNetwork):
        _draw_numbers(model, options, started)
        return
    with naming_left_out(model):
        given = shared.evidence(options.given, model.domain)
    shared.announce("drawing")
    table, exact = draw(model, given, options)
    r_hat, ess = (None, None) if exact else table_diagnostics(table, options.chains)
    write_table(table, options.output, defuse=options.defuse)
    run = Run("exact" if exact else "gibbs", exact=exact).noting(given.notes)
    if exact:
        shared.say_if_approximate(run)
    else:
        print(
            f"conjoin: the rows are approximate (drawn by {options.chains} Gibbs chains)",
            file=sys.stderr,
        )
    seconds = time.perf_counter() - started
    if r_hat is not None and r_hat > MAX_R_HAT:
        print(
            f"conjoin: the chains disagree (R-hat {r_hat:.2f}), so the frequencies of the states cannot "
            "be trusted; use --method exact, or a larger --burn-in and --sweeps-per-row",
            file=sys.stderr,
        )
    if options.json:
        shared.print_json({
            "table": options.output,
            "rows": len(table),
            "given": str(given),
            "method": run.method,
            "chains": None if exact else options.chains,
            "burn_in": None if exact else options.burn_in,
            "sweeps_per_row": None if exact else options.sweeps_per_row,
            "r_hat": r_hat,
            "ess": ess,
            "seconds": seconds,
        })  # fmt: skip
        return
    how = "drawn exactly" if run.exact else "drawn" if exact else f"from {options.chains} chains"
    if r_hat is not None and ess is not None:
        how += f", R-hat at most {r_hat:.3f}, effective sample size at least {ess:,.0f}"
    print(f"{options.output}: {len(table):,} rows {how} ({seconds:.2f} s)")


def _draw_numbers(model: MixedNetwork, options: argparse.Namespace, started: float) -> None:
    """Draw rows from a model with numbers."""
    from conjoin.formats.table_files import write_table
    from conjoin.inference.engines import warn_of_between
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.models.left_out import naming_left_out

    with naming_left_out(model):
        known = MixedKnown.asked(model, ", ".join(options.given))
        warn_of_between(model, known.given)
    write_table(
        known.sample(options.n, options.random_state), options.output, defuse=options.defuse
    )
    seconds = time.perf_counter() - started
    shared.say_if_approximate(known.run)
    if options.json:
        report = {"table": options.output, "rows": options.n, "method": known.run.method}
        shared.print_json({**report, "seconds": seconds})
        return
    how = "drawn exactly" if known.run.exact else "drawn"
    print(f"{options.output}: {options.n:,} rows {how} ({seconds:.2f} s)")


def draw(model: Network, given: Evidence, options: argparse.Namespace) -> tuple[Table, bool]:
    """Draw the rows; return them, and whether they are exact."""
    from conjoin.inference.sampling import sample, sampling_method

    method = sampling_method(model, given) if options.method == "auto" else options.method
    table = sample(
        model,
        options.n,
        given,
        method=method,
        burn_in=options.burn_in,
        sweeps_per_row=options.sweeps_per_row,
        chains=options.chains,
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    return table, method == "exact"
