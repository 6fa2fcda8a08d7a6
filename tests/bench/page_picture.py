"""A picture of a page as a browser shows it: `python tests/bench/page_picture.py PAGE.html[#ADDRESS] PICTURE.png`.

`examples/minilm.png` is that of `examples/minilm.html#head=2.9&metric=duplicate_token`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from browser import READY, launched

page, picture = sys.argv[1:]
path, _, address = page.partition("#")
with launched() as browser:
    window = browser.new_page(viewport={"width": 1400, "height": 1000})
    window.goto(f"{Path(path).absolute().as_uri()}#{address}")
    window.wait_for_selector(READY, state="attached")
    window.screenshot(path=picture)
