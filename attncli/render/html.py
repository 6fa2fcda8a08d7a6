from attncli.records import Report
from attncli.render import renderer
from attncli.render.html_page.document import build_html_page


@renderer(endings=(".html",), shows_maps=True)
def html(report: Report) -> str:
    """One self-contained page: the answer, then interactive pictures, then every number; loads nothing from the network."""
    return build_html_page(report)
