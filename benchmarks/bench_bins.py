"""Numbers cut into bins: what threshold tests (`x <= c`) gain; and where to cut.

Trees, and the joint distribution that is learned from them, with and without tests of neighbouring bins
together. The rows are training rows of bench_numbers.py and tables of scikit-learn: three quarters to
learn from, the others to score, in nats per row (PLL for trees, log-likelihood for the joint).

With --cuts, ways to cut are compared instead: nats per row that the joint distribution gains over
independent columns (a comparison that does not depend on the number of bins, if the position within a bin
depends on nothing else), and the log loss of categories given the rest.

    python benchmarks/bench_bins.py [--tables abalone,wine] [--bins 5,8,16] [--cuts quantile:8,dependence]
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn import datasets
from threadpoolctl import threadpool_limits

from bench_numbers import Split
from conjoin import Domain, Table, learn
from conjoin.data.discretization import discretize_by
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


def as_states(parts):
    """Return both tables with every number as a state."""
    first = parts[0]
    kept = [v for v in first.categories.domain if len(v) > 1]
    names = first.domain.numeric
    numbers = [np.unique(np.concatenate([p.column(n) for p in parts])) for n in names]
    numbers = [x[~np.isnan(x)] for x in numbers]
    domain = Domain(
        [*kept, *(Variable(n, x.tolist()) for n, x in zip(names, numbers, strict=True))]
    )
    tables = []
    for part in parts:
        own = part.categories
        codes = [own.codes[:, own.domain.index(v.name)].astype(np.int64) for v in kept]
        codes = [np.where(c == own.missing, -1, c) for c in codes]
        for name, x in zip(names, numbers, strict=True):
            found = np.searchsorted(x, part.column(name))
            codes.append(np.where(np.isnan(part.column(name)), -1, found))
        tables.append(Table(domain, np.stack(codes, axis=1)))
    return tables, [v.name for v in kept]


def gain_and_loss(parts, how):
    """Return the gain over independent columns, the mean log loss of categories, bins and seconds."""
    (train, test), categories = as_states(parts)
    start = time.process_time()
    train, cuts = discretize_by(train, how)
    _, joint = learn_joint(train, effort="quick")
    seconds = time.process_time() - start
    test = cuts.apply(test)
    alone = 0.0
    for codes, counts in zip(
        test.codes.T, map(train.counts, range(len(train.domain))), strict=True
    ):
        p = np.append(np.log((counts + 0.5) / (counts + 0.5).sum()), 0.0)
        alone += p[np.minimum(codes, len(counts))].mean()
    losses = pll(joint, test).by_variable
    loss = -np.mean([losses[name] for name in categories]) if categories else np.nan
    bins = np.mean([len(labels) for labels in cuts.labels.values()])
    return log_likelihood(joint, test).mean - alone, loss, bins, seconds


def compare_cuts(tables, ways):
    headline(
        "gain over independent columns, nats per row; log loss of categories; bins; CPU seconds"
    )
    found = {}
    for name in tables:
        parts = rows_of(name)
        for how in ways:
            found[name, how] = gain, loss, bins, seconds = gain_and_loss(parts, how)
            print(
                f"{name:<20} {how:<14} {gain:>8.3f} {loss:>8.4f} {bins:>6.1f} {seconds:>6.2f}",
                flush=True,
            )
    for how in ways[1:]:
        more = np.array([np.subtract(found[n, how], found[n, ways[0]]) for n in tables])[:, :2]
        better = (more[:, 0] > 0).sum(), (more[:, 1] < 0).sum(), (~np.isnan(more[:, 1])).sum()
        print(
            f"{how} for {ways[0]}: gain better on {better[0]} of {len(tables)} "
            f"({more[:, 0].mean():+.3f}), log loss on {better[1]} of {better[2]} "
            f"({np.nanmean(more[:, 1]):+.4f})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--bins", default="5,8,16")
    parser.add_argument("--cuts", help="ways to cut, such as quantile:8,dependence")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.cuts:
        with threadpool_limits(1):
            compare_cuts(arguments.tables.split(","), arguments.cuts.split(","))
        return
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
