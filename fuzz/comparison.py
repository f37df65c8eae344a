"""What compiled kernels leave behind, compared with what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np

LINE_SEARCH = "logistic.move"
"""The kernel that goes as far as rounding lets it."""


def take_the_same_steps(before: Any, after: Any, other: Any) -> None:
    """Give the interpreter's columns the steps of machine code where rounding chose between them.

    A line search halves a step until the objective falls. If rounding decides whether it does, the two
    stop at different steps. Neither may raise the objective.
    """
    columns, own_first = before[1], before[7]
    for c in columns.tolist():
        if np.allclose(other[4].z[c], after[4].z[c], rtol=1e-4, atol=1e-5):
            continue
        limit = _objective(before, c)
        for left in (after, other):
            now = _objective(left, c)
            assert now <= limit + 1e-5 * abs(limit), f"{LINE_SEARCH} raises {limit} to {now}"
        own = slice(own_first[c], own_first[c + 1])
        for field in ("z", "residual", "bend", "loss", "g_bias", "h_bias"):
            getattr(other[4], field)[c] = getattr(after[4], field)[c]
        for field, part in (("ordinary", c), ("bias", c), ("own", own)):
            getattr(other[5], field)[part] = getattr(after[5], field)[part]


def _objective(arguments: Any, c: int) -> float:
    """Return the loss of a column plus its penalty, from the arguments of the line search."""
    penalty, _, factor, _, at, weights, _, own_first, _ = arguments
    used = weights.ordinary[c] != 0
    norm = factor[c][used] @ np.abs(weights.ordinary[c][used])
    norm += np.abs(weights.own[own_first[c] : own_first[c + 1]]).sum()
    return float(at.loss[c] + penalty * norm)


def compare(what: str, one: Any, other: Any, rtol: float) -> None:
    """Compare what machine code and the interpreter left behind; sums may have another order."""
    if isinstance(one, tuple | list):
        assert len(one) == len(other), what
        for x, y in zip(one, other, strict=True):
            compare(what, x, y, rtol)
        return
    if one is None:
        assert other is None, what
        return
    x, y = np.asarray(one), np.asarray(other)
    if x.dtype.kind not in "fc":
        assert np.array_equal(x, y), f"{what} differs: {x} by machine code, {y} by the interpreter"
        return
    scale = float(np.abs(x[np.isfinite(x)]).max(initial=1.0))
    np.testing.assert_allclose(y, x, rtol=rtol, atol=rtol * 0.1 * scale, err_msg=what)
