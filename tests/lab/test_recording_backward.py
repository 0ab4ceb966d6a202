"""What the record of a compiled backward times: two gradients, in the order that a line names."""

import pytest
import torch


def test_q_and_k_have_gradients_of_their_own(monkeypatch):
    """With one for both, 201 MB moved where 268 were counted."""
    pytest.importorskip("transformers")
    from recording import compiled_backward

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f: compile_(f, backend="aot_eager"))
    orders = []
    for order, grads_order, grads, call in compiled_backward.backward_calls((6, 2, 3, 8), "cpu"):
        orders.append((order, grads_order))
        assert [grad.is_contiguous() for grad in grads] == [grads_order == "stored bhsd"] * 2
        q_grad, k_grad = grads
        assert q_grad.data_ptr() != k_grad.data_ptr() and not torch.equal(q_grad, k_grad)
        for found, grad in zip(call(), grads, strict=True):
            torch.testing.assert_close(found.norm(), grad.norm(), rtol=0.02, atol=0)  # a rotation
    assert len({*orders}) == 4
