"""What a few paths of one length do alone, in networks trained here on a task.

task_path_sums   sums of paths, drawn once and evaluated in several ways
task_path_words  what their accuracies mean, and what they say
task_paths       the study
"""
