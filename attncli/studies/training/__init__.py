"""What happens to attention while a model is trained?

probe_runs     the same texts, looked at between two steps
batch_runs     the batch of a step, seen as it runs
batch_pieces   what of a batch is text
step_reports   the numbers of a step as a report
head_growth    how fast the numbers of heads move from one look to the next
"""
