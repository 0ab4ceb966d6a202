"""`rope_kernels`, by its public functions."""

from benchmarks.case import COS_AND_SIN, ON_THE_FLY, OURS, Case
from benchmarks.provider import Provider
from benchmarks.workload import Layout, Workload, own_layout, rounded_error
from rope_kernels import apply_rotary_pos_emb, rope_bw, rope_qk


class Ours(Provider):
    """The case's own layout, memory and options; angles as the case has them, or as named."""

    is_ours_or_a_limit = True

    def __init__(self, name: str, freqs: str = "") -> None:
        self.name = name
        self.freqs = freqs
        self.roundings = 3 if freqs == "cos and sin" else 1

    def cannot(self, case: Case, direction: str) -> str | None:
        if self.freqs == case.freqs:
            return "that is rope_kernels itself here"
        if self.freqs == "cos and sin" and case.tensor_format == "thd":
            return "cos and sin of each token come with dense batches"
        if case.inplace and direction in ("forward, grad", "both"):
            return "a leaf of autograd is not overwritten"
        return None

    def allowed_error(self, case: Case) -> float:
        on_the_fly = (self.freqs or case.freqs) == "module"
        return rounded_error(case, self.roundings, exact_angles=on_the_fly)

    def layout(self, case: Case) -> Layout:
        return own_layout(case, pair=case.k_heads > 0)

    def overwrites(self, case: Case, direction: str) -> bool:
        return case.inplace and (direction == "forward" or not case.k_heads)

    def function(self, workload: Workload):
        case, arguments, options = workload.case, *self._arguments(workload)
        options["inplace"] = case.inplace
        if case.k_heads:
            return lambda q, k: rope_qk(q, k, *arguments, **options)
        return lambda t: (apply_rotary_pos_emb(t, *arguments, **options),)

    def gradient(self, workload: Workload):
        if workload.case.k_heads:
            return None
        arguments, options = self._arguments(workload)
        options["inplace"] = workload.case.inplace
        return lambda grad: (rope_bw(grad, *arguments, **options),)

    def _arguments(self, workload: Workload) -> tuple[tuple, dict]:
        case = workload.case
        kind = self.freqs or case.freqs
        options = {"interleaved": case.interleaved}
        if kind == "cos and sin":  # of each token: no positions beside them
            options["rotary_dim"] = case.d2
            return (workload.cos_sin(workload.x.dtype), case.tensor_format), options
        options |= {
            "cu_seqlens": workload.cu_seqlens,
            "start_positions": workload.starts,
            "position_ids": workload.ids,
        }
        freqs = workload.module if kind == "module" else workload.angles()
        return (freqs, case.tensor_format), options


PROVIDERS = Ours(OURS), Ours(ON_THE_FLY, "module"), Ours(COS_AND_SIN, "cos and sin")
