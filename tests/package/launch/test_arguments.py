"""A kernel is launched with the arguments that it has, all of them, or not at all."""

from unittest.mock import PropertyMock, patch

import pytest
import torch

from ops import DIFFERENTIABLE, FEW, OPS, by_turns
from rope_kernels import launch, paths
from rope_kernels.norms import launches
from rope_lab.compiler.launches import launched_by

pytest.importorskip("triton", reason="needs Triton")
each_op = pytest.mark.parametrize("op", OPS, ids=str)
FAULTS = {
    "misspelt": lambda planned: {"batsh" if n == "batch" else n: x for n, x in planned.items()},
    "forgotten": lambda planned: {n: x for n, x in planned.items() if n != "table_len"},
    "of another kernel": lambda planned: planned | {"NOBODY_HAS": 3},
}


@pytest.fixture
def planned_wrongly(monkeypatch):
    """Makes every later plan wrong in one way."""
    plan, faults = launch.plan, []

    def wrong(*arguments, **options):
        planned = plan(*arguments, **options)
        for fault in faults:
            planned = planned._replace(arguments=FAULTS[fault](planned.arguments))
        return planned

    for module in (launch, launches):
        monkeypatch.setattr(module, "plan", wrong)
    return faults


@pytest.mark.parametrize("fault", FAULTS)
@by_turns(OPS, FEW)
def test_a_plan_with_other_names_than_the_kernels_launches_nothing(
    op, case, fault, device, whole_way, planned_wrongly
):
    """None is a kernel's word for what is not there, so a name that is lost was silently None."""
    sample, launched = op.sample(device, **case), []
    leaves = sample.leaves() if op in DIFFERENTIABLE else {}
    outs = sample.call(leaves)
    planned_wrongly.append(fault)
    with (
        launched_by(launched.append),
        pytest.raises(TypeError, match=r"kernel is planned with other arguments than it takes"),
    ):
        sample.call()
    if leaves:
        grads = sample.gradients_like(outs)
        with pytest.raises(TypeError, match=r"kernel is planned with other arguments than it"):
            torch.autograd.grad(outs, [*leaves.values()], grads)
    assert not launched


@each_op
def test_a_launch_is_remembered_with_its_arguments(op, interpreter, device, monkeypatch):
    """Another thread launches what it finds, as soon as it finds it: as without a global lock."""
    found = []

    class Watched(launch.Known):
        def __setattr__(self, name, value):
            if name == "launch" and value is not None:
                found.append(self.arguments)
            super().__setattr__(name, value)

    monkeypatch.setattr(launch, "Known", Watched)
    launch.forget()
    sample = op.sample(device)
    sample.call()
    launch.forget()
    assert found and all(len(arguments) > 10 for arguments in found)


def test_the_warning_without_triton_points_at_the_callers_line(monkeypatch):
    monkeypatch.setattr(paths, "_HAS_TRITON", False)
    monkeypatch.setattr(paths, "_HAS_COMPILER", False)
    for op in OPS:
        sample = op.sample("cpu")
        with (
            patch.object(torch.Tensor, "is_cuda", PropertyMock(return_value=True)),
            pytest.warns(UserWarning, match="Triton is not installed") as noted,
        ):
            op.function(**sample.given, **sample.written, freqs=sample.freqs, **sample.options())
        assert {x.filename for x in noted} == {__file__}, op
