"""Can many narrow heads do what one wide head does?

nearest_token_task  the target function, and test questions
multi_head_layer    the layer with the weights of several seeds at once, and its training
head_training_plan  the layers, the length of training, and the data
experiment          layers of heads trained on the nearest token: rank against heads
rank_head_metrics   metrics of `rank_heads`
run                 from the options of `attn reproduce rank-heads` to a study
command             `attn reproduce rank-heads`
options             options of `attn reproduce rank-heads`
"""
