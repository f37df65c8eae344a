"""Imports point in one direction, and importing the package is cheap."""

from __future__ import annotations

import ast
import importlib
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest

import conjoin

ROOT = Path(conjoin.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "lazy_imports": set(),
    "progress": set(),
    "jobs": {"progress"},
    "data": {"errors"},
    "models": {"errors", "data", "kernels"},
    "conversion": {"errors", "data", "models"},
    "kernels": set(),
    "classifiers": {"errors", "jobs", "data", "models"},
    "learning": {"errors", "progress", "jobs", "data", "models", "kernels", "classifiers"},
    "inference": {"errors", "progress", "jobs", "data", "models", "kernels"},
    "scoring": {
        "errors",
        "progress",
        "jobs",
        "data",
        "models",
        "conversion",
        "kernels",
        "inference",
    },
    "formats": {"errors", "data", "models"},
}
MAY_IMPORT["joint"] = set(MAY_IMPORT) - {"formats"}
MAY_IMPORT["estimator"] = set(MAY_IMPORT)
MAY_IMPORT["views"] = set(MAY_IMPORT)
MAY_IMPORT["research"] = set(MAY_IMPORT) - {"estimator", "views"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
LAYERS = list(MAY_IMPORT)
CONVENIENCES = {("network.py", "formats"), ("pictures.py", "views")}
"""Methods that hand over to a layer above: `model.save(path)`, and `plot`, `report`, `explore`."""


BUDGET = {
    "lines of classifiers": 600,
    "lines of cli": 2_950,
    "lines of conversion": 1_350,
    "lines of data": 4_200,
    "lines of estimator": 2_300,
    "lines of formats": 3_750,
    "lines of inference": 7_450,
    "lines of joint": 5_150,
    "lines of kernels": 4_600,
    "lines of learning": 2_200,
    "lines of models": 3_150,
    "lines of research": 2_450,
    "lines of scoring": 1_050,
    "lines of views": 7_200,
    "lines beside the folders": 650,
    "words of docs": 26_300,
    "public names": 34,
}
"""The maximum of everything that must not grow unnoticed; lines are those of Python, JavaScript and CSS.

How to change it: a commit that removes code lowers the number of its folder, to what the test says. A
commit that adds code stays within it, removes as much elsewhere in the folder, or raises the number and
gives the reason in its message: what users get for these lines, and why nothing can go instead. Numbers
of lines are multiples of 50, those of words multiples of 100.
"""

STEP, SLACK = {"lines": 50, "words": 100, "public": 1}, {"lines": 300, "words": 1_000, "public": 0}
"""The multiples of numbers, and how far they may be above what there is."""


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_downwards(layer):
    place = ROOT / layer
    files = [ROOT / f"{layer}.py"] if not place.is_dir() else sorted(place.rglob("*.py"))
    assert files
    for path in files:
        for module in imports(path):
            parts = module.split(".")
            if parts[0] != "conjoin" or len(parts) == 1:
                continue
            allowed = MAY_IMPORT[layer] | {layer, "lazy_imports"}
            if (path.name, parts[1]) in CONVENIENCES:
                continue
            assert parts[1] in allowed, f"{path.name} imports {module}"


def test_all_layers_are_listed():
    found = {p.stem for p in ROOT.iterdir() if p.suffix == ".py" or p.is_dir()}
    assert found - {"__pycache__", "__init__", "__main__", "py"} == set(LAYERS)


@pytest.mark.parametrize(
    "code", ["import conjoin", "import conjoin.cli.main as m; m.build_parser()"]
)
def test_nothing_heavy_is_imported(code):
    check = (
        f"{code}; import sys; "
        "print([m for m in ('numpy', 'pyarrow', 'numba', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported():
    for name in conjoin.__all__:
        assert getattr(conjoin, name) is not None
    assert sorted(conjoin.__all__) == dir(conjoin)
    with pytest.raises(AttributeError):
        conjoin.nonsense  # noqa: B018


@pytest.mark.parametrize("package", ["data", "inference", "joint", "models", "research", "scoring"])
def test_the_names_of_a_package_can_be_imported_from_it(package):
    """A module of the same name would hide a function, once it is imported."""
    module = importlib.import_module(f"conjoin.{package}")
    names = {*module.__all__, *module._INTERNAL} if hasattr(module, "_INTERNAL") else module.__all__
    assert not set(names) & {path.stem for path in (ROOT / package).glob("*.py")}
    for name in names:
        assert getattr(getattr(module, name), "__name__", name) == name
    assert sorted(module.__all__) == dir(module)
    with pytest.raises(AttributeError, match=f"'conjoin.{package}' has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


DEEP_IMPORTS = {
    "conjoin.conversion.decomposition",
    "conjoin.estimator.explain",
    "conjoin.formats.storage",
    "conjoin.inference.ais",
    "conjoin.inference.ancestral",
    "conjoin.inference.annealing",
    "conjoin.inference.chain",
    "conjoin.inference.exact",
    "conjoin.inference.free_memory",
    "conjoin.inference.gibbs",
    "conjoin.inference.joint_rows",
    "conjoin.inference.prepared_rows",
    "conjoin.inference.terms",
    "conjoin.joint.candidates",
    "conjoin.joint.hidden_column",
    "conjoin.joint.hidden_search",
    "conjoin.joint.network_search",
    "conjoin.joint.refinement",
    "conjoin.joint.dependence_tree",
    "conjoin.joint.directed_network",
    "conjoin.joint.expectations",
    "conjoin.joint.incomplete_rows",
    "conjoin.joint.missing_values",
    "conjoin.joint.thin_weights",
    "conjoin.learning.logistic_features",
    "conjoin.learning.logistic_multinomial",
    "conjoin.learning.screening",
    "conjoin.learning.tuning",
    "conjoin.models.feature_tables",
    "conjoin.models.features",
    "conjoin.research.feature_search.bottom_up",
    "conjoin.research.feature_search.conjunctions",
    "conjoin.research.feature_search.feature_candidates",
    "conjoin.research.feature_search.feature_task",
    "conjoin.research.feature_search.growing_network",
    "conjoin.research.feature_search.top_down",
    "conjoin.research.say_learning",
    "conjoin.views.explorer.browser_tables",
    "conjoin.views.explorer.explorer_page",
    "conjoin.views.reports.associations",
    "conjoin.views.reports.boosting_comparison",
    "conjoin.views.reports.together",
    "conjoin.views.reports.distributions",
    "conjoin.views.reports.svg",
    "conjoin.views.reports.layout",
    "conjoin.views.reports.report_page",
    "conjoin.views.reports.statements",
    "conjoin.views.reports.subject",
    "conjoin.views.reports.surprising",
}
"""Modules that tests still import something from that no package exports. The list may only shrink."""


def imported_modules(path):
    """The modules of conjoin that a file imports, or imports names from."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("conjoin."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("conjoin"):
            package = importlib.import_module(node.module)
            folder = ROOT.joinpath(*node.module.split(".")[1:])
            for name in (name.name for name in node.names):
                value = getattr(package, name, None)  # None for a module that was not imported yet
                unloaded = value is None and (folder / f"{name}.py").is_file()
                is_module = unloaded or isinstance(value, types.ModuleType)
                yield f"{node.module}.{name}" if is_module else node.module


def lines_of(paths):
    """The number of lines of source files."""
    shown = [path for path in paths if path.suffix in (".py", ".js", ".css")]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in shown)


def measured():
    """What the budget is about, as it is."""
    top = Path(__file__).parent.parent
    pages = [top / "README.md", *(top / "docs").rglob("*.md")]
    found = {
        f"lines of {path.name}": lines_of(path.rglob("*"))
        for path in ROOT.iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    found["lines beside the folders"] = lines_of(ROOT.iterdir())
    found["words of docs"] = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    found["public names"] = len(conjoin.__all__)
    return found


def verdict(what, size, budget):
    """What to do about a size, or nothing if it is within its budget and not far below."""
    kind = what.split()[0]
    step = STEP[kind]
    fitting = -(-size // step) * step
    if size > budget:
        return (
            f"{what}: {size:,}, {size - budget:,} above the budget. Remove as many, or raise the budget "
            f"to {fitting:,} and say in the commit message what for"
        )
    if size < budget - SLACK[kind]:
        return f"{what}: {size:,}; lower the budget to {fitting:,}"
    return ""


def test_nothing_grows_unnoticed():
    found = measured()
    assert list(found.keys() ^ BUDGET.keys()) == [], "every folder has a budget in BUDGET"
    verdicts = [verdict(what, size, BUDGET[what]) for what, size in found.items()]
    assert not any(verdicts), "\n".join(["", *filter(None, verdicts)])


def test_the_budget_says_what_to_do():
    assert verdict("lines of data", 3_200, 3_200) == verdict("lines of data", 2_900, 3_200) == ""
    assert "lower the budget to 2,900" in verdict("lines of data", 2_899, 3_200)
    assert "1 above the budget" in verdict("lines of data", 3_201, 3_200)
    assert "raise the budget to 3,250" in verdict("lines of data", 3_201, 3_200)
    assert "lower the budget to 33" in verdict("public names", 33, 34)


def test_tests_import_from_packages():
    """So that modules can move; only the command's module and those of kernels are named."""
    packages = [path.parent for path in ROOT.rglob("__init__.py")]
    allowed = {"conjoin.cli.main", *(f"conjoin.{path.stem}" for path in ROOT.glob("*.py"))}
    allowed |= {".".join(path.relative_to(ROOT.parent).parts) for path in packages}
    here = Path(__file__).parent
    deep = {}
    for path in [*here.glob("*.py"), *(here.parent / "fuzz").glob("*.py")]:
        for module in imported_modules(path):
            if module not in allowed and not module.startswith("conjoin.kernels."):
                deep.setdefault(module, path.name)
    new = {module: file for module, file in deep.items() if module not in DEEP_IMPORTS}
    assert not new, "export the names from the package"
    assert set(DEEP_IMPORTS) <= set(deep), "take these off the list"


def test_evidence_is_written_with_top_level_names():
    page = (Path(__file__).parent.parent / "docs" / "guide" / "questions.md").read_text(
        encoding="utf-8"
    )
    for name in ("Likelihood", "Marginal", "Not", "OneOf", "Range", "what_if"):
        assert name in conjoin.__all__
    assert "conjoin.inference.conditions" not in page and "conjoin.inference.scenarios" not in page


def test_top_level_names_are_not_subpackages():
    assert not set(conjoin.__all__) & {path.stem for path in ROOT.iterdir()}
    for package in ("data", "inference", "research", "scoring", "views"):
        code = f"import conjoin; conjoin.{package}.__name__"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_reference_is_up_to_date():
    page = Path(__file__).parent.parent / "docs" / "generate_cli.py"
    names = runpy.run_path(str(page))
    assert names["PAGE"].read_text(encoding="utf-8") == names["page"]()


def test_functions_not_callable_from_python_are_called_by_kernels_only():
    """`inner` functions are compiled without a Python wrapper."""
    hidden = set()
    for path in sorted((ROOT / "kernels").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            marks = {d.id for d in getattr(node, "decorator_list", []) if isinstance(d, ast.Name)}
            if marks & {"inner", "inner_sums", "inner_fused"}:
                hidden.add((f"conjoin.kernels.{path.stem}", node.name))
    assert len(hidden) > 50
    own = Path(__file__).parent
    for path in [*ROOT.rglob("*.py"), *own.glob("*.py"), *(own.parent / "benchmarks").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        if path.parent == ROOT / "kernels" or "kernels" not in text:
            continue
        nodes = list(ast.walk(ast.parse(text)))
        modules = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                called = {(node.module, name.name) for name in node.names}
                assert not called & hidden, (path, called & hidden)
                if node.module == "conjoin.kernels":
                    modules |= {name.asname or name.name: name.name for name in node.names}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = modules.get(node.value.id)
                assert (f"conjoin.kernels.{module}", node.attr) not in hidden, (path, node.attr)


def test_each_command_has_the_help_of_its_module():
    from conjoin.cli.main import COMMANDS

    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"conjoin.cli.{name}")
        first = module.__doc__.partition("\n")[0]
        assert summary == first[0].lower() + first[1:].rstrip(".")


def test_a_command_imports_only_its_own_module():
    code = (
        "import sys; from conjoin.cli.main import build_parser; build_parser(['info', 'x.mn']); "
        "print(*(m for m in sys.modules if m.startswith('conjoin.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {f"conjoin.cli.{m}" for m in ("main", "info", "arguments")}
