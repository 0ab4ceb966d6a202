"""What PyTorch and Triton can do with a call, and what computes it: `path_of`.

It is the kernel, an operator that launches it, or plain PyTorch. PyTorch has no public API for most
of these questions. This is the only file of the core that uses its private names. It never imports
Triton.
"""

import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

# All private names of PyTorch that the core uses. If a release drops one, the import fails, and
# not a call much later. Names bound here are also faster than attributes.
try:
    from torch._compile import _disable_dynamo

    # A decorator that keeps Dynamo from tracing a function. Only a call imports Dynamo.
    without_dynamo = _disable_dynamo

    # The number of active TorchDispatchModes, including tracers'. torch.compile can't trace it.
    count_modes = torch._C._len_torch_dispatch_stack
    _mode_of = torch._C._get_dispatch_mode
    _PROXY, _FAKE = torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE
    _includes = torch._C._dispatch_tls_is_dispatch_key_included
    _PRE_DISPATCH = torch._C.DispatchKey.PreDispatch  # make_fx(..., pre_dispatch=True)
    _tracing_state = torch._C._get_tracing_state

    # Whether a transform of torch.func is active, such as vmap or grad.
    is_in_torch_func = torch._C._are_functorch_transforms_active
    _is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    _unwrapped = torch._C._functorch.get_unwrapped
    _is_batch = torch._C._functorch.is_batchedtensor
    _is_batch_of_gradients = torch._C._functorch.is_legacy_batchedtensor

    # How a view was made. Autograd allows writes only to an ordinary one, which wasn't made by
    # chunk or split, or in no_grad.
    creation_of = torch._C._autograd._get_creation_meta
    ORDINARY = torch._C._autograd.CreationMeta.DEFAULT

    # These are used elsewhere. Reading them here only checks that they exist.
    _attributes = (
        forward_ad._current_level,
        Tensor._base,
        nn.Module()._buffers,
        nn.Module()._forward_hooks,  # with the next three, see `hooks_of`
        nn.Module()._forward_pre_hooks,
        nn.Module()._backward_hooks,
        nn.Module()._backward_pre_hooks,
        nn.Module()._compiled_call_impl,
        nn.Module()._non_persistent_buffers_set,
        nn.Module._apply,  # RotaryPositionEmbedding overrides this and the next one
        nn.Module._load_from_state_dict,
        super(torch.autograd.Function, torch.autograd.Function).apply,
    )
except (AttributeError, ImportError) as missing:
    words = f"rope_kernels uses a private name that torch {torch.__version__} lacks: {missing}"
    remedy = "Install a torch that docs/install.md lists, or a rope_kernels made for this torch"
    raise ImportError(f"{words}. {remedy}") from missing


# The current stream of the GPU with this index, as the integer that Triton expects. PyTorch has
# this function only if it was built for GPUs.
stream_of: Callable[[int], int] = getattr(
    torch._C,
    "_cuda_getCurrentRawStream",
    lambda device: torch.cuda.current_stream(device).cuda_stream,
)

# The tensor that a view belongs to; None: it isn't a view.
base_of: Callable[[Tensor], Tensor | None] = attrgetter("_base")
# The buffers of a module, by name. This is faster than an attribute of the module.
buffers_of: Callable[[nn.Module], dict[str, Tensor | None]] = attrgetter("_buffers")
# The names of a module's buffers that are not in its state dict.
unsaved_of: Callable[[nn.Module], set[str]] = attrgetter("_non_persistent_buffers_set")
# The hooks that a call of a module runs, in a dict for each kind. torch.compile can't trace it.
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
hooks_of: Callable[[nn.Module], tuple[dict[int, object], ...]] = attrgetter(*_HOOKS)


# Whether Triton can run a kernel


def is_compiled_for_nvidia(t: Tensor) -> bool:
    """Whether a kernel for `t` is compiled, and for an NVIDIA GPU."""
    return runs_in_triton(t) and not is_interpreted(t) and torch.version.hip is None


def runs_in_triton(t: Tensor) -> bool:
    """Whether Triton runs kernels on `t`: compiled on a GPU, or in the interpreter if it is on."""
    if t.is_cuda and _HAS_COMPILER:
        return True
    if is_interpreted(t):
        return True
    if t.is_cuda and not torch.compiler.is_compiling():
        # Let the warning point to the line that called the package. PyTorch's frames, such as a
        # hook's, may be in between.
        level, frame = 1, sys._getframe()
        inner = __name__.partition(".")[0], "torch"  # A copy of the package has another name.
        while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
            level, frame = level + 1, frame.f_back
        words = f"{_why_no_engine(t)}: RoPE runs in plain PyTorch, slowly"
        warnings.warn(words, stacklevel=level)
    return False


def _why_no_engine(t: Tensor) -> str:
    """Why Triton can't run a kernel on `t`, as an error or a log line says it."""
    if not _HAS_TRITON:
        return "Triton is not installed"
    if t.is_cuda:
        return "Triton's compiler is not installed"
    if t.is_cpu:
        return "the tensors are on a CPU, and TRITON_INTERPRET=1 is not set"
    return f"Triton does not run on {t.device.type}"


