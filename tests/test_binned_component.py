"""A network of bins, learned from some rows and continued on all of them."""

from __future__ import annotations

import numpy as np
import pytest

from conjoin import Domain, Table, marginals
from conjoin.joint.binned_component import learn_binned, relearn_binned
from conjoin.joint.number_maps import MapChoice, find_atoms, learn_map

ROWS, HELD = 900, 150


@pytest.fixture(scope="module")
def rows():
    """A category that moves a number with an atom at 0, another number, and missing values."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, ROWS)
    x = np.where(rng.random(ROWS) < 0.2, 0.0, np.round(rng.normal(30 + 15 * a, 6)))
    y = np.round(rng.normal(100, 20, ROWS))
    y[rng.random(ROWS) < 0.1] = np.nan
    return Table(Domain({"a": [0, 1, 2]}), a[:, None], np.ones(ROWS)), np.stack([x, y], axis=1)


def maps_of(values):
    found = []
    for column in values.T:
        known = column[~np.isnan(column)]
        weights = np.ones(len(known))
        atoms = find_atoms(known, weights)
        found.append(learn_map(known, weights, 1.0, atoms, MapChoice(16, False)))
    return found


def test_bins_are_cut_at_the_same_values_and_follow_all_rows(rows):
    table, values = rows
    parts = [
        (Table(table.domain, table.codes[some], np.ones(len(values[some]))), values[some])
        for some in (slice(HELD, None), slice(HELD))
    ]
    before, after = maps_of(values[HELD:]), maps_of(values)
    assert [mapped.atoms.tolist() for mapped in after] == [[0.0], []]
    first = learn_binned(parts, ["x", "y"], before)
    second = relearn_binned(first, before, rows, ["x", "y"], after)
    for own, old, new, mapped in zip(first.cuts, before, second.cuts, after, strict=True):
        assert 5 <= len(own) <= 7
        assert mapped.to_values(new) == pytest.approx(old.to_values(own), abs=1e-9)
    assert first.network.domain == second.network.domain
    # Maximum likelihood gives every state its share of the rows, up to the prior.
    cuts = after[0].to_values(second.cuts[0])
    state = np.where(values[:, 0] == 0, 0, 1 + np.searchsorted(cuts, values[:, 0], side="right"))
    share = np.bincount(state, minlength=len(cuts) + 2) / ROWS
    assert list(marginals(second.network)["x"].values()) == pytest.approx(share, abs=0.01)
    high = state == len(cuts) + 1
    given = marginals(second.network, {"x": len(cuts) + 1})["a"]
    assert list(given.values()) == pytest.approx(
        np.bincount(table.codes[high, 0], minlength=3) / high.sum(), abs=0.05
    )
