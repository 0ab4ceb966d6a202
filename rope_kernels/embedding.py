"""The module that says how far each pair turns a position, and its angles: exact, or as a table."""

import math
from contextlib import suppress
from numbers import Integral, Real

import torch
from torch import Tensor, nn

from .modes import has_values, is_differentiated, is_traced, is_transformed

EXACT = (torch.float32, torch.float64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)

# Angles in whole numbers: at any position, without the rounding of large products

# 1 / 2 pi, the turns in a radian, in pieces of 24 bits: fp64 multiplies with them exactly
_TURNS_IN_A_RADIAN = (0x28BE60 * 2.0**-24, 0xDB9391 * 2.0**-48, 0x054A7F * 2.0**-72)


def in_turns(inv_freq: Tensor) -> Tensor:
    """`inv_freq` in units of 2^-64 turns a position, int64, without whole turns.

    Its product with a position, in int64 arithmetic that overflows, is how far the pair has turned
    since its last whole turn. At position 1 000 000 the angle is right to 1e-12 radians, where an
    fp32 product of position and `inv_freq` is wrong by up to 0.05.
    """
    frequency = inv_freq.double()
    coarse = frequency.float().double()
    parts = coarse, frequency - coarse
    # exact: 24 or 29 bits times 24
    products = [part * piece for part in parts for piece in _TURNS_IN_A_RADIAN]
    return sum([((x - x.round()) * 2.0**64).round().long() for x in products])


def radians(turns: Tensor, position: Tensor, dtype: torch.dtype) -> Tensor:
    """Angles of `in_turns` at `position`, (..., 1), without whole turns: int64 overflows."""
    turned = position * turns
    if dtype == torch.float64:
        return turned.double() * (2 * math.pi * 2.0**-64)
    return (turned >> 32).to(dtype) * (2 * math.pi * 2.0**-32)


def for_both_members(angles: Tensor, interleaved: bool) -> Tensor:
    """Of one angle a pair (..., d2 / 2), one for each of its members (..., d2)."""
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)


def default(rotary_dim: int, base: float) -> Tensor:
    """`base ** (-2 i / d2)` for pair i. Source: RoFormer, section 3.2.2."""
    return 1.0 / powers(base, rotary_dim, rotary_dim)


def powers(base: float, columns: int, rotary_dim: int) -> Tensor:
    """The base to the power of 0, 2 / d2, 4 / d2, ... for `columns` elements, fp32, on the CPU."""
    element = torch.arange(0, columns, 2, dtype=torch.float32, device="cpu")
    return base ** (element / rotary_dim)


