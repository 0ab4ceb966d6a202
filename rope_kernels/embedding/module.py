"""The module: which frequencies it has, and the buffer of turns that kernels read."""

import math
import weakref
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..machine.modes import has_values, is_differentiated, is_traced, is_transformed
from .arguments import (
    EXACT,
    check_dtype,
    check_length,
    check_positions,
    check_positive,
    check_rotary_dim,
    check_span,
    short,
)
from .configuration import read_layer
from .frequencies import Frequencies, given
from .turns import for_both_members, in_turns, radians

_OF_INTERPOLATION = "seq_len_interpolation_factor", "pretrained_max_position_embeddings"


@dataclass(frozen=True, slots=True)
class _Filled:
    """What the buffer of turns was last filled from, and the buffer."""

    inv_freq: Tensor  # kept alive, or new frequencies could get its address
    address: int
    version: int
    scale: float
    turns: Tensor  # the buffer's memory, by a tensor that counts its own changes: there are none
    moved: tuple[tuple[weakref.ref, Tensor], ...]  # earlier `turns`, and where they are now


class RotaryPositionEmbedding(nn.Module):
    """Make the table of angles: position times inverse frequency, in radians.

    Pair i of d2/2 turns by `position * rotary_base ** (-2 i / d2)` (RoFormer, section 3.2.2). The
    functions that rotate also take the module itself instead of its table. They then read no angle
    from memory, and every angle is right to fp32's last digits up to position 10^12.

    Args:
        dim: head dimension d.
        rotary_percent: share of the head dimension that is rotated: d2 = int(dim * rotary_percent),
            which must be even.
        seq_len_interpolation_factor: divide positions by this (position interpolation), if
            `pretrained_max_position_embeddings` is given too.
        pretrained_max_position_embeddings: sequence length of the training, in positions. Past it
            times the factor, `max_seq_len / pretrained_max_position_embeddings` divides instead.
        rotary_base: base of the geometric series of frequencies.
        interleaved: each angle appears in two neighboring columns (a, a, b, b, ...), for the
            interleaved pairing, instead of once in each half (a, b, ..., a, b, ...).
        persistent: `inv_freq` is in the state dict, its only entry. False: it is not saved, and
            checkpoints without it, such as Hugging Face's, load with `strict=True`.
        attention_factor: multiplies cos and sin, and so the rotated elements (YaRN, LongRoPE). In
            fp32, before cos and sin are rounded, as in Hugging Face's models. Calls that take the
            module itself use it, and `cos_sin`. A table of angles can't hold it.
        inv_freq: frequencies of your own instead of those of `rotary_base`: (d2 / 2,), fp32 or
            fp64, radians per position, finite. They are copied to the default device.

    Attributes:
        inv_freq: (d2 / 2,), fp32 or fp64, radians per position, finite. A buffer. It keeps its
            dtype when the module is cast, because in bf16 an angle at position 1000 would be wrong
            by radians.
        rotary_base: as given, or `rope_theta`. Assignment sets `inv_freq`, by `reset_parameters`.
            NaN if `inv_freq` was given: then it can't be assigned.
        attention_factor: as given, a float. May be assigned.

    Changing `inv_freq`: calls that take the module itself read the frequencies in turns, from a
    second buffer that is not saved. Assignment, `load_state_dict` and `reset_parameters` update it
    at once, and within torch.compile at the next eager call, which also sees a write in place. Only
    an update checks the values, so a call that PyTorch traces or transforms doesn't. Each update
    waits for the device, then writes to the same address, so CUDA graphs that were captured before
    replay with the new frequencies. The backward of a call made before the update uses the
    frequencies of that call.

    - Changes that PyTorch doesn't count are not supported, such as `inv_freq.data = ...` or
      `torch.distributed.broadcast`. After them, write `rope.inv_freq = rope.inv_freq.clone()`.
    - PyTorch doesn't count changes of inference tensors. The module replaces an `inv_freq` that is
      one by a normal copy, so writes in place to `rope.inv_freq` are seen.
    - `__init__` calls `reset_parameters`, and so does `to_empty` of a module on the meta device. A
      subclass with other frequencies overrides that method. What the method reads has to be set
      before `super().__init__`.
    - A module whose `forward` is overridden is refused as `freqs`. Pass its table instead,
      `freqs(max_seq_len)`. That runs forward hooks, too, which don't run otherwise.

    Raises:
        ValueError: an argument is out of range, `seq_len_interpolation_factor` came alone, or both
            `rotary_base` and `inv_freq` came; the message names it. Or an `inv_freq` that is not
            finite was assigned, or used by an eager call that takes the module itself.
        TypeError: an `inv_freq` of a dtype below fp32 was assigned or used; or a flag is no bool.
        RuntimeError: an update is needed while a CUDA graph is captured; or `load_state_dict` met
            such an `inv_freq`.

    Example:
        >>> RotaryPositionEmbedding(dim=4)(3)[:, 0, 0]  # of three positions, once in each half
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [1.0000, 0.0100, 1.0000, 0.0100],
                [2.0000, 0.0200, 2.0000, 0.0200]])

    Source: TransformerEngine's `RotaryPositionEmbedding`, same arguments, same fp32 arithmetic.
    """

    inv_freq: Tensor
    attention_factor: float
    _filled: _Filled | None = None

    def __init__(
        self,
        dim: int,
        rotary_percent: float = 1.0,
        seq_len_interpolation_factor: float | None = None,
        pretrained_max_position_embeddings: int | None = None,
        rotary_base: float = 10000.0,
        interleaved: bool = False,
        *,
        persistent: bool = True,
        attention_factor: float = 1.0,
        inv_freq: Tensor | None = None,
    ) -> None:
        super().__init__()
        factor, trained = seq_len_interpolation_factor, pretrained_max_position_embeddings
        self.rotary_dim = check_rotary_dim(dim, rotary_percent)
        for name, flag in (("interleaved", interleaved), ("persistent", persistent)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} is {flag!r}; accepted: False, True")
        check_positive("rotary_base", rotary_base)
        self.seq_len_interpolation_factor = factor
        self.pretrained_max_position_embeddings = trained
        if factor is not None and trained is None:
            came = f"seq_len_interpolation_factor is {factor}"
            came += " without pretrained_max_position_embeddings"
            raise ValueError(f"{came}; accepted: both, or pretrained_max_position_embeddings alone")
        self.interleaved, self.attention_factor = interleaved, attention_factor
        self._source, dtype = Frequencies(self.rotary_dim, rotary_base), torch.float32
        if inv_freq is not None:
            came = f"dim = {dim} and rotary_percent = {rotary_percent}"
            self._source = _given(inv_freq, self.rotary_dim, rotary_base, came)
            dtype = inv_freq.dtype
        memory = torch.empty(self.rotary_dim // 2, dtype=dtype)
        self.register_buffer("inv_freq", memory, persistent=persistent)
        self.register_buffer("_turns", None, persistent=False)
        self.reset_parameters()
        if not self._is_filled():
            self._refill(strict=False)

    @classmethod
    def from_config(
        cls,
        config: object,
        layer_type: str | None = None,
        *,
        seq_len: int | None = None,
        interleaved: bool = False,
    ) -> "RotaryPositionEmbedding | None":
        """The module that a model's configuration asks for, with `persistent=False`.

        docs/kernels.md has the types of rotations, the keys of each and where they may be. Sections
        (`mrope_section`) change no frequency: positions on several axes make a table.

        What is promised: `inv_freq`, on the CPU, has the bits that transformers 5.17 computes from
        the keys that its class reads. A class of transformers may ignore a key that is read here,
        as `LlamaConfig` does `partial_rotary_factor`, or `truncate` where each type of layer has a
        dict. HunYuan's `alpha` holds at any length, as from 5.23 on.

        Args:
            config: a configuration of Hugging Face; or a dict or an object with the same keys, and
                without `model_type`: with one it would lack what the model's class adds.
            layer_type: a key of `rope_parameters` that has a dict for each type of layer.
            seq_len: length of the longest sequence, in tokens. 'dynamic' and 'longrope' depend on
                it, and are chosen once, for sequences of every length. None: not longer than the
                original length.
            interleaved: as in the constructor. Configurations don't say which pairing a model has.

        Returns:
            None where `rope_parameters[layer_type]` is None: such layers don't rotate.

        Raises:
            ValueError, TypeError: a type is unknown, a key is missing or its value doesn't fit. A
                key of the rotation's dict is not read, or a name beside it that has rope, rotary,
                ntk or partial in it. Two keys say different widths. Several types of layers and no
                `layer_type`. A `model_type` whose configuration class `config` is not. A
                configuration of a vision tower, or of a model with a `text_config`: pass that one.
                The message names the key, what came and what is accepted.

        Source: `modeling_rope_utils.py` of transformers. It is not imported.
        """
        if seq_len is not None:
            check_length("seq_len", seq_len)
        layer = read_layer(config, layer_type, seq_len)
        if layer is None:
            return None
        source, attention_factor = layer
        module = cls(
            source.rotary_dim,
            rotary_base=source.base,
            interleaved=interleaved,
            persistent=False,
            attention_factor=attention_factor,
        )
        module._source = source
        module.reset_parameters()
        return module

    @property
    def rotary_base(self) -> float:
        """Base of the geometric series of frequencies; NaN if they were given."""
        return self._source.base

    @rotary_base.setter
    def rotary_base(self, base: float) -> None:
        before = self._source
        if before.formula is given:
            came = "rotary_base was assigned to a module whose inv_freq was given"
            raise ValueError(f"{came}; accepted: an assignment to inv_freq")
        check_positive("rotary_base", base)
        self._source = replace(before, base=base)
        try:
            self.reset_parameters()
        except Exception:
            self._source = before
            raise

    def reset_parameters(self) -> None:
        """Set `inv_freq` to what the constructor or `from_config` was given.

        In place if shape and dtype allow.
        """
        fresh, inv_freq = self._source.inv_freq(), self.inv_freq
        if (fault := _fault(fresh)) is not None:
            raise fault
        same_shape = inv_freq.shape == fresh.shape and inv_freq.is_contiguous()
        if same_shape and inv_freq.dtype in EXACT:
            with torch.no_grad():
                inv_freq.copy_(fresh)
            self._refill()
        else:
            self.inv_freq = fresh.to(inv_freq.device)

    def extra_repr(self) -> str:
        shown = [f"rotary_dim={self.rotary_dim}", *self._source.words]
        for name in ("seq_len_interpolation_factor", "pretrained_max_position_embeddings"):
            if (value := getattr(self, name)) is not None:
                shown.append(f"{name}={value}")
        if self.interleaved:
            shown.append("interleaved=True")
        if self.attention_factor != 1.0:
            shown.append(f"attention_factor={self.attention_factor}")
        if "inv_freq" in self._non_persistent_buffers_set:
            shown.append("persistent=False")
        return ", ".join(shown)

    def forward(self, max_seq_len: int, offset: int = 0) -> Tensor:
        """Angles of positions offset, ..., offset + max_seq_len - 1.

        Args:
            max_seq_len: number of positions s.
            offset: first position.

        Returns:
            (s, 1, 1, d2), fp32, radians, on the device of `inv_freq`. An fp32 angle is exact only
            to 2^-24 of itself, and inv_freq too: milliradians are lost at position 131 071.

        Raises:
            ValueError: `max_seq_len` is negative, or `attention_factor` is not 1.
            TypeError: `max_seq_len` is a tensor to rotate, or `inv_freq` has a dtype below fp32.
        """
        check_span(max_seq_len, offset)
        if self.attention_factor != 1.0:
            came = f"attention_factor is {self.attention_factor}, which no table of angles can hold"
            accepted = f"freqs.cos_sin(max_seq_len), in a call with rotary_dim={self.rotary_dim}"
            raise ValueError(f"{came}; accepted: {accepted}")
        inv_freq = _require_exact(self.inv_freq)
        position = torch.arange(max_seq_len, dtype=torch.float32, device=inv_freq.device)
        position = (position + offset) * self.position_scale(max_seq_len)
        # no matmul: autocast leaves it in fp32
        return for_both_members(position[:, None, None, None] * inv_freq, self.interleaved)

    def cos_sin(
        self, positions: Tensor | int, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines with one column per pair, right to their last digit at any position.

        A call takes them as `freqs`, with `rotary_dim`. Whole turns are removed exactly, as in
        calls that take the module itself. Both are multiplied by `attention_factor`.
        FlashAttention, vLLM and flashinfer keep such tables.

        Args:
            positions: of any shape, on the device of `inv_freq`: int8 to int64, uint8, fp32 or
                fp64. They need not be whole numbers: coordinates of image patches, as in DINOv3. A
                number n stands for 0 to n - 1.
            dtype: of the result: fp32, fp16, bf16 or fp64.

        Returns:
            cos and sin, each of the shape of `positions` with a last dimension of d2 / 2. For
            positions that are floats, and where `inv_freq` requires a gradient, the angle is a
            product in fp64, differentiable in both.

        Raises:
            ValueError: `positions` is negative, or on another device; or positions are interpolated
                by their number, which a tensor of them leaves open.
            TypeError: `positions` is of another type or dtype, such as bf16, which cannot tell
                position 256 from 257; `dtype` is another one; or as in `forward`.
        """
        check_dtype(dtype)
        inv_freq = _require_exact(self.inv_freq)
        check_positions(positions, inv_freq.device)
        if isinstance(positions, Tensor):
            scale = self.position_scale(None)
        else:
            scale = self.position_scale(positions)
            positions = torch.arange(positions, device=inv_freq.device)
        position = positions[..., None]
        # integers would lose the gradient of inv_freq
        with_gradient = torch.is_grad_enabled() and is_differentiated(inv_freq)
        if position.is_floating_point() or with_gradient:
            angles = position.double() * (inv_freq.double() * scale)
        else:
            angles = radians(in_turns(inv_freq, scale), position, torch.float64)
        cos, sin = (x * self.attention_factor for x in (angles.cos(), angles.sin()))
        return cos.to(dtype), sin.to(dtype)

    def position_scale(self, max_seq_len: int | None) -> float:
        """Factor for positions, which depends on how many they are (None: not known)."""
        trained, factor = self.pretrained_max_position_embeddings, self.seq_len_interpolation_factor
        if trained is None or factor is None:
            return 1.0
        if max_seq_len is None:
            raise ValueError(
                "freqs interpolates by the number of positions, which cu_seqlens, start_positions "
                "and position_ids leave open; accepted with them: freqs.cos_sin(max_seq_len) with "
                f"rotary_dim={self.rotary_dim}, or a module whose inv_freq is divided by {factor}"
            )
        return 1.0 / max(factor, max_seq_len / trained)

    def turns(self, max_seq_len: int | None) -> Tensor:
        """`in_turns` of `inv_freq`, interpolated for that many positions.

        An eager call returns the buffer, unless the number of positions decides the interpolation.
        Then, and in calls that PyTorch traces or transforms, the turns are computed in each call.

        Returns:
            (d2 / 2,), int64, on the device of `inv_freq`.

        Raises:
            ValueError, TypeError, RuntimeError: as in `check_usable_as_freqs`; and where `inv_freq`
                cannot be used, as the class says.
        """
        self.check_usable_as_freqs()
        scale = self.position_scale(max_seq_len)
        if is_traced() or is_transformed():
            return in_turns(_require_exact(self.inv_freq), scale)
        filled = self._filled if self._is_filled() else self._refill()
        if filled is None or scale != filled.scale:
            return in_turns(_require_exact(self.inv_freq), scale)
        return filled.turns

    def _is_filled(self) -> bool:
        """Whether the buffer holds the turns of today's `inv_freq`."""
        filled = self._filled
        inv_freq = self._buffers.get("inv_freq")  # quicker than an attribute of an nn.Module
        if inv_freq is None:
            inv_freq = self.inv_freq  # a parameter
        return filled is not None and (
            inv_freq is filled.inv_freq
            and inv_freq.data_ptr() == filled.address
            and inv_freq._version == filled.version
        )

    def check_usable_as_freqs(self) -> None:
        """Raise where `self(max_seq_len)` would do other things than this class's `forward`.

        Functions that take the module itself never call it: they would ignore the rest silently.
        Forward hooks don't run either: tools such as wandb.watch register them on every module.

        Raises:
            TypeError: a subclass, or an assignment to the module, overrides `forward`.
        """
        if type(self).forward is not RotaryPositionEmbedding.forward or "forward" in self.__dict__:
            came = f"freqs is a {type(self).__name__} that overrides forward"
            raise TypeError(f"{came}; accepted: its table, freqs(max_seq_len)")

    def _refill(self, strict: bool = True) -> _Filled | None:
        """Write the turns of `inv_freq` to the buffer, at the same address if possible.

        Calls get the buffer's memory by a tensor of their own, which their backwards save. Before
        the memory is overwritten that tensor moves to a copy: so each backward finds the turns of
        its call, and a CUDA graph, which knows only the address, those of today.

        Where `inv_freq` can't be used, raise if `strict`; otherwise the next call raises. Return
        None where nothing can be remembered: `inv_freq` has no values, or counts no changes.
        """
        inv_freq = self._inv_freq_that_counts_changes()
        if inv_freq is None:
            return None
        if (fault := _fault(inv_freq)) is not None:
            if strict:
                raise fault
            return None
        for used in (inv_freq, inv_freq if self._filled is None else self._filled.turns):
            if used.is_cuda:
                torch.cuda.synchronize(used.device)  # kernels on any stream may read the turns
        # Those that no backward wants anymore. Until here, another stream could still read them.
        moved = () if self._filled is None else _open(self._filled.moved)
        # no position at all: the scale that doesn't depend on their number
        version, scale = inv_freq._version, self.position_scale(0)
        with torch.inference_mode(False), torch.no_grad():
            new, turns = in_turns(inv_freq, scale), self._turns
            if turns is None or not _can_hold(turns, new):
                self._turns = turns = torch.empty_like(new)
            seen = None if self._filled is None else self._filled.turns
            if seen is not None and seen.data_ptr() != turns.data_ptr():
                seen = None  # the buffer itself is another one
            if not torch.equal(turns, new):
                if seen is not None:
                    seen.data = copy = turns.clone()
                    moved, seen = (*moved, (weakref.ref(seen), copy)), None
                turns.copy_(new)
            if seen is None:
                seen = turns.data  # the same memory, and a version of its own
        if turns.is_cuda:
            torch.cuda.current_stream(turns.device).synchronize()  # other streams read them next
        self._filled = _Filled(inv_freq, inv_freq.data_ptr(), version, scale, seen, moved)
        return self._filled

    def _inv_freq_that_counts_changes(self) -> Tensor | None:
        """`inv_freq`, put in order if it is an inference tensor; None if it has no values."""
        if is_traced() or is_transformed():
            return None
        inv_freq = self.inv_freq
        if not isinstance(inv_freq, Tensor) or not has_values(inv_freq):
            return None
        if not inv_freq.is_inference():
            return inv_freq
        for own in (self._buffers, self._parameters):
            if own.get("inv_freq") is inv_freq:
                own["inv_freq"] = _normal_copy(inv_freq)
                return own["inv_freq"]
        return None  # computed at each access, by a parametrization for example

    def __setattr__(self, name, value):
        if name == "attention_factor":
            check_positive(name, value)
            value = float(value)
        elif name in _OF_INTERPOLATION and value is not None:
            check_positive(name, value)
        if name != "inv_freq":
            super().__setattr__(name, value)
            return
        if (fault := _fault(value)) is not None:
            raise fault
        super().__setattr__(name, value)
        self._refill()

    def _load_from_state_dict(self, state_dict, prefix, *args):
        loaded = state_dict.get(prefix + "inv_freq")
        is_saved = "inv_freq" not in self._non_persistent_buffers_set
        if is_saved and isinstance(loaded, Tensor) and (fault := _fault(loaded)) is not None:
            *_, error_messages = args
            error_messages.append(f"{prefix}inv_freq: {fault}")  # raised once all else is loaded
            return
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._refill(strict=False)

    def _apply(self, fn, recurse=True):
        inv_freq = self.inv_freq
        was_meta = inv_freq.is_meta
        # .half() and the like move these, but don't round them
        exact = inv_freq, inv_freq.grad if inv_freq.is_leaf else None, self._turns

        def move(x: Tensor) -> Tensor:
            moved = fn(x)
            rounded = moved.dtype != x.dtype and any(x is y for y in exact)
            return x.to(moved.device) if rounded else moved

        super()._apply(move, recurse)
        if self._turns is not None and self._turns.is_cpu and self._turns.is_shared():
            self._turns = None  # another process with other frequencies would write to it
        if was_meta and not self.inv_freq.is_meta:
            self.reset_parameters()  # to_empty leaves whatever the memory held
        else:
            self._refill(strict=False)
        return self

    def __getstate__(self):
        """What copies, files and other processes get: turns belong to one process alone."""
        state = {name: value for name, value in self.__dict__.items() if name != "_filled"}
        return state | {"_buffers": self._buffers | {"_turns": None}}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._refill(strict=False)


def _given(inv_freq: Tensor, rotary_dim: int, rotary_base: float, came: str) -> Frequencies:
    """Frequencies of the caller's own, checked."""
    if (fault := _fault(inv_freq)) is not None:
        raise fault
    if not has_values(inv_freq):
        raise ValueError(f"inv_freq is on {inv_freq.device}; accepted: a tensor with values")
    if inv_freq.shape != (rotary_dim // 2,):
        shape = f"inv_freq has shape {tuple(inv_freq.shape)}"
        raise ValueError(f"{shape}; accepted with {came}: ({rotary_dim // 2},)")
    if rotary_base != 10000.0:
        both = f"rotary_base is {rotary_base}, and inv_freq was given"
        raise ValueError(f"{both}; accepted: one of the two")
    own = inv_freq.detach().to("cpu", copy=True)
    return Frequencies(rotary_dim, math.nan, given, {"inv_freq": own})


def _open(moved: tuple[tuple[weakref.ref, Tensor], ...]) -> tuple:
    """Those that a backward still wants."""
    return tuple([(seen, copy) for seen, copy in moved if seen() is not None])


def _fault(inv_freq: object) -> Exception | None:
    """The error to raise where turns can't be computed from these frequencies now."""
    if not isinstance(inv_freq, Tensor):
        return TypeError(f"inv_freq is of type {type(inv_freq).__name__}; accepted: torch.Tensor")
    if inv_freq.dtype not in EXACT:
        return TypeError(f"inv_freq has dtype {short(inv_freq.dtype)}; accepted: float32, float64")
    if inv_freq.is_sparse:
        return ValueError(f"inv_freq has layout {inv_freq.layout}; accepted: torch.strided")
    if is_traced() or is_transformed() or not has_values(inv_freq):
        return None
    if _is_captured(inv_freq):
        return RuntimeError(
            "inv_freq changed while a CUDA graph is captured, or in place since the last call; "
            "accepted: a change before the capture, followed by a call if it was in place"
        )
    if not (finite := inv_freq.isfinite()).all():
        value = inv_freq[~finite][0].item()
        return ValueError(f"inv_freq has the value {value}; accepted: finite numbers")
    return None


def _is_captured(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _require_exact(inv_freq: Tensor) -> Tensor:
    if inv_freq.dtype not in EXACT and (fault := _fault(inv_freq)) is not None:
        raise fault
    return inv_freq


def _can_hold(turns: Tensor, new: Tensor) -> bool:
    """Whether the buffer can be overwritten by `new`, and serve training afterwards."""
    return (turns.device, turns.shape) == (new.device, new.shape) and not turns.is_inference()


def _normal_copy(x: Tensor) -> Tensor:
    """A copy of an inference tensor that counts its changes, as tensors otherwise do."""
    with torch.inference_mode(False), torch.no_grad():
        copy = x.clone()
        return nn.Parameter(copy, x.requires_grad) if isinstance(x, nn.Parameter) else copy
