"""Every public function as PyTorch takes it up: compiled, exported, transformed, checkpointed.

`ops.py` says what they are. Where a graph records an operator it has the bits of eager mode; a norm
is plain PyTorch there, with the values of the definition. What one function has alone is in
`autograd/test_compile.py`.
"""

import copy
from functools import partial

import pytest
import torch
from torch import func
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from ops import DIFFERENTIABLE, FEW, OPS, by_turns, copies_of, last_of_each_kind, memory_of
from rope_kernels import RotaryPositionEmbedding
from yardstick import assert_near

pytestmark = pytest.mark.usefixtures("nothing_compiled_before")

OPERATORS = tuple(op for op in OPS if op.is_operator)
IN_PLACE = tuple(op for op in OPS if op.inplace)
WITH_GRADIENT = tuple(op for op in IN_PLACE if op.is_operator and op.differentiable)
# Two sizes of everything, by the number of tensors. Within one no two are equal, those of tables
# and caches included, or a graph may take them for one.
SIZES = {
    1: ({"s": 2, "d": 20, "heads": (7,)}, {"s": 4, "d": 44, "heads": (9,)}),
    2: ({"s": 2, "d": 20, "heads": (7, 4)}, {"s": 4, "d": 44, "heads": (9, 6)}),
    3: ({"s": 4, "d": 20, "heads": (14, 7, 7)}, {"s": 5, "d": 44, "heads": (18, 9, 9)}),
}

each_few = pytest.mark.parametrize("few", range(len(FEW)))
each_op = pytest.mark.parametrize("op", OPS, ids=str)
each_differentiable = pytest.mark.parametrize("op", DIFFERENTIABLE, ids=str)


def sample_of(op, few, device, sizes=0, **changes):
    return op.sample(device, **(FEW[few] | SIZES[len(op.tensors)][sizes] | changes))


def step_of(op, inplace=False):
    """A call as a function of all that it is given, numbers and strings among them.

    In place it overwrites copies where a gradient is wanted, for autograd refuses leaves.
    """
    more = {"inplace": True} if inplace else {}

    def step(given, freqs, options):
        if inplace and any(x is not None and x.requires_grad for x in given.values()):
            given = {n: x * 1 if n in op.inplace else x for n, x in given.items()}
        outs = op.function(**given, freqs=freqs, **options, **more)
        return outs if isinstance(outs, tuple) else (outs,)

    return step


def arguments_of(sample, wants_grad=False):
    """In memory of their own what a call may overwrite; leaves if so wished."""
    given = {n: None if x is None else copy_of(x) for n, x in sample.given.items()}
    given |= copies_of(sample.written)
    for name in sample.op.arguments if wants_grad else ():
        if given[name] is not None:
            given[name].requires_grad_()
    return given, sample.freqs, sample.options()


def copy_of(x):
    """With the strides of `x`, in memory that is copied whole."""
    return memory_of(x).clone().as_strided(x.shape, x.stride(), x.storage_offset())


def results_of(step, sample, grads=()):
    """What a step returns, what is then in its arguments, and gradients if there are `grads`."""
    arguments = arguments_of(sample, bool(grads))
    outs = step(*arguments)
    leaves = leaves_of(arguments)
    found = torch.autograd.grad(outs, leaves, grads) if grads else ()
    given = [x.detach() for x in arguments[0].values() if x is not None]
    return [*(out.detach() for out in outs), *given], [*found]


def leaves_of(arguments):
    return [x for x in arguments[0].values() if x is not None and x.requires_grad]


def assert_as_eager(sample, gots, wants, grads=()):
    """The bits of eager mode; of a norm, what the definition says."""
    assert [x.dtype for x in gots[0]] == [x.dtype for x in wants[0]]
    if sample.op.is_operator:
        for got, want in zip((*gots[0], *gots[1]), (*wants[0], *wants[1]), strict=True):
            assert torch.equal(got, want)
        return
    sample.check_values(gots[0][: len(sample.op.tensors)])
    if grads:
        sample.check_gradients(sample.leaves(), grads, gots[1])


