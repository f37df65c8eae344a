"""Ask a model for probabilities.

Ask a model for the distribution of each variable given evidence, for the probability of an event, for
the most probable instance, for the joint distribution of some variables, for what to ask next, or for
what would change under other evidence. Answers are exact if exact inference fits into memory; answers
that are not say so on standard error, and by which method they were found.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared
from conjoin.data.labels import shown
from conjoin.errors import ModelError

if TYPE_CHECKING:
    from conjoin.data.domain import Domain
    from conjoin.data.mixed_table import MixedDomain
    from conjoin.inference.evidence import Evidence
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.models.mixed import MixedNetwork
    from conjoin.models.network import Network

    Model = Network | MixedNetwork
    Known = Evidence | MixedKnown


_SCORES = {"dependency network": "sum of log-conditionals", "mixed network": "log-density"}
"""What the score of the most probable row is, by the kind of the model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_given(parser)
    add(
        "--evidence",
        metavar="FILE",
        help="the evidence as a UAI evidence file (.uai.evid), with numbers and dates as they are",
    )
    add(
        "--target",
        metavar="NAME",
        action="append",
        default=[],
        help="a variable whose distribution to print (may be repeated; default: all that are not given)",
    )
    add(
        "--probability",
        metavar="CONDITIONS",
        action="append",
        default=[],
        help=f"print the probability of an event: {shared.CONDITIONS}; may be repeated",
    )
    add("--map", action="store_true", help="print the most probable instance")
    add(
        "--joint",
        metavar="NAME",
        action="append",
        default=[],
        help="a variable of a joint distribution to print (repeat it for two or more variables)",
    )
    add(
        "--picture",
        metavar="SVG",
        help="with --joint of two variables: write a picture of their joint distribution to this file",
    )
    add(
        "--next",
        metavar="NAME",
        help="rank the other variables by what their values are expected to tell about this one",
    )
    add(
        "--what-if",
        metavar="CONDITIONS",
        action="append",
        default=[],
        help="compare the distributions given --given with those after this change of it; may be "
        "repeated",
    )
    add(
        "--task",
        choices=("MAR", "PR", "MAP"),
        help="print a UAI solution file: marginals, the base-10 logarithm of the probability of the "
        "evidence (or of Z), or the most probable instance; in a model with numbers, each of these has "
        "ten ranges of equal probability in MAR and its value in MAP, and PR is a density",
    )
    add(
        "--method",
        metavar="M",
        default="auto",
        help="exact, gibbs, bp or mean_field for distributions, or ais for --probability; exact, bp, "
        "mean_field or ais for PR; exact, ilp, max_product, annealing, icm or viterbi for the most "
        "probable instance (default auto)",
    )
    add(
        "--max-memory",
        metavar="GIB",
        type=float,
        help="memory that exact inference may use, in GiB (default: three quarters of what is free)",
    )
    shared.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import load
    from conjoin.models.left_out import naming_left_out

    _check(options)
    model = load(options.model)
    with naming_left_out(model):
        _answer(model, options)


def _answer(model: Model, options: argparse.Namespace) -> None:
    """Answer the question."""
    given = _evidence(model, options)
    how: dict[str, Any] = {"method": options.method}
    if options.max_memory is not None:
        how["max_memory"] = options.max_memory * 2**30
    if options.task:
        print("\n".join(uai_solution(model, given, options.task, how)))
    elif options.joint:
        _print_joint(model, given, options, how)
    elif options.next is not None:
        _print_questions(model, given, options, how)
    elif options.what_if:
        _print_what_if(model, given, options, how)
    elif options.map:
        _print_most_probable(model, given, how, options.json)
    elif options.probability:
        _print_probability(model, given, options, how)
    else:
        _print_marginals(model, given, options, how)


def _evidence(model: Model, options: argparse.Namespace) -> Known:
    """Return the evidence of --given and --evidence together."""
    from conjoin.formats.uai import read_evidence
    from conjoin.inference.evidence import evidence_of
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.models.mixed import MixedNetwork

    read = {}
    if options.evidence is not None:
        read = read_evidence(Path(options.evidence), model.domain)
    text = ", ".join(options.given)
    if isinstance(model, MixedNetwork):
        return MixedKnown(model, {**read, **MixedKnown(model, text).given})
    given = evidence_of(model.domain, text)
    return evidence_of(model.domain, {**read, **given.given}) if read else given


def _check(options: argparse.Namespace) -> None:
    """Reject questions that cannot be combined."""
    asked = {
        "--task": options.task is not None,
        "--joint": bool(options.joint),
        "--next": options.next is not None,
        "--what-if": bool(options.what_if),
        "--map": options.map,
        "--probability": bool(options.probability),
        "--target": bool(options.target) and not options.what_if,
    }
    questions = [name for name, is_asked in asked.items() if is_asked]
    if len(questions) > 1:
        raise ModelError(f"{questions[0]} and {questions[1]} cannot be combined; ask one at a time")
    if options.task and options.json:
        raise ModelError("--task prints a UAI solution; it cannot be combined with --json")
    if options.picture is not None and len(options.joint) != 2:
        raise ModelError("--picture needs --joint of two variables")
    if options.max_memory is not None and not options.max_memory > 0:
        raise ModelError(f"--max-memory must be more than 0, not {options.max_memory:g}")


