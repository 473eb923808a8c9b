"""`quack-tutorial model`: a small transformer trained with each implementation of its norms and loss, kept as a record.

Each variant is trained in a process of its own, one after the other, from the same parameters on the same tokens, so that memory
and what a library changes when it is imported stay apart. Differences of a percent or two in step time are not told from what a
GPU's clocks do meanwhile.

| kept of a variant | is                                                                                      |
|-------------------|-----------------------------------------------------------------------------------------|
| `losses`          | the mean loss of each step                                                              |
| `step_ms`         | the time of each step, between CUDA events; the first ones compile                      |
| `peak_bytes`      | the most that torch's allocator gave out at once after the first steps                  |
| `standing_bytes`  | what is allocated between steps: parameters, gradients' places, AdamW's moments, tokens |
| `kernels`         | kernels that a step launches, by torch's profiler; None where it may not look           |

torch.compile gets the whole model with dynamic=False and its other defaults.

With `--of llama` the model is Hugging Face's Llama as `transformers` has it, in the sizes of Llama 3.2 1B with 8 of its 16 layers,
all in bfloat16; what replaces its norms and its loss is `quack_tutorial.replace_in`, or Liger's patch. A traced model hands its
attention a mask, which costs more than `is_causal`; variants named "no mask" use `is_causal`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import pairwise

from bench.asked import command_line, on_a_gpu
from quack_tutorial import records

WARM_STEPS = 5  # compile and tune; not part of the peak
# name -> (operations, whether torch.compile gets the model)
VARIANTS = {
    "stock": ("STOCK", False),
    "stock, 16-bit loss": ("STOCK_16", False),
    "torch.compile": ("STOCK", True),
    "ours": ("OURS", False),
    "ours, torch.compile": ("OURS", True),
    "Liger": ("liger", False),
    "QuACK": ("quack", False),
    "QuACK, torch.compile": ("quack", True),
}
# The same of a Llama: what replaces its norms and its loss, and torch.compile.
CAUSAL = ", no mask"  # ends the names of variants whose attention is causal and gets no mask
LLAMA_VARIANTS = {
    "stock": (None, False),
    "torch.compile": (None, True),
    f"torch.compile{CAUSAL}": (None, True),
    "ours": ("ours", False),
    "ours, torch.compile": ("ours", True),
    f"ours, torch.compile{CAUSAL}": ("ours", True),
    "Liger": ("liger", False),
    "Liger, torch.compile": ("liger", True),
}


@dataclass(frozen=True)
class Sizes:
    """The model and its data: B sequences of T tokens a step; a token is two bytes, or one where the vocabulary is 256."""

    of: str = "own"
    vocabulary: int = 65536
    width: int = 1024
    layers: int = 8
    heads: int = 16
    hidden: int = 2816
    dtype: str = "bfloat16"
    B: int = 16
    T: int = 1024
    steps: int = 200
    lr: float = 3e-4


LLAMA = Sizes(of="llama", vocabulary=128256, width=2048, heads=32, hidden=8192, B=4, T=4096, steps=40, lr=1e-4)
# --of -> (variants, sizes)
MODELS = {"own": (VARIANTS, Sizes()), "llama": (LLAMA_VARIANTS, LLAMA)}


def own(name, sizes):
    """(chapter 13's model, whether torch.compile gets it) of a variant."""
    import torch

    from quack_tutorial import model

    which, compiled = VARIANTS[name]
    operations = getattr(model, which)
    if not isinstance(operations, model.Operations):
        operations = operations()
    fields = {key: getattr(sizes, key) for key in ("vocabulary", "width", "layers", "heads", "hidden")}
    return model.Model(model.Config(**fields, dtype=getattr(torch, sizes.dtype)), operations), compiled


def llama(name, sizes):
    """(a Llama that gives the loss of tokens, whether torch.compile gets it) of a variant."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    class WithLoss(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, tokens, targets):  # which the model takes from the tokens itself
            return self.net(input_ids=tokens, labels=tokens).loss

    which, compiled = LLAMA_VARIANTS[name]
    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        intermediate_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=max(1, sizes.heads // 4),
        max_position_embeddings=sizes.T,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation=_causal_attention() if name.endswith(CAUSAL) else "sdpa",
    )
    net = LlamaForCausalLM(config).to(getattr(torch, sizes.dtype)).train()
    if which == "ours":
        from quack_tutorial import replace_in

        replace_in(net)
    elif which == "liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        # The rotation and SwiGLU stay the model's own, as with ours.
        apply_liger_kernel_to_llama(rope=False, swiglu=False, model=net)
    return WithLoss(net), compiled


def _causal_attention():
    """The name of an attention that is torch's own, causal, and never given a mask: right only where no token is padding."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def causal(module, query, key, value, attention_mask, **options):
        return sdpa_attention_forward(module, query, key, value, None, **options)

    AttentionInterface.register("causal", causal)
    return "causal"


def train_variant(name: str, sizes: Sizes, device: str = "cuda") -> dict:
    """Train one variant in this process; what the module's docstring lists, samples rounded to 5 digits."""
    import torch

    from quack_tutorial import model

    torch.manual_seed(0)
    net, compiled = {"own": own, "llama": llama}[sizes.of](name, sizes)
    net = net.to(device)
    data = model.batches(model.sums(500_000), sizes.B, sizes.T, sizes.steps, 1 if sizes.vocabulary == 256 else 2).to(
        device
    )
    moments, peak = [], {}

    def before_step(step):
        if step == WARM_STEPS and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            peak["standing"] = torch.cuda.memory_allocated()
        moments.append(_moment(device))

    run = torch.compile(net, dynamic=False) if compiled else net
    # AdamW takes the parameters of what it is given: those of the compiled model are the model's.
    losses = model.train(run, data, sizes.lr, before_step)
    moments.append(_moment(device))
    losses = losses.tolist()  # once the GPU is done
    found = {"name": name, "status": "ok", "losses": [records.rounded(loss) for loss in losses]}
    found["step_ms"] = [records.rounded(_ms(*both)) for both in pairwise(moments)]
    found["standing_bytes"] = peak.get("standing")
    found["peak_bytes"] = torch.cuda.max_memory_allocated() if device == "cuda" else None
    found["kernels"] = _kernels(run, data, sizes.lr) if device == "cuda" else None
    return found


def _moment(device):
    """Now: a CUDA event on a GPU, the host's clock elsewhere."""
    if device != "cuda":
        return time.perf_counter()
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _ms(earlier, later) -> float:
    return (later - earlier) * 1e3 if isinstance(later, float) else earlier.elapsed_time(later)


def _kernels(run, data, lr):
    """How many kernels a step launches, as torch's profiler counts them; None where it sees none."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from quack_tutorial import model

    seen = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])

    def before_step(step):
        if step == 1:  # the optimizer is new, and makes its moments in the first one
            torch.cuda.synchronize()
            seen.start()

    try:
        model.train(run, data[:2], lr, before_step)
        torch.cuda.synchronize()
        seen.stop()
        kinds = [event.name for event in seen.events() if event.device_type.name == "CUDA"]
    except RuntimeError:
        return None
    return sum(not kind.startswith(("Memcpy", "Memset")) for kind in kinds) or None


def add_arguments(parser):
    """Declare what `quack-tutorial model` takes."""
    parser.add_argument("--out", help="keep the record in this file")
    parser.add_argument(
        "--of", choices=MODELS, default="own", help="the model: chapter 13's own, or Hugging Face's Llama"
    )


@on_a_gpu
def run(args, found) -> int:
    """Train every variant and print what each took; 1 where one failed, 2 without a GPU."""
    variants, sizes = MODELS[args.of]
    line = command_line(args, ["model"], ["of", "out"])
    head, trained = None, []
    for name in variants:
        trained.append(in_own_process(name, sizes))
        described = trained[-1].pop("machine", None)
        print(sentence(trained[-1]), flush=True)
        if described and not head:
            head = described | {"driver": found.driver, "sizes": asdict(sizes)}
            head |= {"date": records.minute(), "command": line}
        if args.out and head:
            records.save(args.out, head | {"variants": trained})
    return int(any(variant["status"] != "ok" for variant in trained))


def in_own_process(name: str, sizes: Sizes) -> dict:
    """Train one variant in a process of its own; a status of "failed" with the last line of its errors if it ends badly."""
    command = [sys.executable, "-m", "bench.training", name, json.dumps(asdict(sizes))]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"name": name, "status": "failed", "message": why[:160]}


def sentence(variant: dict) -> str:
    """A variant in words, for a line of progress."""
    if variant["status"] != "ok":
        return f"{variant['name']}: {variant['status']} ({variant['message']})"
    from quack_tutorial.records.training import settled_ms

    peak = f", {variant['peak_bytes'] / 1e9:.2f} GB at most" if variant["peak_bytes"] else ""
    last = f"loss {variant['losses'][0]:.3f} to {variant['losses'][-1]:.3f}"
    return f"{variant['name']}: {settled_ms(variant['step_ms']):.2f} ms a step{peak}, {last}"


def main(name: str, sizes: str) -> None:
    """Train one variant in this process and print it as JSON, with the machine; for `in_own_process`."""
    from bench.worker import describe

    sizes = Sizes(**json.loads(sizes))
    variant = train_variant(name, sizes) | {"machine": describe()}
    if sizes.of == "llama":
        variant["machine"]["versions"]["transformers"] = metadata.version("transformers")
    print(json.dumps(variant))


if __name__ == "__main__":
    main(*sys.argv[1:])
