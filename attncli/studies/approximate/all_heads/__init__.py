"""All heads of a model: what each asks of a module, what it can show, what moves it.

own_maps         what a head's own map asks of a module
random_patterns  how many random patterns a head can show
survey_rows      one line for each head, and words
head_survey      the study
"""
