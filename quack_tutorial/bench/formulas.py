"""Each operation as torch spells it: what torch runs eagerly, and what torch.compile is given.

The backward formulas are what autograd would compute, written out, so that torch.compile may fuse them at will; they take
what a forward pass saves. Arithmetic is float32, as in the kernels they are compared with. Rows whose target is -100 are
ignored. Importing this module does not load torch.
"""

EPS = 1e-6  # added to the mean of squares in RMSNorm, to the variance in LayerNorm
IGNORE_INDEX = -100


def copy(x):
    """The same numbers in new memory."""
    return x.clone()


def softmax(x):
    """Softmax of each row."""
    import torch

    return torch.nn.functional.softmax(x, dim=-1)


def softmax_backward(y, dy):
    """The gradient of softmax's input, from its output."""
    y32, dy32 = y.float(), dy.float()
    return (y32 * (dy32 - (y32 * dy32).sum(-1, keepdim=True))).to(y.dtype)


def rmsnorm(x, w):
    """RMSNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + EPS) * w).to(x.dtype)


def rmsnorm_of_torch(x, w):
    """torch's own RMSNorm."""
    import torch

    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, EPS).to(x.dtype)


def rmsnorm_backward(x, w, dy, rstd):
    """The gradients of RMSNorm's input and weight."""
    h, dy32 = x.float() * rstd[:, None], dy.float()
    wdy = w * dy32
    dx = rstd[:, None] * (wdy - h * (h * wdy).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy32 * h).sum(0).to(w.dtype)


def layernorm(x, w, b):
    """LayerNorm of each row in float32, rounded once."""
    import torch

    h = x.float()
    centred = h - h.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)
    return (centred * rstd * w + b).to(x.dtype)


def layernorm_of_torch(x, w, b):
    """torch's own LayerNorm."""
    import torch

    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


def layernorm_backward(x, w, dy, mean, rstd):
    """The gradients of LayerNorm's input, weight and bias."""
    h, dy32 = (x.float() - mean[:, None]) * rstd[:, None], dy.float()
    wdy = w * dy32
    dx = rstd[:, None] * (wdy - wdy.mean(-1, keepdim=True) - h * (h * wdy).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy32 * h).sum(0).to(w.dtype), dy32.sum(0).to(w.dtype)


def cross_entropy(x, target):
    """The loss of each row."""
    import torch

    return torch.nn.functional.cross_entropy(x, target, ignore_index=IGNORE_INDEX, reduction="none")


def cross_entropy_backward(x, target, dloss, lse):
    """The gradient of the logits, from the log-sum-exp of each row."""
    import torch

    p = torch.exp(x.float() - lse[:, None])
    hit = torch.arange(x.shape[1], device=x.device) == target[:, None]
    scale = torch.where(target == IGNORE_INDEX, 0.0, dloss)
    return ((p - hit.float()) * scale[:, None]).to(x.dtype)


def cross_entropy_fused(x, target):
    """The loss of each row, and the gradient of the sum of losses."""
    import torch

    x32, ignored = x.float(), target == IGNORE_INDEX
    lse = torch.logsumexp(x32, -1)
    picked = x32.gather(1, torch.where(ignored, 0, target)[:, None])[:, 0]
    ones = torch.ones_like(lse)
    return torch.where(ignored, 0.0, lse - picked), cross_entropy_backward(x, target, ones, lse)