# torch.compile


@by_turns(OPS, ((2, False), (3, True)), "few, dynamic")
def test_one_graph_has_the_bits_of_eager(op, few, dynamic, device):
    """And where sizes are dynamic it serves all of them: tokens, heads, widths, starts."""
    # symbolic gradients of a norm's many operators take PyTorch 20 seconds
    traced_by = "aot_eager" if op.is_operator or not dynamic else "eager"
    counter = CompileCounterWithBackend(traced_by)
    step = step_of(op)
    compiled = torch.compile(step, backend=counter, fullgraph=True, dynamic=dynamic)
    for sizes in (0, 1) if dynamic else (0, 0):
        sample = sample_of(op, few, device, sizes)
        grads = sample.gradients_like(sample.call()) if op.differentiable else ()
        found = [results_of(function, sample, grads) for function in (compiled, step)]
        assert_as_eager(sample, *found, grads)
        for got, want in zip(*(outs for outs, _ in found), strict=True):
            assert got.stride() == want.stride()
    assert counter.frame_count == 1


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@by_turns(OPS, ("angles", "cos and sin", "on the fly"), "freqs")
def test_a_number_of_tokens_that_depends_on_values(op, freqs, device):
    """As in `x[mask]`: only the run knows it."""
    sample, step = op.sample(device, tensor_format="thd", positions="ids", freqs=freqs), step_of(op)

    def of_some(mask, given, freqs, options):
        given = {name: x[mask] if name in op.tensors else x for name, x in given.items()}
        options = options | {"position_ids": options["position_ids"][mask]}
        if op.name == "rope_to_cache":  # its last token has no slot
            options["slot_mapping"] = options["slot_mapping"][mask[:-1]]
        return step(given, freqs, options)

    compiled = torch.compile(of_some, backend="aot_eager", fullgraph=True)
    tokens = sample.given[op.tensors[0]].shape[0]
    for every in (2, 3):
        mask = torch.arange(tokens, device=device) % every == 0
        gots, wants = (f(mask, *arguments_of(sample)) for f in (compiled, of_some))
        for got, want in zip(gots, wants, strict=True):
            if op.is_operator:
                assert torch.equal(got, want)
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("op", last_of_each_kind(OPS), ids=str)
def test_without_an_engine_it_is_one_graph_of_pytorchs_operators(op, plain_pytorch):
    """As on a CPU that nobody has told to interpret. What is asked then is asked in a trace."""
    torch._dynamo.reset()
    sample, step = sample_of(op, 0, "cpu"), step_of(op)
    grads = sample.gradients_like(sample.call()) if op.differentiable else ()
    compiled = torch.compile(step, backend="eager", fullgraph=True)
    assert_as_eager(sample, *[results_of(x, sample, grads) for x in (compiled, step)], grads)


@pytest.mark.gpu
@each_few
@each_op
def test_inductor_has_the_bits_of_eager(op, few):
    sample, step = sample_of(op, few, "cuda"), step_of(op)
    grads = sample.gradients_like(sample.call()) if op.differentiable else ()
    compiled = torch.compile(step, fullgraph=True)
    assert_as_eager(sample, *[results_of(x, sample, grads) for x in (compiled, step)], grads)


@pytest.mark.parametrize(
    "op, wants_grad",
    [
        *((op, False) for op in last_of_each_kind(IN_PLACE)),
        *((op, True) for op in last_of_each_kind(WITH_GRADIENT)),
    ],
    ids=str,
)
def test_in_place_in_one_graph(op, wants_grad, device):
    """Of what it is given; where a gradient is wanted, of what the graph itself has made."""
    sample = sample_of(op, 2, device)
    grads = sample.gradients_like(sample.call()) if wants_grad else ()
    step = step_of(op, inplace=True)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    found = [results_of(function, sample, grads) for function in (compiled, step)]
    assert_as_eager(sample, *found)
    if not grads:
        for out, (name, t) in zip(found[0][0], sample.given.items(), strict=False):
            assert name not in op.inplace or not torch.equal(out, t)


