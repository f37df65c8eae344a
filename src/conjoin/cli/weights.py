"""`conjoin weights`: learn the weights of a network's features, or tune them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from conjoin.cli.arguments import add_jobs, add_seed, check_seed_and_jobs


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "weights",
        help="learn or tune the weights of a network by pseudo-likelihood or likelihood",
        description="Learn the weights of a network's features by pseudo-likelihood, or the likelihood "
        "itself, with a Gaussian prior. From zero, any network's features are taken; from the model, "
        "the weights of a Markov network are tuned, with the prior centred on them.",
    )
    parser.add_argument("model", metavar="MODEL", help="the network (.conjoin, .mn, .dn)")
    parser.add_argument("--data", metavar="TRAIN", required=True, help="the training table")
    parser.add_argument(
        "--valid",
        metavar="FILE",
        help="a table to choose the prior on, and when to stop; by default a tenth of the rows is held "
        "out for that, and all rows are used in the end",
    )
    parser.add_argument(
        "--objective",
        choices=("pseudo-likelihood", "likelihood"),
        default="pseudo-likelihood",
        help="what to maximise; the likelihood takes a network that is thin enough for exact inference",
    )
    parser.add_argument(
        "--max-cells",
        metavar="N",
        type=float,
        help="first leave out the features for which exact inference would take tables of more cells "
        "than this in all",
    )
    parser.add_argument(
        "--start",
        choices=("zero", "model"),
        default="zero",
        help="begin with no weights (the default), or with the model's",
    )
    parser.add_argument(
        "--prior-sd",
        metavar="S",
        type=float,
        nargs="+",
        help="standard deviations of the prior to try (default 0.05 0.1 0.2 0.5 1; from a model 0.02 "
        "0.05, or 0.1 0.5 2 for the likelihood)",
    )
    parser.add_argument(
        "--l1", metavar="L", type=float, default=0.0, help="a penalty on absolute weights besides"
    )
    parser.add_argument(
        "--iterations",
        metavar="K",
        type=int,
        help="at most so many (default 100; 10 from a model by pseudo-likelihood)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="the Markov network (.conjoin, .mn, .uai)",
    )
    add_seed(parser, "draws the rows held out")
    add_jobs(parser)
    parser.add_argument("--json", action="store_true", help="print what was chosen, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.files import check_can_save, load, read_table, save
    from conjoin.joint.thinning import thin
    from conjoin.joint.weight_learning import learn_weights
    from conjoin.models.markov import MarkovNetwork

    started = time.perf_counter()
    check_can_save(MarkovNetwork, options.output)
    check_seed_and_jobs(options)
    model = load(options.model)
    table = read_table(options.data, model.domain)
    valid = None if options.valid is None else read_table(options.valid, model.domain)
    if sys.stderr.isatty():
        print("learning (the first run also compiles, once)", file=sys.stderr)
    if options.max_cells is not None:
        model = thin(model, table, max_cells=options.max_cells)
    mn = learn_weights(
        model,
        table,
        valid=valid,
        objective=options.objective,
        start=options.start,
        prior_sd=options.prior_sd,
        l1=options.l1,
        max_iterations=options.iterations,
        random_state=options.seed,
        n_jobs=options.jobs,
    )
    save(mn, options.output)
    seconds = time.perf_counter() - started
    record = mn.provenance["weights"]
    if options.json:
        print(json.dumps({"model": options.output, "seconds": seconds, **record}))
        return
    print(
        f"{options.output}: {len(mn.features):,} weights from {len(table):,} rows, "
        f"prior sd {record['prior_sd']:g} ({seconds:.2f} s)"
    )
