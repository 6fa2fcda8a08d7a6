"""One head of a trained model: W_Q, W_K, biases, and the steps from its logits to the softmax."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from attncli.errors import UsageError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.head_files import open_checkpoint_tensors
from attncli.head_weights.head_projections import (
    Array,
    InputNorm,
    find_input_layer_norm,
    find_projection_weight_name,
    find_qk_norm_tensor,
    read_projection,
)
from attncli.maths.rotary_embedding import Rotary
from attncli.models.files.model_folder import (
    NOTHING_TRUSTED,
    FetchSettings,
    LocalModel,
    find_model_folder,
)
from attncli.models.files.tensor_reader import TensorReader
from attncli.models.files.weight_files import describe_unread_shards

Reader = Callable[[int, int], "Head"]
"""(layer, head) → the head from a model's files; a head that cannot be read raises."""
SPEC = re.compile(r"(?P<layer>\d{1,9})\.(?P<head>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Head:
    """softmax(scale · (x w_q + b_q) (x w_k + b_k)^T), rotated by position where the model is rotary."""

    w_q: Array
    """[hidden, d], exactly as stored."""
    w_k: Array
    b_q: Array
    b_k: Array
    scale: float
    causal: bool
    rotary: Rotary | None
    norm: InputNorm | None
    """None where the head's input comes from no norm, or from one without a gain in the file."""
    window: int | None
    """Keys that a query sees where the layer has a sliding window."""
    description: Mapping[str, str | int]
    """Folder, family, layer, head, dtype and hash of the weights, for the report."""
    warnings: tuple[str, ...] = ()

    @property
    def query_key_width(self) -> int:
        """Query and key width."""
        return int(self.w_q.shape[1])


def read_head(model: str, place: str, how: FetchSettings = NOTHING_TRUSTED) -> Head:
    """Read the head of a saved model at LAYER.HEAD."""
    spec = SPEC.fullmatch(place)
    if spec is None:
        raise UsageError(f"`head={place!r}`: write LAYER.HEAD, as in 0.3.")
    layer, head = int(spec["layer"]), int(spec["head"])
    local, config = require_scaled_product_logits(model, how)
    if layer >= config.layer_count or head >= config.head_count:
        raise UsageError(
            f"`head={place!r}`: the model has layers 0 … {config.layer_count - 1} and heads 0 … {config.head_count - 1}."
        )
    return make_head_reader(local, config, how)(layer, head)


def require_scaled_product_logits(model: str, how: FetchSettings) -> tuple[LocalModel, HeadConfig]:
    """Require a model whose logits are simply scaled products of queries and keys."""
    local = find_model_folder(model, how)
    config = HeadConfig.read_config(local.folder)
    config.refuse_unsupported_logit_terms()
    return local, config


def make_head_reader(local: LocalModel, config: HeadConfig, how: FetchSettings) -> Reader:
    """Make a reader of any of its heads; the files are opened once."""
    return partial(
        assemble_head_from_tensors,
        local,
        config,
        open_checkpoint_tensors(local.folder, config, how.allow_pickle),
    )


def assemble_head_from_tensors(
    local: LocalModel, config: HeadConfig, tensors: TensorReader, layer: int, head: int
) -> Head:
    """Assemble all parts of the head, with its description."""
    family, place = config.family, config.layer_index_in_tensor_names(layer)
    refuse_qk_norm(tensors, place)
    key_head = head * config.key_head_count // config.head_count
    w_q, b_q = read_projection(tensors, config, place, "query", head)
    w_k, b_k = read_projection(tensors, config, place, "key", key_head)
    digest = hashlib.sha256(b"".join(part.tobytes() for part in (w_q, w_k, b_q, b_k)))
    return Head(
        w_q,
        w_k,
        b_q,
        b_k,
        scale=config.logit_scale(layer),
        causal=family.causal,
        rotary=config.read_rotary_embedding(),
        norm=find_input_layer_norm(tensors, config, layer),
        window=config.find_window_of_layer(layer),
        description={
            "folder": local.name,
            "family": config.model_type,
            "layer": layer,
            "head": head,
            "key_head": key_head,
            "dtype": tensors.dtype(find_projection_weight_name(tensors, family.query, place)),
            "weights_sha256": digest.hexdigest(),
        },
        warnings=(*local.source.warnings, *filter(None, [describe_unread_shards(local.folder)])),
    )


def refuse_qk_norm(tensors: TensorReader, place: int) -> None:
    name = find_qk_norm_tensor(tensors, place)
    if name is not None:
        raise UsageError(
            f"{tensors.folder} normalises its queries and keys ({name}), which no linear inverse undoes: "
            "choose a model without QK-norm."
        )