BAD_VALUES = {  # where tokens are, the argument that says so, and what spoils it
    "an id past the table": ("ids", "position_ids", lambda ids: ids + 10**6),
    "an id below 0": ("ids", "position_ids", lambda ids: ids - 10**6),
    "a start below 0": ("starts", "start_positions", lambda starts: starts - 1000),
    "falling cu_seqlens": ("in order", "cu_seqlens", lambda starts: starts[[0, 3, 1, 2, 4]]),
    "uneven chunks": ("zigzag", "cu_seqlens", lambda starts: starts + (starts > 0)),
}


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there no operator of ours runs on a CPU, to look at values"
)
@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_bad_values_are_errors_when_the_graph_runs_and_nothing_is_written(op):
    """Each of them by one function, and by all functions one: each operator has to look."""
    names = BAD_VALUES if op is OPERATORS[0] else ["an id past the table"]
    for positions, argument, spoil in map(BAD_VALUES.get, names):
        packed = {"tensor_format": "thd"} if argument == "cu_seqlens" else {}
        sample = op.sample("cpu", positions=positions, rows="just enough", **packed)
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("eager")
        step = torch.compile(step_of(op, bool(op.inplace)), backend=counter, fullgraph=True)
        step(*arguments_of(sample))
        given, freqs, options = arguments_of(sample)
        before = {n: x.clone() for n, x in given.items()}
        options[argument] = spoil(options[argument])
        # PyTorch itself leaves gradients off where a compiled region without them raises
        with torch.enable_grad(), pytest.raises(ValueError, match=rf"^(freqs|{argument}) "):
            step(given, freqs, options)
        assert counter.frame_count == 1
        assert all(torch.equal(x, before[n]) for n, x in given.items())


@pytest.mark.parametrize("op", last_of_each_kind(DIFFERENTIABLE), ids=str)
@pytest.mark.parametrize("used", (slice(None), slice(1)), ids=("all", "the first alone"))
def test_a_backward_that_is_compiled_alone(op, used, device):
    """As compiled autograd does it: the forward was eager, by the kernel. Of q alone, too."""
    sample = sample_of(op, 0, device)
    leaves = sample.leaves()
    outs = sample.call(leaves)
    grads = sample.gradients_like(outs)
    for grad in grads[len(outs[used]) :]:
        grad.zero_()
    loss = sum((out * grad).sum() for out, grad in zip(outs[used], grads, strict=False))
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(lambda loss: loss.backward(), backend="aot_eager")(loss)
    found = [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves.values()]
    sample.check_gradients(leaves, grads, found)


# other graphs


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the calls of the package's operators."""

    def __init__(self, graph):
        super().__init__(graph)
        self.calls = []

    def call_function(self, target, args, kwargs):
        if getattr(target, "namespace", None) == "rope_kernels":
            self.calls.append((target, args, kwargs))
        return super().call_function(target, args, kwargs)


@pytest.mark.usefixtures("needs_triton")
@by_turns(OPS, ((0, True), (1, False)), "few, inplace")
def test_make_fx_records_operators_that_pass_opcheck(op, few, inplace, device):
    """In a forward, and in a backward that is traced alone; none of a norm, for compilers fuse."""
    sample = sample_of(op, few, device, layout="transposed")
    step = step_of(op, inplace and bool(op.inplace))
    wanted = results_of(step, sample)
    recorder = Recorder(make_fx(step)(*arguments_of(sample)))
    outs = recorder.run(*arguments_of(sample))
    assert_as_eager(sample, (outs, []), (wanted[0][: len(outs)], []))
    recorders = [recorder]
    if op.differentiable and not inplace:
        leaves = sample.leaves()
        outs = sample.call(leaves)

        def backward(*grads):
            return torch.autograd.grad(outs, [*leaves.values()], grads, retain_graph=True)

        grads = sample.gradients_like(outs)
        recorders.append(Recorder(make_fx(backward)(*grads)))
        sample.check_gradients(leaves, grads, recorders[1].run(*grads))
    for recorder in recorders:
        assert bool(recorder.calls) is op.is_operator
        for operator, args, kwargs in recorder.calls:
            torch.library.opcheck(operator, args, kwargs)


