"""The front door: every question as a function that takes Python's own things and returns a report.

Nothing here prints, and every error is one of `attncli.errors`. `attncli/__init__.py` looks names up here when they
are asked for, so that importing the package costs nothing; a command is a shell around one of these.

question              one declaration for Python and for the command line
answers               a report with what one does next: check, save, to_pandas, pictures in notebooks
rank_collapse         the questions, one file each
inspect_model
paths
approximate
generate
measured              maps that the caller has
compare
saved_reports         finished reports, read back
sweep                 many models: the question of `attn sweep`
sweep_items           which ones, and where their reports lie
sweep_runs            the runs, on an engine
fingerprint           all that decides a run's numbers, as one digest
rehearsal             where the work begins
progress              a bar on a terminal
network_sources       from options to networks; what each question takes
opened_models         from options to a model, loaded and proved
circle_studies        from options to a study, one file for each kind of answer
head_studies
length_studies
map_sources           maps in a file, whoever has saved them
weight_studies
attribution_studies
network_path_studies
model_path_studies
path_count_studies
sensitivity_studies
task_path_studies
token_streams         a text that a task learns by heart
fit_studies
rank_head_studies
head_surveys
real_tokens           the model whose tokens a head is given
chosen_patterns       patterns, with the forward passes that some of them need
"""
