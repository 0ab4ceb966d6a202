"""A benchmark run without a GPU: the real one, but for the clocks."""

from benchmarks.run import GPU
from rope_lab.profiling import machines
from rope_lab.records import records_folder
from rope_lab.timing import Timing

SHARES = {"copy_": 1.0, "x * 2": 1.0, "rope_kernels": 0.985}  # of the limit's speed; others: a half


class FakeGPU(GPU):
    def in_turns(self, calls, clock):
        of_limit = 6.6 if clock == "host" else 10
        return {name: self._timing(of_limit / SHARES.get(name, 0.5)) for name in calls}

    def _timing(self, us, spread=0.01):
        return Timing(round(us, 2), round(0.98 * us, 2), round(1.02 * us, 2), spread, 250)

    def machine(self):
        return machines.read(records_folder() / "machines.json")["NVIDIA H200"].values

    def free(self):
        pass

    def circumstances(self):
        versions = {"torch": "2.11.0", "triton": "3.6.0", "driver": "1.2", "python": "3.12.3"}
        return {"gpu": "Made Up", "versions": versions, "date": "2026-11-20"}
