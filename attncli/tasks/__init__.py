"""Small networks trained here on the paper's tasks.

plan         how long a network is trained, and how fast
saving       a training in a file, to go on from
training     the training loop: the same plan gives the same weights, interrupted or not
labelling    tasks that give every token a label: one per file
labeller     the transformer that learns these
learning     that transformer, trained on its task
subnetworks  single paths of it alone: their terms, or run on their own as the published scripts do
rank_heads   one layer of heads on the nearest of a few tokens
circle       one layer applied again and again to the points of two arcs
"""
