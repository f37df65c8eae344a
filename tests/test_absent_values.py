"""Empty cells that say something: found in a table, asked for, drawn, filled in or left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from conjoin import Domain, JointModel, Not, Table, probability, read_table
from conjoin.cli.main import main
from conjoin.errors import DataError

ROWS = 1200


def customers(seed=0):
    """Customers, of whom those who left have a day and a reason; some plans got lost at random."""
    rng = np.random.default_rng(seed)
    left, tenure = rng.random(ROWS) < 0.3, rng.integers(1, 60, ROWS)
    day = np.where(left, 3.0 * tenure + rng.integers(-5, 6, ROWS), np.nan)
    reason = np.where(left, np.where(rng.random(ROWS) < 0.5, "price", "moved"), None)
    plan = np.where(rng.random(ROWS) < 0.1, None, rng.choice(["basic", "full"], ROWS))
    return pd.DataFrame({"left": np.where(left, "yes", "no"), "tenure": tenure, "day": day,
                         "reason": reason, "plan": plan})  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return JointModel(effort="quick").fit(customers())


def absent_columns(frame, **options):
    model = JointModel(effort="quick", **options).fit(frame)
    return [variable.name for variable in model.domain_ if variable.absent]


def test_only_columns_whose_holes_others_explain_have_the_state(model):
    assert [v.name for v in model.domain_ if v.absent] == ["day", "reason"]
    assert absent_columns(customers(), missing="ignore") == []
    with pytest.raises(DataError, match="missing must be"):
        absent_columns(customers(), missing="never")


@pytest.mark.parametrize(("decides", "found"), [("nothing", []), ("other", ["x"]), ("value", [])])
def test_what_decides_that_a_value_is_missing(decides, found):
    """If it is the value itself, other columns tell too little; a column that tells is found."""
    rng = np.random.default_rng(3)
    other = rng.normal(size=2000)
    x = np.round(0.3 * other + rng.normal(size=2000), 2)
    by = {"nothing": np.zeros(2000), "other": other, "value": x}[decides]
    x[rng.random(2000) < np.where(by > 0.5, 0.8, 0.1)] = np.nan
    assert absent_columns(pd.DataFrame({"x": x, "other": np.round(other, 2)})) == found


def test_the_order_of_rows_and_columns_does_not_matter():
    frame = customers()
    other = frame.sample(frac=1, random_state=1)[["plan", "reason", "day", "left", "tenure"]]
    assert sorted(absent_columns(frame)) == sorted(absent_columns(other))


def test_answers(model):
    """Shares of the table, which a model of these few columns learns nearly exactly."""
    left = float((customers()["left"] == "yes").mean())
    assert probability(model, "day is known") == pytest.approx(left, abs=0.02)
    assert probability(model, "left=yes", "day is known") > 0.98
    assert probability(model, "left=no", {"reason": "(absent)"}) > 0.98
    assert probability(model, "left=yes", {"day": Not("(absent)")}) > 0.98
    assert probability(model, "day > 0") + probability(model, "day is absent") == pytest.approx(
        1, abs=0.01
    )
    assert model.marginals("left=no")["day"].absent > 0.98
    assert model.marginals("left=yes")["reason"]["(absent)"] < 0.02
    with pytest.raises(DataError, match="'plan' always has a value"):
        probability(model, "plan is absent")


def test_predictions_are_values(model):
    rows = customers(1).head(40)
    assert model.states("reason") == ["moved", "price"]
    proba = model.predict_proba(rows, target="reason")
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert set(model.predict(rows, target="reason")) <= {"moved", "price"}
    assert np.isfinite(model.predict(rows, target="day")).all()
    # An empty cell is evidence.
    left = model.predict_proba(rows[["day"]], target="left")[:, 1]
    assert (left[rows["day"].isna()] < 0.05).all() and (left[rows["day"].notna()] > 0.95).all()


def test_rows_that_lost_other_values_say_less(model):
    row = pd.DataFrame({"tenure": [20], "day": [np.nan], "reason": [None], "plan": ["full"]})
    assert model.predict_proba(row, target="left")[0, 1] < 0.02
    unknown = model.predict_proba(row.assign(plan=None), target="left")[0, 1]
    assert unknown == pytest.approx(model.predict_proba({"tenure": 20}, target="left")[0, 1])


def test_impute_leaves_cells_empty_to_which_no_value_applies(model):
    frame = customers(2)
    day = frame.copy()
    day.loc[frame["left"] == "yes", "day"] = np.nan  # these got lost
    full = model.impute(day)
    gone = frame["left"] == "yes"
    assert full.loc[~gone, ["day", "reason"]].isna().all().all()
    assert full["plan"].notna().all()
    errors = (full["day"] - 3 * frame["tenure"])[gone & frame["plan"].notna()]
    assert full.loc[gone, "day"].notna().mean() > 0.98 and errors.abs().median() < 6
    assert model.impute(day, fill_absent=True).notna().all().all()
    assert model.transform(day).notna().all().all()
    drawn = model.impute(day, draws=1)[0]
    assert drawn.loc[~gone, "day"].isna().mean() > 0.98


def test_draws_have_empty_cells(model):
    drawn = model.sample(4000)
    assert list(drawn.columns) == list(customers().columns)
    gone = drawn["left"] == "yes"
    assert drawn.loc[~gone, "day"].isna().mean() > 0.98
    assert drawn.loc[gone, "reason"].notna().mean() > 0.98
    assert gone.mean() == pytest.approx(0.3, abs=0.04)


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    customers().to_csv("customers.csv", index=False)
    main(["learn", "customers.csv", "-o", "m.conjoin", "--effort", "quick"])
    assert "no value applies: day, reason" in capsys.readouterr().out
    main(["query", "m.conjoin", "--given", "day is known", "--target", "left"])
    assert "yes 0.9" in capsys.readouterr().out
    main(["impute", "m.conjoin", "customers.csv", "-o", "full.csv"])
    full, frame = pd.read_csv("full.csv"), customers()
    assert "--fill-absent" in capsys.readouterr().out
    assert full["day"].isna().sum() == frame["day"].isna().sum() and full["plan"].notna().all()
    main(["impute", "m.conjoin", "customers.csv", "-o", "full.csv", "--fill-absent"])
    assert pd.read_csv("full.csv").notna().all().all()
    main(["sample", "m.conjoin", "-n", "500", "-o", "rows.csv"])
    assert 0.55 < pd.read_csv("rows.csv")["day"].isna().mean() < 0.85
    main(["learn", "customers.csv", "-o", "m.conjoin", "--effort", "quick", "--no-absent"])
    assert "no value applies" not in capsys.readouterr().out


def test_files_keep_the_state(model, tmp_path):
    model.save(tmp_path / "m.conjoin")
    loaded = JointModel.load(tmp_path / "m.conjoin")
    assert loaded.domain_ == model.domain_
    assert loaded.domain_.numbers("day").absent
    rows = customers(4)
    np.testing.assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
    customers().to_csv(tmp_path / "rows.csv", index=False)
    table = read_table(tmp_path / "rows.csv", model.domain_)
    assert (table.absent[:, table.domain.index("day")] == customers()["day"].isna()).all()
    assert not table.recorded().absent.any()


def test_updates_keep_the_state():
    more = JointModel(effort="quick").fit(customers()).update(customers(5))
    assert [v.name for v in more.domain_ if v.absent] == ["day", "reason"]
    assert more.n_rows_ == 2 * ROWS


def test_absent_ordered_states():
    domain = Domain({"n": [1, 2, 3], "left": ["no", "yes"]})
    table = Table(domain, [[0, 1], [2, 1], [-1, 0]]).with_absent(["n"])
    variable = table.domain["n"]
    assert variable.states == (1, 2, 3, "(absent)") and variable.values == (1, 2, 3)
    assert variable.ordered and table.codes.tolist() == [[0, 1], [2, 1], [3, 0]]
