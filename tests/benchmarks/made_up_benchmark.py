"""A benchmark run without a GPU: the real one, but for the clocks."""

from benchmarks.gpu import GPU
from rope_lab.timing import Timing

SHARES = {"copy_": 1.0, "x * 2": 1.0, "rope_kernels": 0.985}  # of the limit's speed; others: a half


class FakeGPU(GPU):
    def _timing(self, us, spread=0.01):
        return Timing(round(us, 2), round(0.98 * us, 2), round(1.02 * us, 2), spread, 250)

    def device_time(self, calls):
        return {n: self._timing(10 / SHARES.get(n, 0.5)) for n in calls}

    def host_time(self, calls):
        return {n: self._timing(6.6 / SHARES.get(n, 0.5)) for n in calls}

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
