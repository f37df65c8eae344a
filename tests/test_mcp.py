"""The server of the Model Context Protocol, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

import conjoin
from conjoin import BayesianNetwork, Domain, TableCPD

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

DOMAIN = Domain({"age": [20, 40, 60], "ill": ["no", "yes"], "test": ["-", "+"]})


def network():
    return BayesianNetwork(DOMAIN, [
        TableCPD.of(DOMAIN, "age", [], [0.5, 0.3, 0.2]),
        TableCPD.of(DOMAIN, "ill", ["age"], {20: 0.01, 40: 0.1, 60: 0.3}),
        TableCPD.of(DOMAIN, "test", ["ill"], {"no": 0.1, "yes": 0.9}),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answers to several calls, from a server in a process of its own."""
    path = tmp_path_factory.mktemp("mcp") / "model.conjoin"
    network().save(path)
    calls = {
        "describe": ("describe_model", {}),
        "all": ("distributions", {"given": "test=+"}),
        "one": ("distributions", {"columns": ["ill"], "given": "age >= 40"}),
        "event": ("probability", {"event": "ill=yes, age > 20", "given": "test=+"}),
        "row": ("most_probable_row", {"given": "ill=yes"}),
        "next": ("next_questions", {"target": "ill", "given": "age=40"}),
        "explain": ("explain", {"target": "ill", "given": "test=+, age=60", "state": "yes"}),
        "rows": ("sample_rows", {"count": 3, "given": "age=60"}),
        "wrong": ("probability", {"event": "il=yes"}),
    }

    async def ask():
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "conjoin", "mcp", str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            found = {}
            for key, (name, arguments) in calls.items():
                result = await session.call_tool(name, arguments)
                found[key] = json.loads(result.content[0].text)
            return names, found

    return asyncio.run(asyncio.wait_for(ask(), 120))


def test_every_tool_is_listed(answers):
    assert set(answers[0]) == {
        "describe_model", "distributions", "probability", "most_probable_row", "next_questions",
        "explain", "sample_rows",
    }  # fmt: skip


def test_the_answers_are_those_of_the_library(answers):
    found, model = answers[1], network()
    assert [c["name"] for c in found["describe"]["columns"]] == ["age", "ill", "test"]
    assert found["describe"]["columns"][0]["states"] == [20, 40, 60]
    expected = conjoin.marginals(model, {"test": "+"})
    for name in expected:
        got = found["all"]["distributions"][name]
        assert got == pytest.approx({str(s): p for s, p in expected[name].items()}, abs=1e-12)
    assert found["all"]["exact"] is True
    assert list(found["one"]["distributions"]) == ["ill"]
    assert found["one"]["distributions"]["ill"]["yes"] == pytest.approx((0.03 + 0.06) / 0.5)
    joint = 0.03 * 0.9 + 0.06 * 0.9
    evidence = 0.005 * 0.9 + 0.495 * 0.1 + 0.03 * 0.9 + 0.27 * 0.1 + 0.06 * 0.9 + 0.14 * 0.1
    assert found["event"]["probability"] == pytest.approx(joint / evidence)
    assert found["row"]["row"] == {"age": 60, "ill": "yes", "test": "+"}
    assert [q["column"] for q in found["next"]["questions"]] == ["test"]
    assert found["explain"]["state"] == "yes"
    assert set(found["explain"]["contributions"]) == {"age", "test"}
    assert all(row["age"] == 60 for row in found["rows"]["rows"])
    assert len(found["rows"]["rows"]) == 3


def test_errors_tell_the_assistant_what_to_do(answers):
    assert "Did you mean 'ill'?" in answers[1]["wrong"]["error"]
