#!/usr/bin/env python3
"""Measure the web view and what pictures are drawn from on a big database: ten million blocks and
samples.

bench-view.py MEMSIGHT MAKE-TRACE BENCH-PICTURE [BLOCKS [SAMPLES [FILE.mst]]]. The bars: 20 s of CPU
time for what analyze stores, the first picture 100 ms (3 s with nothing of the file in memory), any
zoom 80 ms and any selected time 250 ms at the 95th percentile, the page of a site 300 ms, what
another click on a page, a row, a head of a column or a point of the picture asks for 100 ms,
200 MiB of memory. Wall times mean nothing on a busy machine: CPU seconds stand beside them. A FILE
that is there is used, and kept with its databases.

Where there are chromium and selenium (tests/system/view/browser.py), the clicks are made there,
too: until the page has all that it asked for, and has painted it.
"""
import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

N_ZOOMS = 300
N_BRUSHES = 100
N_POINTS = 50
LISTS = ["findings", "peak", "leaks", "hot", "cold", "unused", "sharing", "resident", "regions"]
COLOURS = ["direction", "thread", "level", "latency", "source"]
METRICS = ["bytes", "blocks", "peak", "leaked", "time", "faults"]
SORTS = ["share", "name", "bytes", "n_blocks", "peak_bytes", "live_bytes", "n_temporary",
         "mean_life_ns", "n_samples", "n_faults"]
TABS = ["findings", "memory", "flame", "objects", "peak", "leaks", "use", "sharing", "resident",
        "regions", "series", "diff", "run"]
BROWSER = pathlib.Path(__file__).resolve().parent.parent / "tests/system/view/browser.py"


def cpu_of(pid):
    """Seconds of CPU time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid):
    """The most memory that a process had, in MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) / 1024


def timed(command):
    """CPU seconds of a command that must succeed."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def forget(path):
    """Let the kernel drop what it keeps of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tell(name, value, unit, bar=None):
    over = "" if bar is None else f"   bar {bar}" + ("" if value <= bar else "   OVER")
    print(f"{name:48} {value:9.1f} {unit}{over}", flush=True)


class Server:
    """memsight view of a database, and how long its answers take."""

    def __init__(self, memsight, database):
        self.process = subprocess.Popen([memsight, "view", "--no-open", database],
                                        stdout=subprocess.PIPE, text=True)
        self.address, _, key = self.process.stdout.readline().strip().partition("#")
        self.key = f"&{key}" if key else ""

    def ask(self, name, **parameters):
        """The answer, wall and CPU seconds."""
        wall, cpu = time.monotonic(), cpu_of(self.process.pid)
        request = f"api/{name}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(self.address + request) as reply:
            answer = json.load(reply)
        return answer, time.monotonic() - wall, cpu_of(self.process.pid) - cpu

    def close(self):
        self.process.terminate()
        self.process.wait()


def part_of(length, is_whole):
    """A stretch of an axis, of any order of magnitude."""
    span = length if is_whole else max(1, int(length * 2 ** random.uniform(-14, 0)))
    start = random.randint(0, length - span)
    return start, start + span


def random_zoom(whole):
    shape = random.randrange(4)
    start, end = part_of(whole["to"] - whole["from"], shape == 2)
    low, high = part_of(whole["high"], shape == 1)
    return {"run": 1, "width": 1000, "height": 600, "by": random.choice(COLOURS),
            "from": start, "to": end, "low": low, "high": high}


def tell_click(server, name, parameters, word):
    """What it asks for, the second time."""
    server.ask(name, **parameters)
    _, wall, cpu = server.ask(name, **parameters)
    bar = 300 if word.startswith("of a site of") else 100
    tell(f"view: {name} {word}".rstrip(), 1e3 * wall, f"ms wall, {1e3 * cpu:3.0f} ms CPU", bar)


def around(time_ns):
    """As a point of a picture of 9 s asks: two pixels to each side."""
    return {"from": max(0, time_ns - 18_000_000), "to": time_ns + 18_000_000}


