"""Suggest the option that a mistyped one most likely means.

>>> suggest_option_name("--num-layers", ["layers", "tokens"]), suggest_option_name("laers", ["layers"])
('layers', 'layers')
"""

import difflib
from collections.abc import Collection

NAMES_IN_OTHER_TOOLS = {
    "tokens length random_tokens": "n n_tokens num_tokens max_tokens seq_len seq_length sequence_length max_length "
    "context_length tokens length random_tokens",
    "layers blocks": "layer depth n_layers n_layer num_layers num_hidden_layers",
    "heads": "head n_heads n_head num_heads num_attention_heads",
    "width": "dim d d_model n_embd embed_dim hidden_dim hidden_size",
    "key_width width": "d_k d_qk d_head head_dim head_size head_width",
    "text": "prompt prompts input inputs sentence string",
    "text_file": "file input_file dataset",
    "token_ids": "ids input_ids",
    "format": "json csv markdown output_format",
    "output": "out outfile output_file save",
    "plot": "figure figures png svg pdf picture",
    "source": "model model_name checkpoint path",
    "device": "gpu cuda cpu",
    "dtype": "precision torch_dtype fp16 bf16",
    "processes": "jobs n_jobs workers num_workers nproc",
    "seed": "random_seed",
    "seeds": "n_seeds num_seeds trials repeats runs",
    "fail_if": "fail assert threshold",
    "fail_on": "fail assert threshold",
    "total_variation": "tol tolerance eps epsilon error",
    "debug": "verbose",
}
"""Names of our options, the first that the command has, for what transformers and other tools call them."""
LEAST_SIMILARITY = 0.7


def suggest_option_name(typed: str, known: Collection[str]) -> str | None:
    """The known parameter that a typed option means: by its name in other tools, else by its spelling."""
    name = typed.strip("-").lower().replace("-", "_")
    if name in known:
        return name
    for ours, theirs in NAMES_IN_OTHER_TOOLS.items():
        if name in theirs.split():
            for each in ours.split():
                if each in known:
                    return each
    similar = difflib.get_close_matches(name, known, 1, LEAST_SIMILARITY)
    return similar[0] if similar else None
