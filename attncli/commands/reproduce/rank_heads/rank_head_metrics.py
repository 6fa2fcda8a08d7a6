"""The numbers of `attn reproduce rank-heads`, known without torch."""

from collections.abc import Mapping

from attncli.records import Definition

RANK_HEAD_METRICS: Mapping[str, Definition] = {
    "error": Definition("1", "Mean over new questions of the squared distance between the layer's answer and the token nearest to the query, all on the unit sphere. 0: a head of full rank with large logits; 1/2 with two tokens and even weights."),
    "error_share": Definition("share", "That, over the error of the best multiple of the mean token on the same questions: 1 is what a layer can do whose weights do not depend on the query."),
    "right_choices": Definition("share", "Questions whose answer is nearer to the right token than to any other; with two tokens, 1/2 by chance."),
    "projecting_error": Definition("1", "With two tokens, in closed form: one hard head of this rank that projects on r directions, its answer drawn towards the mean as is best. A layer of this rank can do at least so well.", "one head, closed form"),
    "weights": Definition("numbers", "Of the layer: W_Q, W_K [d, r] and V [d, d] of every head."),
}  # fmt: skip
