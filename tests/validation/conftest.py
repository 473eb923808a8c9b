"""A fixture of the suites that need a GPU."""

import pytest


@pytest.fixture
def no_gpu_needed(monkeypatch):
    """torch with its CUDA parts doing nothing."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, device=None, **options: empty(*size, **options))
    return torch
