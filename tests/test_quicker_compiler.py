"""Tests of the shortcuts in numba's compiler: same options, same variables, same machine code."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from conjoin.kernels.kernel import MODE, compiled
from conjoin.kernels.layouts import Float1

COMPILE = """
import sys
import conjoin.kernels.quicker_compiler as quicker_compiler
if sys.argv[1] == "without":
    quicker_compiler.shorten = lambda: None
from conjoin.kernels.counts import count_rows
from conjoin.kernels.row_projection import live_features
for kernel in (count_rows, live_features):
    kernel._load(0)
    print(*kernel.dispatcher.inspect_asm().values())
"""


def assembly(how, folder):
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(folder / how), "CONJOIN_KERNELS": "numba"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, how], env=settings, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_shortcuts_do_not_change_machine_code(tmp_path):
    with_shortcuts, without = assembly("with", tmp_path), assembly("without", tmp_path)
    assert len(with_shortcuts) > 1000
    assert with_shortcuts == without


def test_other_versions_of_numba_compile_as_usual(tmp_path):
    code = """
import numba
numba.__version__ = "0.99.0"
import numpy as np
from conjoin import Domain, MarkovNetwork, marginals
from conjoin.kernels.jit import QUICK
from conjoin.models.markov import TableFactor
domain = Domain({"a": [0, 1], "b": [0, 1]})
network = MarkovNetwork(domain, factors=[TableFactor((0, 1), np.log([[0.1, 0.2], [0.3, 0.4]]))])
print(QUICK, round(marginals(network, {"a": 1}, method="exact")["b"][1], 9))
"""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "CONJOIN_KERNELS": "numba"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "0.571428571"], done.stderr


def test_options_are_equal_if_all_their_values_are():
    from numba.core.compiler import Flags

    from conjoin.kernels.quicker_compiler import hash_of_options, same_options

    choose = random.Random(1)
    made = []
    for _ in range(60):
        flags = Flags()
        for name in ("nrt", "boundscheck", "release_gil", "forceinline"):
            if choose.random() < 0.5:
                setattr(flags, name, choose.random() < 0.5)
        made.append(flags)
    seen = set()
    for a in made:
        for b in made:
            equal = a.values() == b.values()
            assert same_options(a, b) == equal
            assert not equal or hash_of_options(a) == hash_of_options(b)
            seen.add((equal, a._values == b._values))
    assert seen == {(True, True), (True, False), (False, False)}
    assert same_options(made[0], 1) is NotImplemented


def test_the_variables_of_a_statement_are_found_at_any_depth():
    from numba.core import ir

    from conjoin.kernels.quicker_compiler import variables_in

    place = ir.Loc("file", 1)
    a, b, c = (ir.Var(None, name, place) for name in "abc")
    call = ir.Expr.call(a, [b, (c, a)], {"x": b}, place)
    assert variables_in(call, [a, {"k": (b, 1, "text")}, place, call.kws, [[c]]]) == [a, b, b, c]
    assert call.list_vars() == [a, b, c, a, b]
    assert variables_in(call, call) == call.list_vars()
    assert variables_in(call, 3) == []


@compiled
def doubled(x: Float1) -> None:
    """Double every number."""
    for i in range(len(x)):
        x[i] *= 2


@compiled
def doubled_twice(x: Float1) -> None:
    """Call another kernel, twice."""
    doubled(x)
    doubled(x)


@pytest.mark.skipif(MODE.compiled, reason="these kernels are not in the build")
def test_a_kernel_that_another_one_calls_can_be_called_as_well():
    x = np.array([1.0, 3.0])
    doubled_twice(x)
    np.testing.assert_array_equal(x, [4.0, 12.0])
    assert not doubled._entries  # it was compiled as a part of the other one only
    doubled(x)
    np.testing.assert_array_equal(x, [8.0, 24.0])
