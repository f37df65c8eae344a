"""Libra's own files: what it converted, and how it scored it."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from conjoin import Table, convert, load, read_table
from conjoin.formats import read_schema

# The paper's order 1..n fixes the variables before the target, Libra's the ones after it.
BACKWARDS = [f"v{i}" for i in reversed(range(16))]
SINGLE = {"orders": "single", "order": BACKWARDS, "reverse": False}
CONVERSIONS = [
    ("nltcs.tree", "nltcs.tree.v1", {**SINGLE, "base": "mode"}, -5.184601),
    ("nltcs.tree", "nltcs.tree.v2", {"orders": "single", "base": "mode"}, -5.036379),
    ("nltcs.tree", "nltcs.tree.v3", SINGLE, -5.034267),
    ("nltcs.tree", "nltcs.tree.v4", {"orders": "single"}, -4.944527),
    ("nltcs.tree", "nltcs.tree.v5", {"order": BACKWARDS, "reverse": False}, -4.958251),
    ("nltcs.tree", "nltcs.tree.v6u", {}, -4.927511),
    ("nltcs.lr", "nltcs.lr.v3", SINGLE, -4.972113),
    ("nltcs.lr", "nltcs.lr.v4", {"orders": "single"}, -4.963255),
    ("nltcs.lr", "nltcs.lr.v6", {}, -4.963255),
    ("car", "car.single", {"orders": "single"}, -6.815437),
    ("car", "car.linear", {}, -6.713592),
    ("soybean", "soybean.single", {"orders": "single"}, -11.837998),
    ("soybean", "soybean.linear", {}, -11.527889),
]


def tables(name, domain, libra, data):
    if name.startswith("nltcs"):
        folder = data / "debd" / "nltcs"
        return [read_table(folder / f"nltcs.{part}.data.gz", domain) for part in ("train", "test")]
    return [read_table(libra / f"{name}.{part}.data", domain) for part in ("train", "test")]


def pll(model, table):
    """Pseudo-log-likelihood, nats a row."""
    rows = np.arange(len(table))
    return sum(
        model.log_conditional(name, table)[rows, table.codes[:, i]].mean()
        for i, name in enumerate(model.domain.names)
    )


@pytest.mark.parametrize(("source", "result", "options", "score"), CONVERSIONS)
def test_conversions_agree(source, result, options, score, libra, data):
    dn = load(libra / f"{source}.dn.gz")
    reference = load(libra / f"{result}.mn.gz")
    train, test = tables(source, dn.domain, libra, data)
    if options.get("base") == "mode":
        mode = read_table(libra / "nltcs.mode.data", dn.domain)
        options = {**options, "base": dn.domain.decode(mode.codes[0])}
    mn = convert(dn, train, **options)
    assert mn.domain == reference.domain
    rng = np.random.default_rng(0)
    states = np.stack([rng.integers(0, c, 500) for c in dn.domain.cards], axis=1)
    rows = np.concatenate([states, train.codes[:500]])
    # The files carry 7 digits of each of thousands of weights.
    difference = mn.log_potential(rows) - reference.log_potential(rows)
    assert np.ptp(difference) < 2e-5
    few = Table(dn.domain, test.codes[:300])
    assert pll(mn, few) == pytest.approx(pll(reference, few), abs=2e-6)
    assert pll(reference, test) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize(
    ("source", "score"),
    [
        ("nltcs.tree", -4.968301),
        ("nltcs.lr", -4.956364),
        ("car", -6.673858),
        ("soybean", -9.367710),
    ],
)
def test_dependency_networks_score_the_same(source, score, libra, data):
    dn = load(libra / f"{source}.dn.gz")
    _, test = tables(source, dn.domain, libra, data)
    assert pll(dn, test) == pytest.approx(score, abs=1e-5)


def test_every_file_is_written_back(libra, tmp_path):
    rng = np.random.default_rng(0)
    paths = sorted(libra.glob("*.?n.gz"))
    assert len(paths) == 17
    for path in paths:
        model = load(path)
        copy = tmp_path / path.name
        model.save(copy)
        again = load(copy)
        states = np.stack([rng.integers(0, c, 100) for c in model.domain.cards], axis=1)
        for name in model.domain.names[:3]:
            np.testing.assert_allclose(
                again.log_conditional(name, states), model.log_conditional(name, states), atol=1e-9
            )
        assert gzip.decompress(copy.read_bytes())[:3] == gzip.decompress(path.read_bytes())[:3]


def test_schemas(libra):
    assert read_schema(libra / "car.schema").cards.tolist() == [4, 4, 4, 3, 3, 3, 4]
    assert read_schema(libra / "soybean.schema") == load(libra / "soybean.dn.gz").domain
