"""One rank of a training in two processes, started as torchrun does, or the same trainings in one process."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers as hf
from torch import Tensor
from training_runs import PROBE, llama

import attncli as attn
from attncli.processes.rank_communication import exit_process
from attncli.training import AttnCallback

STEPS, EVERY, ITEMS = 6, 2, 4
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


def whole_batch(step: int) -> Tensor:
    return torch.randint(2, 60, (ITEMS, 16), generator=torch.Generator().manual_seed(step))


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return ITEMS * STEPS

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        row = whole_batch(place // ITEMS)[place % ITEMS]
        return {"input_ids": row, "labels": row}


class InOrder(hf.Trainer):  # type: ignore[misc]
    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)  # type: ignore[arg-type]


def undropped() -> Any:
    model: Any = llama()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    return model


def with_trainer(folder: Path, measure: str, stop_if: Any = ()) -> None:
    args = hf.TrainingArguments(
        str(folder), max_steps=STEPS, per_device_train_batch_size=ITEMS // RANKS, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, learning_rate=1e-2, lr_scheduler_type="constant",
    )  # fmt: skip
    callback = AttnCallback(every=EVERY, probe=PROBE, measure=measure, stop_if=stop_if)
    run = InOrder(undropped(), args, train_dataset=Rows(), callbacks=[callback])
    run.train()
    told = "nothing" if not callback.stopped else callback.stopped
    print(f"rank {os.environ.get('RANK', '0')} ended at step {run.state.global_step} for {told}")


def with_shards(folder: Path, measure: str) -> None:
    """Every block and the whole in parts over the ranks."""
    model = undropped()
    if RANKS > 1:
        for layer in model.model.layers:
            torch.distributed.fsdp.fully_shard(layer)
        torch.distributed.fsdp.fully_shard(model)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    model.train()
    with attn.Monitor(model, every=EVERY, probe=PROBE, measure=measure, folder=folder / measure / "attn") as monitor:  # fmt: skip
        for step in range(STEPS):
            own = whole_batch(step).chunk(RANKS)[int(os.environ.get("RANK", "0"))]
            optimiser.zero_grad()
            model(input_ids=own, labels=own).loss.backward()
            optimiser.step()
            monitor.step()
    if RANKS > 1:
        refuse_lost_parts(model, own)


def refuse_lost_parts(model: Any, own: torch.Tensor) -> None:
    """Looked at between two backward passes of one step, where parameters are whole, they are in parts again, none empty."""
    model.set_reshard_after_backward(False)
    model(input_ids=own, labels=own).loss.backward()
    attn.Monitor(model, probe=PROBE, metrics="sink")
    for name, part in model.state_dict().items():
        assert isinstance(part, torch.distributed.tensor.DTensor), name
        assert part.to_local().untyped_storage().nbytes() > 0, name


def main() -> None:
    """In parts by torch, and copied by the Trainer, which takes the processes as it finds them."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    if RANKS > 1:
        dist.init_process_group("gloo")
    for measure in ("probe", "batch"):
        with_shards(folder / "fsdp2", measure)
        with_trainer(folder / "ddp" / measure, measure)
    with_trainer(folder / "ddp" / "stopped", "probe", "max(max_logit) > 0.14")
    if dist.is_initialized():
        dist.destroy_process_group()
    exit_process(0)  # torch's threads abort one process in some ten at the interpreter's own end
