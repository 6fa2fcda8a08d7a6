"""The attention maps of a trained model, and how close the product along a path is to rank 1."""

import numpy as np
import torch

from attncli.analysis.paths.decomposed_model import DecomposableModel
from attncli.analysis.paths.path_selection import Path
from attncli.capture import AttentionSite, Strip, capture_attention
from attncli.capture.softmax_attention.attention_site_names import find_block_stack_of_attention
from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics.log10_residual import log10_residual
from attncli.models.inputs.model_input import ModelInput
from attncli.models.precision import run_in_model_precision
from attncli.tolerances import PATH_MAP_ROW_SUM


class AttentionMapsOfStack:
    """The attention maps of one stack on one text, [head, query, key] for each layer in order."""

    def __init__(self, subject: DecomposableModel, text: ModelInput) -> None:
        self.maps: dict[AttentionSite, Array] = {}
        self.subject = subject
        body, stack = subject.model_without_head, subject.stack.name
        with (
            torch.no_grad(),
            run_in_model_precision(body),
            capture_attention(body, self.assemble_map_from_row_block),
        ):
            body(**text.kwargs)
        self.layers = list(self.maps.values())
        if not self.layers:
            raise InputError(f"stack {stack} has no attention whose paths could be followed.")
        for layer, maps in enumerate(self.layers):
            off = float(np.abs(maps.sum(axis=-1) - 1.0).max())
            if off > PATH_MAP_ROW_SUM.tolerance_for_dtype() or maps.shape[1] != maps.shape[2]:
                raise InputError(
                    f"layer {layer} of {stack}: attention rows that miss the sum of one by {off:.1g}, or maps "
                    "that are not square, have no product that is understood here."
                )
        lengths = {maps.shape[1]: None for maps in self.layers}
        if len(lengths) > 1:
            raise InputError(
                f"stack {stack}: its layers attend over {' and '.join(map(str, lengths))} tokens, and maps of several sizes "
                "have no product along a path."
            )

    def assemble_map_from_row_block(self, site: AttentionSite, strip: Strip) -> None:
        """Assemble the strips of the stack's attention layers; missing keys have weight 0."""
        other = find_block_stack_of_attention(site, self.subject.stacks) != self.subject.stack.name
        if other or site.kind != "self":
            return
        weights = strip.weights[0].to("cpu", torch.float64).numpy()
        heads, rows, keys = weights.shape
        whole = self.maps.setdefault(site, np.zeros((heads, strip.queries, strip.keys)))
        place = slice(strip.first_query, strip.first_query + rows)
        whole[:, place, strip.first_key : strip.first_key + keys] = weights

    @property
    def heads_per_layer(self) -> list[int]:
        return [len(maps) for maps in self.layers]

    def log10_rank_one_residual_of_path(self, path: Path) -> float:
        """P(1c^T + V) = 1c^T + P V: the product's residual is computed separately and has no floor."""
        product = SplitState.from_states(np.eye(self.layers[0].shape[1])).to_split_form()
        for choice, maps in zip(path, self.layers, strict=True):
            if choice:
                varying = product.varying.map_linearly(maps[choice - 1].__matmul__)
                product = SplitState(product.common, varying, plain=False)
        return log10_residual(product)
