"""Draw rows from a model.

Draw rows from a model, given evidence if there is any: independent rows from the exact
distribution, or rows of Gibbs chains. The chains of a dependency network update its variables in
the order of the file.
"""

from __future__ import annotations

import argparse
import sys

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL")
    parser.add_argument("-n", type=int, required=True, metavar="N", help="number of rows to draw")
    shared.add_output(
        parser, "FILE", f"the table to write {shared.WRITTEN_FORMATS}", "MODEL-sample.csv"
    )
    shared.add_shared(parser, "--given")
    add(
        "--method",
        "independent rows from the exact distribution, Gibbs chains, or exact if that fits into "
        "memory and Gibbs otherwise (auto, the default)",
        choices=("auto", "exact", "gibbs"),
        default="auto",
    )
    burn_in = "gibbs: sweeps of each chain before its first row (default 100)"
    add("--burn-in K", burn_in, type=int, default=100)
    apart = "gibbs: sweeps from one row of a chain to the next (default 1)"
    add("--sweeps-per-row K", apart, type=int, default=1)
    add("--chains N", "gibbs: number of chains (default 4)", type=int, default=4)
    shared.add_shared(parser, "--rule", "--no-rules")
    shared.add_random_state(parser, "drawing")
    shared.add_shared(parser, "--jobs", "--defuse", "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.errors import ModelError
    from conjoin.formats.model_files import load
    from conjoin.formats.table_files import check_can_write, write_table
    from conjoin.inference.engines import known_of
    from conjoin.inference.exact import run_of
    from conjoin.inference.gibbs import MAX_R_HAT
    from conjoin.inference.results import Run
    from conjoin.inference.sampling import sample, sampling_method, table_diagnostics
    from conjoin.models.left_out import naming_left_out

    check_can_write(options.output)
    if options.n < 1:
        raise ModelError(f"-n must be 1 or more, not {options.n}")
    model = shared.with_wanted_rules(load(options.model), options)
    with naming_left_out(model):
        network, given = known_of(model, ", ".join(options.given))
    method = options.method
    if method == "auto":
        method = sampling_method(network, given)
    exact = method == "exact"
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
    r_hat, ess = (None, None) if exact else table_diagnostics(table, options.chains)
    write_table(table, options.output, defuse=options.defuse)
    run = run_of(given) if exact else Run("gibbs")
    if exact:
        shared.say_if_approximate(run, printed=False)
    else:
        print(
            f"conjoin: the rows are approximate (drawn by {options.chains} Gibbs chains)",
            file=sys.stderr,
        )
    seconds = shared.seconds(options)
    if r_hat is not None and r_hat > MAX_R_HAT:
        print(
            f"conjoin: the chains disagree (R-hat {r_hat:.2f}), so the frequencies of the states cannot "
            "be trusted; use --method exact, or a larger --burn-in and --sweeps-per-row",
            file=sys.stderr,
        )
    how = "drawn exactly" if run.exact else "drawn" if exact else f"from {options.chains} chains"
    if r_hat is not None and ess is not None:
        how += f", R-hat at most {r_hat:.3f}, effective sample size at least {ess:,.0f}"
    report = {
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
    }
    words = f"{options.output}: {len(table):,} rows {how} ({seconds:.2f} s)"
    shared.print_result(options, report, words)
