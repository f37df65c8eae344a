"""Turn a dependency network into a Markov network.

Turn a dependency network into a Markov network, in closed form. The endings of the file names
determine the formats.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conjoin.cli import arguments as shared
from conjoin.errors import FormatError, ModelError

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    parser.add_argument(
        "network",
        metavar="DN",
        help="the dependency network (.dn, .conjoin, or .toml written by hand); a Bayesian network "
        "(.bif, .bn) is rewritten exactly",
    )
    shared.add_output(parser, "MN", f"the Markov network to write {shared.MARKOV_FORMATS}")
    add("--data FILE", "a table that the base instance is drawn from")
    add(
        "--base",
        "the distribution of the base instance: the product of the marginals of --data (the "
        "default with --data), uniform (the default without), the rows of --data, or the rows of "
        "--instance",
        choices=("marginals", "uniform", "data", "instance"),
    )
    add("--instance FILE", "a table of base instances, often of a single row")
    add(
        "--orders",
        "average over the given orders only, over all their rotations (the default), or over all "
        "possible orders",
        choices=("single", "rotations", "all"),
        default="rotations",
    )
    add(
        "--order FILE",
        "the order of the variables: one name per line, or one comma-separated order per line "
        "(default: the network's own order)",
    )
    add("--no-reverse", "do not also average over the reverse of each order")
    add(
        "--max-length K",
        "with --orders all: features with more than K tests are averaged without writing out "
        "their sub-features (default 6)",
        type=int,
    )
    add(
        "--held-out FILE",
        "with --data: a table that the network was not learned from. The two "
        "conditionals of a pair of variables then speak about their interaction as loudly as predicts "
        "these rows best, instead of equally loudly",
    )
    shared.add_shared(parser, "--missing")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import check_can_save, load, save
    from conjoin.models.bayes import BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork
    from conjoin.models.markov import MarkovNetwork

    check_can_save(MarkovNetwork, options.output)
    _check_base(options)
    network = load(options.network)
    if isinstance(network, BayesianNetwork):
        mn = network.to_markov_network()
    elif isinstance(network, DependencyNetwork):
        mn = _convert(network, options)
    else:
        raise ModelError(
            f"{options.network} already contains a {network.kind}; there is nothing to convert"
        )
    save(mn, options.output)
    seconds = shared.seconds(options)
    size = f"{len(mn.factors):,} factors" if mn.factors else f"{len(mn.features):,} features"
    print(f"{options.output}: Markov network, {len(mn.domain)} variables, {size} ({seconds:.2f} s)")


def _check_base(options: argparse.Namespace) -> None:
    """Reject combinations of options that make no sense together."""
    if options.base == "instance" and options.instance is None:
        raise ModelError("--base instance needs --instance FILE")
    if options.instance is not None and options.base not in (None, "instance"):
        raise ModelError(f"--instance needs --base instance, not --base {options.base}")
    if options.base in ("marginals", "data") and options.data is None:
        raise ModelError(f"--base {options.base} needs --data FILE")
    if options.max_length is not None and options.orders != "all":
        raise ModelError("--max-length needs --orders all")
    if options.held_out is not None:
        for missing, needed in (
            (options.data is None, "--data FILE"),
            (options.base not in (None, "marginals") or options.instance, "--base marginals"),
            (options.order is not None or options.no_reverse, "the default order and its reverse"),
        ):
            if missing:
                raise ModelError(f"--held-out needs {needed}")


def _convert(network: DependencyNetwork, options: argparse.Namespace) -> MarkovNetwork:
    from conjoin.conversion.closed_form import MAX_LENGTH, convert

    domain = network.domain
    instances = shared.optional_table(options.instance, domain, options)
    table = shared.optional_table(options.data, domain, options)
    converted: Callable[..., MarkovNetwork] = convert
    if options.held_out is not None:
        from conjoin.research import learn_say, weighted_conversion

        held_out = shared.optional_table(options.held_out, domain, options)
        say = learn_say(network, table, held_out, orders=options.orders)
        converted = partial(weighted_conversion, say=say)
    return converted(
        network,
        table,
        base=options.base if instances is None else instances,
        orders=options.orders,
        order=None if options.order is None else read_orders(Path(options.order), domain),
        reverse=not options.no_reverse,
        max_length=MAX_LENGTH if options.max_length is None else options.max_length,
    )


def read_orders(path: Path, domain: Domain) -> list[list[str]]:
    """Read orders of the variables: one name per line, or one comma-separated order per line.

    A number that is not a name stands for the variable at that position, counted from 0.
    """
    from conjoin.formats.storage import read_text

    numbered = enumerate(read_text(path).split("\n"), 1)
    lines = [
        (n, [word.strip() for word in line.split(",")]) for n, line in numbered if line.strip()
    ]
    if not lines:
        raise FormatError("the file contains no order", str(path))
    if len(domain) > 1 and any(len(words) > 1 for _, words in lines):
        orders = [[(n, word) for word in words] for n, words in lines]
    else:
        orders = [[(n, word) for n, words in lines for word in words]]
    return [_order(words, path, domain) for words in orders]


def _order(words: list[tuple[int, str]], path: Path, domain: Domain) -> list[str]:
    """Return the names of one order; `words` are (line, name or position)."""
    names = []
    for line, word in words:
        name = word
        if name not in domain.names and word.isascii() and word.isdigit():
            name = domain.names[int(word)] if int(word) < len(domain) else word
        if name not in domain.names:
            raise FormatError(f"there is no variable {word!r}", str(path), line)
        names.append(name)
    if len(set(names)) != len(names) or len(names) != len(domain):
        raise FormatError(
            f"an order must name each of the {len(domain)} variables once; this one has "
            f"{len(names)} names, {len(set(names))} of them different",
            str(path),
            words[0][0],
        )
    return names
