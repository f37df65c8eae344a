"""Arguments that several commands share, declared and checked in one place."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conjoin.errors import DataError, FormatError, ModelError

if TYPE_CHECKING:
    from conjoin.data.arrays import BoolArray
    from conjoin.data.domain import Domain
    from conjoin.data.mixed_table import MixedDomain
    from conjoin.inference.evidence import Evidence
    from conjoin.inference.questions import Questions
    from conjoin.inference.results import Joint, Run
    from conjoin.models.network import Network

TABLE_FORMATS = "(.csv, .parquet, .data)"
MARKOV_FORMATS = "(.conjoin, .mn, .uai)"
CONDITIONS = (
    "comma-separated conditions NAME=STATE, NAME != STATE, NAME in {A, B}, NAME > 40 or 20 <= NAME < 30; "
    'put a name or a state that contains a comma or one of = < > ! { } in double quotes ("A, B"=yes) and '
    "double any quotes inside it"
)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, the model to use."""
    parser.add_argument("model", metavar="MODEL", help="the model, in any format that can be read")


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add TABLE, the table to work on."""
    parser.add_argument("table", metavar="TABLE", help=f"the table {TABLE_FORMATS}")


def add_missing(parser: argparse.ArgumentParser) -> None:
    """Add --missing, the texts that stand for a missing value."""
    parser.add_argument(
        "--missing",
        metavar="TEXT",
        action="append",
        help="a text that stands for a missing value, instead of NA, ?, None and the like; may be "
        "repeated. Empty cells are always missing, and cells in quotation marks never",
    )


def add_unseen(parser: argparse.ArgumentParser) -> None:
    """Add --unseen, what a value counts as that the model does not know."""
    parser.add_argument(
        "--unseen",
        choices=("error", "missing"),
        default="error",
        help="what a value of the table that the model does not know counts as (default error)",
    )


@contextmanager
def naming_unseen() -> Iterator[None]:
    """Say in errors about values that the model does not know what to do about them."""
    try:
        yield
    except FormatError as error:
        if not re.search("is not a (state|number|date)", str(error)):
            raise
        raise ModelError(f"{error} --unseen missing takes such values as missing.") from None


def cells_to_fill(
    holes: dict[str, BoolArray], domain: Domain | MixedDomain, options: argparse.Namespace
) -> dict[str, BoolArray]:
    """Return the cells of a table that hold no value; `holes` also counts values that are unseen."""
    from conjoin.formats.storage import ending
    from conjoin.formats.table_files import FILLED_WRITERS, empty_cells

    source, path = Path(options.table), Path(options.output)
    if options.unseen == "error" or source.is_dir():
        return holes
    empty = empty_cells(source, domain, missing=options.missing)
    if ending(source) == ending(path) and ending(path) in FILLED_WRITERS:
        return empty
    for name, hole in holes.items():
        if (hole & ~empty[name]).any():
            raise ModelError(
                f"column {name!r} has values that the model does not know, and only a table of the same "
                f"format can keep them; write to a .csv or .parquet file like {source}"
            )
    return holes


def evidence_columns(
    path: str, names: Collection[str], own: Sequence[str], target: str | None
) -> list[str]:
    """Return the columns of a table to read for a prediction: those of the model without the target.

    If the table has the target alone, that is read for its number of rows, and standard error says that
    there is no evidence.
    """
    found = [name for name in own if name in names and name != target]
    if found:
        return found
    if target is None or target not in names:
        listed = ", ".join(own[:8]) + (", ..." if len(own) > 8 else "")
        raise DataError(f"{path} has none of the columns of the model: {listed}")
    print(
        f"conjoin: {path} has no column of the model but the target {target!r}, so the prediction is "
        "the same for all rows",
        file=sys.stderr,
    )
    return [target]


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the columns of a table are."""
    add = parser.add_argument
    add(
        "--include",
        metavar="COLUMN",
        action="append",
        default=[],
        help="keep a column that would be left out because it has a different value in almost every "
        "row; may be repeated",
    )
    add(
        "--exclude",
        metavar="COLUMN",
        action="append",
        default=[],
        help="leave a column out; may be repeated",
    )
    add(
        "--kind",
        metavar="COLUMN=KIND",
        action="append",
        default=[],
        help="read a column as category, number or date, whatever it looks like; may be repeated",
    )
    add_missing(parser)


