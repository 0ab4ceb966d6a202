"""The record of T0, W and P of several GPUs: taken, merged, and read again."""

import pytest
import torch

from rope_lab import records
from rope_lab.profiling import machines, record_machine
from rope_lab.profiling.roofline import Machine

FAST = Machine(start_us=4.0, bytes_a_us=4.5e6, instructions_a_us=33e6)
SLOW = Machine(start_us=5.0, bytes_a_us=3.0e6, instructions_a_us=33e6)


def times_of(machine, passes=3):
    """What `take` would return on a made-up machine, of which the first pass is disturbed."""
    sizes, counts, elements = (2**14, 2**22, 2**30), (0, 128, 512), 2**26
    copies = [machine.time_us(2 * size) for size in sizes]
    fmas = [machine.time_us(4 * elements, count * elements) for count in counts]
    disturbed = [[9 * us for us in times] for times in (copies, fmas)]
    return {
        "copies": {"bytes": list(sizes), "us": [disturbed[0]] + (passes - 1) * [copies]},
        "fmas": {
            "counts": list(counts),
            "elements": elements,
            "us": [disturbed[1]] + (passes - 1) * [fmas],
        },
    }


def merge_as(monkeypatch, gpu, path, machine, date="2026-01-01"):
    here = {"gpu": gpu, "versions": {"torch": "1", "driver": "2"}, "date": date}
    monkeypatch.setattr(machines, "circumstances", lambda: here)
    machines.merge(path, times_of(machine))


def test_an_entry_is_replaced_and_the_others_stay(monkeypatch, tmp_path):
    path = tmp_path / "machines.json"
    merge_as(monkeypatch, "fast", path, FAST)
    merge_as(monkeypatch, "slow", path, FAST)
    assert list(machines.read(path)) == ["fast", "slow"]
    assert machines.read(path)["slow"].origin == "slow, torch 1, driver 2, 2026-01-01."
    before = machines.read(path)["fast"]
    merge_as(monkeypatch, "slow", path, SLOW, date="2026-02-02")
    found = machines.read(path)
    assert found["fast"] == before and found["slow"].date == "2026-02-02"
    assert found["slow"].values == times_of(SLOW)


@pytest.mark.parametrize("machine", (FAST, SLOW))
def test_the_three_numbers_are_found_again(machine):
    here = {"gpu": "", "versions": {}, "date": ""}
    found = machines.machine_of(records.Observation(key="", values=times_of(machine), **here))
    assert found.start_us == pytest.approx(machine.start_us)
    assert found.bytes_a_us == pytest.approx(machine.bytes_a_us)
    assert found.instructions_a_us == pytest.approx(machine.instructions_a_us)


@pytest.mark.gpu
def test_a_gpu_is_measured(tmp_path):
    machines.merge(tmp_path / "machines.json", record_machine.take(passes=1))
    ((gpu, taken),) = machines.read(tmp_path / "machines.json").items()
    assert gpu == torch.cuda.get_device_name()
    machine = machines.machine_of(taken)
    assert 0 < machine.start_us < 20 and machine.bytes_a_us < machine.instructions_a_us
