"""The build hook: compile the kernels into extension modules when a wheel is built.

A build that cannot compile (no C compiler, an unknown platform) still makes a wheel: it records why, and
the kernels are then compiled on first use. Editable installs always compile on first use. Environment
variables: CONJOIN_BUILD_CPU is the processor to compile for ("host" by default, "generic", or a name of
LLVM's such as "x86-64-v3"); CONJOIN_BUILD_PURE=1 makes a wheel without machine code;
CONJOIN_BUILD_REQUIRED=1 makes a build fail that cannot compile.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "conjoin/kernels"


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the extension modules to a wheel."""

    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell hatchling which files to include."""
        if self.target_name != "wheel" or version == "editable":
            return
        folder = self._folder = Path(tempfile.mkdtemp(prefix="conjoin-build-"))
        record = self._compile(folder)
        if record["failure"] and os.environ.get("CONJOIN_BUILD_REQUIRED"):
            raise RuntimeError(f"the kernels could not be compiled: {record['failure']}")
        if not record["failure"]:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        for path in folder.iterdir():
            build_data["force_include"][str(path)] = f"{PACKAGE}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled; the wheel has it."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self, folder: Path) -> dict[str, Any]:
        """Compile into a folder; return the record of the build, which is there, too."""
        source = Path(self.root) / "src"
        command = [sys.executable, "-m", "conjoin.kernels.ahead_of_time", str(folder)]
        failure = "CONJOIN_BUILD_PURE is set" if os.environ.get("CONJOIN_BUILD_PURE") else ""
        if not failure:
            path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
            done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False)
            if done.returncode:
                failure = f"the compiler stopped with exit status {done.returncode}"
        record_file = folder / "build.json"
        if failure and not record_file.exists():
            record_file.write_text(json.dumps({"sources": "", "failure": failure}), "utf-8")
        record: dict[str, Any] = json.loads(record_file.read_text("utf-8"))
        if record["failure"]:
            for extension in folder.glob("_machine_code_*"):
                extension.unlink()
            self.app.display_warning(
                f"conjoin: the kernels will be compiled on first use: {record['failure']}"
            )
        return record
