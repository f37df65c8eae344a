"""Let an assistant ask a model: a server of the Model Context Protocol.

Offer a model's answers as tools of the Model Context Protocol (MCP), over standard input and output, so
that a language model can ask for a probability instead of guessing it. Needs the extra 'mcp'.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.cli import arguments as shared
from conjoin.errors import ConjoinError, ModelError

if TYPE_CHECKING:
    from conjoin.data.table import Table
    from conjoin.models.network import Network

MAX_STATES = 50
"""Maximum number of states of a column that are listed."""

INSTRUCTIONS = (
    "Answers come from a probability distribution that was learned from a table, not from general "
    "knowledge. Call describe_model first to see the columns and their states. Conditions are text: "
    "'age > 40, city in {A, B}, smoker != yes'; put names or states with commas into double quotes. An "
    "answer says if it is approximate. Associations are not causes."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.add_shared(parser, "MODEL")


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    from conjoin.formats.model_files import load

    server(load(options.model), Path(options.model).stem).run("stdio")


def server(model: Network, name: str = "model") -> Any:
    """Return a server whose tools ask a model."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise ModelError("the server needs the package mcp: pip install 'conjoin[mcp]'") from None

    tools = Tools(model)
    result = MCPServer(f"conjoin {name}", instructions=INSTRUCTIONS)
    for function in (
        tools.describe_model, tools.distributions, tools.probability, tools.most_probable_row,
        tools.next_questions, tools.explain, tools.sample_rows,
    ):  # fmt: skip
        result.tool()(_with_clear_errors(function))
    return result


def _with_clear_errors(function: Any) -> Any:
    """Return a function whose errors reach the assistant as text, so that it can correct itself."""
    from functools import wraps

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except ConjoinError as error:
            return {"error": str(error)}

    return call


class Tools:
    """The questions that can be asked; the docstrings are what an assistant reads."""

    def __init__(self, model: Network) -> None:
        self.model = model

    def describe_model(self) -> dict[str, Any]:
        """List the columns of the model with their states; those of a number are intervals of it."""
        columns = []
        for variable in self.model.domain.observed:
            entry: dict[str, Any] = {"name": variable.name}
            if variable.numbers is not None:
                scale = variable.numbers.scale
                entry["numbers"] = {"kind": scale.kind, "step": scale.step}
                entry["numbers"] |= {"low": scale.text(scale.low), "high": scale.text(scale.high)}
            entry["states"] = [shared.plain(s) for s in variable.states[:MAX_STATES]]
            if len(variable) > MAX_STATES:
                entry["more_states"] = len(variable) - MAX_STATES
            columns.append(entry)
        return {"kind": self.model.kind, "columns": columns}

    def distributions(self, columns: list[str] | None = None, given: str = "") -> dict[str, Any]:
        """Return the distribution of some columns (by default all) given conditions, if there are any.

        Of a number these are its mean, an interval of probability 0.9, and quantiles.
        """
        from conjoin.cli.distribution_text import distribution_report
        from conjoin.inference.engines import marginals

        answer = marginals(self.model, given or None, targets=columns)
        names = columns or list(answer)
        return {
            "distributions": {name: distribution_report(answer[name]) for name in names},
            **_how(answer.run),
        }

    def probability(self, event: str, given: str = "") -> dict[str, Any]:
        """Return the probability of an event, such as 'age > 40, ill=yes', given conditions."""
        from conjoin.inference.engines import probability

        answer = probability(self.model, event, given or None)
        return {"probability": float(answer), "standard_error": answer.error, **_how(answer.run)}

    def most_probable_row(self, given: str = "") -> dict[str, Any]:
        """Return the most probable value of every column, taken together, given conditions."""
        from conjoin.inference.engines import most_probable

        row = most_probable(self.model, given or None)
        return {
            "row": {name: shared.plain(state) for name, state in row.items()},
            **_how(row.run),
        }

    def next_questions(self, target: str, given: str = "", count: int = 5) -> dict[str, Any]:
        """Return the columns whose values would tell most about a target column, best first."""
        from conjoin.inference.questions import next_questions

        ranking = next_questions(self.model, target, given or None)
        ranked = [
            {
                "column": q.name,
                "bits": q.information,
                "answers": {
                    str(s): {"probability": q.answers[s], "target": shared.by_text(q.targets[s])}
                    for s in list(q.targets)[:MAX_STATES]
                },
            }
            for q in ranking[:count]
        ]
        return {"questions": ranked, **_how(ranking.run)}

    def explain(self, target: str, given: str, state: str | None = None) -> dict[str, Any]:
        """Explain which of the given values move a target's probability of a state, in log-odds.

        Without a state, of a number its mean is explained.
        """
        from conjoin.estimator.explain import explain_number, explain_row
        from conjoin.inference.joint_rows import JointRows

        row, variable = self._row(given), self.model.domain.observed[target]
        if variable.numbers is not None and state is None:
            found = explain_number(
                lambda rows: JointRows(self.model, rows).number(target).mean(), row, target
            )
            return {
                "mean": found.mean,
                "mean_before": found.base,
                "contributions": found.contributions,
            }
        code = None if state is None else variable.find_all([state])[0]
        if code is not None and code < 0:
            variable.index(state)  # raises, with the states that there are
        explanation = explain_row(self.model, row, target, code)
        return {
            "state": shared.plain(explanation.state),
            "against": shared.plain(explanation.against),
            "probability": explanation.probability,
            "log_odds": explanation.log_odds,
            "log_odds_before": explanation.base,
            "contributions": explanation.contributions,
        }

    def sample_rows(self, count: int = 5, given: str = "", random_state: int = 0) -> dict[str, Any]:
        """Draw random rows, at most 100, that agree with conditions."""
        from conjoin.data.frames import columns_of
        from conjoin.inference.sampling import sample

        if not 1 <= count <= 100:
            raise ModelError(f"count must be 1 to 100, not {count}")
        table = sample(self.model, count, given or None, random_state=random_state)
        columns = columns_of(table)
        rows = zip(*(c.codes.tolist() for c in columns), strict=True)
        return {
            "rows": [
                {c.name: shared.plain(c.labels[code]) for c, code in zip(columns, row, strict=True)}
                for row in rows
            ]
        }

    def _row(self, given: str) -> Table:
        """Return a table of one row with the values that conditions say for certain."""
        import numpy as np

        from conjoin.data.table import Table
        from conjoin.inference.evidence import evidence_of

        known = evidence_of(self.model.domain, given)
        domain = self.model.domain.observed
        codes, numbers = np.full((1, len(domain)), -1), np.full((1, len(domain.numeric)), np.nan)
        for v, code in known.states.items():
            codes[0, v] = code
        for v, value in known.values.items():
            numbers[0, domain.numeric.index(domain.names[v])] = value
        return Table.adopt(domain, codes, None, numbers)


def _how(run: Any) -> dict[str, Any]:
    return {"exact": run.exact, "method": str(run)}
