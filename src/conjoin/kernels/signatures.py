"""Declared types of kernels: read from annotations, checked on every call from Python.

Machine code trusts its arguments: it would read an array of another type, or one with gaps, as garbage
or crash. So a kernel declares the type of every parameter with an annotation of `layouts`, from which
both the type checker and the compiler read it, and `Signature.check` compares the arguments of a call
with the declaration before machine code sees them.

This module imports no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")

C_CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""Bits of ``array.flags.num``."""

READ_ONLY = "read-only"
"""Annotation of an array that a kernel only reads: it may be a read-only view."""

SCALARS: dict[Any, tuple[Any, tuple[type, ...]]] = {
    bool: (np.bool_, (bool, np.bool_)),
    int: (np.int64, (int, np.integer)),
    float: (np.float64, (float, int, np.floating, np.integer)),
    np.uint64: (np.uint64, (int, np.unsignedinteger)),
}
"""The machine type of each annotation of a number, and the Python types it accepts."""


@dataclass(frozen=True)
class Scalar:
    """A number of a fixed machine type."""

    dtype: np.dtype[Any]
    accepted: tuple[type, ...]

    choice: ClassVar[tuple[()]] = ()

    def __str__(self) -> str:
        return f"a number of type {self.dtype}"

    def accepts(self, value: Any) -> bool:
        """Whether a value can be passed."""
        return isinstance(value, self.accepted)


@dataclass(frozen=True)
class Array:
    """A C-contiguous array with a fixed number of axes and one of several element types."""

    dtypes: tuple[np.dtype[Any], ...]
    ndim: int
    read_only: bool

    @property
    def choice(self) -> tuple[np.dtype[Any], ...]:
        """The element types, if there are several."""
        return self.dtypes if len(self.dtypes) > 1 else ()

    @property
    def flags(self) -> int:
        """The bits that ``array.flags.num`` needs to have."""
        return C_CONTIGUOUS | ALIGNED | (0 if self.read_only else WRITABLE)

    def __str__(self) -> str:
        kind = "a" if self.read_only else "a writable"
        types = " or ".join(map(str, self.dtypes))
        return f"{kind} C-contiguous array of type {types} with {self.ndim} axes"

    def accepts(self, value: Any) -> bool:
        """Whether a value can be passed."""
        return (
            isinstance(value, np.ndarray)
            and value.dtype in self.dtypes
            and value.ndim == self.ndim
            and value.flags.num & self.flags == self.flags
        )


@dataclass(frozen=True)
class Layout:
    """A named tuple that checked its fields when it was built."""

    kind: Any

    @cached_property
    def signature(self) -> Signature:
        """The types of the fields."""
        return Signature(self.kind)

    @property
    def choice(self) -> tuple[np.dtype[Any], ...]:
        """The element types of a field that may have several."""
        variants = self.signature.variants
        return tuple(variants) if len(variants) > 1 else ()

    def __str__(self) -> str:
        return f"a {self.kind.__name__}"

    def accepts(self, value: Any) -> bool:
        """Whether a value can be passed."""
        return type(value) is self.kind


Parameter = Scalar | Array | Layout


def parameter(hint: Any, where: str) -> Parameter:
    """Return the type that an annotation declares."""
    if hint in SCALARS:
        dtype, accepted = SCALARS[hint]
        return Scalar(np.dtype(dtype), accepted)
    if get_origin(hint) is Annotated:
        array, ndim, *extra = get_args(hint)
        (element,) = get_args(get_args(array)[1])
        types = [t for t in extra if t != READ_ONLY] or [element]
        return Array(tuple(map(np.dtype, types)), ndim, READ_ONLY in extra)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return Layout(hint)
    raise TypeError(f"{where} has no annotation that machine code understands, but {hint!r}")


