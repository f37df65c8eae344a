"""The section "How it was learned": the provenance of a model in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.mixed import GaussianComponent, MixedNetwork
from conjoin.reports.markup import bar, count, table, text
from conjoin.reports.subject import Subject

METHODS = {
    "tree": "a decision tree",
    "logistic": "a logistic regression",
    "hybrid": "a decision tree and a logistic regression together",
    "mixed": "a decision tree or a logistic regression, or both together",
    "boosted": "boosted decision trees",
}
"""How the prediction of a column is learned."""


def rows_of(provenance: Mapping[str, Any]) -> int | None:
    """Return the number of rows that a model was learned from, if it says so."""
    for key in ("learned", "mixed", "weights"):
        record = provenance.get(key)
        if isinstance(record, Mapping) and isinstance(record.get("rows"), int):
            return int(record["rows"])
    return None


def held_out_score(provenance: Mapping[str, Any]) -> float | None:
    """Return the mean log-probability of rows that were kept aside while a model was learned, in nats."""
    refined, mixed = provenance.get("refined"), provenance.get("mixed")
    found = None
    if isinstance(refined, Mapping) and isinstance(refined.get("held_out"), Mapping):
        found = refined["held_out"].get(refined.get("chosen"))
    elif isinstance(mixed, Mapping):
        found = mixed.get("held_out")
    return float(found) if isinstance(found, float) and np.isfinite(found) else None


def what_it_is(subject: Subject) -> str:
    """Say in a sentence what kind of model it is."""
    model, n = subject.model, count(len(subject.names), "column")
    if isinstance(model, MixedNetwork):
        states = [
            len(c.gaussians.means) for c in model.components if isinstance(c, GaussianComponent)
        ]
        return (
            f"It describes {n} together, as a mixture of {count(sum(states), 'group')} of similar rows: "
            "within a group, numbers follow bell curves (after a change of scale), and categories have "
            "links of their own."
        )
    if isinstance(model, DependencyNetwork):
        return (
            f"It is a dependency network: {n}, each with a prediction from the others. The predictions "
            "may contradict each other a little."
        )
    if isinstance(model, BayesianNetwork):
        return f"It is a Bayesian network: {n}, each with probabilities given columns before it."
    said = f"It is a Markov network: {n}, joined by links between those that go together directly."
    for size in subject.hidden_states:
        said += (
            f" A hidden column with {count(size, 'state')} stands for groups of similar rows, which "
            "the table does not name."
        )
    return said


def sentences(subject: Subject) -> list[str]:
    """Return what the model says about its origin, as sentences in HTML."""
    given = subject.model.provenance
    said = [what_it_is(subject)]
    rows, source = rows_of(given), given.get("table")
    if rows is not None:
        of = f" of <b>{text(source)}</b>" if isinstance(source, str) else ""
        said.append(f"It was learned from {count(rows, 'row')}{of}.")
    elif isinstance(source, str):
        said.append(f"It was learned from <b>{text(source)}</b>.")
    said += [*_conditionals(given), *_weights(given), *_mixed(given)]
    if len(said) == 1:
        said.append("The model does not say how it was learned.")
    return said


def _conditionals(given: Mapping[str, Any]) -> list[str]:
    learned, said = given.get("learned"), []
    if isinstance(learned, Mapping):
        how = METHODS.get(str(learned.get("cpd")), "a model")
        tuned = "kappa_path" in learned or "penalty_path" in learned
        chosen = " Rows that were kept aside decided how detailed it may be." if tuned else ""
        said.append(f"First, {how} was learned to predict each column from the others.{chosen}")
    if "converted_from" in given:
        said.append(
            "These predictions were then combined into one joint distribution, which gives consistent "
            "answers to all questions."
        )
    return said


def _weights(given: Mapping[str, Any]) -> list[str]:
    thin, weights, refined = (given.get(key) for key in ("thin", "weights", "refined"))
    said = []
    chosen = str(refined.get("chosen")) if isinstance(refined, Mapping) else ""
    if isinstance(thin, Mapping) and not chosen.startswith(("tree", "Bayesian")):
        said.append(
            "Only the strongest links were kept, so that every question can be answered exactly."
        )
    if isinstance(weights, Mapping):
        if weights.get("objective") == "closed form":
            said.append("The table has few rows, so the result was left as it is.")
        elif not chosen.startswith(("tree", "Bayesian")):
            said.append("Their strengths make the rows of the table as probable as possible.")
    if isinstance(refined, Mapping):
        said.append(
            "Several models were compared on rows that were kept aside, and the best one was chosen: "
            f"<b>{text(_candidate(chosen))}</b>."
        )
    return said


def _mixed(given: Mapping[str, Any]) -> list[str]:
    record = given.get("mixed")
    if not isinstance(record, Mapping):
        return []
    said = ["Numbers were kept as numbers, and dates as dates."]
    kept = record.get("states and shares")
    if isinstance(kept, list | tuple) and len(kept) > 1:
        said.append(
            f"It is the average of {len(kept)} models with different numbers of groups, weighted by how "
            "well they predicted rows that were kept aside."
        )
    binned = record.get("binned")
    if isinstance(binned, float) and binned > 0:
        said.append(
            f"A second model, which cuts numbers into bins, contributes {100 * binned:.0f}%."
        )
    return said


def _candidate(name: str) -> str:
    """Return the name of a network that was compared in plain words.

    Examples
    --------
    >>> _candidate("thin, 2,048 cells, 4 x 32 hidden states")
    'a network of strong links (small), with hidden groups of rows'
    """
    if name.startswith("tree"):
        words = "a tree: each column is linked to one other"
    elif name.startswith("thin"):
        cells = re.search(r"([\d,]+) cells", name)
        size = int(cells[1].replace(",", "")) if cells else 0
        words = f"a network of strong links ({'small' if size < 10_000 else 'large'})"
    else:
        words = "a Bayesian network" if name.startswith("Bayesian") else name
    return words + (", with hidden groups of rows" if "hidden" in name else "")


def section(subject: Subject) -> str:
    """Return the section."""
    said = "".join(f"<li>{line}</li>" for line in sentences(subject))
    return f'<h2>How it was learned</h2>\n<ul class="plain">{said}</ul>\n{_comparison(subject)}'


def _comparison(subject: Subject) -> str:
    refined = subject.model.provenance.get("refined")
    if not isinstance(refined, Mapping) or not isinstance(refined.get("held_out"), Mapping):
        return ""
    scores = {
        str(k): -float(v) / np.log(2)
        for k, v in refined["held_out"].items()
        if isinstance(v, float) and np.isfinite(v)
    }
    if not scores:
        return ""
    worst, lines = max(scores.values()), []
    for name, bits in sorted(scores.items(), key=lambda item: item[1]):
        words = text(_candidate(name))
        won = name == refined.get("chosen")
        lines.append(
            [f"<b>{words}</b> (chosen)" if won else words, f"{bits:.2f}", bar(bits / worst)]
        )
    columns = ["model", "#bits per row", ""]
    return (
        "<details><summary>The models that were compared</summary><p>The score is the average number of "
        "yes-or-no questions that it takes to find out a whole row: lower is better. A larger model must "
        f"be clearly better to be chosen.</p>{table(columns, lines)}</details>"
    )
