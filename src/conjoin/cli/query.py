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
    from conjoin.inference.evidence import Evidence
    from conjoin.inference.results import Run
    from conjoin.models.network import Network

_SCORES = {"dependency network": "sum of log-conditionals"}
"""What the score of the most probable row is, by the kind of the model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = shared.adder(parser)
    shared.add_shared(parser, "MODEL", "--given")
    add(
        "--evidence FILE",
        "the evidence as a UAI evidence file (.uai.evid), with numbers and dates as they are",
    )
    add(
        "--target NAME ...",
        "a variable whose distribution to print (may be repeated; default: all that are not given)",
    )
    add(
        "--probability CONDITIONS ...",
        f"print the probability of an event: {shared.CONDITIONS}; may be repeated",
    )
    add("--map", "print the most probable instance")
    add(
        "--joint NAME ...",
        "a variable of a joint distribution to print (repeat it for two or more variables)",
    )
    add(
        "--picture SVG",
        "with --joint of two variables: write a picture of their joint distribution to this file",
    )
    add(
        "--next NAME",
        "rank the other variables by what their values are expected to tell about this one",
    )
    add(
        "--what-if CONDITIONS ...",
        "compare the distributions given --given with those after this change of it; may be "
        "repeated",
    )
    add(
        "--task",
        "print a UAI solution file: marginals, the base-10 logarithm of the probability of the "
        "evidence (or of Z), or the most probable instance; the states of a number are its intervals",
        choices=("MAR", "PR", "MAP"),
    )
    add(
        "--method M",
        "exact, gibbs or bp for distributions, or ais for --probability; exact, bp or ais for PR; "
        "exact or annealing for the most probable instance (default auto)",
        default="auto",
    )
    add(
        "--max-memory GIB",
        "memory that exact inference may use, in GiB (default: three quarters of what is free)",
        type=float,
    )
    shared.add_shared(parser, "--json")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import load
    from conjoin.models.left_out import naming_left_out

    _check(options)
    model = load(options.model)
    with naming_left_out(model):
        _answer(model, options)


def _answer(model: Network, options: argparse.Namespace) -> None:
    """Answer the question."""
    given = _evidence(model, options)
    how: dict[str, Any] = {"method": options.method}
    if options.max_memory is not None:
        how["max_memory"] = options.max_memory * 2**30
    if options.task:
        print("\n".join(uai_solution(model, given, options.task, how)))
        return
    questions = {
        _joint: options.joint,
        _questions: options.next is not None,
        _what_if: options.what_if,
        _most_probable: options.map,
        _probability: options.probability,
        _marginals: True,
    }
    question = next(question for question, is_asked in questions.items() if is_asked)
    runs, report, lines = question(model, given, options, how)
    for run in {str(run): run for run in runs}.values():
        shared.say_if_approximate(run)
    run = next((run for run in runs if not run.exact), runs[0])
    shared.print_result(options, {**report, **shared.how_found(run)}, *lines)


def _evidence(model: Network, options: argparse.Namespace) -> Evidence:
    """Return the evidence of --given and --evidence together."""
    from conjoin.formats.uai import read_evidence
    from conjoin.inference.evidence import evidence_of

    given = evidence_of(model.domain, ", ".join(options.given))
    if options.evidence is None:
        return given
    read = read_evidence(Path(options.evidence), model.domain)
    return evidence_of(model.domain, {**read, **given.given})


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


_Said = tuple[list["Run"], dict[str, Any], list[str]]
"""How answers were found, what they say for JSON, and in words."""


def _marginals(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.cli.distribution_text import distribution_lines, distribution_report
    from conjoin.inference.engines import marginals

    names = options.target or [
        name for name in model.domain.observed.names if name not in given.certain
    ]
    answer = marginals(model, given.given, targets=names, **how)
    width = max((len(shown(name)) for name in names), default=0)
    lines = [f"Probabilities{_given(given)} ({answer.run})"]
    for name in names:
        lines += distribution_lines(answer[name], name, width)
    report = {name: distribution_report(answer[name]) for name in names}
    return [answer.run], {"marginals": report}, lines


def _probability(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.inference.engines import probability

    answer = probability(model, ", ".join(options.probability), given.given, **how)
    return [answer.run], {"probability": float(answer)}, [str(answer)]


def _most_probable(
    model: Network, given: Evidence, _: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.inference.engines import most_probable

    answer = most_probable(model, given.given, **how)
    values = {name: shared.plain(value) for name, value in answer.items()}
    report: dict[str, Any] = {"most_probable": values, "score": answer.score}
    if math.isfinite(answer.bound):
        report["bound"] = answer.bound
    lines = [f"Most probable instance{_given(given)} ({answer.run})"]
    width = max((len(shown(name)) for name in answer), default=0)
    for name, value in answer.items():
        known = "  (given)" if name in given.certain else ""
        lines.append(f"{shown(name):<{width}}  {shown(_text(model.domain, name, value))}{known}")
    lines.append(f"{_SCORES.get(model.kind, 'log-potential')}: {answer.score:.6g}")
    return [answer.run], report, lines


def _joint(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.inference.engines import joint_distribution

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("joint distributions are found by exact inference only")
    answer = joint_distribution(model, options.joint, given.given, **how)
    if options.picture is not None:
        from conjoin.formats.storage import write_bytes
        from conjoin.views.reports.svg import heat_map

        write_bytes(Path(options.picture), heat_map(answer).encode())
    states = [[str(s) for s in v.states] for v in answer.domain]
    report = {"names": options.joint, "states": states, "probabilities": answer.table.tolist()}
    return [answer.run], report, [f"Joint distribution{_given(given)}", str(answer)]


def _questions(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.inference.questions import next_questions

    if how.pop("method") not in ("auto", "exact"):
        raise ModelError("--next chooses its method by itself; leave out --method")
    ranking = next_questions(model, options.next, given.given, **how)
    questions = [
        {
            "name": question.name,
            "bits": question.information,
            "answers": {
                str(s): {
                    "probability": p,
                    ranking.target: shared.by_text(question.targets.get(s, {})),
                }
                for s, p in question.answers.items()
            },
        }
        for question in ranking
    ]
    report = {"target": ranking.target, "bits": ranking.entropy, "questions": questions}
    lines = [f"What to ask about {shown(ranking.target)}{_given(given)}", str(ranking)]
    return [ranking.run], report, lines


def _what_if(
    model: Network, given: Evidence, options: argparse.Namespace, how: dict[str, Any]
) -> _Said:
    from conjoin.cli.distribution_text import distribution_report
    from conjoin.inference.scenarios import what_if

    comparison = what_if(model, given.given, options.what_if, targets=options.target or None, **how)
    before, *after = (
        {name: distribution_report(p) for name, p in answer.items()}
        for answer in comparison.answers
    )
    changes = [
        {"change": change, "marginals": p}
        for change, p in zip(comparison.changes, after, strict=True)
    ]
    report = {"marginals": before, "what_if": changes}
    runs = [answer.run for answer in comparison.answers]
    return runs, report, [f"What if{_given(given)}", str(comparison)]


def _given(given: Evidence) -> str:
    """Return the evidence in words; a long list only by its length."""
    from conjoin.inference.condition_text import conditions_text

    if not given.given:
        return ""
    if len(given.given) > 8:
        return f" given {len(given.given)} variables"
    return f" given {shown(conditions_text(given.given))}"


def _text(domain: Domain, name: str, value: Any) -> str:
    """Return a value of a column as text."""
    if name not in domain.numeric:
        return str(value)
    scale = domain.scale(name)
    return scale.text(scale.number(value), 12)


def uai_solution(model: Network, given: Evidence, task: str, how: dict[str, Any]) -> list[str]:
    """Return the lines of a UAI solution file."""
    from conjoin.inference.engines import log_partition, marginals, most_probable

    if task == "PR":
        log_z = log_partition(model, given.given, **how)
        shared.say_if_approximate(log_z.run)
        return ["PR", f"{log_z.value / math.log(10):.6g}"]
    if task == "MAR":
        answer = marginals(model, given, **how)
        shared.say_if_approximate(answer.run)
        words = [str(len(answer))]
        for p in answer.arrays():
            words += [str(len(p)), *(f"{x:.6g}" for x in p)]
        return ["MAR", " ".join(words)]
    best = most_probable(model, given.given, **how)
    shared.say_if_approximate(best.run)
    codes = [variable.index(best[variable.name]) for variable in model.domain.observed]
    return ["MAP", " ".join(map(str, [len(codes), *codes]))]