class Signature:
    """The declared parameters of a kernel, or the fields of a layout.

    Parameters
    ----------
    declaration : function or class
        Its annotations are read on first use.
    """

    def __init__(self, declaration: Callable[..., Any]) -> None:
        self._declaration = declaration

    @property
    def name(self) -> str:
        """The name of the kernel with its module, for messages."""
        module = self._declaration.__module__.rpartition(".")[2]
        return f"{module}.{self._declaration.__name__}"

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The declared type of each parameter, by name."""
        declaration = self._declaration
        hints = get_type_hints(declaration, include_extras=True)
        names: Sequence[str]
        if isinstance(declaration, type):
            names = declaration._fields  # type: ignore[attr-defined]
        else:
            names = declaration.__code__.co_varnames[: declaration.__code__.co_argcount]
        return {n: parameter(hints.get(n), f"{n!r} of {self.name}") for n in names}

    @cached_property
    def variants(self) -> list[Any]:
        """The element types for which there is machine code; [None] if there is no choice.

        Arrays that may have one of several types must all have the same one in a call. A layout with
        such an array must be the only parameter with a choice.
        """
        choices = [p.choice for p in self.parameters.values() if len(p.choice) > 1]
        layouts = any(isinstance(p, Layout) and p.choice for p in self.parameters.values())
        if len(set(choices)) > 1 or (layouts and len(choices) > 1):
            raise TypeError(f"{self.name} has parameters with different choices of types")
        return list(choices[0]) if choices else [None]

    @cached_property
    def _chooser(self) -> tuple[int, int]:
        """The position of the parameter that chooses the variant, and of its field in a layout, or -1."""
        for position, p in enumerate(self.parameters.values()):
            if len(p.choice) > 1:
                return position, p.signature._chooser[0] if isinstance(p, Layout) else -1
        return -1, -1

    @cached_property
    def _plans(self) -> list[list[tuple[frozenset[type], Any, int, int]]]:
        """What `check` compares for each variant: exact classes, element type, axes, flags."""
        plans = []
        for variant in self.variants:
            plan: list[tuple[frozenset[type], Any, int, int]] = []
            for p in self.parameters.values():
                if isinstance(p, Array):
                    dtype = p.dtypes[0] if len(p.dtypes) == 1 else variant
                    plan.append((frozenset([np.ndarray]), dtype, p.ndim, p.flags))
                elif isinstance(p, Layout):
                    plan.append((frozenset([p.kind]), None, 0, 0))
                else:
                    plan.append((frozenset([*p.accepted, p.dtype.type]), None, 0, 0))
            plans.append(plan)
        return plans

    def check(self, arguments: Sequence[Any]) -> int:
        """Compare arguments with the declaration; return the number of the variant that takes them.

        Raises
        ------
        TypeError
            With the names of the kernel and of the parameter.
        """
        number = 0
        chooser, field = self._chooser
        if 0 <= chooser < len(arguments):
            chosen = arguments[chooser]
            if field >= 0 and isinstance(chosen, tuple):
                chosen = chosen[field]
            number = self._variant_of(chosen)
        plan = self._plans[number]
        if len(arguments) == len(plan):
            for value, (classes, dtype, ndim, flags) in zip(arguments, plan, strict=True):
                if type(value) not in classes or (
                    dtype is not None
                    and (
                        (value.dtype is not dtype and value.dtype != dtype)
                        or value.ndim != ndim
                        or value.flags.num & flags != flags
                    )
                ):
                    break
            else:
                return number
        self._check_slowly(arguments, self.variants[number])
        return number

    def _variant_of(self, value: Any) -> int:
        dtype = getattr(value, "dtype", None)
        return self.variants.index(dtype) if dtype in self.variants else 0

    def _check_slowly(self, arguments: Sequence[Any], variant: Any) -> None:
        """Raise the error that explains a mismatch; accept equal types that are not the same object."""
        if len(arguments) != len(self.parameters):
            raise TypeError(
                f"{self.name} takes {len(self.parameters)} arguments, not {len(arguments)}"
            )
        for (name, wanted), value in zip(self.parameters.items(), arguments, strict=True):
            if isinstance(wanted, Array) and len(wanted.dtypes) > 1 and wanted.accepts(value):
                wanted = Array((variant,), wanted.ndim, wanted.read_only)
            if not wanted.accepts(value):
                raise TypeError(f"{self.name}: {name!r} must be {wanted}, not {describe(value)}")


def describe(value: Any) -> str:
    """Describe an argument for an error message."""
    if not isinstance(value, np.ndarray):
        return f"of class {type(value).__name__}"
    words = [] if value.flags.c_contiguous else ["not contiguous"]
    words += [] if value.flags.aligned else ["not aligned"]
    words += [] if value.flags.writeable else ["read-only"]
    words.append(f"of type {value.dtype} with {value.ndim} axes")
    return ", ".join(words)


def layout(kind: type[T]) -> type[T]:
    """Make a named tuple check its fields when it is built: a decorator of its class.

    Kernels that take it need to look only at its class.
    """
    signature = Signature(kind)
    build: Any = kind.__new__

    @wraps(build)  # numba reads the signature
    def checked(cls: Any, *values: Any, **named: Any) -> Any:
        fields = build(cls, *values, **named)
        signature.check(fields)
        return fields

    changed: Any = kind
    changed.__new__ = checked
    changed._make = classmethod(lambda cls, values: cls(*values))
    return kind


def numba_types(signature: Signature, variant: Any) -> tuple[Any, ...]:
    """Return the types of the parameters as numba writes them."""
    from numba import from_dtype
    from numba.core import types

    def numba_type(p: Parameter) -> Any:
        if isinstance(p, Scalar):
            return from_dtype(p.dtype)
        if isinstance(p, Array):
            dtype = p.dtypes[0] if len(p.dtypes) == 1 else variant
            return types.Array(from_dtype(dtype), p.ndim, "C")
        fields = [numba_type(field) for field in p.signature.parameters.values()]
        return types.BaseTuple.from_types(fields, p.kind)

    return tuple(numba_type(p) for p in signature.parameters.values())
