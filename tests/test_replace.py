"""`replace_in` on small models of transformers: the same loss and gradients as theirs, and back."""

import copy
import inspect
import io

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from quack_tutorial.replace import replace_in, restore

SIZES = dict(
    vocab_size=60,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    max_position_embeddings=64,
    pad_token_id=0,
)
pytestmark = pytest.mark.slow


def made(kind, **options):
    config = transformers.AutoConfig.for_model(kind, **SIZES, **options)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for name, weight in model.named_parameters():
        if "norm" in name:  # not all ones or zeros
            torch.nn.init.normal_(weight, weight.mean().item(), 0.2)
    return model


def step(model, **options):
    """(loss, gradients by name) of one forward and backward pass."""
    ids = torch.arange(24).reshape(2, 12) * 7 % 60
    labels = ids.clone()
    labels[0, :5] = -100
    model.zero_grad()
    found = model(input_ids=ids, labels=labels, **options)
    found.loss.backward()
    return found, {name.removeprefix("_orig_mod."): w.grad.clone() for name, w in model.named_parameters()}


def same(one, other):
    torch.testing.assert_close(one[0].loss, other[0].loss, rtol=1e-5, atol=0)
    for name, gradient in other[1].items():
        torch.testing.assert_close(one[1][name], gradient, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"))
def test_loss_and_gradients_are_the_model_s_own(kind):
    model = made(kind).train()
    wanted, text = step(model), str(model)
    found = step(replace_in(replace_in(model)))
    same(found, wanted)
    assert (found[0].logits is None) == (kind != "gemma2")
    assert str(model) == text
    assert not same_bits(found, wanted)
    assert same_bits(step(restore(model)), wanted)


def same_bits(one, other):
    return all(torch.equal(gradient, other[1][name]) for name, gradient in one[1].items())


def test_options_of_a_training_step():
    model = made("llama", tie_word_embeddings=True).train()
    wanted = step(model, num_items_in_batch=torch.tensor(40))
    model.gradient_checkpointing_enable()
    same(step(replace_in(model), num_items_in_batch=torch.tensor(40)), wanted)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.gradient_checkpointing_disable()
    same(step(torch.compile(model, backend="aot_eager"), num_items_in_batch=torch.tensor(40)), wanted)
    ids = torch.ones(1, 4, dtype=torch.int64)
    assert model(ids, labels=ids, return_dict=False)[0].shape == ()
    assert list(inspect.signature(model.forward).parameters) == list(
        inspect.signature(restore(model).forward).parameters
    )


def test_without_labels_and_in_evaluation_logits_are_there():
    model = made("qwen3").eval()
    ids = torch.arange(12)[None]
    wanted = model(ids, labels=ids)
    replace_in(model)
    for found in (model(ids, labels=ids), model.train()(ids)):
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-4, atol=1e-5)
    assert model.eval().generate(ids, max_new_tokens=3, do_sample=False).shape == (1, 15)


def test_a_copy_and_a_file_have_it_too():
    model = replace_in(made("gemma").train())
    wanted, kept = step(model), io.BytesIO()
    torch.save(model, kept)
    kept.seek(0)
    for other in (copy.deepcopy(model), torch.load(kept, weights_only=False)):
        assert same_bits(step(other), wanted)
        assert step(restore(other))[0].logits is not None


def test_what_it_does_not_know_is_said():
    with pytest.raises(ValueError, match="gemma3_text, got a Linear"):
        replace_in(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="got a Phi3ForCausalLM"):
        replace_in(made("phi3"))
