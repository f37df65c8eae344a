"""Imports point in one direction, and importing the package is cheap."""

from __future__ import annotations

import ast
import importlib
import runpy
import subprocess
import sys
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
    "learning": {"errors", "progress", "jobs", "data", "models", "kernels"},
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
    "bayesian": {
        "errors",
        "jobs",
        "data",
        "models",
        "conversion",
        "learning",
        "inference",
    },
    "formats": {"errors", "data", "models"},
}
MAY_IMPORT["joint"] = set(MAY_IMPORT) - {"formats"}
MAY_IMPORT["feature_search"] = set(MAY_IMPORT) - {"formats"}
MAY_IMPORT["reports"] = set(MAY_IMPORT)
MAY_IMPORT["explorer"] = set(MAY_IMPORT)
MAY_IMPORT["estimator"] = set(MAY_IMPORT)
MAY_IMPORT["reproduction"] = set(MAY_IMPORT) - {"estimator"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
LAYERS = list(MAY_IMPORT)


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
            if path.name == "network.py" and module == "conjoin.formats.model_files":
                continue  # model.save(path), the one convenience
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


@pytest.mark.parametrize("package", ["data", "explorer", "inference", "joint", "scoring"])
def test_the_names_of_a_package_can_be_imported_from_it(package):
    """A module of the same name would hide a function, once it is imported."""
    found = importlib.import_module(f"conjoin.{package}")
    modules = {path.stem for path in (ROOT / package).glob("*.py")}
    assert not modules & set(found.__all__)
    for name in found.__all__:
        assert getattr(found, name).__name__ == name
    assert sorted(found.__all__) == dir(found)
    with pytest.raises(AttributeError, match=f"'conjoin.{package}' has no attribute 'nonsense'"):
        found.nonsense  # noqa: B018


def test_evidence_is_written_with_top_level_names():
    page = (Path(__file__).parent.parent / "docs" / "questions.md").read_text(encoding="utf-8")
    for name in ("Likelihood", "Marginal", "Not", "OneOf", "Range", "what_if"):
        assert name in conjoin.__all__
    assert "conjoin.inference.conditions" not in page and "conjoin.inference.scenarios" not in page


def test_top_level_names_are_not_subpackages():
    assert not set(conjoin.__all__) & {path.stem for path in ROOT.iterdir()}
    assert len(conjoin.__all__) <= 40
    for package in ("data", "inference", "reports", "scoring"):
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