@pytest.mark.parametrize("op", last_of_each_kind(OPS), ids=str)
def test_exported_with_every_dimension_dynamic(op, device):
    samples = [sample_of(op, 1, device, sizes, columns="as many as turn") for sizes in (0, 1)]
    step = step_of(op)

    class Exported(torch.nn.Module):
        def forward(self, given, freqs, where):
            return step(given, freqs, {**samples[0].options(), **where})

    def given_to(sample):
        given, freqs, options = arguments_of(sample)
        return given, freqs, {n: x for n, x in options.items() if isinstance(x, torch.Tensor)}

    def any_size(x):
        return [torch.export.Dim.AUTO] * x.dim() if isinstance(x, torch.Tensor) else None

    dims = tree_map(any_size, given_to(samples[0]))
    program = torch.export.export(Exported(), given_to(samples[0]), dynamic_shapes=dims)
    for sample in samples:
        outs = program.module()(*given_to(sample))
        assert_as_eager(sample, (outs, []), (results_of(step, sample)[0][: len(outs)], []))


# transforms and derivatives of all orders: those of the definition


def sum_of_cubes(function):
    return lambda *xs: sum((out**3).sum() for out in function(*xs))


def all_of(xs):
    return tuple(range(len(xs)))


def dual_numbers(function, xs):
    with forward_ad.dual_level():
        outs = function(*(forward_ad.make_dual(x, x.sin()) for x in xs))
        return [forward_ad.unpack_dual(out).tangent for out in outs]


def batched(xs, dim=-1):
    return [torch.stack((x, x.sin(), 2 * x), dim) for x in xs]


def vmap_of_one(which):
    """Over one argument alone, in the last dimension of memory."""

    def transform(function, xs):
        dims, given = [None] * len(xs), list(xs)
        dims[which], given[which] = -1, *batched([xs[which]])
        return func.vmap(function, tuple(dims))(*given)

    return transform


def vmap_of_grad(function, xs):
    return func.vmap(func.grad(sum_of_cubes(function), all_of(xs)))(*batched(xs, 0))