def is_interpreted(t: Tensor) -> bool:
    """Whether Triton's interpreter runs kernels on `t`."""
    if not _HAS_TRITON or not (t.is_cuda or t.is_cpu):
        return False
    return interpreter_is_on() or (_INTERPRETS_ON_A_CPU and t.is_cpu)


def interpret_on_a_cpu() -> None:
    """From now on, kernels are interpreted where tensors are on a CPU: Triton has been told so."""
    global _INTERPRETS_ON_A_CPU
    _INTERPRETS_ON_A_CPU = True


def interpreter_is_on() -> bool:
    """Whether Triton's interpreter is on, which runs kernels on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def triton_is_installed() -> bool:
    """Whether Triton can be imported; its compiler may be missing."""
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # `triton` in sys.modules is a stub without a spec, as in some test suites.
        return False


def compiler_is_installed() -> bool:
    """Whether Triton can compile.

    On systems without Triton packages, the lab installs only the interpreter. There the compiled
    library is replaced by a Python file, `triton/_C/libtriton/__init__.py`.
    """
    spec = importlib.util.find_spec("triton") if triton_is_installed() else None
    if spec is None:
        return False
    folder = os.path.dirname(spec.origin or "")
    return not os.path.exists(os.path.join(folder, "_C", "libtriton", "__init__.py"))


_HAS_TRITON, _HAS_COMPILER = triton_is_installed(), compiler_is_installed()
_INTERPRETS_ON_A_CPU = False


# What PyTorch does with a call


def is_eager() -> bool:
    """Whether the current call is neither traced nor transformed."""
    return not (is_traced() or is_transformed())


def is_traced() -> bool:
    """Whether torch.compile, make_fx or FakeTensorMode records this call without running it."""
    if torch.compiler.is_compiling() or _includes(_PRE_DISPATCH):
        return True
    if not count_modes():  # The most frequent case.
        return False
    return _mode_of(_PROXY) is not None or _mode_of(_FAKE) is not None


def is_watched() -> bool:
    """Whether a TorchDispatchMode sees the operators of an untraced call.

    Examples are selective checkpoints, `allow_mutation_on_saved_tensors` and `FlopCounterMode`.
    Such a mode doesn't see a launch, because that isn't an operator.
    """
    return not torch.compiler.is_compiling() and count_modes() > 0 and not is_traced()


def is_transformed() -> bool:
    """Whether torch.func, forward mode or torch.jit.trace is active: they only handle operators."""
    is_forward = forward_ad._current_level >= 0
    return is_forward or is_in_torch_func() or _tracing_state() is not None


def is_known(condition: bool) -> bool:
    """Whether a condition on sizes holds, as far as a trace knows.

    A number of tokens that depends on values, as in `x[mask]`, is known only when the graph runs.
    torch.compile raises an error if such a size decides what is traced.
    """
    if not _is_recorded(condition):
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # a trace has imported it

    return guard_or_false(condition)


def check_in_run(condition: bool) -> None:
    """Have a graph check a condition on sizes that only its run knows."""
    if _is_recorded(condition):
        torch._check(condition)  # type: ignore[no-untyped-call]  # PyTorch has no types


def _is_recorded(condition: bool) -> bool:
    return torch.compiler.is_compiling() or isinstance(condition, torch.SymBool)


def has_values(x: Tensor) -> bool:
    """Whether elements can be read: not on meta, in vmap, or of a DTensor, FakeTensor and such."""
    if type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__ or x.is_meta:
        return False
    # torch.autograd.grad(..., is_grads_batched=True) uses an older vmap than torch.func's.
    return not (_is_batch(x) or _is_batch_of_gradients(x))


def have_elements(tensors: Iterable[Tensor | None]) -> bool:
    """Whether elements of all tensors can be read, and torch.func has wrapped none of them."""
    return all([x is None or (has_values(x) and not _is_wrapped(x)) for x in tensors])


def have_memory(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a kernel can read all tensors.

    Forward mode's zeros and functional tensors have elements, but no address.
    """
    if not have_elements(tensors):
        return False
    return all([x is None or x.data_ptr() or not x.numel() for x in tensors])


def is_dtensor(x: object) -> bool:
    """Whether `x` is a DTensor, or one wrapped by torch.func. Doesn't import torch.distributed."""
    if not isinstance(x, Tensor):
        return False
    if hasattr(x, "device_mesh"):
        return True
    # Most calls have no active transform. While compiling, wrappers can't be opened.
    if torch.compiler.is_compiling() or not is_in_torch_func():
        return False
    return _is_wrapped(x) and is_dtensor(_unwrapped(x))


