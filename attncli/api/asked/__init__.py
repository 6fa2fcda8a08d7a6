"""From options to a study, one file for each kind of answer; what can be refused without the work is refused here.

How fast attention loses rank:

circle_studies        one layer applied again and again

What each head does:

head_studies          a model or maps, on an input
length_studies        a model, on texts of several lengths
weight_studies        weights alone
attribution_studies   which input tokens a state comes from

How the output travels:

network_path_studies  synthetic networks
path_count_studies    numbers of paths alone
model_path_studies    models
sensitivity_studies   what of the stream moves a model's output
task_path_studies     networks trained here on a task

What one fixed module can show:

fit_studies           modules fitted to patterns
rank_head_studies     layers of heads trained here on one target
head_surveys          all trained heads of a model
real_tokens           the model whose tokens a head is given
"""
