"""Loops and branches around LLVM instructions, and the way from there to a function pointer."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from xpr.pipeline.kernels.kept import kept
from xpr.pipeline.kernels.values import BIT, FLOAT, LANES, LONG, Builder, Value

Entry = Callable[[Any], None]


class Program:
    """A function `void name(int64* arguments)` under construction.

    Attributes:
      b: the builder; instructions go where it stands.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = ir.Module(name)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(LONG)])
        self.function = ir.Function(self.module, kind, name)
        self._entry = self.function.append_basic_block("entry")
        self.b: Builder = ir.IRBuilder(self.function.append_basic_block("body"))

    def arguments(self, kinds: dict[str, ir.Type | None]) -> SimpleNamespace:
        """By name, in the order in which a call packs them.

        Args:
          kinds: of each, what it is the address of; None is a whole number.
        """
        values = {}
        for i, (name, kind) in enumerate(kinds.items()):
            value = self.b.load(self.b.gep(self.function.args[0], [long(i)]))
            if kind is not None:
                value = self.b.inttoptr(value, ir.PointerType(kind))
            values[name] = value
        return SimpleNamespace(**values)

    def variable(self, kind: ir.Type, start: Value) -> Value:
        """A local variable; LLVM makes it a register."""
        with self.b.goto_block(self._entry):
            place = self.b.alloca(kind)
        self.b.store(start, place)
        return place

    @contextmanager
    def loop(self, start: Value, end: Value) -> Iterator[Value]:
        """For i in [start, end), 64-bit."""
        b = self.b
        before, head = b.block, self.function.append_basic_block("head")
        body, after = (self.function.append_basic_block(n) for n in ("body", "after"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(LONG)
        i.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", i, end), body, after)
        b.position_at_end(body)
        yield i
        i.add_incoming(b.add(i, long(1)), b.block)
        b.branch(head)
        b.position_at_end(after)

    @contextmanager
    def repeat(self, goes_on: Callable[[], Value]) -> Iterator[None]:
        """While `goes_on()`."""
        b = self.b
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        b.cbranch(goes_on(), body, after)
        b.position_at_end(body)
        yield
        b.branch(head)
        b.position_at_end(after)

    def compile(self) -> Entry:
        """See `compiled`; the instructions themselves say all that the code depends on."""
        text = self.text()
        return compiled(self.name, text, lambda: text)

    def text(self) -> str:
        """The finished module; nothing can be added after it."""
        with self.b.goto_block(self._entry):
            self.b.branch(self.function.blocks[1])
        self.b.ret_void()
        return str(self.module)


def long(number: int) -> ir.Constant:
    """A 64-bit integer."""
    return ir.Constant(LONG, number)


def load(b: Builder, array: Value, index: Value) -> Value:
    """array[index]."""
    return b.load(b.gep(array, [index]))


def store(b: Builder, value: Value, array: Value, index: Value) -> None:
    """array[index] = value."""
    b.store(value, b.gep(array, [index]))


def load_lanes(b: Builder, array: Value, index: Value, lanes: int = LANES) -> Value:
    """array[index : index + lanes] of floats."""
    return b.load(_lanes(b, array, index, ir.VectorType(FLOAT, lanes)), align=4)


def store_lanes(b: Builder, value: Value, array: Value, index: Value) -> None:
    """array[index : index + lanes] = value."""
    b.store(value, _lanes(b, array, index, value.type), align=4)


def _lanes(b: Builder, array: Value, index: Value, kind: ir.Type) -> Value:
    return b.bitcast(b.gep(array, [index]), ir.PointerType(kind))


def bits(b: Builder, lanes: Value) -> Value:
    """A vector of truth values as the bits of a 64-bit integer."""
    return b.zext(b.bitcast(lanes, ir.IntType(lanes.type.count)), LONG)


def total(b: Builder, lanes: Value) -> Value:
    """The sum of a vector's entries."""
    name = f"llvm.vector.reduce.fadd.v{lanes.type.count}f32"
    function = b.module.globals.get(name) or ir.Function(
        b.module, ir.FunctionType(FLOAT, [FLOAT, lanes.type]), name
    )
    return b.call(function, [ir.Constant(FLOAT, -0.0), lanes], fastmath=("reassoc",))


def count_trailing_zeros(b: Builder, x: Value) -> Value:
    """The place of the lowest bit of a 64-bit integer that is not zero."""
    return b.cttz(x, ir.Constant(BIT, 1))


def take_one(b: Builder, counter: Value) -> Value:
    """The counter's value; it is then one larger, for all threads."""
    return b.atomic_rmw("add", counter, long(1), "monotonic")


@functools.cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )


@functools.cache
def widest() -> int:
    """Floats in a register of this processor, 8 or 16 (half that would do, LLVM takes two)."""
    return 16 if llvm.get_host_cpu_features().get("avx512f") else LANES


def _optimised(text: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = _target().triple
    module.data_layout = str(_target().target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(_target(), options)
    passes.getModulePassManager().run(module, passes)
    return module


def assembly(program: Program) -> str:
    """The processor's instructions, for those who want to read them."""
    return _target().emit_assembly(_optimised(program.text()))


_ENGINES: list[Any] = []  # the code lives as long as its engine


def compiled(name: str, description: str, text: Callable[[], str]) -> Entry:
    """The machine code for this processor, as a function of the arguments' address.

    A call releases Python's lock.

    Args:
      name: of the program.
      description: all that its instructions depend on, besides the code of this package.
      text: makes the instructions; not called if the code is `kept` already.
    """
    source = "\n".join((name, *_where(), description))
    code = kept(source, lambda: _target().emit_object(_optimised(text())))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(name))


@functools.cache
def _where() -> tuple[str, ...]:
    """What machine code depends on besides its description."""
    mine = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        mine.update(file.read_bytes())
    versions = (jax.__version__, llvmlite.__version__, *map(str, llvm.llvm_version_info))
    processor = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    return (mine.hexdigest(), *versions, _target().triple, *processor)