def is_differentiated(t: Tensor) -> bool:
    """Whether a derivative with respect to `t` is requested, also in forward mode or torch.func.

    `torch.no_grad` turns off gradients, but not forward mode.
    """
    if torch.compiler.is_compiling():
        return t.requires_grad and torch.is_grad_enabled()
    if forward_ad._current_level >= 0:
        dual = forward_ad.unpack_dual(t)  # type: ignore[no-untyped-call]  # PyTorch has no types
        if dual.tangent is not None:
            return True
    if not torch.is_grad_enabled():
        return False
    while not t.requires_grad and _is_wrapped(t):
        t = _unwrapped(t)
    return t.requires_grad


def wants_grad(tensors: Iterable[object]) -> bool:
    """Whether autograd records operations on these tensors. Other objects are ignored."""
    if torch.is_grad_enabled():
        for x in tensors:  # This runs in every call, and a generator would be slower.
            if x is not None and getattr(x, "requires_grad", False):
                return True
    return False


# Modules and functions of autograd


def is_compiled(module: nn.Module) -> bool:
    """Whether this is what `torch.compile(model)` returned, or `model.compile()` was called."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of the module runs hooks. In an eager call, `any(hooks_of(...))` is faster."""
    return any([getattr(module, name) for name in _HOOKS])


def apply_without_functorch(
    function: type[torch.autograd.Function],
) -> Callable[..., tuple[Tensor, ...]]:
    """The `apply` of an autograd function, without its search for torch.func's wrappers.

    A call that uses the kernel has no wrapped arguments. The search takes 2.7 us of 8.6 (five
    arguments, torch 2.13, a CPU with two shared cores).
    """
    apply: Callable[..., tuple[Tensor, ...]]
    apply = super(torch.autograd.Function, function).apply  # type: ignore[misc]  # has no stub
    return apply


# What computes a call

_log = logging.getLogger("rope_kernels")
_logged: set[str] = set()


class Path(NamedTuple):
    """What computes a call, and why it isn't the kernel."""

    by: Literal["kernel", "operator", "pytorch"]  # an operator launches the same kernel
    reason: str = ""


KERNEL = Path("kernel")
_TRACED = Path("operator", "torch.compile, make_fx or FakeTensorMode records operators")
_WATCHED = Path("operator", "a TorchDispatchMode watches operators")
_TRAINED = Path("pytorch", "freqs requires a gradient, which the kernel doesn't compute")
_UNFUSED = Path("pytorch", "fused is False")
_TRANSFORMED = Path("pytorch", "torch.func, forward mode or torch.jit.trace transforms the call")
_NO_MEMORY = Path("pytorch", "a tensor overrides operators, has no memory, or is wrapped")


class Tables(Protocol):
    """What `path_of` reads of a `Rotation`, whose file imports this one."""

    @property
    def table(self) -> Tensor: ...

    @property
    def sin(self) -> Tensor | None: ...

    @property
    def tensors(self) -> tuple[Tensor | None, ...]: ...


class Cached(Protocol):
    """What `path_of` reads of a `launch.Known`."""

    launch: Callable[..., None] | None


def path_of(
    tensors: Sequence[Tensor | None],
    rotation: Tables,
    *,
    fused: bool,
    known: Cached | None,
) -> Path:
    """Choose the path of a checked call. The first condition that holds decides.

    Args:
        tensors: the call's tensors, except those of `rotation`.
        rotation: as `api.rotation_of` returned it.
        fused: the argument of the call.
        known: the cache entry that `api.rotation_of` returned.
    """
    table, sin = rotation.table, rotation.sin
    is_trained = table.requires_grad or (sin is not None and sin.requires_grad)
    if is_trained and torch.is_grad_enabled():
        return _TRAINED
    # The fast path: traced and transformed calls have no cache entry, and only compiled kernels are
    # cached, so the questions below need no answer.
    if known is not None and known.launch is not None and not count_modes():
        return KERNEL
    if not fused:
        return _UNFUSED
    if is_transformed():
        return _TRANSFORMED
    t = tensors[0]
    assert t is not None, "the first tensor is always there"
    if not runs_in_triton(t):
        return Path("pytorch", _why_no_engine(t))
    if is_traced():
        return _TRACED
    if not have_memory((*tensors, *rotation.tensors)):
        return _NO_MEMORY
    return _WATCHED if is_watched() else KERNEL


def log_path(function: str, path: Path) -> None:
    """Log what computes a call that doesn't use the kernel."""
    by = "an operator, which launches the kernel" if path.by == "operator" else "plain PyTorch"
    log_once(function, by, path.reason)


def log_once(function: str, by: str, reason: str) -> None:
    """Log what computes a function's calls, once for each reason."""
    log(f"{function} is computed by {by}: {reason}")


def log(line: str) -> None:
    """Log a line at level INFO, once.

    Nothing is logged while PyTorch traces, because `torch.compile(fullgraph=True)` can't log.
    """
    if is_traced() or not _log.isEnabledFor(logging.INFO):
        return
    if line not in _logged:
        _logged.add(line)
        _log.info(line)
