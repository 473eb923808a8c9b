"""`replace_in`: the norms and the loss of a Hugging Face model, computed by `ops`; `restore` takes that back.

A module's class becomes a subclass of it that has another forward: weights, their names, hooks and how they are tied stay.
"""

import functools
import inspect

import torch

from quack_tutorial.ops import linear_cross_entropy, rmsnorm

NORMS = "Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Gemma3"
IGNORED = -100
KNOWN = "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"


def replace_in(model):
    """`model`, a causal language model of `transformers`, whose norms and loss `ops` computes from now on, in place.

    Known are Llama, Mistral, Qwen 2 and 3, and Gemma 1 to 3 (text); ValueError names what is not. A norm's result is rounded to
    its input's type once, where Llama's is also before the weight. In training, a forward pass with labels takes the loss by
    `linear_cross_entropy` and returns no logits (None), since they never exist as a whole; not so where the head has a bias or the
    model bends its logits (Gemma 2), where torch's loss stays. Use it before torch.compile.
    """
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if kind not in KNOWN or not type(model).__name__.endswith("ForCausalLM"):
        raise ValueError(
            f"replace_in: expected a causal language model of {', '.join(KNOWN)}, got a {type(model).__name__}"
        )
    head = model.lm_head
    plain = type(head) is torch.nn.Linear and head.bias is None and not getattr(config, "final_logit_softcapping", None)
    for module in model.modules():
        if type(module).__name__ in [f"{name}RMSNorm" for name in NORMS] and not isinstance(module, _Replaced):
            module.__class__ = _subclass(_norm, type(module))
    if plain and not isinstance(model, _Replaced):
        model.__class__ = _subclass(_with_loss, type(model))
    return model


def restore(model):
    """`model`, with all that `replace_in` changed as it was."""
    for module in model.modules():
        if isinstance(module, _Replaced):
            module.__class__ = module._quack_original
    return model


class _Replaced:
    """What stands before a module's class. Such classes are made when they are needed, which pickle has to be told."""

    def __reduce_ex__(self, protocol):
        return _made, (self._quack_forward, self._quack_original), self.__dict__


def _made(forward, original):
    made = _subclass(forward, original)
    return made.__new__(made)


@functools.cache
def _subclass(forward, original):
    """The class `original` with another forward, whose signature is the original's: trainers ask for it."""

    @functools.wraps(original.forward)
    def call(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    names = {"forward": call, "_quack_forward": staticmethod(forward), "_quack_original": original}
    return type(original.__name__, (_Replaced, original), names)


def _norm(self, hidden_states):
    # Gemma's weights are what is added to 1.
    offset = 1.0 if type(self).__name__.startswith("Gemma") else 0.0
    eps = self.eps if hasattr(self, "eps") else self.variance_epsilon
    return rmsnorm(hidden_states.contiguous(), self.weight, eps=eps, weight_offset=offset)


def _with_loss(self, *args, labels=None, logits_to_keep=0, num_items_in_batch=None, shift_labels=None, **options):
    given = {"labels": labels, "logits_to_keep": logits_to_keep}
    given |= {"num_items_in_batch": num_items_in_batch, "shift_labels": shift_labels}
    whole = not isinstance(logits_to_keep, int) or logits_to_keep != 0
    if not self.training or labels is None or whole or len(args) > 5:
        return self._quack_original.forward(self, *args, **{k: v for k, v in given.items() if v is not None}, **options)
    as_tuple = options.pop("return_dict", self.config.return_dict) is False
    of_layers = self.model(*args, **options)
    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=IGNORED)[..., 1:]
    hidden = of_layers.last_hidden_state
    loss = linear_cross_entropy(
        hidden.flatten(0, -2),
        self.lm_head.weight,
        shift_labels.flatten().to(hidden.device),
        ignore_index=options.get("ignore_index", IGNORED),
        reduction="mean" if num_items_in_batch is None else "sum",
    )
    if num_items_in_batch is not None:
        loss = loss / num_items_in_batch
    output = inspect.signature(self._quack_original.forward).return_annotation
    found = output(loss=loss, **{k: v for k, v in of_layers.items() if k in output.__dataclass_fields__})
    return found.to_tuple() if as_tuple else found
