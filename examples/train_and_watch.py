"""Train a small Llama on the text that ships with attn, and watch one head's attention collapse.

From step 20 on the query and key weights of head 5 in layer 1 grow by a tenth each step, which is what a training that
diverges does to a head by itself. Its scores explode, its entropy collapses, and the gate ends the run.

Run: python examples/train_and_watch.py [FOLDER]         needs accelerate, as transformers' Trainer does
Then: attn sweep --glob 'FOLDER/attn/step-*.json' --show 'min(entropy_normalised)'
"""

import sys
from importlib.resources import files

import torch
import transformers as hf

from attncli.training import AttnCallback

LENGTH, LAYER, HEAD, WIDTH = 64, 1, 5, 8
STEPS, SOUND, GROWTH, LIMIT = 300, 20, 1.1, 50.0


class Bytes(torch.utils.data.Dataset):
    """Stretches of the text, a byte each token."""

    def __init__(self) -> None:
        text = files("attncli.models.inputs").joinpath("default_text.txt").read_bytes()
        self.ids = torch.tensor(list(text))

    def __len__(self) -> int:
        return len(self.ids) - LENGTH

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        ids = self.ids[place : place + LENGTH]
        return {"input_ids": ids, "labels": ids}


class Diverge(hf.TrainerCallback):
    """Makes the scores of one head grow, step by step."""

    def on_step_end(self, args, state, control, model=None, **_) -> None:
        if state.global_step < SOUND:
            return
        attention = model.model.layers[LAYER].self_attn
        rows = slice(HEAD * WIDTH, (HEAD + 1) * WIDTH)
        with torch.no_grad():
            attention.q_proj.weight[rows].mul_(GROWTH)
            attention.k_proj.weight[rows].mul_(GROWTH)


class Print(hf.TrainerCallback):
    """A line for each look: what any logger that the Trainer reports to would draw."""

    def on_log(self, args, state, control, logs=None, **_) -> None:
        if "attn/max_logit/worst" in logs:
            place = f"layer {logs['attn/max_logit/worst_layer']}, head {logs['attn/max_logit/worst_head']}"
            left = logs.get("attn/max_logit/steps_left")
            print(
                f"step {state.global_step:3}: max_logit {logs['attn/max_logit/worst']:6.2f} ({place}), "
                f"least entropy {logs['attn/entropy_normalised/worst']:.3f} of uniform attention's"
                + (f", {LIMIT:g} in {left:.0f} steps" if left else "")
            )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=8,
        intermediate_size=128, max_position_embeddings=LENGTH,
    )  # fmt: skip
    data = Bytes()
    watch = AttnCallback(
        every=5,
        probe=[data.ids[:LENGTH].tolist()],
        metrics=["max_logit", "entropy_normalised", "entropy_collapse", "sink"],
        warn_if="max(entropy_collapse) > 0.3",
        stop_if=f"max(max_logit) > {LIMIT:g}",
    )
    args = hf.TrainingArguments(
        sys.argv[1] if len(sys.argv) > 1 else "watched-run", max_steps=STEPS, per_device_train_batch_size=8,
        learning_rate=3e-3, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, logging_steps=1000,
    )  # fmt: skip
    trainer = hf.Trainer(hf.LlamaForCausalLM(config), args, train_dataset=data)
    trainer.remove_callback(hf.PrinterCallback)
    for each in (Print(), Diverge(), watch):
        trainer.add_callback(each)
    trainer.train()
    print(f"ended at step {trainer.state.global_step}: {watch.stopped or 'nothing went wrong'}")


if __name__ == "__main__":
    main()
