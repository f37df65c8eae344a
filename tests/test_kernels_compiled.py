"""Machine code checks its arguments and is the same whether the build or numba compiled it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest

import conjoin
from conjoin.kernels import build_info
from conjoin.kernels.kernel import MODE, Kernel
from conjoin.kernels.layouts import Codes2, Float1, Int1
from conjoin.kernels.signatures import READ_ONLY, Array, Layout, Scalar, Signature, layout

ReadFloat1 = Annotated[Float1, READ_ONLY]
KERNELS = Path(conjoin.__file__).parent / "kernels"


def all_kernels():
    for path in sorted(KERNELS.glob("*.py")):
        if path.stem in ("__init__", "ahead_of_time"):
            continue
        if MODE.compiled and path.stem in ("jit", "machine_code_cache"):
            continue
        module = importlib.import_module(f"conjoin.kernels.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, Kernel) and value.__module__ == module.__name__:
                yield pytest.param(value, id=value.signature.name)


def example(parameter, variant):
    """Return an argument that a parameter accepts."""
    if isinstance(parameter, Scalar):
        return parameter.dtype.type(0)
    if isinstance(parameter, Array):
        dtype = parameter.dtypes[0] if len(parameter.dtypes) == 1 else variant
        return np.zeros((2,) * parameter.ndim, dtype)
    fields = Signature(parameter.kind).parameters.values()
    return parameter.kind(*(example(field, variant) for field in fields))


def spoiled(parameter, value):
    """Yield arguments that a parameter must reject."""
    yield None
    if isinstance(parameter, Scalar):
        yield "text"
        yield np.zeros(1)
    elif isinstance(parameter, Layout):
        yield tuple(value)
    else:
        other = np.float32 if value.dtype != np.float32 else np.float64
        yield value.astype(other)
        yield value.astype(value.dtype.newbyteorder()) if value.dtype.itemsize > 1 else None
        yield value[None]
        yield np.zeros((4,) * value.ndim, value.dtype)[(slice(None, None, 2),) * value.ndim]
        yield value.tolist()
        if not parameter.read_only:
            frozen = value.copy()
            frozen.flags.writeable = False
            yield frozen


@pytest.mark.parametrize("kernel", list(all_kernels()))
def test_wrong_arguments_are_python_errors(kernel):
    """No kernel runs: the check alone must stop every call."""
    assert len(kernel.signature.parameters) <= 12
    for variant in kernel.signature.variants:
        parameters = kernel.signature.parameters
        good = [example(p, variant) for p in parameters.values()]
        kernel.signature.check(good)
        with pytest.raises(TypeError, match=f"{kernel.signature.name} takes"):
            kernel(*good, 1)
        with pytest.raises(TypeError, match=f"{kernel.signature.name} takes"):
            kernel(*good[:-1])
        for i, (name, parameter) in enumerate(parameters.items()):
            for bad in spoiled(parameter, good[i]):
                with pytest.raises(TypeError, match=rf"{kernel.signature.name}: '{name}' must be"):
                    kernel(*good[:i], bad, *good[i + 1 :])


def test_every_kernel_is_declared():
    assert len(list(all_kernels())) >= 50


@layout
class Pair(NamedTuple):
    left: Float1
    count: int


def test_layouts_check_their_fields_when_they_are_built():
    numbers = np.zeros(3)
    pair = Pair(numbers, 2)
    assert pair._replace(count=3) == (numbers, 3)
    with pytest.raises(TypeError, match=r"Pair: 'left' must be .* float64"):
        Pair(numbers.astype(np.float32), 2)
    with pytest.raises(TypeError, match="Pair: 'left'"):
        pair._replace(left=numbers[::2])
    with pytest.raises(TypeError, match="Pair: 'count'"):
        Pair._make([numbers, "two"])


def test_signatures_choose_a_variant_by_the_type_of_codes():
    def kernel(codes: Codes2, other: Codes2, out: Int1, known: ReadFloat1) -> None: ...

    signature = Signature(kernel)
    small, large = np.zeros((2, 2), np.uint8), np.zeros((2, 2), np.uint16)
    out, known = np.zeros(2, np.int64), np.zeros(2)
    known.flags.writeable = False
    assert signature.check([small, small, out, known]) == 0
    assert signature.check([large, large, out, known]) == 1
    with pytest.raises(TypeError, match="'other' must be .* uint8"):
        signature.check([small, large, out, known])
    with pytest.raises(TypeError, match="'codes' must be .* uint8 or uint16"):
        signature.check([out, small, out, known])


@layout
class CodedRows(NamedTuple):
    codes: Codes2
    count: int


def test_a_layout_chooses_a_variant():
    def kernel(rows: CodedRows, out: Int1) -> None: ...

    def twice(rows: CodedRows, codes: Codes2) -> None: ...

    signature, out = Signature(kernel), np.zeros(2, np.int64)
    for number, dtype in enumerate(signature.variants):
        assert signature.check([CodedRows(np.zeros((2, 2), dtype), 2), out]) == number
    with pytest.raises(TypeError, match="'rows' must be a CodedRows"):
        signature.check([(np.zeros((2, 2), np.uint16), 2), out])
    with pytest.raises(TypeError, match="different choices"):
        _ = Signature(twice).variants


def test_equal_types_that_are_other_objects_are_accepted():
    def kernel(x: Float1) -> None: ...

    twin = np.dtype(np.float64).newbyteorder("=")
    array = np.zeros(2).view(np.dtype(twin, metadata={"a": 1}))
    assert Signature(kernel).check([array]) == 0


def test_a_parameter_without_a_type_is_an_error():
    def kernel(x) -> None: ...

    with pytest.raises(TypeError, match="'x' of .*kernel has no annotation"):
        _ = Signature(kernel).parameters


# ---- The build ---------------------------------------------------------------------------------


KEPT = {
    "__init__", "ahead_of_time", "build_info", "counts", "jit", "kernel", "layouts",
    "machine_code_cache", "quicker_compiler", "signatures",
}  # fmt: skip


@pytest.fixture
def package(tmp_path):
    """A copy of the package with few kernels, to build in."""
    folder = tmp_path / "conjoin"
    shutil.copytree(KERNELS.parent, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (folder / "kernels" / build_info.RECORD).unlink(missing_ok=True)
    for path in (folder / "kernels").glob("*.py"):
        if path.stem not in KEPT:
            path.unlink()
    return folder


def python(package, *arguments, **environment):
    """Run Python with a copy of the package."""
    settings = {**os.environ, "PYTHONPATH": str(package.parent), **environment}
    return subprocess.run(
        [sys.executable, *arguments], env=settings, capture_output=True, text=True, check=False,
        cwd=package.parent,
    )  # fmt: skip


USE = """
import sys
import numpy as np
from conjoin.kernels.build_info import mode
from conjoin.kernels.counts import count_bits
random = np.random.default_rng(1)
sets = random.integers(0, 1 << 63, (5, 8), np.uint64)
out = np.zeros((5, 2))
count_bits(sets, sets[:2].copy(), np.array([0, 5, 8]), np.array([1.0, 0.3]), out)
print(mode().compiled, "numba" in sys.modules, out.tobytes().hex())
"""


def has_compiler():
    return shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None


@pytest.mark.skipif(not has_compiler(), reason="there is no C compiler")
def test_a_build_gives_the_same_bytes_as_numba_without_importing_it(package):
    kernels = package / "kernels"
    done = python(package, "-m", "conjoin.kernels.ahead_of_time", str(kernels))
    assert done.returncode == 0, done.stdout + done.stderr
    compiled, imported, built = python(package, "-c", USE).stdout.split()
    assert (compiled, imported) == ("True", "False")
    forced = python(package, "-c", USE, CONJOIN_KERNELS="numba")
    compiled, imported, fresh = forced.stdout.split()
    assert (compiled, imported) == ("False", "True")
    assert "CONJOIN_KERNELS=numba" in forced.stderr
    assert built == fresh
    # Changed sources are compiled again.
    with (kernels / "counts.py").open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    changed = python(package, "-c", USE)
    assert changed.stdout.split() == ["False", "True", fresh]
    assert "have changed" in changed.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no CC")
def test_a_build_without_a_compiler_says_so_and_falls_back(package):
    kernels = package / "kernels"
    done = python(
        package, "-m", "conjoin.kernels.ahead_of_time", str(kernels),
        CC="/nonexistent/cc", CXX="/nonexistent/c++", PATH="/nonexistent",
    )  # fmt: skip
    assert done.returncode == 1
    assert "could not compile" in done.stdout
    assert not list(kernels.glob("*.so"))
    used = python(package, "-c", USE)
    assert used.stdout.split()[:2] == ["False", "True"]
    assert "could not compile" in used.stderr
    report = python(
        package, "-c", "from conjoin.kernels.build_info import describe as d; print(d())"
    )
    assert "could not compile" in report.stdout
