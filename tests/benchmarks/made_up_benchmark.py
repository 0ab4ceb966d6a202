"""A benchmark run without a GPU: the real one, but for the tensors and the clocks.

`FakeGPU` hands out times that a formula makes from the case and the provider's name. With
`without_tensors`, full-size cases run too, for nothing is rotated.
"""

from types import SimpleNamespace

from benchmarks import measure
from benchmarks.gpu import GPU
from benchmarks.kind import Checked
from benchmarks.kinds import ROTATION
from benchmarks.provider import FromSources, Run
from benchmarks.providers import PROVIDERS
from rope_lab.timing import Timing

SHARES = {  # of the limit's speed; whoever is not named gets a half
    "copy_": 1.0,
    "x * 2": 1.0,
    "rope_kernels": 0.985,
    "rope_kernels, on the fly": 0.99,
    "rope_kernels, cos and sin": 0.975,
    "PyTorch eager": 0.08,
    "torch.compile": 0.43,
    "Hugging Face": 0.11,
    "Hugging Face, compiled": 0.5,
    "Liger-Kernel": 0.96,
}


class FakeGPU(GPU):
    """Needs no GPU. `case` is the one whose times are asked for."""

    case = None
    shares = SHARES

    def _timing(self, us, spread=0.01):
        return Timing(round(us, 2), round(0.98 * us, 2), round(1.02 * us, 2), spread, 250)

    def device_time(self, calls):
        limit = 1.5 + (self.case.bytes_moved / 4.2e6 if self.case else 10)
        return {n: self._timing(limit / self.shares.get(n, 0.5)) for n in calls}

    def host_time(self, calls):
        return {n: self._timing(6.6 / (self.shares.get(n, 0.5) ** 0.9 - 0.05)) for n in calls}

    host_time_of_large = host_time

    def peak_bytes(self, call):
        call()
        return 2**20

    def captured(self, call):
        outputs = call()

        def replay():
            for out, again in zip(outputs, call(), strict=True):
                out.copy_(again)

        return replay, outputs

    def free(self):
        pass

    def circumstances(self):
        versions = {"torch": "2.11.0", "triton": "3.6.0", "driver": "1.2", "python": "3.12.3"}
        return {"gpu": "Made Up", "versions": versions, "date": "2026-11-20"}

    def clocks(self):
        return {"clocks.sm": "1980 MHz"}


def without_tensors(monkeypatch, gpu):
    """Rotations by providers that do nothing and are always right, for cases of any size."""

    def workload(case, device):
        gpu.case = case
        return SimpleNamespace(case=case, x=None)

    monkeypatch.setattr(measure, "Workload", workload)
    monkeypatch.setattr(
        measure.OneCase,
        "_checked",
        lambda self, workload, provider, function, direction: Checked(
            Run(lambda: ()), 1e-8, peak_bytes=2**20
        ),
    )
    for provider in PROVIDERS.values():
        monkeypatch.setattr(type(provider), "function", lambda self, workload: None)
        if provider.package in ("transformers", "liger_kernel"):
            monkeypatch.setattr(type(provider), "version", lambda self: "1.0")
        elif isinstance(provider, FromSources):
            monkeypatch.setattr(type(provider), "version", lambda self: None)
    return ROTATION
