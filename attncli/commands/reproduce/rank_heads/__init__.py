"""Can many narrow heads do what one wide head does?

nearest_token      the target, and questions about it
head_layer         the layer with the weights of several seeds at once, and how it is trained
head_plan          which layers, how long they are trained, and on what
experiment         layers of heads trained on the nearest token: rank against heads
rank_head_metrics  what the numbers of `rank_heads` mean
run                from the options of `attn reproduce rank-heads` to a study
command            `attn reproduce rank-heads`
options            options of `attn reproduce rank-heads`
"""
