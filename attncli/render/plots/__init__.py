"""Curves of a report: in the terminal, or as a figure.

>>> from attncli.records import Report, Row, View
>>> from attncli.render.plots.chart_data import collect_charts
>>> rows = tuple(Row("residual", 2.0**-layer, "1", layer=layer) for layer in range(4))
>>> decay = View("Decay", "layer", ("residual",))
>>> [chart] = collect_charts(Report("rank-collapse", "", rows, {}, {}, views=(decay,)))
>>> [len(points) for points in chart.series.values()]
[4]
"""
