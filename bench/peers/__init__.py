"""The other implementations: a module a family of `operations`, put together with `setups`.

| table           | operation -> provider -> setup function                                   |
|-----------------|---------------------------------------------------------------------------|
| `PROVIDERS`     | the kernels: those of `ours` first, then the peers'                       |
| `CALLS`         | the calls that a torch user makes, see `bench.public`                     |
| `CALLS_OF_MEAN` | the same where the call is the mean of the losses                         |
"""

from __future__ import annotations

from bench.peers import cross_entropy, layernorm, rmsnorm, rmsnorm_quantized, setups, softmax, topk
from quack_tutorial.operations import OPERATIONS

_FAMILIES = softmax, rmsnorm, layernorm, cross_entropy, rmsnorm_quantized, topk
_PEERS = {"copy": {"eager": setups.eager(OPERATIONS["copy"].formula)}}
_PEERS |= {name: peers for family in _FAMILIES for name, peers in family.PROVIDERS.items()}
PROVIDERS = {name: {"ours": operation.ours, **_PEERS[name]} for name, operation in OPERATIONS.items()}
CALLS = {name: calls for family in _FAMILIES for name, calls in family.CALLS.items()}
CALLS_OF_MEAN = cross_entropy.CALLS_OF_MEAN
