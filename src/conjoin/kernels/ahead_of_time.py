"""Compile the kernels into extension modules, when a wheel is built.

This is the only module that knows numba's ahead-of-time compiler, which may change: the build pins the
version of numba. ``python -m conjoin.kernels.ahead_of_time FOLDER`` writes the extension modules and
the record of the build into a folder; `hatch_build.py` does so when a wheel is built.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from conjoin.kernels.build_info import (
    RECORD,
    SWITCH,
    BuildRecord,
    cpu_features,
    python_version,
    sources_hash,
)

CPU_VARIABLE = "CONJOIN_BUILD_CPU"
"""Environment variable: the processor to compile for; by default the one of this machine."""
MODULES = 4
"""The number of extension modules, which are compiled in parallel; each carries 0.6 MB of runtime."""
COMMAND = "conjoin.kernels.ahead_of_time"
ERROR_LINE = re.compile(r"[\w.]+(Error|Exception)\b")
FEATURES = {
    "generic": [],
    "x86-64-v2": ["SSE42", "POPCNT"],
    "x86-64-v3": ["SSE42", "POPCNT", "AVX2", "FMA3"],
    "x86-64-v4": ["SSE42", "POPCNT", "AVX2", "FMA3", "AVX512_SKX"],
}
"""What the processors of published wheels must have, as NumPy names it."""


def kernels_by_file() -> dict[str, list[Any]]:
    """Return all kernels, by the name of the module that declares them."""
    from conjoin.kernels.kernel import Kernel

    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        module = f"conjoin.kernels.{path.stem}"
        if path.stem.startswith("__") or module == COMMAND:
            continue
        values = vars(import_module(module)).values()
        own = [v for v in values if isinstance(v, Kernel) and v.__module__ == module]
        if own:
            found[path.stem] = own
    return found


def groups_of_files(sizes: dict[str, int], count: int) -> list[list[str]]:
    """Divide files into groups of about the same size, the largest files first."""
    groups: list[list[str]] = [[] for _ in range(min(count, len(sizes)))]
    for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
        min(groups, key=lambda group: sum(sizes[n] for n in group)).append(name)
    return groups


def compile_module(name: str, files: Sequence[str], folder: Path, cpu: str) -> list[str]:
    """Compile the kernels of some files into one extension module; return their names."""
    from conjoin.kernels.signatures import numba_types

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler is pending deprecation
        pycc: Any = import_module("numba.pycc")
        compiler: Any = import_module("numba.pycc.compiler")

    flags_of_numba = compiler.Flags

    def kernel_flags() -> Any:
        """Return the options of `compiled`, which the ahead-of-time compiler does not pass on."""
        flags = flags_of_numba()
        flags.release_gil = True
        flags.error_model = "numpy"
        return flags

    compiler.Flags = kernel_flags
    target = pycc.CC(name, source_module=sys.modules[__name__])
    target.output_dir = str(folder)
    target.target_cpu = "" if cpu == "generic" else cpu
    kernels = [kernel for file in files for kernel in kernels_by_file()[file]]
    for kernel in kernels:
        for export, variant in zip(kernel.exports, kernel.signature.variants, strict=True):
            target.export(export, numba_types(kernel.signature, variant))(kernel.function)
    target.compile()
    return [kernel.signature.name for kernel in kernels]


def build(folder: Path, cpu: str) -> BuildRecord:
    """Compile all kernels in parallel processes; return the record of the build.

    Parameters
    ----------
    folder : Path
        Where the extension modules and the record are written.
    cpu : str
        "host", "generic", or a processor as LLVM names it.
    """
    import numba

    began = monotonic()
    files = {name: len(k) for name, k in kernels_by_file().items()}
    sources = Path(__file__).parent
    sizes = {name: (sources / f"{name}.py").stat().st_size for name in files}
    groups = groups_of_files(sizes, MODULES)
    _say(f"compiling {sum(files.values())} kernels for {cpu} in {len(groups)} modules")
    environment = {**os.environ, SWITCH: "numba"}
    if cpu not in ("host", ""):
        # Functions that kernels call are compiled apart, and for this machine unless told otherwise.
        environment |= {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    running = {}
    for number, group in enumerate(groups):
        name = f"_machine_code_{number}"
        command = [sys.executable, "-m", COMMAND, str(folder), "--module", name, cpu, *group]
        running[name] = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    modules: dict[str, str] = {}
    failure = ""
    for name, process in running.items():
        output = process.communicate()[0]
        if process.returncode:
            failure = failure or _failure_in(output)
            _say(f"{name} failed:\n{output}")
            continue
        exported = json.loads(output.strip().rpartition("\n")[2])
        modules |= dict.fromkeys(exported, name)
        _say(f"{name}: {len(exported)} kernels, {monotonic() - began:.0f} s")
    features = FEATURES.get(cpu, cpu_features())
    record = BuildRecord(
        sources_hash(), f"{cpu} ({platform.machine()})", features, numba.__version__,
        python_version(), {} if failure else modules, failure,
    )  # fmt: skip
    write_record(folder, record)
    return record


def write_record(folder: Path, record: BuildRecord) -> None:
    """Write the record of a build."""
    text = json.dumps(asdict(record), indent=1)
    (folder / RECORD).write_text(text, encoding="utf-8")


def _failure_in(output: str) -> str:
    """Return the reason for a failure in the output of a compilation."""
    if "without the compiler" in output:
        return "there is no C compiler that works"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR_LINE.match(line)]
    return (errors or lines or ["the compiler stopped without a message"])[-1][:300]


def _say(message: str) -> None:
    print(f"conjoin: {message}", flush=True)  # noqa: T201


def main(arguments: Sequence[str]) -> int:
    """Build all modules into a folder, or, with ``--module``, one of them in this process."""
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if "--module" in arguments:
        name, cpu, *files = arguments[2:]
        print(json.dumps(compile_module(name, files, folder, cpu)))  # noqa: T201
        return 0
    record = build(folder, os.environ.get(CPU_VARIABLE, "host"))
    if record.failure:
        _say(f"the build could not compile: {record.failure}")
    return bool(record.failure)


if __name__ == "__main__":
    os.environ[SWITCH] = "numba"
    sys.exit(main(sys.argv[1:]))
