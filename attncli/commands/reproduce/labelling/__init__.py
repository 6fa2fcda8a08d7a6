"""What a few paths of one length do alone, in networks trained here on a task.

path_sums    sums of paths, drawn once and evaluated in several ways
report       what their accuracies mean, and what they say
experiment   the study
run          from the options of `attn reproduce memorise`, `sort` and `convex-hull` to a study
convex_hull  `attn reproduce convex-hull`
memorise     `attn reproduce memorise`
options      options of `attn reproduce memorise`, `sort` and `convex-hull`
sort         `attn reproduce sort`
"""
