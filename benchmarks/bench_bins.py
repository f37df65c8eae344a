"""Numbers cut into bins: what threshold tests (`x <= c`) gain.

Trees, and the joint distribution that is learned from them, with and without tests of neighbouring bins
together. The rows are training rows of bench_numbers.py and tables of scikit-learn: three quarters to
learn from, the others to score, in nats per row (PLL for trees, log-likelihood for the joint).

    python benchmarks/bench_bins.py [--tables abalone,wine] [--bins 5,8,16]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn import datasets
from threadpoolctl import threadpool_limits

from bench_numbers import Split
from conjoin import Domain, Table, learn
from conjoin.data.domain import Variable
from conjoin.data.frames import columns_of
from conjoin.data.mixed_table import MixedTable
from conjoin.joint import learn_joint
from conjoin.scoring import log_likelihood, pll
from goals import headline

SMALL = {"wine": {}, "diabetes": {"scaled": False}}  # of scikit-learn, with options
TABLES = (
    "abalone", "california_housing", "page_blocks", "credit_approval", "pima_diabetes",
    "south_german_credit", "autos", "r_openintro_yrbss", *SMALL,
)  # fmt: skip
ROWS = 3000


def rows_of(name):
    """Return the rows to learn from and those to score."""
    if name in SMALL:
        frame = getattr(datasets, f"load_{name}")(as_frame=True, **SMALL[name]).frame
        table = MixedTable.of_columns(columns_of(frame))
    else:
        table = Split(name, ROWS, 0).train
    order = np.random.default_rng(1000).permutation(len(table))
    cut = int(0.75 * len(order))
    return table.select(order[:cut]), table.select(order[cut:])


def binned(parts, bins, ordered):
    """Return both tables with numbers cut at quantiles of the first."""
    first = parts[0]
    variables, columns = [], [[], []]
    for variable in first.categories.domain:
        if len(variable) > 1:
            keep = ordered and variable.ordered
            variables.append(Variable(variable.name, variable.states, ordered=keep))
            for part, own in zip(parts, columns, strict=True):
                codes = part.categories.codes[:, first.categories.domain.index(variable.name)]
                missing = codes == part.categories.missing
                own.append(np.where(missing, -1, codes.astype(np.int64)))
    for name in first.domain.numeric:
        known = first.column(name)[~np.isnan(first.column(name))]
        cuts = np.unique(np.quantile(known, np.arange(1, bins) / bins))
        variables.append(Variable(name, range(len(cuts) + 1), ordered=ordered))
        for part, own in zip(parts, columns, strict=True):
            x = part.column(name)
            own.append(np.where(np.isnan(x), -1, np.searchsorted(cuts, x)))
    domain = Domain(variables)
    return [Table(domain, np.stack(own, axis=1)) for own in columns]


def scores(train, test):
    _, joint = learn_joint(train, effort="quick")
    return pll(learn(train, "tree"), test).mean, log_likelihood(joint, test).mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--bins", default="5,8,16")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    headline("single bins -> thresholds, nats per row that was not learned from")
    gains = []
    with threadpool_limits(1):
        for name in arguments.tables.split(","):
            parts = rows_of(name)
            for bins in map(int, arguments.bins.split(",")):
                (tree, joint), (tree2, joint2) = (
                    scores(*binned(parts, bins, ordered)) for ordered in (False, True)
                )
                gains.append((tree2 - tree, joint2 - joint))
                print(
                    f"{name:<20} {bins:>3} bins   tree {tree:>8.3f} -> {tree2:>8.3f}   "
                    f"joint {joint:>8.3f} -> {joint2:>8.3f}",
                    flush=True,
                )
    for what, gain in zip(("trees", "joint"), np.array(gains).T, strict=True):
        print(f"{what}: better in {(gain > 0).sum()} of {len(gain)}, mean gain {gain.mean():.3f}")


if __name__ == "__main__":
    main()