def column_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_columns` as `chosen_kinds` takes them."""
    kinds = {}
    for text in options.kind:
        name, sign, kind = text.rpartition("=")
        if not sign:
            raise ModelError(f"--kind {text}: write COLUMN=KIND, such as zip=category")
        kinds[name] = kind
    return {"include": options.include, "exclude": options.exclude, "kinds": kinds}


def add_output(
    parser: argparse.ArgumentParser, metavar: str, what: str, default: str | None = None
) -> None:
    """Add -o/--output, which is required unless it has a default."""
    parser.add_argument(
        "-o",
        "--output",
        metavar=metavar,
        required=default is None,
        default=default,
        help=what if default is None else f"{what} (default {default})",
    )


def add_given(parser: argparse.ArgumentParser) -> None:
    """Add --given, the evidence."""
    parser.add_argument(
        "--given",
        metavar="CONDITIONS",
        action="append",
        default=[],
        help=f"the evidence: {CONDITIONS}; also NAME likelihood {{A: 0.9, B: 0.2}} (virtual evidence) "
        "and NAME marginal {A: 0.7, B: 0.3} (Jeffrey's evidence); may be repeated",
    )


def evidence(texts: list[str], domain: Domain) -> Evidence:
    """Return the evidence of all --given arguments together."""
    from conjoin.inference.evidence import evidence_of

    return evidence_of(domain, ", ".join(texts))


def add_random_state(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --random-state, the seed of `what`; --seed is its older name."""
    parser.add_argument(
        "--random-state", metavar="N", type=int, default=0, help=f"seed for {what} (default 0)"
    )
    parser.add_argument(
        "--seed", dest="random_state", type=int, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def add_number(
    parser: argparse.ArgumentParser, name: str, metavar: str, default: float, what: str
) -> None:
    """Add a number with a default, which the help states."""
    parser.add_argument(
        name,
        metavar=metavar,
        type=type(default),
        default=default,
        help=f"{what} (default {default:g})",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add --jobs, the number of cores."""
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=-1, help="number of cores to use (default all)"
    )


def add_defuse(parser: argparse.ArgumentParser) -> None:
    """Add --defuse, for tables that are opened in a spreadsheet program."""
    parser.add_argument(
        "--defuse",
        action="store_true",
        help="in a .csv file, put an apostrophe in front of cells that a spreadsheet program would take "
        "for a formula",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def check_shared(options: argparse.Namespace) -> None:
    """Reject values of the shared arguments that are out of range."""
    if getattr(options, "random_state", 0) < 0:
        raise ModelError(f"--random-state must be 0 or more, not {options.random_state}")
    if getattr(options, "jobs", 1) == 0:
        raise ModelError("--jobs must not be 0; -1 uses all cores")


def page_path(output: str) -> Path:
    """Return the path of a page to write, after checking its ending."""
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm"):
        raise FormatError("the name of the page must end in .html", output)
    return path


def page_title(options: argparse.Namespace) -> str:
    """Return the heading of a page about a model: by default the name of its file, without endings."""
    name = Path(options.model).name
    return options.title or name.removesuffix(".gz").rpartition(".")[0] or name


def known_table(
    path: str, domain: Any, options: argparse.Namespace, unseen: str | None = None
) -> Any:
    """Read a table of the columns of a model, as --missing and, if the command has it, --unseen say."""
    from conjoin.formats.table_files import read_table

    if not hasattr(options, "unseen"):
        return read_table(path, domain, missing=options.missing)
    with naming_unseen():
        return read_table(path, domain, missing=options.missing, unseen=unseen or options.unseen)


def optional_table(path: str | None, domain: Any, options: argparse.Namespace) -> Any:
    """Read a table that may not have been given (see `known_table`)."""
    return None if path is None else known_table(path, domain, options)


def load_states(path: str) -> Network:
    """Read a model whose columns all have states; reject one with numbers."""
    from conjoin.formats.model_files import load
    from conjoin.models.network import Network

    model = load(path)
    if isinstance(model, Network):
        return model
    raise ModelError(
        f"{path} has columns of numbers, and this needs a network of states; learn one with "
        "--discretize quantile:5"
    )


def announce(work: str) -> None:
    """Say on a terminal what has started, because the first run takes longer."""
    if sys.stderr.isatty():
        print(f"{work} (the first run also compiles code, once)", file=sys.stderr)


def say_if_approximate(run: Run) -> None:
    """Say on standard error that an answer is approximate, and by which method it was found."""
    if not run.exact:
        print(f"conjoin: the answer is approximate ({run})", file=sys.stderr)


def how_found(run: Run) -> dict[str, Any]:
    """Return for JSON how an answer was found."""
    report = {
        "method": run.method,
        "exact": run.exact,
        "converged": run.converged,
        "note": run.note,
    }
    return report if run.error is None else {**report, "error": run.error}


def print_joint(found: Joint, options: argparse.Namespace, given: str) -> None:
    """Print a joint distribution, and draw it on request; `given` is the evidence in words."""
    if options.picture is not None:
        from conjoin.formats.storage import write_bytes
        from conjoin.reports.heat_map import heat_map

        write_bytes(Path(options.picture), heat_map(found).encode())
    if options.json:
        states = [[str(s) for s in v.states] for v in found.domain]
        report = {"names": options.joint, "states": states, "probabilities": found.table.tolist()}
        print_json({**report, **how_found(found.run)})
        return
    print(f"Joint distribution{given}")
    print(found)


def print_questions(found: Questions, given: str, as_json: bool) -> None:
    """Print what to ask next; `given` is the evidence in words."""
    from conjoin.data.labels import shown

    say_if_approximate(found.run)
    if not as_json:
        print(f"What to ask about {shown(found.target)}{given}")
        print(found)
        return
    questions = [
        {
            "name": question.name,
            "bits": question.information,
            "answers": {
                str(s): {"probability": p, found.target: _texts(question.targets.get(s, {}))}
                for s, p in question.answers.items()
            },
        }
        for question in found
    ]
    report = {"target": found.target, "bits": found.entropy, "questions": questions}
    print_json({**report, **how_found(found.run)})


def _texts(p: dict[Any, float]) -> dict[str, float]:
    return {str(state): x for state, x in p.items()}


def print_json(report: dict[str, Any]) -> None:
    """Print the result of a command as one line of JSON."""
    text = json.dumps(report, ensure_ascii=False)
    if not text.isprintable():  # JSON itself escapes only the characters below the space
        kept = {c for c in set(text) if c.isprintable() or c == "\u00a0"}
        text = "".join(c if c in kept else json.dumps(c)[1:-1] for c in text)
    print(text)
