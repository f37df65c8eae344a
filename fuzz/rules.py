"""Models of tables in which relations always hold, and of the same tables in another order.

Rows that a model draws or fills in must keep the relations, evidence and known values must stay, and the
order of rows and columns must not matter.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from conjoin import JointModel
from conjoin.data import as_table, find_rules
from fuzz.trials import count


def case(rng: np.random.Generator) -> str:
    """Plant some relations, and look for them in the table and in what a model makes of it."""
    frame, planted = _planted(rng)
    rules = find_rules(as_table(frame))
    shuffled = frame.iloc[rng.permutation(len(frame)), rng.permutation(frame.shape[1])]
    assert find_rules(as_table(shuffled)) == rules, "the order of the table changes the rules"
    texts = {rule.text for rule in rules}
    assert planted <= texts, f"{planted - texts} was not found among {texts}"
    count("rules", len(rules))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = JointModel(effort="quick", random_state=0, n_jobs=1).fit(frame)
        row = frame.dropna().iloc[int(rng.integers(5))]
        given = {name: row[name] for name in rng.choice(frame.columns, 2, replace=False)}
        rows, drawn = model.sample(60), model.sample(60, given)
        holes = rng.random(frame.shape) < 0.2
        filled = model.impute(frame.mask(holes))
    assert all((drawn[name] == value).all() for name, value in given.items()), "evidence changed"
    assert ((filled == frame) | holes | frame.isna()).all().all(), "a known value changed"
    for text, wrong in _broken(rows).items():
        assert not wrong.any() or text not in texts, f"{text} is broken by {wrong.sum()} rows"
    return f"{len(planted)} planted"


def _planted(rng: np.random.Generator) -> tuple[pd.DataFrame, set[str]]:
    """Return a random table, and the relations that hold in it."""
    size = int(rng.integers(250, 500))
    wanted = rng.random(4) < 0.6
    kind = rng.integers(0, int(rng.integers(6, 20)), size)
    price = rng.uniform(1, 30, size).round(2)
    number = rng.integers(1, 9, size)
    start = rng.integers(0, 500, size)
    other = [rng.permutation(column) for column in (kind, price * number, start)]
    parts = kind if wanted[0] else other[0]
    total = price * number if wanted[1] else other[1]
    fee = rng.uniform(1, 20, size).round(2)
    end = (start if wanted[3] else other[2]) + rng.integers(0, 200, size)
    columns: dict[str, Any] = {
        "kind": np.array([f"k{k}" for k in range(20)])[kind],
        "group": np.array(["a", "b", "c"])[parts % 3],
        "price": price,
        "number": number,
        "total": total.round(2),
        "fee": fee,
        "paid": (total + fee if wanted[2] else rng.permutation(total + fee)).round(2),
        "start": np.datetime64("2020-01-01") + start,
        "end": np.datetime64("2020-01-01") + end,
    }
    frame = pd.DataFrame(columns)
    texts = ["kind → group", "total = price × number", "paid = total + fee", "start ≤ end"]
    return frame.mask(rng.random(frame.shape) < 0.03), {
        text for text, is_planted in zip(texts, wanted, strict=True) if is_planted
    }


def _broken(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Return which rows break the relations between numbers, by definition."""
    return {
        "total = price × number": (frame.price * frame.number - frame.total).abs() > 0.00501,
        "paid = total + fee": (frame.total + frame.fee - frame.paid).abs() > 0.00501,
        "start ≤ end": frame.start > frame.end,
    }


def prepare() -> None:
    """Do nothing."""
