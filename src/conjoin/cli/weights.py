"""Learn or tune the weights of a network by pseudo-likelihood or likelihood.

Learn the weights of a network's features by maximum pseudo-likelihood, or maximum likelihood, with
a Gaussian prior: from zero, for the features of any network, or from the weights of a Markov
network, with the prior centred on them. Where numbers lie within their intervals stays as it is.
"""

from __future__ import annotations

import argparse

from conjoin.cli import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    add("MODEL", "the network (.conjoin, .mn, .dn)")
    add("--data TRAIN", "the training table", required=True)
    add(
        "--valid FILE",
        "a table on which to choose the prior and when to stop (default: a tenth of the rows is "
        "held out for this, and the final fit uses all rows)",
    )
    add(
        "--objective",
        "the objective to maximise (default pseudo-likelihood); the likelihood needs a network "
        "that is thin enough for exact inference",
        choices=("pseudo-likelihood", "likelihood"),
        default="pseudo-likelihood",
    )
    add(
        "--max-cells N",
        "first reduce the network so that the tables of exact inference have at most N cells in "
        "total",
        type=float,
    )
    add(
        "--start",
        "start from zero (the default) or from the model's own weights",
        choices=("zero", "model"),
        default="zero",
    )
    add(
        "--prior-sd S",
        "standard deviations of the prior to try (default 0.05 0.1 0.2 0.5 1; from a model 0.02 "
        "0.05, or 0.1 0.5 2 for the likelihood)",
        type=float,
        nargs="+",
    )
    add("--l1 L", "additional L1 penalty (default 0)", type=float, default=0.0)
    add(
        "--iterations K",
        "maximum number of iterations (default 100; 10 from a model by pseudo-likelihood)",
        type=int,
    )
    shared.add_shared(parser, "--missing")
    shared.add_output(parser, "OUT", f"the Markov network to write {shared.MARKOV_FORMATS}")
    shared.add_random_state(parser, "choosing the rows held out")
    shared.add_shared(parser, "--jobs", "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import check_can_save, load, save
    from conjoin.joint.thinning import thin
    from conjoin.joint.weight_learning import learn_weights
    from conjoin.models.joint import Joint
    from conjoin.models.markov import MarkovNetwork

    check_can_save(MarkovNetwork, options.output)
    model = load(options.model)
    table = shared.known_table(options.data, model.domain, options)
    valid = shared.optional_table(options.valid, model.domain, options)
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
    learned = Joint(mn, model.fine, model.chain) if isinstance(model, Joint) else mn
    save(learned.with_rules(model.rules), options.output)
    seconds = shared.seconds(options)
    record = mn.provenance["weights"]
    shared.print_result(
        options,
        {"model": options.output, "seconds": seconds, **record},
        f"{options.output}: {len(mn.features):,} weights from {len(table):,} rows, "
        f"prior sd {record['prior_sd']:g} ({seconds:.2f} s)",
    )
