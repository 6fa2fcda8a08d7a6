"""One layer, trained on a circle and applied to its own output: do the points become one?

learned_circle  the report
circle_runs     the runs
circle_rows     their rows and sentences
"""