class RotaryPositionEmbedding(nn.Module):
    """Make the table of angles: position times inverse frequency, in radians.

    Pair i of d2/2 turns by `position * rotary_base ** (-2 i / d2)` (RoFormer, section 3.2.2). The
    functions that rotate also take the module itself instead of its table. They then read no angle
    from memory, and every angle is right to fp32's last digits up to position 10^12.

    Args:
        dim: head dimension d.
        rotary_percent: share of the head dimension that is rotated: d2 = int(dim * rotary_percent),
            which must be even.
        rotary_base: base of the geometric series of frequencies.
        interleaved: each angle appears in two neighboring columns (a, a, b, b, ...), for the
            interleaved pairing, instead of once in each half (a, b, ..., a, b, ...).
        persistent: `inv_freq` is in the state dict, its only entry. False: it is not saved, and
            checkpoints without it, such as Hugging Face's, load with `strict=True`.
        attention_factor: multiplies cos and sin, and so the rotated elements (YaRN, LongRoPE). In
            fp32, before cos and sin are rounded, as in Hugging Face's models. Calls that take the
            module itself use it, and `cos_sin`. A table of angles can't hold it.
        inv_freq: frequencies of your own instead of those of `rotary_base`, like the attribute.
            They are copied to the default device.

    Attributes:
        inv_freq: (d2 / 2,), fp32 or fp64, radians per position, finite. A buffer that keeps its
            dtype when the module is cast: in bf16 an angle at position 1000 is wrong by radians.
        attention_factor: a float. May be assigned.

    Changing `inv_freq`: calls that take the module itself read the frequencies in turns, from
    memory of the module that is not saved. Assignment, `load_state_dict` and `reset_parameters`
    update it at once; a write in place, a copy of the module and what torch.compile records, at the
    next eager call. Only an update checks the values. It waits for the device, then writes to the
    same address, so CUDA graphs that were captured before replay with the new frequencies. A
    backward of a call made before the update raises an error.

    - Changes that PyTorch doesn't count are not supported, such as `inv_freq.data = ...` or
      `torch.distributed.broadcast`. After them, write `rope.inv_freq = rope.inv_freq.clone()`.
    - `__init__` calls `reset_parameters`. So do `to_empty` of a module on the meta device, and an
      assignment to an `inv_freq` there that is not saved, as `from_pretrained` of transformers
      makes one of whatever the memory holds. A subclass may override that method.
    - A module whose `forward` is overridden is refused as `freqs`. Pass its table instead,
      `freqs(max_seq_len)`. That runs forward hooks, too, which don't run otherwise.

    Raises:
        ValueError: an argument is out of range, or both `rotary_base` and `inv_freq` came. Or an
            update of `inv_freq` is not finite.
        TypeError: an `inv_freq` of a dtype below fp32 was assigned or used; or a flag is no bool.
        RuntimeError: an update is needed while a CUDA graph is captured; or `load_state_dict` met
            an `inv_freq` that is refused.

    Example:
        >>> RotaryPositionEmbedding(dim=4)(3)[:, 0, 0]  # of three positions, once in each half
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [1.0000, 0.0100, 1.0000, 0.0100],
                [2.0000, 0.0200, 2.0000, 0.0200]])

    Source: TransformerEngine's `RotaryPositionEmbedding`, same names, same fp32 arithmetic. To
    interpolate positions, as `seq_len_interpolation_factor` does there, divide `inv_freq`.
    """

    inv_freq: Tensor
    attention_factor: float
    # what the buffer of turns was last filled from; kept alive, or another could get its address
    _filled: tuple[Tensor | None, tuple] = None, ()

    def __init__(
        self,
        dim: int,
        rotary_percent: float = 1.0,
        *,
        rotary_base: float = 10000.0,
        interleaved: bool = False,
        persistent: bool = True,
        attention_factor: float = 1.0,
        inv_freq: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.rotary_dim = _check_rotary_dim(dim, rotary_percent)
        check_flag("interleaved", interleaved)
        check_flag("persistent", persistent)
        check_positive("rotary_base", rotary_base)
        self.interleaved, self.attention_factor = interleaved, attention_factor
        if inv_freq is None:
            initial, self._words = default(self.rotary_dim, rotary_base), f"{rotary_base=}"
        else:
            _check_frequencies(inv_freq)
            if inv_freq.shape != (self.rotary_dim // 2,):
                came = f"inv_freq has shape {tuple(inv_freq.shape)}"
                raise bad(f"{came}, and d2 is {self.rotary_dim}", f"({self.rotary_dim // 2},)")
            if rotary_base != 10000.0:
                raise bad(f"rotary_base is {rotary_base}, and inv_freq was given", "one of the two")
            initial, self._words = inv_freq.detach().to("cpu", copy=True), "inv_freq given"
        self._initial = initial  # no buffer: a load may empty those
        memory = torch.empty(self.rotary_dim // 2, dtype=initial.dtype)
        self.register_buffer("inv_freq", memory, persistent=persistent)
        # no buffer, for DistributedDataParallel writes to those: a backward would see a change
        self._turns: Tensor | None = None
        self.reset_parameters()

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
        dict.

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
            ValueError, TypeError: a type is unknown, a key is missing or its value doesn't fit, or
                a key of the rotation's dict is not read. Several types of layers and no
                `layer_type`. A `model_type` whose configuration class `config` is not. A
                configuration of a vision tower, or of a model with a `text_config`: pass that one.
                The message names the key, what came and what is accepted.

        Source: `modeling_rope_utils.py` of transformers. It is not imported.
        """
        from .scaling import read_layer

        if seq_len is not None:
            check_positive("seq_len", seq_len)
        layer = read_layer(config, layer_type, seq_len)
        if layer is None:
            return None
        inv_freq, attention_factor = layer
        return cls(
            2 * len(inv_freq),
            interleaved=interleaved,
            persistent=False,
            attention_factor=attention_factor,
            inv_freq=inv_freq,
        )

    def reset_parameters(self) -> None:
        """Set `inv_freq` to what the constructor or `from_config` was given."""
        with torch.inference_mode(False):  # whose tensors count no changes
            self.inv_freq = self._initial.to(self.inv_freq.device, copy=True)

    def extra_repr(self) -> str:
        shown = [f"rotary_dim={self.rotary_dim}", self._words]
        if self.interleaved:
            shown.append("interleaved=True")
        if self.attention_factor != 1.0:
            shown.append(f"attention_factor={self.attention_factor}")
        if "inv_freq" in self._non_persistent_buffers_set:
            shown.append("persistent=False")
        return ", ".join(shown)

    def forward(self, max_seq_len: int, offset: int = 0) -> Tensor:
        """Angles of positions offset, ..., offset + max_seq_len - 1.

        Returns:
            (max_seq_len, 1, 1, d2), fp32, radians, on the device of `inv_freq`. An fp32 angle is
            exact only to 2^-24 of itself, inv_freq too: milliradians are lost at position 131 071.

        Raises:
            ValueError: `max_seq_len` is negative, or `attention_factor` is not 1.
            TypeError: `max_seq_len` is a tensor to rotate, or `inv_freq` has a dtype below fp32.
        """
        _check_span(max_seq_len, offset)
        if self.attention_factor != 1.0:
            came = f"attention_factor is {self.attention_factor}, which no table of angles can hold"
            accepted = f"freqs.cos_sin(max_seq_len), in a call with rotary_dim={self.rotary_dim}"
            raise bad(came, accepted)
        inv_freq = self._exact()
        position = torch.arange(max_seq_len, dtype=torch.float32, device=inv_freq.device)
        position = (position + offset)[:, None, None, None]
        # no matmul: autocast leaves it in fp32
        return for_both_members(position * inv_freq, self.interleaved)

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
            ValueError: `positions` is a negative number.
            TypeError: `positions` is of another type or dtype, such as bf16, which cannot tell
                position 256 from 257; `dtype` is another one; or as in `forward`.
        """
        if dtype not in FLOATS:
            raise bad(f"dtype is {dtype!r}", ", ".join(map(short, FLOATS)), TypeError)
        inv_freq = self._exact()
        _check_positions(positions)
        if not isinstance(positions, Tensor):
            positions = torch.arange(positions, device=inv_freq.device)
        position = positions[..., None]
        # integers would lose the gradient of inv_freq
        with_gradient = torch.is_grad_enabled() and is_differentiated(inv_freq)
        if position.is_floating_point() or with_gradient:
            angles = position.double() * inv_freq.double()
        else:
            angles = radians(self._current_turns(), position, torch.float64)
        cos, sin = (x * self.attention_factor for x in (angles.cos(), angles.sin()))
        return cos.to(dtype), sin.to(dtype)

    # What calls read

    def frequencies(self) -> Tensor:
        """`inv_freq`, a buffer or a parameter; quicker than an attribute of an nn.Module."""
        buffer = self._buffers.get("inv_freq")
        return self.inv_freq if buffer is None else buffer

    def turns(self) -> Tensor:
        """`in_turns` of `inv_freq`, (d2 / 2,); not of a module with a `forward` of its own."""
        if type(self).forward is not RotaryPositionEmbedding.forward or "forward" in self.__dict__:
            came = f"freqs is a {type(self).__name__} that overrides forward"
            raise bad(came, "its table, freqs(max_seq_len)", TypeError)
        return self._current_turns()

    def _current_turns(self) -> Tensor:
        return self._turns if self._update() else in_turns(self._exact())

    def _update(self) -> bool:
        """Write the turns of `inv_freq` to the buffer, at the address that CUDA graphs know.

        False where nothing can be remembered: PyTorch records or transforms the call, or `inv_freq`
        has no values, or counts no changes, as a tensor of inference mode.
        """
        if is_traced() or is_transformed():
            return False
        inv_freq = self.frequencies()
        source, looks = self._filled
        if inv_freq is source and looks == (inv_freq.data_ptr(), inv_freq._version):
            return True
        if not has_values(inv_freq) or inv_freq.is_inference():
            return False
        _check_frequencies(inv_freq)
        if inv_freq.is_cuda:
            torch.cuda.synchronize(inv_freq.device)  # kernels on any stream may read the turns
        with torch.inference_mode(False), torch.no_grad():
            new, turns = in_turns(inv_freq), self._turns
            if turns is None or (turns.device, turns.shape) != (new.device, new.shape):
                self._turns = new
            elif not torch.equal(turns, new):
                turns.copy_(new)
        if inv_freq.is_cuda:
            torch.cuda.current_stream(inv_freq.device).synchronize()  # other streams read them next
        self._filled = inv_freq, (inv_freq.data_ptr(), inv_freq._version)
        return True

    def _exact(self) -> Tensor:
        """`inv_freq`, in a dtype that angles can be made of."""
        inv_freq = self.inv_freq
        if inv_freq.dtype not in EXACT:
            _check_frequencies(inv_freq)
        return inv_freq

    # What else may change the frequencies

    def __setattr__(self, name, value):
        if name == "attention_factor":
            check_positive(name, value)
            value = float(value)
        if name != "inv_freq":
            super().__setattr__(name, value)
            return
        _check_frequencies(value)
        before = self._buffers.get("inv_freq")
        super().__setattr__(name, value)
        was_meta = before is not None and before.is_meta and not value.is_meta
        if was_meta and "inv_freq" in self._non_persistent_buffers_set:
            self.reset_parameters()  # a load that moves a model off the meta device
        self._update()

    def _load_from_state_dict(self, state_dict, prefix, *args):
        loaded = state_dict.get(prefix + "inv_freq")
        if loaded is not None and "inv_freq" not in self._non_persistent_buffers_set:
            try:
                _check_frequencies(loaded)
            except (TypeError, ValueError) as fault:
                *_, error_messages = args
                error_messages.append(f"{prefix}inv_freq: {fault}")  # raised once all is loaded
                return
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._update()

    def _apply(self, fn, recurse=True):
        was_meta = self.inv_freq.is_meta

        def move(x: Tensor) -> Tensor:
            moved = fn(x)  # .half() and the like move frequencies, but don't round them
            return moved if moved.dtype == x.dtype else x.to(moved.device)

        with torch.inference_mode(False):
            super()._apply(move, recurse)
        if was_meta and not self.inv_freq.is_meta:
            self.reset_parameters()  # to_empty leaves whatever the memory held
        with suppress(TypeError, ValueError):  # a call raises what is wrong
            self._update()
        return self

    def __getstate__(self):
        """What copies, files and other processes get: turns belong to one process alone."""
        return self.__dict__ | {"_turns": None, "_filled": (None, ())}


def _check_frequencies(inv_freq: object) -> None:
    """Check a module's frequencies; values are not asked for in a trace."""
    if not isinstance(inv_freq, Tensor):
        raise bad(f"inv_freq is of type {type(inv_freq).__name__}", "torch.Tensor", TypeError)
    if inv_freq.dtype not in EXACT:
        raise bad(f"inv_freq has dtype {short(inv_freq.dtype)}", "float32, float64", TypeError)
    if is_traced() or is_transformed() or not has_values(inv_freq):
        return
    if inv_freq.is_cuda and torch.cuda.is_current_stream_capturing():
        came = "inv_freq changed while a CUDA graph is captured, or in place since the last call"
        accepted = "a change before the capture, followed by a call if it was in place"
        raise bad(came, accepted, RuntimeError)
    if not (finite := inv_freq.isfinite()).all():
        raise bad(f"inv_freq has the value {inv_freq[~finite][0].item()}", "finite numbers")


# Numbers and lengths that the module takes, and the errors for all others


def bad(came: str, accepted: str, error: type[Exception] = ValueError) -> Exception:
    """The error to raise: what came, and what is accepted."""
    return error(f"{came}; accepted: {accepted}")


def check_flag(name: str, flag: object) -> None:
    if not isinstance(flag, bool):
        raise bad(f"{name} is {flag!r}", "False, True", TypeError)


def is_number(value: object) -> bool:
    """Whether this is a finite number that a tensor can hold, and no bool."""
    if isinstance(value, Integral):
        return not isinstance(value, bool) and abs(int(value)) < 2**63
    return isinstance(value, Real) and math.isfinite(value)


def check_positive(name: str, value: object) -> None:
    if not (is_number(value) and value > 0):
        raise bad(f"{name} is {value!r}", "a positive number below infinity")


def short(dtype: torch.dtype) -> str:
    """Without the module it is in."""
    return str(dtype).removeprefix("torch.")


def _check_rotary_dim(dim: object, rotary_percent: object) -> int:
    """d2, of a head dimension and the share of it that turns."""
    if not (is_number(dim) and int(dim) == dim):
        raise bad(f"dim is {dim!r}", "a positive integer")
    if not (isinstance(rotary_percent, Real) and 0.0 < rotary_percent <= 1.0):
        raise bad(f"rotary_percent is {rotary_percent!r}", "a number above 0, up to 1")
    rotary_dim = int(dim * rotary_percent)
    if rotary_dim < 2 or rotary_dim % 2:
        came = f"dim = {dim} and rotary_percent = {rotary_percent} give {rotary_dim}"
        raise bad(f"{came} rotary dimensions", "an even number, at least 2")
    return rotary_dim


def _check_span(max_seq_len: object, offset: object) -> None:
    """Check a number of positions, and the first of them."""
    if isinstance(max_seq_len, Tensor) and max_seq_len.dim():
        came = f"max_seq_len is a tensor of shape {tuple(max_seq_len.shape)}"
        how = "To rotate a tensor: apply_rotary_pos_emb(t, freqs, tensor_format)"
        raise bad(came, f"a number of positions. {how}", TypeError)
    for name, value in (("max_seq_len", max_seq_len), ("offset", offset)):
        if not _is_integer(value):
            raise bad(f"{name} is {value!r}", "an integer", TypeError)
    if max_seq_len < 0:
        raise bad(f"max_seq_len is {max_seq_len}", "0 or a positive number")


def _check_positions(positions: object) -> None:
    """Check what `cos_sin` takes."""
    accepted = "a tensor of positions, or a number of them"
    if not isinstance(positions, Tensor):
        if not _is_integer(positions):
            raise bad(f"positions is of type {type(positions).__name__}", accepted, TypeError)
        if positions < 0:
            raise bad(f"positions is {positions}", f"{accepted}, from 0")
    elif positions.dtype not in (*INTEGERS, *EXACT):
        dtypes = ", ".join(map(short, (*INTEGERS, *EXACT)))
        raise bad(f"positions has dtype {short(positions.dtype)}", dtypes, TypeError)


def _is_integer(value: object) -> bool:
    """Also in a tensor, in a trace, and of NumPy."""
    if isinstance(value, Tensor):
        return value.dim() == 0 and not (value.is_floating_point() or value.is_complex())
    return isinstance(value, Integral | torch.SymInt) and not isinstance(value, bool)
