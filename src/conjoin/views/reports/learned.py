"""The section "How it was learned": the provenance of a model in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.views.reports.markup import count, text
from conjoin.views.reports.subject import Subject

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
    for key in ("learned", "weights"):
        record = provenance.get(key)
        if isinstance(record, Mapping) and isinstance(record.get("rows"), int):
            return int(record["rows"])
    return None


def what_it_is(subject: Subject) -> str:
    """Say in a sentence what kind of model it is."""
    model, n = subject.model, count(len(subject.names), "column")
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
    if getattr(model, "chain", None) is not None:
        said += (
            " Where few columns are unknown, it also asks a chain of predictions, of each column from "
            "those before it."
        )
    if subject.domain.numeric:
        said += " Numbers are cut into intervals"
        fine = getattr(model, "fine", None)
        if fine is None:
            return f"{said}; within these, they lie as in the table."
        said += ", and where they lie within these depends on the other columns, too."
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
    said += [*_conditionals(given), *_weights(given)]
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


def _candidate(name: str) -> str:
    """Return the name of a network that was compared in plain words."""
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
    return f'<h2>How it was learned</h2>\n<ul class="plain">{said}</ul>'
