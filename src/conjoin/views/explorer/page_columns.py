"""The columns of a model as the explorer's page shows them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.label_values import is_number
from conjoin.data.number_scale import number_text
from conjoin.data.number_states import NumberStates
from conjoin.inference.conditions import Range, edges_of
from conjoin.inference.number_distribution import NumberDistributions

MANY_NUMBERS = 6
"""Columns with at least this number of states, all of them numbers, are drawn as a histogram."""

QUANTILES = 512
"""Approximate number of quantiles that the page has of a column of numbers."""

FEWEST = 8
"""Minimum number of parts into which they divide an interval."""

OUTERMOST = 1e-3
"""The share of the outermost intervals that is beyond their outermost quantiles."""

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
    numeric = all(is_number(s) for s in states) and all(a < b for a, b in pairwise(states))
    if numeric and len(states) >= MANY_NUMBERS:
        values = [float(s) for s in states]
        half = 1e-9 * max(1.0, *np.abs(values))
        column |= {"kind": "number", "values": values, "quantiles": [[x] for x in values]}
        column |= {"step": 0, "half": half}
    return column


def _label(state: Any) -> str:
    """Return a state as it is shown: whole numbers without a fraction."""
    return str(int(state)) if isinstance(state, float) and state.is_integer() else str(state)


def _of_numbers(numbers: NumberStates) -> dict[str, Any]:
    """Return what the page needs of a column of numbers: where the values of its states lie."""
    scale = replace(numbers.scale, form=None)  # the page reads ISO dates
    present = numbers.present
    means = NumberDistributions.of_states(present, np.eye(len(present))).mean()
    edges = numbers.edges.tolist()
    column: dict[str, Any] = {
        "kind": "number",
        "cuts": [min([scale.low, *edges]), *edges, max([scale.high, *edges])],
        "step": scale.step or 0,
        "half": numbers.map.step / 2,
        "means": [float(f"{x:.9g}") for x in means],
        "quantiles": _quantiles(present) + [[]] * numbers.absent,
        "starts": ["", *(_start(numbers, float(edge)) for edge in numbers.edges)],
    }
    if scale.kind != "number":
        firsts = [scale.low, *(_first(numbers, float(edge)) for edge in numbers.edges)]
        column["dates"] = [scale.short(x) for x in firsts]
        column["unit"] = DAY if scale.kind == "date" else 1
    return column


def _quantiles(numbers: NumberStates) -> list[list[float]]:
    """Return quantiles of the values in each state at equal distances; one value, if it has only one."""
    from scipy.special import ndtr, ndtri

    parts = max(FEWEST, QUANTILES // len(numbers))
    share = np.linspace(0.0, 1.0, parts + 1)
    share[[0, -1]] = OUTERMOST, 1 - OUTERMOST
    cuts: FloatArray = np.concatenate([[np.nan], numbers.edges, [np.nan]])
    found = []
    for k, single in enumerate(numbers.single.tolist()):
        if not np.isnan(single):
            found.append([single])
            continue
        low, high = numbers.ends[:, k]
        side = -1.0 if low > 0 else 1.0  # small probabilities are more exact
        first, last = ndtr(side * low), ndtr(side * high)
        x = numbers.map.to_values(side * ndtri(first + share * (last - first)))
        x[[0, -1]] = np.where(np.isnan(cuts[[k, k + 1]]), x[[0, -1]], cuts[[k, k + 1]])
        resolution = float(x[-1] - x[0]) / 1000
        inner = [float(number_text(float(y), resolution, 1)) for y in x[1:-1]]
        found.append([float(x[0]), *inner, float(x[-1])])
    return found


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