def _print_marginals(
    model: Model, given: Known, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.cli.distribution_text import distribution_lines, distribution_report
    from conjoin.inference.engines import marginals

    names = options.target or [
        name for name in model.domain.observed.names if name not in given.certain
    ]
    found = marginals(model, given.given, targets=names, **how)
    shared.say_if_approximate(found.run)
    if options.json:
        report = {name: distribution_report(found[name]) for name in names}
        shared.print_json({"marginals": report, **shared.how_found(found.run)})
        return
    print(f"Probabilities{_given(given)} ({found.run})")
    width = max((len(shown(name)) for name in names), default=0)
    for name in names:
        print("\n".join(distribution_lines(found[name], name, width)))


def _print_probability(
    model: Model, given: Known, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.engines import probability

    found = probability(model, ", ".join(options.probability), given.given, **how)
    shared.say_if_approximate(found.run)
    if options.json:
        shared.print_json({"probability": float(found), **shared.how_found(found.run)})
        return
    print(found)


def _print_most_probable(model: Model, given: Known, how: dict[str, Any], as_json: bool) -> None:
    from conjoin.cli.distribution_text import plain
    from conjoin.inference.engines import most_probable

    found = most_probable(model, given.given, **how)
    shared.say_if_approximate(found.run)
    if as_json:
        values = {name: plain(value) for name, value in found.items()}
        report: dict[str, Any] = {"most_probable": values, "score": found.score}
        if math.isfinite(found.bound):
            report["bound"] = found.bound
        shared.print_json({**report, **shared.how_found(found.run)})
        return
    print(f"Most probable instance{_given(given)} ({found.run})")
    width = max((len(shown(name)) for name in found), default=0)
    for name, value in found.items():
        known = "  (given)" if name in given.certain else ""
        print(f"{shown(name):<{width}}  {shown(_text(model.domain, name, value))}{known}")
    print(f"{_SCORES.get(model.kind, 'log-potential')}: {found.score:.6g}")


def _print_joint(
    model: Model, given: Known, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.engines import joint

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("joint distributions are found by exact inference only")
    found = joint(model, options.joint, given.given, **how)
    shared.say_if_approximate(found.run)
    shared.print_joint(found, options, _given(given))


def _print_questions(
    model: Model, given: Known, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.questions import next_questions

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("--next chooses its method by itself; leave out --method")
    found = next_questions(model, options.next, given.given, **how)
    shared.print_questions(found, _given(given), options.json)


def _print_what_if(
    model: Model, given: Known, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.cli.distribution_text import distribution_report
    from conjoin.inference.scenarios import what_if

    found = what_if(model, given.given, options.what_if, targets=options.target or None, **how)
    for run in {str(answer.run): answer.run for answer in found.answers}.values():
        shared.say_if_approximate(run)
    if not options.json:
        print(f"What if{_given(given)}")
        print(found)
        return
    before, *after = (
        {name: distribution_report(p) for name, p in answer.items()} for answer in found.answers
    )
    changes = [
        {"change": change, "marginals": p} for change, p in zip(found.changes, after, strict=True)
    ]
    report = {"marginals": before, "what_if": changes}
    runs = [answer.run for answer in found.answers]
    run = next((r for r in runs if not r.exact), runs[0])
    shared.print_json({**report, **shared.how_found(run)})


def _given(given: Known) -> str:
    """Return the evidence in words; a long list only by its length."""
    from conjoin.inference.condition_text import conditions_text

    if not given.given:
        return ""
    if len(given.given) > 8:
        return f" given {len(given.given)} variables"
    return f" given {shown(conditions_text(given.given))}"


def _text(domain: Domain | MixedDomain, name: str, value: Any, as_codes: bool = False) -> str:
    """Return a value of a column as text; with `as_codes`, a state by its number."""
    if name in getattr(domain, "numeric", ()):
        scale = domain.scale(name)  # type: ignore[union-attr]
        text = str(scale.text(scale.number(value)))
        return text.replace(" ", "T") if as_codes else text
    if not as_codes:
        return str(value)
    states = domain.categories if hasattr(domain, "categories") else domain
    return str(states[name].index(value))


def uai_solution(model: Model, given: Known, task: str, how: dict[str, Any]) -> list[str]:
    """Return the lines of a UAI solution file.

    That format has no numbers: in MAR, a number has ten ranges of equal probability before the evidence,
    and in MAP, it has its value.
    """
    from conjoin.inference.engines import log_partition, marginals, most_probable
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.inference.mixed_questions import range_marginals

    if task == "PR":
        log_z = log_partition(model, given.given, **how)
        shared.say_if_approximate(log_z.run)
        return ["PR", f"{log_z.value / math.log(10):.6g}"]
    if task == "MAR":
        if isinstance(given, MixedKnown):
            arrays, run = range_marginals(given), given.run
        else:
            answer = marginals(model, given, **how)
            arrays, run = answer.arrays(), answer.run
        shared.say_if_approximate(run)
        words = [str(len(arrays))]
        for p in arrays:
            words += [str(len(p)), *(f"{x:.6g}" for x in p)]
        return ["MAR", " ".join(words)]
    found = most_probable(model, given.given, **how)
    shared.say_if_approximate(found.run)
    texts = [
        _text(model.domain, name, found[name], as_codes=True)
        for name in model.domain.observed.names
    ]
    return ["MAP", " ".join([str(len(texts)), *texts])]
