"""Functions whose result is right and that leave work to PyTorch, or keep something between calls.

`test_who_computed.py` has them judged.
"""

import math

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def combining_kernel(
    x_ptr, half_ptr, freqs_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr
):
    """A row of x * cos + half * sin: as Llama writes it."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + i, i < D).to(tl.float32)
    half = tl.load(half_ptr + row * D + i, i < D).to(tl.float32)
    angle = tl.load(freqs_ptr + row // rows * D + i, i < D)
    tl.store(out_ptr + row * D + i, x * tl.cos(angle) + half * tl.sin(angle), i < D)


@triton.jit
def of_tables_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    partner = tl.where(i < D // 2, i + D // 2, i - D // 2)
    x = tl.load(x_ptr + row * D + i, i < D).to(tl.float32)
    half = tl.load(x_ptr + row * D + partner, i < D).to(tl.float32)
    half = tl.where(i < D // 2, -half, half)
    table = row // rows * D + i
    cos, sin = tl.load(cos_ptr + table, i < D), tl.load(sin_ptr + table, i < D)
    tl.store(out_ptr + row * D + i, x * cos + half * sin, i < D)


@triton.jit
def turned_row(x_ptr, freqs_ptr, partner, row, i, rows, D: tl.constexpr):
    """`rope` of a contiguous row."""
    x = tl.load(x_ptr + row * D + i, i < D).to(tl.float32)
    half = tl.load(x_ptr + row * D + partner, i < D).to(tl.float32)
    angle = tl.load(freqs_ptr + row // rows * D + i, i < D)
    half = tl.where(i < D // 2, -half, half)
    return x * tl.cos(angle) + half * tl.sin(angle)


@triton.jit
def row_kernel(x_ptr, freqs_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    """Right."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    partner = tl.where(i < D // 2, i + D // 2, i - D // 2)
    y = turned_row(x_ptr, freqs_ptr, partner, row, i, rows, D)
    tl.store(out_ptr + row * D + i, y, i < D)


@triton.jit
def adding_row_kernel(x_ptr, freqs_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    """Right where the output holds zeros."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    partner = tl.where(i < D // 2, i + D // 2, i - D // 2)
    y = turned_row(x_ptr, freqs_ptr, partner, row, i, rows, D)
    tl.atomic_add(out_ptr + row * D + i, y, i < D)


@triton.jit
def partner_kernel(
    x_ptr, partner_ptr, freqs_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr
):
    """Right, with a table of the partners."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    partner = tl.load(partner_ptr + i, i < D, other=0)
    y = turned_row(x_ptr, freqs_ptr, partner, row, i, rows, D)
    tl.store(out_ptr + row * D + i, y, i < D)


@triton.jit
def copying_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n), i < n)


@triton.jit
def copying_and_counting_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n), i < n)
    tl.atomic_add(count_ptr, 1)


@triton.jit
def counting_kernel(count_ptr):
    tl.atomic_add(count_ptr, 1)


@triton.jit
def adding_zero_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(x_ptr + i, tl.zeros((BLOCK,), tl.float32), i < n)


def by_rows(kernel, t, *others, out=None):
    """`out`, or a new tensor, of which each program of a kernel fills a row."""
    out = torch.empty_like(t) if out is None else out
    s, b, h, d = t.shape
    kernel[(s * b * h,)](t, *others, out, b * h, d, triton.next_power_of_2(d))
    return out


def combine(t, half, freqs):
    return by_rows(combining_kernel, t, half, freqs)


