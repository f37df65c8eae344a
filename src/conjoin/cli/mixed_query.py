"""What `conjoin query` prints for models with numbers."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from conjoin.cli import arguments as shared
from conjoin.data.labels import shown
from conjoin.errors import ModelError
from conjoin.inference.condition_text import conditions_text
from conjoin.inference.number_distribution import NumberDistribution

if TYPE_CHECKING:
    from conjoin.inference.mixed_evidence import MixedKnown
    from conjoin.inference.results import Run
    from conjoin.models.mixed import MixedNetwork

BARS = 10
"""Number of bars of a histogram."""

BLOCKS = " ▁▂▃▄▅▆▇█"
LEVEL = 0.9
"""The probability of intervals."""


def number_lines(found: NumberDistribution, name: str = "", width: int = 0) -> list[str]:
    """Return the mean, an interval and a small histogram of a number in two lines.

    Between its ends, the histogram has ten bars for ranges of the same width.
    """
    scale = found.scale
    low, high = (scale.number(end) for end in found.interval(LEVEL))
    ends = [scale.number(found.quantile(p)) for p in (0.01, 0.99)]
    label = f"{shown(name or scale.name):<{width}}"
    said = f"mean {scale.short(found.mean())}, {LEVEL:.0%} between {scale.short(low)} and "
    lines = [
        f"{label}  {said}{scale.short(high)}, median {scale.short(scale.number(found.median()))}"
    ]
    if ends[1] > ends[0]:
        bars = histogram(found, ends[0], ends[1])
        lines.append(f"{'':<{width}}  {scale.short(ends[0])} {bars} {scale.short(ends[1])}")
    return lines


def histogram(found: NumberDistribution, low: float, high: float) -> str:
    """Return bars for ranges of the same width between two numbers."""
    cuts = np.linspace(low, high, BARS + 1)
    below = np.array([found.cdf(cut) for cut in cuts.tolist()])
    p = np.maximum(np.diff(below), 0.0)
    p[0] += below[0]
    heights = np.ceil(p / p.max() * (len(BLOCKS) - 1)).astype(int) if p.max() > 0 else p.astype(int)
    return "".join(BLOCKS[height] for height in heights.tolist())


def number_report(found: NumberDistribution) -> dict[str, Any]:
    """Return what `number_lines` says, for JSON; dates are text."""
    quantiles = {str(p): _plain(found.quantile(p)) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
    mean = found.mean()
    if found.scale.kind != "number":
        return {"mean": found.scale.short(mean), "quantiles": quantiles}
    return {"mean": mean, "sd": found.sd(), "quantiles": quantiles}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float) else str(value)


def query(model: MixedNetwork, options: argparse.Namespace) -> None:
    """Answer the questions of `conjoin query`."""
    from conjoin.inference.mixed_evidence import MixedKnown

    if options.evidence is not None:
        raise ModelError(
            "a UAI evidence file numbers the states of columns, and this model has numbers; use --given"
        )
    if options.method not in ("auto", "exact"):
        raise ModelError(
            f"--method {options.method} is for networks of states; leave it out for a model with numbers"
        )
    for name in options.target:
        model.domain.check(name)
    known = MixedKnown(model, ", ".join(options.given))
    if options.task:
        print("\n".join(solution(known, options.task)))
    elif options.joint:
        _print_joint(known, options)
    elif options.next is not None:
        from conjoin.inference.mixed_questions import next_questions

        shared.print_questions(next_questions(known, options.next), _given(known), options.json)
    elif options.what_if:
        _print_what_if(known, options)
    elif options.map:
        _print_most_probable(known, options)
    elif options.probability:
        _print_probability(known, options)
    else:
        _print_marginals(known, options)


def _given(known: MixedKnown) -> str:
    return f" given {shown(conditions_text(known.given))}" if known.given else ""


def _how_found(run: Run) -> dict[str, Any]:
    return {"method": run.method, "exact": run.exact, "note": run.note}


def _report(found: Any) -> Any:
    """Return a distribution for JSON."""
    if isinstance(found, NumberDistribution):
        return number_report(found)
    return {str(state): float(p) for state, p in found.items()}


def _print_marginals(known: MixedKnown, options: argparse.Namespace) -> None:
    from conjoin.inference.mixed_questions import marginals

    names = options.target or [name for name in known.model.names if name not in known.certain]
    found = marginals(known, names)
    if options.json:
        report = {name: _report(found[name]) for name in names}
        shared.print_json({"marginals": report, **_how_found(found.run)})
        return
    print(f"Probabilities{_given(known)} ({found.run})")
    width = max((len(shown(name)) for name in names), default=0)
    for name in names:
        if isinstance(found[name], NumberDistribution):
            print("\n".join(number_lines(found[name], name, width)))
        else:
            states = "  ".join(f"{shown(state)} {p:.4f}" for state, p in found[name].items())
            print(f"{shown(name):<{width}}  {states}")


def _print_probability(known: MixedKnown, options: argparse.Namespace) -> None:
    from conjoin.inference.mixed_questions import probability

    event = probability(known, ", ".join(options.probability))
    if options.json:
        shared.print_json({"probability": float(event), **_how_found(event.run)})
    else:
        print(event)


def _print_most_probable(known: MixedKnown, options: argparse.Namespace) -> None:
    from conjoin.inference.mixed_mode import most_probable

    found = most_probable(known)
    shared.say_if_approximate(found.run)
    if options.json:
        values = {name: _plain(value) for name, value in found.items()}
        shared.print_json({"most_probable": values, "score": found.score, **_how_found(found.run)})
        return
    print(f"Most probable row{_given(known)} ({found.run})")
    width = max(len(shown(name)) for name in found)
    for name, value in found.items():
        text = _text(known.model, name, value)
        print(f"{shown(name):<{width}}  {shown(text)}" + "  (given)" * (name in known.certain))
    print(f"log-density: {found.score:.6g}")


def _text(model: MixedNetwork, name: str, value: Any) -> str:
    """Return a value of a column as text."""
    if name in model.domain.numeric:
        return model.scale(name).text(model.scale(name).number(value))
    return str(value)


def _print_joint(known: MixedKnown, options: argparse.Namespace) -> None:
    from conjoin.inference.mixed_questions import joint

    found = joint(known, options.joint)
    shared.print_joint(found, options, _given(known), _how_found(found.run))


def _print_what_if(known: MixedKnown, options: argparse.Namespace) -> None:
    from conjoin.inference.scenarios import what_if

    found = what_if(known.model, known.given, options.what_if, targets=options.target or None)
    if not options.json:
        print(f"What if{_given(known)}")
        print(found)
        return
    before, *after = ({name: _report(p) for name, p in answer.items()} for answer in found.answers)
    changes = [
        {"change": change, "marginals": p} for change, p in zip(found.changes, after, strict=True)
    ]
    run = found.answers[0].run
    shared.print_json({"marginals": before, "what_if": changes, **_how_found(run)})


def solution(known: MixedKnown, task: str) -> list[str]:
    """Return the lines of a solution in the format of UAI, which has no numbers.

    In MAR, a number has ten ranges of equal probability before the evidence; in MAP, it has its value.
    """
    from conjoin.inference import mixed_questions

    domain = known.model.domain
    if task == "PR":
        found = mixed_questions.log_partition(known)
        return ["PR", f"{found.value / math.log(10):.6g}"]
    if task == "MAR":
        words = [str(len(domain.names))]
        for p in mixed_questions.range_marginals(known):
            words += [str(len(p)), *(f"{x:.6g}" for x in p)]
        return ["MAR", " ".join(words)]
    best = mixed_questions.most_probable(known)
    shared.say_if_approximate(best.run)
    texts = [
        _text(known.model, name, value)
        if name in domain.numeric
        else str(domain.categories[name].index(value))
        for name, value in best.items()
    ]
    return ["MAP", " ".join([str(len(texts)), *texts])]