def gradients_in_batches(function, xs):
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them, of a call twice."""
    leaves = [x.clone().requires_grad_() for x in xs]
    found = []
    for _ in range(2):
        outs = function(*leaves)
        grads = batched([out.detach() for out in outs], 0)
        found += torch.autograd.grad(outs, leaves, grads, is_grads_batched=True)
    return found


def second_derivatives(function, xs):
    leaves = [x.clone().requires_grad_() for x in xs]
    loss = sum_of_cubes(function)(*leaves)
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    return [*first, *torch.autograd.grad(sum((x**2).sum() for x in first), leaves)]


TRANSFORMS = {
    "vjp": lambda f, xs: func.vjp(f, *xs)[1](f(*xs)),
    "jvp": lambda f, xs: func.jvp(f, tuple(xs), tuple(x.sin() for x in xs)),
    "dual numbers": dual_numbers,
    "hessian": lambda f, xs: func.hessian(sum_of_cubes(f))(*xs),
    "vmap of the first": vmap_of_one(0),
    "vmap of the last": vmap_of_one(-1),
    "vmap of grad": vmap_of_grad,
    "gradients in batches": gradients_in_batches,
    "second derivatives": second_derivatives,
}


TRANSFORMED = [
    (few, name, trained)
    for few in range(len(FEW))
    for name in TRANSFORMS
    for trained in (False, True)
    if not (trained and few == 2)  # on the fly no table is trained
    if few == 0 or name != "hessian"  # which takes a second
]


@by_turns(DIFFERENTIABLE, TRANSFORMED, "few, transform, trained")
def test_transformed_it_is_the_definition(op, few, transform, trained, device):
    case = {"s": 2, "d": 8, "dtype": torch.float64, "layout": "contiguous", "weight": "row"}
    sample = op.sample(device, **(FEW[few] | case))
    names, tables = [n for n in op.arguments if sample.given[n] is not None], ()
    if trained:
        tables = sample.freqs if isinstance(sample.freqs, tuple) else (sample.freqs,)

    def split(xs):
        given, freqs = dict(zip(names, xs, strict=False)), xs[len(names) :]
        return given, (freqs if len(freqs) > 1 else freqs[0]) if freqs else sample.freqs

    def ours(*xs, **options):
        given, freqs = split(xs)
        return sample.call(given, freqs=freqs, **options)

    def exact(*xs):
        given, freqs = split(xs)
        return op.define(sample, {**sample.given, **given}, freqs)

    xs = [sample.given[n] for n in names] + [x.double() for x in tables]
    apply = TRANSFORMS[transform]
    want = apply(exact, xs)
    torch.testing.assert_close(apply(ours, xs), want)
    if op.is_operator and few == 0 and not trained and op.inplace:
        made = apply(lambda *xs: ours(*(x * 1 for x in xs), inplace=True), xs)
        torch.testing.assert_close(made, want)


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("power", (1, 3))  # with 1 what comes back depends on no leaf
@pytest.mark.parametrize("op", [op for op in DIFFERENTIABLE if not op.is_operator], ids=str)
def test_a_second_derivative_of_a_norm_is_never_lost_silently(op, power, device):
    """Asked for by a penalty on gradients, of each leaf; first gradients are the kernel's."""
    sample = sample_of(op, 0, device)
    leaves = [*sample.leaves().values()]
    outs = sample.call(dict(zip(op.arguments, leaves, strict=True)))
    loss = sum((out**power).sum() for out in outs)
    want = torch.autograd.grad(loss, leaves, retain_graph=True)
    found = torch.autograd.grad(loss, leaves, create_graph=True)
    assert all(map(torch.equal, found, want))
    plain = sample.call(dict(zip(op.arguments, leaves, strict=True)), fused=False)
    plain_loss = sum((out**power).sum() for out in plain)
    plain_found = torch.autograd.grad(plain_loss, leaves, create_graph=True)
    for x, y in zip(found, plain_found, strict=True):
        gots, wants = (
            torch.autograd.grad(z + (gradient**2).sum(), leaves, retain_graph=True)
            for z, gradient in ((loss, x), (plain_loss, y))
        )
        for got, want in zip(gots, wants, strict=True):
            assert_near(got, want.double(), 1 + want.double().abs().max(), 1e-5)


# what autograd keeps for a backward


@pytest.mark.parametrize("name", ("rope_fw", "rope_bw"))
def test_a_function_of_one_direction_has_a_tangent(name, device):
    """As its docstring says. The map is linear, so a tangent turns as the tensor does."""
    (op,) = (op for op in OPS if op.name == name)
    sample = sample_of(op, 0, device)
    (x,) = (sample.given[name] for name in op.tensors)

    def turned(x):
        return sample.call({op.tensors[0]: x})[0]

    out, tangent = func.jvp(turned, (x,), (x.sin(),))
    torch.testing.assert_close((out, tangent), (turned(x), turned(x.sin())))
    assert not func.grad(lambda x: turned(x).square().sum())(x).any()