def partners(t):
    i = torch.arange(t.shape[-1], device=t.device)
    return (i + len(i) // 2) % len(i)


def copy(x):
    out = torch.empty_like(x)
    copying_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def turned(t, freqs):
    """All of it, by PyTorch."""
    angles = freqs[: t.shape[0]]
    x1, x2 = t.float().chunk(2, -1)
    y = torch.cat((x1, x2), -1) * angles.cos() + torch.cat((-x2, x1), -1) * angles.sin()
    return y.to(t.dtype)


# before the launch


def as_llama_does(t, freqs):
    x1, x2 = t.chunk(2, dim=-1)
    return combine(t, torch.cat((-x2, x1), dim=-1), freqs)


def all_in_pytorch(t, freqs):
    return copy(turned(t, freqs))


def all_in_pytorch_and_a_count(t, freqs):
    y, count = turned(t, freqs), torch.zeros(1, dtype=torch.int32, device=t.device)
    out = torch.empty_like(y)
    grid = (triton.cdiv(y.numel(), 1024),)
    copying_and_counting_kernel[grid](y, out, count, y.numel(), BLOCK=1024)
    return out


def zeros_added_to_pytorchs(t, freqs):
    y = turned(t, freqs)
    adding_zero_kernel[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
    return y


def a_count_beside_pytorchs(t, freqs):
    counting_kernel[(1,)](torch.zeros(1, dtype=torch.int32, device=t.device))
    return turned(t, freqs)


def tables_in_pytorch(t, freqs):
    return by_rows(of_tables_kernel, t, freqs.cos(), torch.sin(freqs))


def by_an_index(t, freqs):
    half = t[..., partners(t)]
    half[..., : t.shape[-1] // 2].neg_()
    return combine(t, half, freqs)


def by_roll(t, freqs):
    d = t.shape[-1]
    sign = torch.where(torch.arange(d) < d // 2, -1, 1).to(t.dtype)
    return combine(t, t.roll(d // 2, -1) * sign, freqs)


def put_into_a_buffer(t, freqs):
    first = torch.arange(t.shape[-1] // 2)
    half, second = torch.zeros_like(t), first + len(first)
    half[..., first] = -t[..., second]
    half[..., second] = t[..., first]
    return combine(t, half, freqs)


def negated_out(t, freqs):
    x1, x2 = t.chunk(2, dim=-1)
    half = torch.empty_like(t)
    torch.neg(x2, out=half[..., : x2.shape[-1]])
    half[..., x2.shape[-1] :] = x1
    return combine(t, half, freqs)


def by_numpy(t, freqs):
    x1, x2 = np.split(t.numpy(), 2, -1)
    return combine(t, torch.from_numpy(np.concatenate((-x2, x1), -1)), freqs)


def by_numpys_functions(t, freqs):
    cos, sin = torch.as_tensor(np.cos(freqs)), torch.tensor(np.sin(freqs))
    return by_rows(of_tables_kernel, t, cos, sin)


def by_numpy_into_a_buffer(t, freqs):
    half = torch.zeros_like(t)
    x1, x2 = np.split(np.asarray(t), 2, -1)
    half.numpy()[...] = np.concatenate((-x2, x1), -1)
    return combine(t, half, freqs)


def by_a_list(t, freqs):
    turns = [math.cos(angle) for angle in freqs.flatten().tolist()]
    cos = torch.tensor(turns).view(freqs.shape)
    return by_rows(of_tables_kernel, t, cos, torch.sin(freqs))


def by_items(t, freqs):
    angles = freqs.view(-1)
    cos, sin = torch.zeros_like(angles), torch.zeros_like(angles)
    for i in range(len(angles)):
        cos[i], sin[i] = math.cos(angles[i]), math.sin(angles[i].item())
    return by_rows(of_tables_kernel, t, cos, sin)


@triton.jit
def of_numbers_kernel(
    x_ptr, out_ptr, rows, at, sign, cos, sin, D: tl.constexpr, BLOCK: tl.constexpr
):
    """A column of the rows of a position, by a sine and a cosine that Python knows."""
    row, place = tl.arange(0, BLOCK), at // D * rows * D
    column, partner = at % D, (at + D // 2) % D
    x = tl.load(x_ptr + place + row * D + column, row < rows)
    half = tl.load(x_ptr + place + row * D + partner, row < rows)
    tl.store(out_ptr + place + row * D + column, x * cos + sign * half * sin, row < rows)


def by_numbers(t, freqs):
    (s, b, h, d), out = t.shape, torch.empty_like(t)
    for at, angle in enumerate(freqs[:s].flatten().tolist()):
        numbers = -1 if at % d < d // 2 else 1, math.cos(angle), math.sin(angle)
        of_numbers_kernel[(1,)](t, out, b * h, at, *numbers, d, triton.next_power_of_2(b * h))
    return out


# after the launch, and between two


def scaled_back(t, freqs):
    out = right(t, freqs)
    out[..., : t.shape[-1] // 2].mul_(2).div_(2)
    return out


def turned_between(t, freqs):
    x1, x2 = copy(t).chunk(2, dim=-1)
    return combine(t, torch.cat((-x2, x1), dim=-1), freqs)


def in_place_by_pytorch(t, freqs):
    t.copy_(turned(t, freqs))
    copying_kernel[(triton.cdiv(t.numel(), 1024),)](t, t, t.numel(), BLOCK=1024)


def converted(t, freqs):
    out = torch.empty(t.shape, dtype=torch.float32, device=t.device)
    return by_rows(row_kernel, t, freqs, out=out).to(t.dtype)


def put_elsewhere(t, freqs):
    return torch.empty_like(t).copy_(right(t, freqs))


# results that nothing can be compared with


def in_a_sparse_tensor(t, freqs):
    return right(t, freqs).to_sparse()


def in_a_nested_tensor(t, freqs):
    return torch.nested.nested_tensor([right(t, freqs)])


def on_no_device(t, freqs):
    return right(t, freqs).to("meta")


# copies, and what nothing takes


def of_a_copy(t, freqs):
    return right(t.clone(), freqs)


def of_wide_elements(t, freqs):
    return by_rows(row_kernel, t.to(torch.float32), freqs, out=torch.empty_like(t))


def of_a_buffer(t, freqs):
    return right(torch.empty_like(t).copy_(t), freqs)


def asks_first(t, freqs):
    assert freqs.abs().max().item() < 1e6
    return right(t, freqs)


# nothing is to be said about these


def right(t, freqs):
    return by_rows(row_kernel, t, freqs)


def of_views(t, freqs):
    out = t.new_zeros(t.shape).transpose(0, 1).transpose(0, 1)
    x = t.view(-1, t.shape[-1]).detach().view(t.shape)
    by_rows(row_kernel, x, freqs.flatten(1).squeeze(), out=out)
    return out.flatten(2).unflatten(2, t.shape[2:])


def by_atomics(t, freqs):
    out = torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    return by_rows(adding_row_kernel, t, freqs, out=out)


def by_a_table_of_partners(t, freqs):
    return by_rows(partner_kernel, t, partners(t), freqs, out=torch.full_like(t, 3.0))


def prints_its_input(t, freqs):
    print(t, freqs.shape)
    return right(t, freqs)


# kept from one call to the next

TABLES, RESULTS, SUMS, BUFFERS, CALLS, PARTNERS = {}, {}, {}, {}, set(), {}


def call_of(t, freqs):
    return t.shape, t.dtype, freqs.shape


def keeps_its_table(t, freqs):
    return right(t, TABLES.setdefault(call_of(t, freqs), freqs.clone()))


def keeps_its_result(t, freqs):
    key = id(t), id(freqs)
    if key not in RESULTS:
        RESULTS[key] = right(t, freqs), t, freqs
    return RESULTS[key][0]


def adds_to_what_it_kept(t, freqs):
    out = SUMS.setdefault(call_of(t, freqs), torch.zeros_like(t))
    return by_rows(adding_row_kernel, t, freqs, out=out)


def stores_in_what_it_kept(t, freqs):
    out = BUFFERS.setdefault(call_of(t, freqs), torch.empty_like(t))
    return by_rows(row_kernel, t, freqs, out=out)


def fails_the_second_time(t, freqs):
    assert call_of(t, freqs) not in CALLS, "once"
    CALLS.add(call_of(t, freqs))
    return right(t, freqs)


def keeps_partners(t, freqs):
    """Right: what it keeps doesn't depend on values."""
    return by_rows(partner_kernel, t, PARTNERS.setdefault(t.shape[-1], partners(t)), freqs)
