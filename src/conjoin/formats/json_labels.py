"""State labels and domains in JSON, with their types."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from math import inf
from typing import Any

import numpy as np

from conjoin.data.domain import Domain, Variable
from conjoin.data.label_values import plain
from conjoin.data.number_map import NumberMap
from conjoin.data.number_scale import NumberScale
from conjoin.data.number_states import NumberStates
from conjoin.errors import ConjoinError, FormatError


def label_to_json(label: Any) -> Any:
    """Return a label in types of JSON, tagged where JSON has no such type."""
    label = plain(label)
    if type(label) is float and label in (inf, -inf):
        return {"float": str(label)}
    if type(label) in (str, int, float, bool):
        return label
    if type(label) is tuple:
        return {"tuple": [label_to_json(part) for part in label]}
    if type(label) is datetime.datetime:
        return {"datetime": label.isoformat()}
    if type(label) is datetime.date:
        return {"date": label.isoformat()}
    raise FormatError(
        f"the state label {label!r} is a {type(label).__name__}, which files cannot hold; use "
        "strings, numbers, booleans, dates or tuples of them"
    )


def label_from_json(value: Any) -> Any:
    """Undo `label_to_json`."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "tuple" and isinstance(content, list):
            return tuple(label_from_json(part) for part in content)
        if kind == "float" and content in ("inf", "-inf"):
            return float(content)
        if kind == "datetime" and isinstance(content, str):
            return datetime.datetime.fromisoformat(content)
        if kind == "date" and isinstance(content, str):
            return datetime.date.fromisoformat(content)
    raise FormatError(f"{value!r} is not a state label")


def variable_to_json(variable: Variable) -> dict[str, Any]:
    """Return a variable as {name, states}, with a mark for a hidden one.

    Whether states are ordered is written if it does not show from the states themselves.
    """
    entry: dict[str, Any] = {
        "name": variable.name,
        "states": [label_to_json(s) for s in variable.states],
    }
    if variable.hidden:
        entry["hidden"] = True
    if variable.numbers is not None:
        return {"name": variable.name, "numbers": numbers_to_json(variable.numbers)}
    if variable.ordered != variable.order_shows:
        entry["ordered"] = variable.ordered
    return entry


def variable_from_json(entry: Any) -> Variable:
    """Undo `variable_to_json`; raises KeyError, TypeError or ValueError if it is damaged."""
    if "numbers" in entry:
        numbers = numbers_from_json(entry["numbers"])
        if numbers.scale.name != entry["name"]:
            raise ValueError("the names of a column of numbers differ")
        return Variable.of_numbers(numbers)
    return Variable(
        entry["name"],
        [label_from_json(s) for s in entry["states"]],
        hidden=entry.get("hidden", False) is True,
        ordered=entry.get("ordered"),
    )


def numbers_to_json(numbers: NumberStates) -> dict[str, Any]:
    """Return the states of a column of numbers in types of JSON."""
    own = numbers.map
    return {
        "scale": asdict(numbers.scale),
        "edges": numbers.edges.tolist(),
        "values": own.values.tolist(),
        "scores": own.scores.tolist(),
        "step": own.step,
        "single": own.atoms.tolist(),
        "absent": numbers.absent,
    }


def numbers_from_json(entry: Any) -> NumberStates:
    """Undo `numbers_to_json`; raises an error if it is damaged."""
    values, scores, edges, single = (
        np.array([float(x) for x in entry[name]])
        for name in ("values", "scores", "edges", "single")
    )
    step = float(entry["step"])
    knots = (values, scores)
    if len(values) != len(scores) or len(values) < 2 or not np.isfinite(step) or step <= 0:
        raise ValueError("the map of a column of numbers is damaged")
    if not all(np.isfinite(x).all() and (np.diff(x) > 0).all() for x in (*knots, edges, single)):
        raise ValueError("numbers of a column do not rise")
    if len(set(np.searchsorted(edges, single, side="right").tolist())) < len(single):
        raise ValueError("two single values of a column share a state")
    line = NumberMap(values, scores, step, single)
    return NumberStates(_scale(entry["scale"]), line, edges, entry["absent"] is True)


def _scale(entry: Any) -> NumberScale:
    step, form = entry["step"], entry["form"]
    return NumberScale(
        str(entry["name"]),
        str(entry["kind"]),
        entry["integer"] is True,
        None if step is None else float(step),
        float(entry["low"]),
        float(entry["high"]),
        None if form is None else str(form),
        entry["utc"] is True,
    )


def domain_to_json(domain: Domain) -> list[Any]:
    """Return a domain as a list of its variables."""
    return [variable_to_json(variable) for variable in domain.variables]


def domain_from_json(listed: Any, path: str) -> Domain:
    """Undo `domain_to_json`."""
    try:
        return Domain(variable_from_json(entry) for entry in listed)
    except (KeyError, TypeError, ValueError) as error:
        detail = str(error) if isinstance(error, ConjoinError) else "names or states are missing"
        raise FormatError(f"the list of variables is damaged: {detail}", path) from None