def measure_clicks(server):
    """What pages, rows, heads of columns and points of the picture ask for. Returns a site."""
    objects = {"run": 1, "descending": 1, "limit": 50, "offset": 0}
    first, _, _ = server.ask("objects", sort="n_blocks", **objects)
    columns = first["rows"]["columns"]
    site, n_blocks = next(row for row in zip(columns["site"], columns["n_blocks"]) if row[0])
    its, _, _ = server.ask("object", run=1, site=site)
    blocks = its["blocks"]["columns"]
    clicks = [("runs", {}, ""), ("run", {"run": 1}, ""), ("series", {}, ""),
              ("bands", {"run": 1}, ""), ("timeline", {"run": 1, "width": 1000}, ""),
              ("stack", {"run": 1, "site": site}, ""),
              ("object", {"run": 1, "site": site, "limit": 0}, "of a site, its head"),
              ("object", {"run": 1, "site": site}, f"of a site of {n_blocks:,}, its panes"),
              ("object", {"run": 1, "block": blocks["id"][0], "limit": 0}, "of a block, its head"),
              ("object", {"run": 1, "block": blocks["id"][0]}, "of a block, its panes")]
    clicks += [("report", {"run": 1, "kind": kind}, kind) for kind in LISTS]
    clicks += [("flame", {"run": 1, "by": by, "inverse": inverse}, f"{by} {way}")
               for by in METRICS for inverse, way in ((0, "top-down"), (1, "bottom-up"))]
    clicks += [("flame", {"run": 1, "by": "bytes", "inverse": 0, "full": 1}, "whole paths")]
    clicks += [("objects", {"sort": key, **objects}, key) for key in SORTS]
    clicks += [("objects", {"sort": "share", "filter": "main", **objects}, "filter")]
    for name, parameters, word in clicks:
        tell_click(server, name, parameters, word)
    times = sorted(server.ask("at", run=1, address=blocks["address"][i],
                              **around(blocks["allocated_ns"][i]))[1:]
                   for i in random.choices(range(len(blocks["id"])), k=N_POINTS))
    for share, bar in ((50, None), (95, 100)):
        wall, cpu = times[N_POINTS * share // 100]
        tell(f"view: at a point, {share}th percentile", 1e3 * wall,
             f"ms wall, {1e3 * cpu:3.0f} ms CPU", bar)
    return site


def load_browser():
    """tests/system/view/browser.py, or None where it cannot run."""
    sys.path[:0] = [str(BROWSER.parent), str(BROWSER.parents[2] / "support")]
    try:
        spec = importlib.util.spec_from_file_location("browser", BROWSER)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, module.Browser(1400, 1000)
    except SystemExit:
        return None, None


CLICK = """
    const [fragment, page, done] = arguments;
    const busy = () => [...document.querySelectorAll('[aria-busy=true]')].some(
        (e) => e.offsetParent);
    const from = performance.now();
    let head = 0;
    location.hash = fragment;
    const look = () => requestAnimationFrame(() => {
        const isThere = document.documentElement.dataset.ready === page;
        if (isThere && !head)
            head = performance.now() - from;
        if (isThere && !busy())
            requestAnimationFrame(() => done([head, performance.now() - from]));
        else
            setTimeout(look, 1);
    });
    delete document.documentElement.dataset.ready;
    look();
"""


def measure_page(server, site):
    """Clicks in a browser, the second time that a page is shown."""
    module, browser = load_browser()
    if not browser:
        print("page: not measured, no chromium or selenium", flush=True)
        return
    with browser:
        browser.open(f"{server.address}#page=regions{server.key}")
        browser.until("return document.documentElement.dataset.ready === 'regions'")
        wanted = [(page, f"page={page}") for page in TABS]
        wanted.append(("object", f"page=object&site={site}"))
        for is_second in (False, True):
            for page, fragment in wanted:
                head, whole = browser.driver.execute_async_script(CLICK, fragment, page)
                if is_second:
                    tell(f"page: {page}, its head", head, "ms wall", 100)
                    tell(f"page: {page}, all of it", whole, "ms wall", 100)


def measure_server(memsight, database):
    for name, bar in (("cold", 3000), ("warm", 100)):
        if name == "cold":
            forget(database)
        started = time.monotonic()
        server = Server(memsight, database)
        whole, _, cpu = server.ask("picture", run=1, width=1000, height=600)
        wall = time.monotonic() - started
        tell(f"view: first picture, {name}, from its start", 1e3 * wall, "ms wall", bar)
        tell("    of it the answer", 1e3 * cpu, "ms CPU")
        if name == "cold":
            server.close()
    times = []
    for _ in range(N_ZOOMS):
        _, wall, cpu = server.ask("picture", **random_zoom(whole))
        times.append((wall, cpu))
    walls, cpus = sorted(wall for wall, _ in times), sorted(cpu for _, cpu in times)
    for share, bar in ((50, None), (95, 80)):
        place = N_ZOOMS * share // 100
        tell(f"view: zoom, {share}th percentile", 1e3 * walls[place], "ms wall", bar)
        tell("    the same", 1e3 * cpus[place], "ms CPU")
    measure_page(server, measure_clicks(server))
    times = []
    for _ in range(N_BRUSHES):
        start, end = part_of(whole["to"] - whole["from"], False)
        times.append(server.ask("objects", run=1, **{"from": start, "to": end})[1:])
    wall, cpu = sorted(times)[N_BRUSHES * 95 // 100]
    tell("view: selected time, 95th percentile", 1e3 * wall, f"ms wall, {1e3 * cpu:3.0f} ms CPU",
         250)
    tell("view: memory", peak_of(server.process.pid), "MiB", 200)
    server.close()


def analyze(memsight, trace, database, *options):
    """CPU seconds and MiB of a database."""
    if os.path.exists(database):
        os.unlink(database)
    cpu = timed([memsight, "analyze", "-o", database, *options, trace])
    return cpu, os.path.getsize(database) / 2 ** 20


def measure(memsight, bench, trace, n_rows):
    for options in ([], ["--no-plain"]):
        cpu, size = analyze(memsight, trace, trace + ".view.db", *options)
        name = "compact" if options else "plain"
        tell(f"{name}: analyze", cpu, "s CPU")
        tell(f"{name}: database", size, "MiB")
        tell("    of a block and a sample", size * 2 ** 20 / n_rows, "bytes")
        if not options:
            subprocess.run([bench, "zoom", trace + ".view.db", str(N_ZOOMS)], check=True)
        measure_server(memsight, trace + ".view.db")


def main():
    random.seed(1)
    memsight, make_trace, bench, *rest = sys.argv[1:]
    n_blocks, n_samples = (int(rest[i]) if len(rest) > i else 10_000_000 for i in (0, 1))
    memsight = os.path.abspath(memsight)
    with tempfile.TemporaryDirectory(prefix="memsight-bench-") as folder:
        trace = rest[2] if len(rest) > 2 else os.path.join(folder, "big.mst")
        if not os.path.exists(trace):
            subprocess.run([make_trace, "--accesses", "--kind", "heap",
                            "--events", str(2 * n_blocks), "--samples", str(n_samples),
                            "--processes", "2", "--threads", "4", "--live", "100000",
                            "--stacks", "1000", "-o", trace], check=True)
        measure(memsight, bench, trace, n_blocks)


main()