@each_differentiable
def test_a_backward_has_the_same_bits(op, device):
    """In a checkpoint, of copies of what was kept, and under autocast, which changes no dtype."""
    sample = sample_of(op, 0, device)
    names = [*sample.leaves()]

    def block(*xs):
        xs = dict(zip(names, xs, strict=True))
        return sample.call(xs | {n: xs[n].sin() for n in op.tensors})

    def copied(*xs):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
            return block(*xs)

    def autocast(*xs):
        with torch.autocast(device, dtype=torch.float16):
            return block(*xs)

    def results(function):
        leaves = [*sample.leaves().values()]
        outs = function(*leaves)
        torch.autograd.backward(outs, grads)
        return [*outs, *(x.grad for x in leaves)]

    grads = sample.gradients_like(sample.call())
    wants = results(block)
    ways = {
        "reentrant": partial(checkpoint, block, use_reentrant=True),
        "not reentrant": partial(checkpoint, block, use_reentrant=False),
        "copied": copied,
        "autocast": autocast,
    }
    for way, function in ways.items():
        for got, want in zip(results(function), wants, strict=True):
            assert got.dtype == want.dtype and torch.equal(got, want), way


@pytest.mark.parametrize("where", ("eager", "inside a graph", "after a graph"))
@pytest.mark.parametrize("op", [op for op in DIFFERENTIABLE if len(op.tensors) == 1], ids=str)
def test_what_is_overwritten_before_a_backward_is_an_error_or_too_late(op, where, device):
    """Never a wrong gradient. A compiled norm keeps what it has made of a table and a weight."""
    sample, step = sample_of(op, 0, device), step_of(op)
    grads = sample.gradients_like(sample.call())
    leaves = sample.leaves()
    if where == "after a graph":
        step = torch.compile(step, backend="aot_eager", fullgraph=True)

    def write_behind(leaves, freqs, name):
        given, freqs = {n: x * 1 for n, x in leaves.items()}, freqs * 1
        outs = step(given, freqs, sample.options())
        with torch.no_grad():
            (given | {"freqs": freqs})[name].mul_(2)
        return outs

    if where == "inside a graph":
        write_behind = torch.compile(write_behind, backend="aot_eager", fullgraph=True)
    for name in (*op.arguments, "freqs"):
        needed = name == "freqs" if op.is_operator else where == "eager"
        try:
            outs = write_behind(leaves, sample.freqs, name)
            found = torch.autograd.grad(outs, [*leaves.values()], grads)
        except Exception as error:
            assert "modified by an inplace operation" in str(error), name
        else:
            assert not needed, name
            sample.check_gradients(leaves, grads, found)


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("freqs", ("angles", "cos and sin", "on the fly"))
@pytest.mark.parametrize("op", [op for op in DIFFERENTIABLE if not op.is_operator], ids=str)
def test_what_is_overwritten_before_a_second_derivative_is_an_error_or_too_late(op, freqs, device):
    """It would belong to other angles, positions, rows or weights than the first one."""
    sample = sample_of(op, 0, device, freqs=freqs, positions="ids")
    leaves = [*sample.leaves().values()]

    def second(name=None):
        """The second derivatives, if what has this name is overwritten after the first ones."""
        options, tables = copy.deepcopy((sample.options(), sample.freqs))
        given = {n: x * 1 for n, x in zip(op.arguments, leaves, strict=True)}
        outs = sample.call(given, freqs=tables, **options)
        upstream = [torch.ones_like(out) for out in outs]
        first = torch.autograd.grad(outs, leaves, upstream, create_graph=True)
        written = {**given, **options, "freqs": tables}.get(name)
        for x in written if isinstance(written, tuple) else (written,):
            if isinstance(x, RotaryPositionEmbedding):
                x.inv_freq = 2 * x.inv_freq
            elif x is not None:
                x.detach().zero_()
        return torch.autograd.grad(sum(x.square().sum() for x in first), leaves)

    want = second()
    for name in (*op.arguments, "freqs", "position_ids"):
        try:
            found = second(name)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), name
        else:
            assert all(map(torch.equal, found, want)), name
