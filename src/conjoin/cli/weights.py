"""Learn or tune the weights of a network by pseudo-likelihood or likelihood.

Learn the weights of a network's features by maximum pseudo-likelihood, or maximum likelihood, with
a Gaussian prior: from zero, for the features of any network, or from the weights of a Markov
network, with the prior centred on them.
"""

from __future__ import annotations

import argparse
import time

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="the network (.conjoin, .mn, .dn)")
    add("--data", metavar="TRAIN", required=True, help="the training table")
    add(
        "--valid",
        metavar="FILE",
        help="a table on which to choose the prior and when to stop (default: a tenth of the rows is "
        "held out for this, and the final fit uses all rows)",
    )
    add(
        "--objective",
        choices=("pseudo-likelihood", "likelihood"),
        default="pseudo-likelihood",
        help="the objective to maximise (default pseudo-likelihood); the likelihood needs a network "
        "that is thin enough for exact inference",
    )
    add(
        "--max-cells",
        metavar="N",
        type=float,
        help="first reduce the network so that the tables of exact inference have at most N cells in "
        "total",
    )
    add(
        "--start",
        choices=("zero", "model"),
        default="zero",
        help="start from zero (the default) or from the model's own weights",
    )
    add(
        "--prior-sd",
        metavar="S",
        type=float,
        nargs="+",
        help="standard deviations of the prior to try (default 0.05 0.1 0.2 0.5 1; from a model 0.02 "
        "0.05, or 0.1 0.5 2 for the likelihood)",
    )
    shared.add_number(parser, "--l1", "L", 0.0, "additional L1 penalty")
    add(
        "--iterations",
        metavar="K",
        type=int,
        help="maximum number of iterations (default 100; 10 from a model by pseudo-likelihood)",
    )
    shared.add_missing(parser)
    shared.add_output(parser, "OUT", f"the Markov network to write {shared.MARKOV_FORMATS}")
    shared.add_random_state(parser, "choosing the rows held out")
    shared.add_jobs(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import check_can_save, save
    from conjoin.joint.thinning import thin
    from conjoin.joint.weight_learning import learn_weights
    from conjoin.models.markov import MarkovNetwork

    started = time.perf_counter()
    check_can_save(MarkovNetwork, options.output)
    model = shared.load_states(options.model)
    table = shared.known_table(options.data, model.domain, options)
    valid = shared.optional_table(options.valid, model.domain, options)
    shared.announce("learning")
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
        random_state=options.random_state,
        n_jobs=options.jobs,
    )
    save(mn, options.output)
    seconds = time.perf_counter() - started
    record = mn.provenance["weights"]
    if options.json:
        shared.print_json({"model": options.output, "seconds": seconds, **record})
        return
    print(
        f"{options.output}: {len(mn.features):,} weights from {len(table):,} rows, "
        f"prior sd {record['prior_sd']:g} ({seconds:.2f} s)"
    )
