"""The stand-in for Triton's compiled part does what that does, to the last bit."""

import os

import numpy as np
import pytest
import torch

import libtriton
from rope_kernels.paths import compiler_is_installed

if not compiler_is_installed():
    pytest.skip("there is no compiled part to compare with", allow_module_level=True)
from triton._C import libtriton as compiled
from triton.backends.compiler import BaseBackend

MEMORY = 4096  # bytes that addresses lead to
LINE = 64  # bytes of a cache line
NOWHERE = 8  # an address that must not be touched
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES += ("float16", "float32", "float64")
SHAPES = ((1,), (3,), (7,), (128,), (4, 8), (2, 4, 8), (0,))
LAYOUTS = ("of C", "transposed", "every other one", "broadcast")
# In atomics the compiled part takes other arrays for contiguous.
LAYOUTS_OF_ATOMICS = ("of C", "transposed")
RMW_KINDS = tuple(libtriton.RMW_OP.__members__)
CASES = 600  # of each test; there are 120 of a dtype and a kind


class Case:
    """Drawn addresses in a memory, a mask, and values; for each side a memory of its own."""

    def __init__(self, rng, *, dtypes=DTYPES, masked=True, atomic=False):
        self.rng, self.dtype = rng, np.dtype(rng.choice(dtypes))
        self.shape = SHAPES[rng.integers(len(SHAPES))]
        self.layout = rng.choice(LAYOUTS_OF_ATOMICS if atomic else LAYOUTS)
        size, count = self.dtype.itemsize, int(np.prod(self.shape))
        is_aligned = rng.random() < 0.5
        step = size if is_aligned else 1
        # An atomic of two cache lines, which is none on a GPU, may cost 10 ms on a CPU.
        end = MEMORY if is_aligned or not atomic else LINE
        places = min(rng.choice((3, 40, MEMORY)), (end - size) // step + 1)  # of few, some twice
        offsets = step * rng.integers(places, size=count)
        self.offsets = self.laid_out(offsets.astype(np.uint64))
        active = rng.choice((0.0, 0.5, 1.0)) if masked else 1.0
        self.mask = self.laid_out(rng.random(count) < active)
        self.before = self.numbers(MEMORY // size).tobytes()
        self.memories = [np.empty(MEMORY + LINE, np.uint8) for _ in range(2)]

    def __repr__(self):
        return f"{self.dtype}, {self.shape} {self.layout}, {self.offsets}, {self.mask}"

    def laid_out(self, array):
        """The array in the drawn shape, and in memory as an interpreted kernel may have it."""
        if self.layout == "transposed":
            return array.reshape(self.shape[::-1]).T
        if self.layout == "every other one":
            return np.repeat(array, 2)[::2].reshape(self.shape)
        if self.layout == "broadcast":
            return np.broadcast_to(array.reshape(self.shape)[:1], self.shape)
        return array.reshape(self.shape)

    def bits(self, count):
        """Any bits, as unsigned integers of the dtype's size."""
        size = self.dtype.itemsize
        return np.frombuffer(self.rng.bytes(count * size), f"u{size}")

    def numbers(self, count):
        """Any elements; of floats numbers, since the bits of two added NaNs are undefined."""
        if self.dtype.kind == "f":
            return (100 * self.rng.standard_normal(count)).astype(self.dtype)
        if self.dtype.kind == "b":
            return self.rng.random(count) < 0.5
        return self.bits(count).view(self.dtype)

    def values(self):
        return self.laid_out(self.numbers(self.mask.size))

    def on_both(self, call):
        """What `call(libtriton, addresses)` returns of both sides, and both memories after it."""
        found = []
        for side, memory in zip((compiled, libtriton), self.memories, strict=True):
            begin = -memory.ctypes.data % LINE
            mine = memory[begin : begin + MEMORY]
            mine[:] = np.frombuffer(self.before, np.uint8)
            addresses = self.offsets + np.uint64(mine.ctypes.data)
            addresses = np.where(self.mask, addresses, np.uint64(NOWHERE))
            if self.layout == "transposed":
                addresses = np.asfortranarray(addresses)
            found.append((call(side, addresses), mine.tobytes()))
        return found


@pytest.fixture
def rng(pytestconfig):
    return np.random.default_rng(pytestconfig.getoption("seed"))


def check(case, call, mask=None):
    """The compiled part leaves undefined what an atomic's mask leaves out."""
    (expected, memory), (got, memory_of_ours) = case.on_both(call)
    assert memory_of_ours == memory, case
    if not isinstance(expected, np.ndarray):
        assert got == expected, case
        return
    assert got.shape == expected.shape == case.shape and got.dtype == expected.dtype
    seen = slice(None) if mask is None else mask
    assert got[seen].tobytes() == expected[seen].tobytes(), case


def test_loads(rng):
    for _ in range(CASES):
        case = Case(rng)
        other = case.values()
        if rng.random() < 0.5:  # of another dtype, its bits are taken
            other = case.laid_out(case.bits(case.mask.size))
        more = case.mask, other, case.dtype
        check(case, lambda side, at, more=more: side.interpreter.load(at, *more))


def test_stores(rng):
    for _ in range(CASES):
        case = Case(rng)
        more = case.values(), case.mask
        check(case, lambda side, at, more=more: side.interpreter.store(at, *more))


@pytest.mark.parametrize("kind", RMW_KINDS)
def test_atomics_that_read_modify_and_write(rng, kind):
    """All dtypes: those that the compiled part refuses are refused, with its words."""

    def combine(side, addresses):
        part = side.interpreter
        how, order = getattr(part.RMW_OP, kind), part.MEM_SEMANTIC.RELAXED
        try:
            return part.atomic_rmw(how, addresses, values, case.mask, order)
        except ValueError as refused:
            return str(refused)

    for _ in range(CASES // 2):
        case = Case(rng, atomic=True)
        values = case.values()
        check(case, combine, case.mask)


def test_atomics_that_compare_and_swap(rng):
    """Of floats bits are compared: a NaN is what is expected, if it has the same ones."""

    def swap(side, addresses):
        part = side.interpreter
        order = part.MEM_SEMANTIC.ACQUIRE_RELEASE
        return part.atomic_cas(addresses, wanted.copy(), values, order)

    for _ in range(CASES):
        case = Case(rng, dtypes=DTYPES[1:], masked=False, atomic=True)
        size = case.dtype.itemsize
        case.before = case.bits(MEMORY // size).tobytes()
        values = case.laid_out(case.bits(case.mask.size)).view(case.dtype)
        bytes_at = case.offsets.astype(np.int64)[..., None] + np.arange(size)
        there = np.frombuffer(case.before, np.uint8)[bytes_at]
        there = np.ascontiguousarray(there).view(case.dtype).reshape(case.shape)
        wanted = np.where(rng.random(case.shape) < rng.choice((0.5, 1.0)), there, values)
        check(case, swap)


def test_a_mask_may_be_a_memoryview():
    """As those of descriptors and block pointers are."""
    there, mask = np.arange(6, dtype=np.int32), np.arange(6).reshape(2, 3) % 2 == 0
    addresses = (there.ctypes.data + 4 * np.arange(6)).astype(np.uint64).reshape(2, 3)
    other = np.full((2, 3), -1, np.int32)
    loaded = libtriton.load(addresses, mask.data, other, np.dtype(np.int32))
    assert loaded.tolist() == [[0, -1, 2], [-1, 4, -1]]
    libtriton.store(addresses, other, mask.data)
    assert there.tolist() == [-1, 1, -1, 3, -1, 5]


def test_names_are_the_compiled_ones():
    for part in ("ir", "interpreter"):
        ours, theirs = vars(getattr(libtriton, part)), getattr(compiled, part)
        enums = {name: x for name, x in ours.items() if hasattr(x, "__members__")}
        assert enums
        for name, members in enums.items():
            assert {*members.__members__} == {*getattr(theirs, name).__members__}, name
        assert {name for name in ours if not name.startswith("__")} <= {*dir(theirs)}, part


def test_what_is_the_compilers_says_so():
    with pytest.raises(libtriton.NoCompiler, match=r"libtriton\.ir\.load_dialects is part of"):
        libtriton.ir.load_dialects()
    assert not hasattr(libtriton.ir, "__wrapped__")  # as inspect asks


@pytest.mark.parametrize("value", ["1", "true", "ON", "y", "Yes", "0", "off", "2", "", None])
def test_environment_variables(monkeypatch, value):
    name = "ROPE_LAB_A_VARIABLE"
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setitem(os.environ, name, value)
    for default in (False, True, None):
        assert libtriton.getenv_bool(name, default) is compiled.getenv_bool(name, default)
    for default in ("a", None):
        assert libtriton.getenv(name, default) == compiled.getenv(name, default)


INTEGERS = [0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1]
TENSORS = [torch.zeros(1, dtype=getattr(torch, x)) for x in (*DTYPES, "bfloat16", "float8_e5m2")]


@pytest.mark.parametrize("argument", [True, False, *INTEGERS, *TENSORS], ids=str)
@pytest.mark.parametrize("is_const", [False, True])
def test_types_of_arguments(argument, is_const):
    names = [
        side.native_specialize_impl(BaseBackend, argument, is_const, False, True)
        for side in (compiled, libtriton)
    ]
    assert names[0] == names[1]
