#!/usr/bin/env python3
"""Measure how long an exported page takes to open: from file:// until its first picture is painted.

bench-open.py MEMSIGHT MAKE-TRACE [SAMPLES [FILE.html]]. The bars: 5 MB, and 2 s for a run of a
million samples. Beside the wall time, which means nothing on a busy machine, stands the CPU time of
the page's thread. A FILE that is there is opened as it is. Needs chromium, its driver and selenium,
as tests/system/view does.
"""
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/system/view")]

import browser  # noqa: E402
import whole  # noqa: E402

N_TIMES = 9
MOST_BYTES, MOST_MS = 5_000_000, 2000
# The frame in which the attribute is set paints the picture; the next one comes when that is done.
WATCH = """
new MutationObserver((_, observer) => {
    const scene = document.getElementById("scene");
    if (!scene?.dataset.drawn) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.paintedMs = performance.now(); }));
}).observe(document, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["data-drawn"] });"""


def make_page(memsight, make_trace, n_samples, folder):
    """A run of as many blocks as samples, exported."""
    trace, database, output = (os.path.join(folder, name)
                               for name in ("run.mst", "run.db", "run.html"))
    whole.run([make_trace, "--events", str(2 * n_samples), "--samples", str(n_samples),
               "-o", trace])
    whole.run([memsight, "analyze", "-o", database, trace])
    whole.run([memsight, "view", "--export", output, database])
    return output


def open_page(chromium, path):
    """Milliseconds from the navigation to the painted picture, and CPU time of the page's
    thread."""
    chromium.driver.get("about:blank")
    chromium.driver.get(pathlib.Path(path).as_uri())
    painted = chromium.until("return window.paintedMs")
    metrics = chromium.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    values = {one["name"]: one["value"] for one in metrics}
    return painted, 1000 * values["TaskDuration"]


def measure(path):
    size = os.path.getsize(path)
    over = "" if size <= MOST_BYTES else "   OVER"
    print(f"{'size of the file':44} {size:12,} bytes   bar {MOST_BYTES:,}{over}")
    walls, cpus = [], []
    with browser.Browser() as chromium:
        chromium.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        chromium.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        for _ in range(N_TIMES):
            wall, cpu = open_page(chromium, path)
            walls.append(wall)
            cpus.append(cpu)
            time.sleep(0.2)
    for name, values, bar in [("until the first picture is painted, wall", walls, MOST_MS),
                              ("the same, CPU time of the page's thread", cpus, None)]:
        median = statistics.median(values)
        over = "" if bar is None else f"   bar {bar}" + ("" if median <= bar else "   OVER")
        print(f"{name:44} {median:8.0f} ms ({min(values):.0f} to {max(values):.0f},"
              f" n = {len(values)}){over}", flush=True)


def main():
    memsight, make_trace, *rest = sys.argv[1:]
    n_samples = int(rest[0]) if rest else 1_000_000
    if len(rest) > 1:
        return measure(rest[1])
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        measure(make_page(os.path.abspath(memsight), make_trace, n_samples, folder))


main()
