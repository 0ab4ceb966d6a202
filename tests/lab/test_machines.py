"""The record of several GPUs: taken, merged, and read again."""

import pytest
import torch

from rope_lab import records
from rope_lab.judge.inspect.limits import gpu_from
from rope_lab.profiling import machines, measure_machine
from rope_lab.profiling.roofline import Machine


def merge_as(gpu, path, values, date="2026-01-01"):
    here = {"gpu": gpu, "versions": {"torch": "1", "driver": "2"}, "date": date}
    machines.merge(path, here, values)


def test_an_entry_is_replaced_and_the_others_stay(tmp_path):
    path = tmp_path / "machines.json"
    merge_as("fast", path, {"copies": 1})
    merge_as("slow", path, {"copies": 2})
    assert list(machines.read(path)) == ["fast", "slow"]
    assert machines.read(path)["slow"].origin == "slow, torch 1, driver 2, 2026-01-01."
    before = machines.read(path)["fast"]
    merge_as("slow", path, {"copies": 3}, date="2026-02-02")
    found = machines.read(path)
    assert found["fast"] == before and found["slow"].date == "2026-02-02"
    assert found["slow"].values == {"copies": 3}


@pytest.mark.parametrize("start_us, bytes_a_us", ((4.0, 4.5e6), (5.0, 3.0e6)))
def test_the_three_numbers_are_found_again(start_us, bytes_a_us):
    """Of a made-up machine, where the first of three passes is disturbed."""
    machine = Machine(start_us=start_us, bytes_a_us=bytes_a_us, instructions_a_us=33e6)
    sizes, counts, elements = (2**14, 2**22, 2**30), (0, 128, 512), 2**26
    copies = [machine.time_us(2 * size) for size in sizes]
    fmas = [machine.time_us(4 * elements, count * elements) for count in counts]
    passes = [[[9 * us for us in times], times, times] for times in (copies, fmas)]
    values = {
        "copies": {"bytes": sizes, "us": passes[0]},
        "fmas": {"counts": counts, "elements": elements, "us": passes[1]},
    }
    taken = records.Observation(key="", values=values, gpu="", versions={}, date="")
    found = machines.machine_of(taken)
    assert found.start_us == pytest.approx(machine.start_us)
    assert found.bytes_a_us == pytest.approx(machine.bytes_a_us)
    assert found.instructions_a_us == pytest.approx(machine.instructions_a_us)


def test_inspect_names_the_gpu_and_the_day():
    taken = machines.read(records.records_folder() / "machines.json")["NVIDIA H200"]
    assert gpu_from(taken).origin == f"NVIDIA H200 (recorded {taken.date})"


def test_a_folder_named_records_next_to_the_clone_is_left_alone(tmp_path, monkeypatch):
    found = records.records_folder()
    (tmp_path / "records").mkdir()
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    assert records.records_folder().samefile(found)


@pytest.mark.gpu
def test_a_gpu_is_measured(tmp_path):
    values = measure_machine.take(passes=1)
    machines.merge(tmp_path / "machines.json", records.circumstances(), values)
    ((gpu, taken),) = machines.read(tmp_path / "machines.json").items()
    assert gpu == torch.cuda.get_device_name()
    machine, limits = machines.machine_of(taken), taken["limits"]
    assert 0 < machine.start_us < 20 and machine.bytes_a_us < machine.instructions_a_us
    assert limits["starts"]["us"][1] > limits["starts"]["us"][0]
    known = gpu_from(taken)
    assert known.arch.startswith("sm_") and known.multiprocessors > 1 and taken.date in known.origin
