"""How large a page is, and how long a browser takes over it: `python tests/bench/html_page.py`.

For each size a report made by hand is written as a page and opened in Chromium from disk: seconds until the first paint,
until all is drawn, and for the slowest of eight changes of the metric, each until the next frame is there.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from browser import launched
from page_reports import of_heads

from attncli.render.html import html

SIZES = ((6, 12, 38), (30, 9, 38), (80, 64, 38))
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime / 1000"
CHANGE = """async (metric) => {
  const select = document.getElementById('metric');
  const start = performance.now();
  select.value = metric;
  select.dispatchEvent(new Event('change'));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return (performance.now() - start) / 1000;
}"""


def busy(session: Any) -> float:
    """CPU seconds of the page's main thread so far: the clock on the wall says more of a busy machine's other work."""
    found = session.send("Performance.getMetrics")["metrics"]
    return sum(each["value"] for each in found if each["name"] == "TaskDuration")


def measured(browser: Any, layers: int, heads: int, metrics: int, folder: Path) -> str:
    names = [f"metric_{index}" for index in range(metrics)]
    report = of_heads(layers, heads, names)
    start = time.process_time()
    page_text = html(report)
    made = time.process_time() - start
    path = folder / "page.html"
    path.write_text(page_text)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=60_000)
    drawn = time.perf_counter() - start
    painted = page.evaluate(PAINTED)
    opened = busy(session)
    changes, clock = [], []
    for name in names[:8]:
        before = busy(session)
        clock.append(page.evaluate(CHANGE, name))
        changes.append(busy(session) - before)
    page.close()
    return (
        f"{layers:3} × {heads:2} × {metrics}: {len(page_text) / 1e3:7,.0f} kB, made in {made:5.2f} s of CPU; "
        f"first paint {painted:.2f} s, all drawn {drawn:.2f} s ({opened:.2f} of CPU), "
        f"a change {max(clock) * 1e3:.0f} ms ({max(changes) * 1e3:.0f} of CPU)"
    )


with launched() as browser, tempfile.TemporaryDirectory() as folder:
    for size in SIZES:
        print(measured(browser, *size, Path(folder)), flush=True)
