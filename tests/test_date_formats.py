"""Dates are written in the form of the table, in everything that is written or printed."""

from __future__ import annotations

import datetime
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conjoin.cli.main import main
from conjoin.data import NumberScale

FORMS = {
    "%d/%m/%Y": r"\d\d/\d\d/\d{4}",
    "%-d.%-m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%Y-%m-%d": r"\d{4}-\d\d-\d\d",
    "%-m/%-d/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%Y-%m-%dT%H:%M": r"\d{4}-\d\d-\d\dT\d\d:\d\d",
    "%Y-%m-%d %H:%M:%S": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
}


def spelled(time, form):
    """The date in a format of `strftime`; "%-d" means the day without a leading zero."""
    text = form.replace("%-d", str(time.day)).replace("%-m", str(time.month))
    return time.strftime(text)


@given(
    st.sampled_from(list(FORMS)),
    st.lists(
        st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)), max_size=9
    ),
)
def test_dates_come_back_as_they_were(form, times):
    times = [t.replace(second=0, microsecond=0) for t in times]
    times += [datetime.datetime(2021, 4, 3, 10, 30), datetime.datetime(2021, 4, 25, 11)]
    texts = [spelled(time, form) for time in times]
    scale = NumberScale.of("day", texts)
    assert [scale.text(scale.number(text)) for text in texts] == texts
    assert [scale.own(scale.number(text)) for text in texts] == texts
    assert scale.short(scale.number(texts[0]))[:4] == texts[0][:4]
    assert scale.number(times[0].date().isoformat()) <= scale.number(texts[0])  # ISO is read, too


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%-d.%-m.%Y", "%Y-%m-%dT%H:%M"])
def test_every_output_has_the_dates_of_the_table(form, tmp_path, capsys):
    rng = np.random.default_rng(1)
    times = [
        datetime.datetime(2021, 1, 1) + datetime.timedelta(days=int(d), hours=int(h))
        for d, h in zip(rng.integers(0, 300, 80), rng.integers(0, 24, 80), strict=True)
    ]
    lines = [f"{spelled(t, form)},{'early' if t.month < 6 else 'late'}" for t in times]
    (tmp_path / "t.csv").write_text("day,when\n" + "\n".join([*lines, ",late"]) + "\n")
    table, model = str(tmp_path / "t.csv"), str(tmp_path / "m.conjoin")
    own, iso = FORMS[form], r"\d{4}-\d\d-\d\d(?!T)"
    assert main(["learn", table, "-o", model, "--effort", "quick"]) == 0
    outputs = [capsys.readouterr().out]
    for words in (
        ["query", model], ["query", model, "--map"], ["query", model, "--next", "when"],
        ["query", model, "--given", "when=late", "--what-if", "when=early"],
        ["query", model, "--given", f"day > {spelled(times[0], form)}"],
        ["info", model], ["info", table], ["predict", model, table, "--target", "day"],
    ):  # fmt: skip
        assert main(words) == 0
        outputs.append(capsys.readouterr().out)
    for command, name in (("impute", "full"), ("check", "odd"), ("sample", "drawn")):
        rest = ["-n", "30"] if command == "sample" else [table]
        written = tmp_path / f"{name}.csv"
        assert main([command, model, *rest, "-o", str(written)]) == 0
        outputs.append(written.read_text())
        assert capsys.readouterr().out
    for output in outputs:
        assert re.search(own, output) and not re.search(iso, output), output
    assert main(["query", model, "--json"]) == 0  # which programs read
    report = json.loads(capsys.readouterr().out)["marginals"]["day"]
    dates = [report["mean"], *report["interval"], *report["quantiles"].values()]
    assert all(datetime.datetime.fromisoformat(text) for text in dates)
