"""Log-potentials of rows with each hidden state, and with each state of each visible variable.

Let L_z be the log-potential of a row with hidden state z: a sum of one line of each table. If one
variable changes, only the lines of its own tables do, and the logarithm of the sum of e^(L_z) over z is
the log-potential of the changed row with the hidden variables summed out.
"""

from __future__ import annotations

import numpy as np

from conjoin.kernels.clique_tables import exponentials
from conjoin.kernels.functions import sum_of
from conjoin.kernels.kernel import compiled, inner
from conjoin.kernels.layouts import Float2, Half2, HiddenArrays, Int1

LANES = 8
"""Number of maxima that are kept side by side."""


@inner
def find_cells(row, tables, cell):
    """Set the cell of each table that a row is in."""
    for t in range(len(tables.base)):
        at = tables.base[t]
        for e in range(tables.first[t], tables.first[t + 1]):
            at += tables.stride[e] * np.int64(row[tables.var[e]])
        cell[t] = at


@inner
def add_line(out, line, sign):
    """Add one line of a table, or subtract it."""
    for z in range(len(out)):
        out[z] += sign * line[z]


@inner
def log_sum(line, best):
    """Return the logarithm of the sum of the exponentials of a line, which is overwritten."""
    for k in range(LANES):
        best[k] = -np.inf
    whole = len(line) - len(line) % LANES
    for low in range(0, whole, LANES):
        part = line[low : low + LANES]
        for k in range(LANES):
            best[k] = part[k] if part[k] > best[k] else best[k]
    top = -np.inf
    for k in range(LANES):
        top = max(top, best[k])
    for z in range(whole, len(line)):
        top = max(top, line[z])
    if top == -np.inf:
        return top
    for z in range(len(line)):
        line[z] -= top
    exponentials(line)
    return top + np.log(sum_of(line))


@inner
def sum_without(v, tables, cell, joint, rest):
    """Set `rest` to the sum of the lines of all tables without a variable."""
    if tables.finite:
        rest[:] = joint
        for e in range(tables.own_first[v], tables.own_first[v + 1]):
            add_line(rest, tables.values[cell[tables.own_table[e]]], -1.0)
        return
    rest[:] = 0.0
    own = tables.own_table[tables.own_first[v] : tables.own_first[v + 1]]  # ascending
    skipped = 0
    for t in range(len(cell)):
        if skipped < len(own) and own[skipped] == t:
            skipped += 1
        else:
            add_line(rest, tables.values[cell[t]], 1.0)


@compiled
def log_joints(codes: Half2, tables: HiddenArrays, joints: Float2) -> None:
    """Set the log-potential of each row with each hidden state, rows by hidden states."""
    cell = np.empty(len(tables.base), np.int64)
    for r in range(len(codes)):
        find_cells(codes[r], tables, cell)
        joints[r] = 0.0
        for t in range(len(cell)):
            add_line(joints[r], tables.values[cell[t]], 1.0)


@compiled
def log_changes(codes: Half2, tables: HiddenArrays, chosen: Int1, logs: Float2) -> None:
    """Set the log-potential of each row with each state of each chosen variable in place of its own.

    Hidden variables are summed out. `logs` has one column per state of all visible variables.
    """
    width = tables.values.shape[1]
    cell = np.empty(len(tables.base), np.int64)
    joint, rest, trial = np.empty(width), np.empty(width), np.empty(width)
    best = np.empty(LANES)
    for r in range(len(codes)):
        row = codes[r]
        find_cells(row, tables, cell)
        joint[:] = 0.0
        for t in range(len(cell)):
            add_line(joint, tables.values[cell[t]], 1.0)
        trial[:] = joint
        unchanged = log_sum(trial, best)
        for v in chosen:
            sum_without(v, tables, cell, joint, rest)
            first = tables.state_first[v]
            for s in range(tables.state_first[v + 1] - first):
                change = s - np.int64(row[v])
                if change == 0:
                    logs[r, first + s] = unchanged
                    continue
                trial[:] = rest
                for e in range(tables.own_first[v], tables.own_first[v + 1]):
                    at = cell[tables.own_table[e]] + change * tables.own_stride[e]
                    add_line(trial, tables.values[at], 1.0)
                logs[r, first + s] = log_sum(trial, best)
