"""One sweep on whatever engine there is: python sweep-engines.py ENGINE 'runs/checkpoint-*' [NAME=VALUE …]

local:4                                                   warm workers on this machine
submitit partition=gpu gpus_per_node=1 timeout_min=60     a job array of Slurm
dask:tcp://scheduler:8786 gpu=.5                          half a GPU for each item, as the workers declare it
ray:auto num_gpus=.5                                      the ray cluster that this machine belongs to
"""

import sys

import attncli as attn

engine, pattern, *options = sys.argv[1:]
table = attn.sweep(
    "rank-collapse",
    glob=pattern,
    variants="SAN",
    into="reports",
    engine=engine,
    engine_options=options,
)
print(table)
sys.exit(0 if table.passed else 1)
