"""`conjoin query`: ask a model for probabilities, or for its most probable instance."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli.given import QUOTING
from conjoin.errors import ModelError

if TYPE_CHECKING:
    from conjoin.models.network import Network

TASKS = ("MAR", "PR", "MAP")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "query",
        help="ask a model for probabilities",
        description="Ask a model for the probabilities of its variables given the states of some, or "
        "for the most probable instance. Exact where that fits into memory, otherwise approximate; "
        "the answer says which.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model, in any format")
    parser.add_argument(
        "--given",
        metavar="CONDITIONS",
        action="append",
        default=[],
        help=f"{QUOTING} May be repeated.",
    )
    parser.add_argument(
        "--evidence", metavar="FILE", help="the evidence as a UAI evidence file (.uai.evid)"
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        action="append",
        default=[],
        help="a variable that is asked for (may be repeated; by default all that are not given)",
    )
    parser.add_argument("--map", action="store_true", help="print the most probable instance")
    parser.add_argument(
        "--task",
        choices=TASKS,
        help="print in the format of UAI solution files: marginals, the base-10 logarithm of the "
        "probability of the evidence (or of Z), or the most probable instance",
    )
    parser.add_argument(
        "--method",
        metavar="M",
        default="auto",
        help="exact, gibbs, bp or mean_field for probabilities; exact, bp, mean_field or ais for PR; "
        "exact, ilp, max_product, annealing, icm or viterbi for the most probable instance "
        "(default auto)",
    )
    parser.add_argument(
        "--max-memory",
        metavar="GIB",
        type=float,
        help="how many GiB exact inference may use (default 4)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.cli.given import parse_given
    from conjoin.formats.files import load

    if options.task and (options.json or options.map or options.target):
        raise ModelError(
            "--task prints a whole UAI solution; it goes without --json, --map, --target"
        )
    if options.map and options.target:
        raise ModelError("--map gives the states of all variables; it goes without --target")
    model = load(options.model)
    domain = model.domain
    given = parse_given(options.given, domain)
    if options.evidence is not None:
        from conjoin.formats.uai import read_evidence

        given = {**read_evidence(Path(options.evidence), domain), **given}
    chosen: dict[str, Any] = {"method": options.method}
    if options.max_memory is not None:
        if not options.max_memory > 0:
            raise ModelError(f"--max-memory must be more than 0, not {options.max_memory:g}")
        chosen["max_memory"] = options.max_memory * 2**30
    if options.task:
        print("\n".join(solution(model, given, options.task, chosen)))
    elif options.map:
        _print_most_probable(model, given, chosen, options.json)
    else:
        _print_marginals(model, given, options.target, chosen, options.json)


def _print_marginals(
    model: Network, given: dict[str, Any], targets: list[str], chosen: dict[str, Any], as_json: bool
) -> None:
    from conjoin.inference.engines import marginals

    for name in targets:
        model.domain.index(name)
    names = targets or [name for name in model.domain.names if name not in given]
    found = marginals(model, given, targets=names, **chosen)
    if as_json:
        report = {name: {str(s): p for s, p in found[name].items()} for name in names}
        print(json.dumps({"marginals": report, **_told(found.run)}, ensure_ascii=False))
    else:
        width = max((len(name) for name in names), default=0)
        for name in names:
            words = "  ".join(f"{s} {p:.4f}" for s, p in found[name].items())
            print(f"{name:<{width}}  {words}")
        print(f"({found.run})")


def _print_most_probable(
    model: Network, given: dict[str, Any], chosen: dict[str, Any], as_json: bool
) -> None:
    from conjoin.inference.engines import most_probable

    found = most_probable(model, given, **chosen)
    if as_json:
        states = {name: _plain(state) for name, state in found.items()}
        report = {"most_probable": states, "score": found.score}
        if math.isfinite(found.bound):
            report["bound"] = found.bound
        print(json.dumps({**report, **_told(found.run)}, ensure_ascii=False))
    else:
        width = max((len(name) for name in found), default=0)
        for name, state in found.items():
            print(f"{name:<{width}}  {state}" + ("  (given)" if name in given else ""))
        print(f"score {found.score:.6g} ({found.run})")


def _told(run: Any) -> dict[str, Any]:
    told = {
        "method": run.method, "exact": run.exact, "converged": run.converged, "note": run.note,
    }  # fmt: skip
    return told if run.error is None else {**told, "error": run.error}


def _plain(state: Any) -> Any:
    return state if isinstance(state, str | int | float) else str(state)


def solution(model: Network, given: dict[str, Any], task: str, chosen: dict[str, Any]) -> list[str]:
    """Return the lines of a UAI solution file."""
    from conjoin.inference.engines import log_partition, marginals, most_probable

    domain = model.domain
    if task == "PR":
        return ["PR", f"{log_partition(model, given, **chosen).value / math.log(10):.6g}"]
    if task == "MAR":
        found = marginals(model, given, **chosen)
        words = [str(len(domain))]
        for p in found.arrays():
            words += [str(len(p)), *(f"{x:.6g}" for x in p)]
        return ["MAR", " ".join(words)]
    best = most_probable(model, given, **chosen)
    codes = domain.encode(best)
    return ["MAP", " ".join(map(str, [len(codes), *codes]))]
