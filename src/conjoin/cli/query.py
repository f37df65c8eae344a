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
    from conjoin.inference.evidence import Evidence
    from conjoin.models.network import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    shared.add_model(parser)
    shared.add_given(parser)
    add("--evidence", metavar="FILE", help="the evidence as a UAI evidence file (.uai.evid)")
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
    from conjoin.formats.uai import read_evidence
    from conjoin.models.mixed import MixedNetwork

    _check(options)
    model = load(options.model)
    if isinstance(model, MixedNetwork):
        from conjoin.cli import mixed_query

        mixed_query.query(model, options)
        return
    given = shared.evidence(options.given, model.domain)
    if options.evidence is not None:
        from conjoin.inference.evidence import evidence_of

        read = read_evidence(Path(options.evidence), model.domain)
        given = evidence_of(model.domain, {**read, **given.given})
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
        event = shared.evidence(options.probability, model.domain)
        _print_probability(model, event, given, how, options.json)
    else:
        _print_marginals(model, given, options.target, how, options.json)


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
    model: Network, given: Evidence, targets: list[str], how: dict[str, Any], as_json: bool
) -> None:
    from conjoin.inference.engines import marginals

    names = targets or [name for name in model.domain.observed.names if name not in given.certain]
    found = marginals(model, given, targets=names, **how)
    shared.say_if_approximate(found.run)
    if as_json:
        report = {name: {str(s): p for s, p in found[name].items()} for name in names}
        shared.print_json({"marginals": report, **_how_found(found.run)})
        return
    print(f"Probabilities{_given(given)} ({found.run})")
    width = max((len(shown(name)) for name in names), default=0)
    for name in names:
        states = "  ".join(f"{shown(state)} {p:.4f}" for state, p in found[name].items())
        print(f"{shown(name):<{width}}  {states}")


def _print_probability(
    model: Network, event: Evidence, given: Evidence, how: dict[str, Any], as_json: bool
) -> None:
    from conjoin.inference.engines import probability

    found = probability(model, event, given, **how)
    shared.say_if_approximate(found.run)
    if as_json:
        shared.print_json({"probability": float(found), **_how_found(found.run)})
        return
    print(found)


def _print_most_probable(
    model: Network, given: Evidence, how: dict[str, Any], as_json: bool
) -> None:
    from conjoin.inference.engines import most_probable
    from conjoin.models.dependency import DependencyNetwork

    found = most_probable(model, given, **how)
    shared.say_if_approximate(found.run)
    if as_json:
        states = {
            name: state if isinstance(state, str | int | float) else str(state)
            for name, state in found.items()
        }
        report: dict[str, Any] = {"most_probable": states, "score": found.score}
        if math.isfinite(found.bound):
            report["bound"] = found.bound
        shared.print_json({**report, **_how_found(found.run)})
        return
    print(f"Most probable instance{_given(given)} ({found.run})")
    width = max((len(shown(name)) for name in found), default=0)
    for name, state in found.items():
        known = "  (given)" if name in given.certain else ""
        print(f"{shown(name):<{width}}  {shown(state)}{known}")
    directed = isinstance(model, DependencyNetwork)
    score = "sum of log-conditionals" if directed else "log-potential"
    print(f"{score}: {found.score:.6g}")


def _print_joint(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.engines import joint

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("joint distributions are found by exact inference only")
    found = joint(model, options.joint, given, **how)
    shared.print_joint(found, options, _given(given), _how_found(found.run))


def _print_questions(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.questions import next_questions

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("--next chooses its method by itself; leave out --method")
    found = next_questions(model, options.next, given, **how)
    shared.print_questions(found, _given(given), options.json)


def _print_what_if(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> None:
    from conjoin.inference.scenarios import what_if

    found = what_if(model, given, options.what_if, targets=options.target or None, **how)
    for answer in found.answers:
        shared.say_if_approximate(answer.run)
    if not options.json:
        print(f"What if{_given(given)}")
        print(found)
        return
    before, *after = ({name: _texts(answer[name]) for name in answer} for answer in found.answers)
    changes = [
        {"change": change, "marginals": p} for change, p in zip(found.changes, after, strict=True)
    ]
    report = {"marginals": before, "what_if": changes}
    shared.print_json({**report, **_how_found(found.answers[0].run)})


def _texts(p: dict[Any, float]) -> dict[str, float]:
    return {str(state): x for state, x in p.items()}


def _given(given: Evidence) -> str:
    """Return the evidence in words; a long list only by its length."""
    if not given:
        return ""
    return f" given {shown(given)}" if len(given) <= 8 else f" given {len(given)} variables"


def _how_found(run: Any) -> dict[str, Any]:
    report = {
        "method": run.method,
        "exact": run.exact,
        "converged": run.converged,
        "note": run.note,
    }
    return report if run.error is None else {**report, "error": run.error}


def uai_solution(model: Network, given: Evidence, task: str, how: dict[str, Any]) -> list[str]:
    """Return the lines of a UAI solution file."""
    from conjoin.inference.engines import log_partition, marginals, most_probable

    if task == "PR":
        log_z = log_partition(model, given, **how)
        shared.say_if_approximate(log_z.run)
        return ["PR", f"{log_z.value / math.log(10):.6g}"]
    if task == "MAR":
        answer = marginals(model, given, **how)
        shared.say_if_approximate(answer.run)
        arrays = answer.arrays()
        words = [str(len(arrays))]
        for p in arrays:
            words += [str(len(p)), *(f"{x:.6g}" for x in p)]
        return ["MAR", " ".join(words)]
    found = most_probable(model, given, **how)
    shared.say_if_approximate(found.run)
    codes = model.domain.observed.encode(
        {name: found[name] for name in model.domain.observed.names}
    )
    return ["MAP", " ".join(map(str, [len(codes), *codes]))]
