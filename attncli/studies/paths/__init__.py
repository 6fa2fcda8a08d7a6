"""How much of the output travels through paths of each length?

path_choices      paths as they are written
path_words        what the metrics mean, and what their numbers say
path_subject      a model and the stack that is taken apart
synthetic         synthetic networks: by length, single paths, by heads
trained_models    trained models: the same, and by attentions and MLPs
few_paths         what a few paths of networks trained here do alone
direction_sampling  norms, shares and a correlation from a few random directions, with their errors
sensitivity_rows  sensitivities as rows and in words
sensitivity       how a model's last token moves with the others
"""
