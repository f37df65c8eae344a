"""The columns of a model as the explorer's page shows them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import is_number
from conjoin.data.number_states import NumberStates
from conjoin.inference.conditions import Range, edges_of
from conjoin.inference.number_ranges import state_numbers

MANY_NUMBERS = 6
"""Columns with at least this number of states, all of them numbers, are drawn as a histogram."""

DAY = 86_400
"""The seconds of a day."""


def page_column(variable: Variable) -> dict[str, Any]:
    """Return a column as the page shows it, and its states as Python writes them."""
    states = list(variable.states)
    absent = {"absent": True} if variable.absent else {}
    column: dict[str, Any] = {
        **absent,
        "name": variable.name,
        "kind": "category",
        "states": [_label(s) for s in states],
        "python": [repr(s) for s in states],
    }
    if variable.numbers is not None:
        return column | _of_numbers(variable.numbers)
    in_order = state_numbers(variable)
    if in_order is not None:
        values = [None if np.isnan(x) else float(x) for x in in_order[1]]
        column["order"] = {"kind": in_order[0], "values": values}
    numeric = all(is_number(s) for s in states) and all(a < b for a, b in pairwise(states))
    if numeric and len(states) >= MANY_NUMBERS:
        column |= {"kind": "number", "values": [float(s) for s in states]}
    return column


def _label(state: Any) -> str:
    """Return a state as it is shown: whole numbers without a fraction."""
    return str(int(state)) if isinstance(state, float) and state.is_integer() else str(state)


def _of_numbers(numbers: NumberStates) -> dict[str, Any]:
    """Return what the page needs of a column of numbers: where the values of its states lie."""
    scale = replace(numbers.scale, form=None)  # the page reads ISO dates
    edges = numbers.edges.tolist()
    column: dict[str, Any] = {
        "kind": "number",
        "cuts": [min([scale.low, *edges]), *edges, max([scale.high, *edges])],
        "step": scale.step or 0,
        "half": numbers.map.step / 2,
        "extent": [scale.low, scale.high],
        "singles": [None if np.isnan(x) else x for x in numbers.present.single.tolist()],
        "knots": len(numbers.map.values),
        "starts": ["", *(_start(numbers, float(edge)) for edge in numbers.edges)],
    }
    if scale.kind != "number":
        firsts = [scale.low, *(_first(numbers, float(edge)) for edge in numbers.edges)]
        column["dates"] = [scale.short(x) for x in firsts]
        column["unit"] = DAY if scale.kind == "date" else 1
    return column


def number_arrays(variable: Variable) -> list[FloatArray]:
    """Return the arrays that the page reads for a column: the knots of the map to normal scores."""
    return (
        []
        if variable.numbers is None
        else [variable.numbers.map.values, variable.numbers.map.scores]
    )


def _first(numbers: NumberStates, edge: float) -> float:
    """Return the first value above an edge that can be recorded, or the edge itself."""
    step = numbers.scale.step
    return edge if step is None else float(np.ceil(edge / step - 1e-9) * step)


def _start(numbers: NumberStates, edge: float) -> str | None:
    """Return the least number of a condition that cuts at an edge; None if there is none."""
    scale, first = replace(numbers.scale, form=None), _first(numbers, edge)
    text = scale.short(first) if scale.kind != "number" else scale.text(first)
    part = Range(above=text) if scale.step is None else Range(at_least=text)
    return text if abs(edges_of(numbers, part)[0] - edge) <= 1e-6 * numbers.map.step else None
