"""One fit of a hidden column by L-BFGS on all rows, and from batches of rows (Adam).

    CONJOIN_DATA=FOLDER python benchmarks/bench_hidden.py [NAME | ROWSxCOLUMNS ...]

FOLDER holds the data sets of debd. Generated tables are those of bench_growth.py. Both fits start from
the same thin network. The score is the mean log-likelihood of validation rows, which also tell L-BFGS
when to stop; times are CPU seconds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import conjoin as cj
from bench_growth import generated
from conjoin.data.row_hashing import merge_rows
from conjoin.jobs import one_thread
from conjoin.joint import HiddenModel, HiddenTables, fit_batches, fit_hidden
from conjoin.joint.dependence_tree import dependence_tree
from conjoin.joint.hidden_column import SETTINGS
from conjoin.joint.hidden_tables import HiddenRows
from conjoin.joint.network_search import MANY_ROWS
from conjoin.joint.thin_weights import with_weights
from conjoin.joint.thinning import thin
from goals import cpu, headline, machine

VALID_ROWS = 2_000


def tables_of(name: str) -> tuple[cj.Table, cj.Table]:
    """Return the training and the validation rows of a data set or of a generated table."""
    if name[0].isdigit():
        rows, columns = map(int, name.split("x"))
        return generated(rows, columns), generated(VALID_ROWS, columns, seed=1)
    start = Path(os.environ["CONJOIN_DATA"]) / "debd" / name / name
    train = cj.read_table(f"{start}.train.data.gz")
    return train, cj.read_table(f"{start}.valid.data.gz", train.domain)


def thin_network(train: cj.Table, valid: cj.Table) -> cj.MarkovNetwork:
    """Return the thin network that the default search starts from."""
    model = cj.convert(cj.learn_conditionals(train, "mixed", valid=valid), train)
    left, right = dependence_tree(train)
    cards = train.domain.cards
    cells = max(MANY_ROWS["default"].cells[0], int((cards[left] * cards[right]).sum()))
    return with_weights(thin(model, train, max_cells=cells), left, right, train, valid)


def compare(name: str, model: HiddenModel, train: HiddenRows, valid: HiddenRows) -> None:
    steps, priors = MANY_ROWS["default"].batches, model.priors
    ways = {
        "L-BFGS": lambda: fit_hidden(model, train, valid, np.random.default_rng(0)),
        "batches": lambda: fit_batches(model, train, np.random.default_rng(0), steps),
    }
    for way, learn in ways.items():
        seconds, fit = cpu(learn)
        score = fit.score(valid)
        print(
            f"{name:<12} {tuple(priors)!s:<22} {way:<8} {score:>10.3f} {seconds:>7.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    print(machine())
    headline("Hidden columns of 128 states: log-likelihood of validation rows, CPU time")
    for name in sys.argv[1:] or ["plants", "cr52", "100000x50"]:
        train, valid = tables_of(name)
        with one_thread():
            tables = HiddenTables(thin_network(train, valid), MANY_ROWS["default"].states[-1])
            rows, held = (tables.rows(*merge_rows(t.codes, t.weights)) for t in (train, valid))
            for priors in SETTINGS[:2]:
                compare(name, HiddenModel(tables, priors), rows, held)
