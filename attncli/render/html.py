from attncli.records import Report
from attncli.render import renderer
from attncli.render.html_page.document import build_page


@renderer(endings=(".html",), shows_maps=True)
def html(report: Report) -> str:
    """One page that needs nothing else: the answer, then pictures to point at, then every number; no network."""
    return build_page(report)
