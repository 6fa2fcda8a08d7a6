"""`attn paths`: how much of the output travels through paths of each length?

options                options of the paths
synthetic              synthetic networks: by length, single paths, by heads
run_synthetic_network  from SOURCE and the options of `attn paths` to a study of synthetic networks
trained_models         trained models: by length, single paths, by heads, by attentions and MLPs
run_trained_model      from SOURCE and the model options to a study of a trained model's paths
command                the options of `attn paths`
"""
