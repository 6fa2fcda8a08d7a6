"""The papers' small training experiments.

plan           how long a network is trained, and how fast
saving         a training in a file, to go on from
training       the training loop: the same plan gives the same weights, interrupted or not
tasks          tasks that give every token a label: one per file
labeller       the transformer that learns these
learning       that transformer, trained on its task
subnetworks    single paths of it alone: their terms, or run on their own as the published scripts do
token_streams  the tokens of a file, in their order: what a task learns by heart
options        trainings
rank_heads     one layer of heads on the nearest of a few tokens
task_callback  the trainings that attn makes itself
circle         one layer applied again and again
labelling      what a few paths of networks trained here do alone
"""
