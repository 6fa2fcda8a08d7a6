"""Modules in memory and loops that train them, for the Python calls of the list; made without attncli."""

from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 60, "max_position_embeddings": 64}  # fmt: skip
PROBE = [[5, 9, 12, 7, 5, 9, 30, 31], [8, 8, 9, 10, 11, 40]]


def bert() -> Any:
    torch.manual_seed(0)
    return hf.BertForMaskedLM(hf.BertConfig(**SIZES)).eval()


def llama() -> Any:
    torch.manual_seed(1)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES, num_key_value_heads=1, attention_dropout=0.1))  # fmt: skip


def vit() -> Any:
    torch.manual_seed(2)
    sizes = {name: value for name, value in SIZES.items() if name not in ("vocab_size", "max_position_embeddings")}  # fmt: skip
    return hf.ViTModel(hf.ViTConfig(**sizes, image_size=8, patch_size=4)).eval()


def t5() -> Any:
    torch.manual_seed(3)
    return hf.T5Model(hf.T5Config(d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, vocab_size=60, decoder_start_token_id=0)).eval()  # fmt: skip


def encoder() -> nn.Module:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def states(tokens: int = 7) -> Tensor:
    return torch.randn(1, tokens, 16, generator=torch.Generator().manual_seed(5))


def pixels() -> Tensor:
    return torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(6))


def padded() -> dict[str, Tensor]:
    """Two texts, as a tokenizer pads them."""
    ids = torch.tensor([[2, 9, 12, 7, 3, 0, 0], [2, 8, 9, 30, 31, 40, 3]])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def batch(step: int) -> dict[str, Tensor]:
    ids = torch.randint(2, 60, (2, 10), generator=torch.Generator().manual_seed(step))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def loop(attn: Any, steps: int = 5, **how: Any) -> list[Any]:
    """A training with a monitor: what it said in every step, and its last report."""
    torch.manual_seed(1)
    model = llama()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    monitor = attn.Monitor(model, **{"every": 2, "probe": PROBE, "folder": "history", **how})
    model.train()
    said = []
    for step in range(steps):
        optimiser.zero_grad()
        model(**batch(step)).loss.backward()
        optimiser.step()
        said.append(dict(monitor.step()))
        if monitor.stopped:
            break
    return [said, monitor.stopped, monitor.report, weights_sum(model)]


def weights_sum(model: nn.Module) -> float:
    return float(sum(parameter.detach().double().abs().sum() for parameter in model.parameters()))


class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 12

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {name: value[place % 2] for name, value in batch(place // 2).items()}


def trained(**how: Any) -> list[Any]:
    """transformers' Trainer with the callback: the numbers of its log, and the weights."""
    from attncli.training import AttnCallback

    settings = {"max_steps": 4, "per_device_train_batch_size": 2, "logging_steps": 2, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2, "seed": 3}  # fmt: skip
    watch = AttnCallback(**{"every": 2, "probe": PROBE, **how})
    model = llama()
    trainer = hf.Trainer(model, hf.TrainingArguments("trained", **settings), train_dataset=Data(), callbacks=[watch])  # fmt: skip
    trainer.remove_callback(hf.trainer_callback.PrinterCallback)
    trainer.train()
    logs = [{k: v for k, v in entry.items() if "attn/" in k or k in ("loss", "step")} for entry in trainer.state.log_history]  # fmt: skip
    return [logs, watch.stopped, weights_sum(model)]


def left_alone(attn: Any, model: nn.Module, **how: Any) -> list[Any]:
    """A report, and whether the module is as it was."""
    before = (weights_sum(model), model.training, torch.get_rng_state().sum().item())
    report = attn.inspect_model(model, **how)
    return [report, (weights_sum(model), model.training, torch.get_rng_state().sum().item()) == before]  # fmt: skip


def stopped_by(expression: Any, message: str = "") -> str:
    """The kind of an exception and its sentence."""
    try:
        expression()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def there(name: str) -> bool:
    return Path(name).exists()
