"""Accuracy of a few paths of one length, in networks trained here on a task.

path_sum_accuracy    sums of paths, drawn once and evaluated in several ways
report               rows and sentences about their accuracies
experiment           the study
run                  from the options of `attn reproduce memorise`, `sort` and `convex-hull` to a study
convex_hull_command  `attn reproduce convex-hull`
memorise_command     `attn reproduce memorise`
options              options of `attn reproduce memorise`, `sort` and `convex-hull`
sort_command         `attn reproduce sort`
"""
