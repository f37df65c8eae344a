"""Relations that always hold: how many drawn and filled-in rows break them, and the time to find them.

    python benchmarks/bench_rules.py

The orders of a shop: 5,000 to learn from, 5,000 drawn, and 2,000 new ones of which a fifth of the values
is hidden and filled in. The rival is the same model without its rules.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from conjoin import JointModel
from conjoin.data import as_table, find_rules
from goals import cpu, headline, machine, report
from synthetic import shop_frame

GOAL = 0.01
"""The largest share of rows that may break a relation that no row of the table breaks."""


def broken(frame: pd.DataFrame, table: pd.DataFrame) -> dict[str, float]:
    """Return the share of rows that break each relation of the shop, by definition."""
    shares = {}
    for source, target in (("city", "region"), ("product", "category")):
        images = table.groupby(source)[target].first()
        expected = frame[source].map(images)
        both = expected.notna() & frame[target].notna()
        shares[f"{source} → {target}"] = (both & (expected != frame[target])).mean()
    shares["total = price × quantity"] = (
        (frame.price * frame.quantity - frame.total).abs() > 0.0051
    ).mean()
    shares["total = subtotal + tax"] = (
        (frame.subtotal + frame.tax - frame.total).abs() > 0.0051
    ).mean()
    shares["signup ≤ last_seen"] = (frame.signup > frame.last_seen).mean()
    return shares


def main() -> None:
    """Run the benchmark."""
    print(machine())
    table, rows = shop_frame(5000), shop_frame(2000, seed=7, missing=0.0)
    rows = rows.mask(np.random.default_rng(3).random(rows.shape) < 0.2)
    model = JointModel().fit(table)
    rules = model.model_.rules
    results = []
    for kept in ((), rules):
        model.model_ = model.model_.with_rules(kept)
        results += [
            broken(model.sample(5000, random_state=0), table),
            broken(model.impute(rows), table),
        ]
    headline("Rows that break a relation: without rules, with them, and the goal")
    for text in results[0]:
        for what, before, after in (("drawn", *results[::2]), ("filled in", *results[1::2])):
            verdict = f"goal {GOAL:.0%}, {'met' if after[text] <= GOAL else 'MISSED'}"
            print(f"{text:<26}{what:<10}{before[text]:>8.2%}{after[text]:>8.2%}   {verdict}")
    headline("Finding relations")
    coded = as_table(table)
    report("shop, 5,000 x 12", cpu(lambda: find_rules(coded), 3)[0], 0.1)
    rng = np.random.default_rng(0)
    wide = as_table(pd.DataFrame({f"x{i}": rng.normal(size=5000).round(3) for i in range(600)}))
    report("independent numbers, 5,000 x 600", cpu(lambda: find_rules(wide), 3)[0], 10.0)


if __name__ == "__main__":
    main()
