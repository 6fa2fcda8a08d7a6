"""The papers' small training experiments.

training_plan              how long and at which rate a network is trained
training_checkpoints       a training in a file, to resume from
training_loop              the training loop: the same plan gives the same weights, interrupted or not
tasks                      tasks that label every token: one per file
sequence_labeller          the transformer that learns these
train_labeller             train that transformer on its task
path_subnetworks           single paths of it: their terms, or run on their own as the published scripts do
token_sequence_files       the tokens of a file, in order: what a task memorises
options                    options of trainings
rank_heads                 one layer of heads on the nearest of a few tokens
training_monitor_callback  the training monitor on the trainings that attn runs itself
circle                     one layer applied again and again
sequence_labelling         how accurate a few paths of networks trained here are
"""
