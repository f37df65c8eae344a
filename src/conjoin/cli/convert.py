"""`conjoin convert`: a dependency network becomes a Markov network."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.errors import FormatError, ModelError

if TYPE_CHECKING:
    from conjoin.data.domain import Domain


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="turn a dependency network into a Markov network",
        description="Turn a dependency network into a Markov network, in closed form. Formats follow "
        "the endings of the file names.",
    )
    parser.add_argument(
        "network",
        metavar="DN",
        help="the dependency network (.dn, .conjoin or an expert's .toml); a Bayesian network "
        "(.bif, .bn) is rewritten exactly",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="MN",
        required=True,
        help="the Markov network (.mn, .conjoin, .uai)",
    )
    parser.add_argument(
        "--data", metavar="FILE", help="a table that the base instance is drawn from"
    )
    parser.add_argument(
        "--base",
        choices=("marginals", "uniform", "data", "instance"),
        help="what the base instance is averaged over: the product of the marginals of --data (the "
        "default with --data), all instances alike (the default without), the rows of --data, or "
        "the row or rows of --instance",
    )
    parser.add_argument(
        "--instance", metavar="FILE", help="a table of base instances, often just one"
    )
    parser.add_argument(
        "--orders",
        choices=("single", "rotations", "all"),
        default="rotations",
        help="average over the orders themselves, over all their rotations (the default), or over "
        "all orders there are",
    )
    parser.add_argument(
        "--order",
        metavar="FILE",
        help="the order of the variables: one name a line, or one order a line with commas; by "
        "default that of the network",
    )
    parser.add_argument(
        "--no-reverse",
        action="store_true",
        help="do not average over the reverse of each order too",
    )
    parser.add_argument(
        "--max-length",
        metavar="K",
        type=int,
        help="with --orders all: features with more tests than this are averaged without writing "
        "out their sub-features (default 6)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.conversion.convert import MAX_LENGTH, convert
    from conjoin.formats.files import check_can_save, load, read_table, save
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork

    started = time.perf_counter()
    check_can_save(MarkovNetwork, options.output)
    if options.base == "instance" and options.instance is None:
        raise ModelError("--base instance needs --instance FILE")
    if options.instance is not None and options.base not in (None, "instance"):
        raise ModelError(f"--instance goes with --base instance, not with --base {options.base}")
    if options.base in ("marginals", "data") and options.data is None:
        raise ModelError(f"--base {options.base} needs --data FILE")
    if options.max_length is not None and options.orders != "all":
        raise ModelError("--max-length goes with --orders all")
    network = load(options.network)
    if isinstance(network, BayesianNetwork):
        mn = network.to_markov_network()
    elif isinstance(network, DependencyNetwork):
        table = base = order = None
        if options.data is not None:
            table = read_table(options.data, network.domain)
        if options.instance is not None:
            base = read_table(options.instance, network.domain)
        elif options.base is not None:
            base = options.base
        if options.order is not None:
            order = read_orders(Path(options.order), network.domain)
        mn = convert(
            network,
            table,
            base=base,
            orders=options.orders,
            order=order,
            reverse=not options.no_reverse,
            max_length=MAX_LENGTH if options.max_length is None else options.max_length,
        )
    else:
        raise ModelError(f"{options.network} holds a {network.kind} already, nothing to convert")
    save(mn, options.output)
    seconds = time.perf_counter() - started
    size = f"{len(mn.features):,} features"
    if mn.factors:
        size = f"{len(mn.factors):,} factors"
    print(f"{options.output}: Markov network, {len(mn.domain)} variables, {size} ({seconds:.2f} s)")


def read_orders(path: Path, domain: Domain) -> list[list[str]]:
    """Read orders of the variables: one name a line, or one order a line with commas.

    A number that is not a name stands for the variable at that place, counted from 0.
    """
    from conjoin.formats.storage import read_text

    lines = [(n, line) for n, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]
    if not lines:
        raise FormatError("the file holds no order", str(path))
    several = any("," in line for _, line in lines) and len(domain) > 1
    listed = [[(n, w.strip()) for w in line.split(",")] for n, line in lines]
    orders = listed if several else [[word for line in listed for word in line]]
    result = []
    for order in orders:
        names = []
        for number, word in order:
            if (
                word not in domain.names
                and word.isascii()
                and word.isdigit()
                and int(word) < len(domain)
            ):
                word = domain.names[int(word)]
            if word not in domain.names:
                raise FormatError(f"there is no variable {word!r}", str(path), number)
            names.append(word)
        if len(set(names)) != len(names) or len(names) != len(domain):
            raise FormatError(
                f"an order must name each of the {len(domain)} variables once; this one has "
                f"{len(names)} names, {len(set(names))} of them different",
                str(path),
                order[0][0],
            )
        result.append(names)
    return result
