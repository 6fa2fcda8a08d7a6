"""The HTML page: its sections, the plots of its script, and the embedded numbers.

document             assemble the page, with a policy that keeps external text inert
page_sentences       the answer, findings, verdicts and provenance as HTML
html_tables          the views of a report as HTML tables
plot_data_of_views   which plot each view gets, and the curves
comparison_curves    two reports as curves
fitted_curves        fitted laws as curves
head_map_thumbnails  maps in 8 bits
columns_as_bytes     rows as columns of bytes
embedded_data        columns and their descriptions, compressed into text
assets               the script and the style, from `scripts/` and `styles/`

The script only draws and sorts: the sentences and the tables of the views are complete without it.

    >>> from attncli.records import Report
    >>> from attncli.render.html_page.document import build_html_page
    >>> "<script>alert" in build_html_page(Report("check", "<script>alert(1)</script>", (), {}, {}))
    False
"""
