#!/usr/bin/env python3
"""Heatmaps, timelines and figures of programs whose truth is known. Arguments: memsight,
victim-sweep, part."""
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import png
import whole

MEMSIGHT, VICTIM, PART = sys.argv[1:4]
HAS_CAIRO = PART != "svg-only" and subprocess.run(
    [MEMSIGHT, "plot", "/nonexistent", "--format", "png", "-o", "/nonexistent/x.png"],
    capture_output=True, text=True, env=whole.environment(),
    check=False).stderr.find("without cairo") < 0
checks = whole.Checks()


class Sweep(whole.Recording):
    """A recording of the victim: .swept and .untouched are ranges of addresses."""

    def __init__(self):
        super().__init__(MEMSIGHT, [VICTIM])
        self.need_source("faults")
        first, second, size, pages = (int(word, 0) for word in self.output.split()[:4])
        self.swept, self.untouched = (first, first + size), (second, second + size)
        self.n_pages = pages

    def file(self, name):
        return os.path.join(self.folder.name, name)


def hexadecimal(span):
    return f"{span[0]:x}-{span[1]:x}"


def cells(sweep, span, *options):
    return json.loads(
        whole.run([
            MEMSIGHT, "report", sweep.path, "--heatmap", "--format", "json", "--source", "faults",
            "--addr",
            hexadecimal(span), "--cells", "64x32", *options
        ]))


def plot(sweep, *options, status=0):
    outcome = whole.Outcome([MEMSIGHT, "plot", sweep.path, *options])
    checks.that(outcome.status == status,
                f"plot {options}: status {outcome.status}: {outcome.messages}")
    return outcome


def check_diagonal(columns_of_row, what):
    """From below to above later and later, without a step back."""
    rows = sorted(columns_of_row)
    for below, above in zip(rows, rows[1:]):
        checks.that(max(columns_of_row[below]) <= min(columns_of_row[above]),
                    f"{what}: row {above} begins before row {below} ends")
    checks.that(
        len(rows) >= 2 and min(columns_of_row[rows[-1]]) > max(columns_of_row[rows[0]]),
        f"{what} does not rise")


def cells_are_where_the_program_was(sweep):
    """Each page of a block was touched once, one after the other; of the other block none."""
    found = cells(sweep, sweep.swept)
    touched = {}
    for cell in found:
        if cell["touches"]:
            touched.setdefault(cell["row"], []).append(cell["column"])
            checks.that(cell["low"] < sweep.swept[1] and cell["high"] > sweep.swept[0],
                        f"{cell} lies elsewhere")
    n = sum(cell["touches"] for cell in found)
    # The page in which the allocator's words are may be touched before, by it.
    checks.that(sweep.n_pages <= n <= sweep.n_pages + 1, f"{n} touches of {sweep.n_pages} pages")
    checks.that(len(touched) == 32, f"{len(touched)} of 32 rows were touched")
    touched[0] = [column for column in touched[0] if column >= min(touched[1]) - 8] or touched[0]
    check_diagonal(touched, "the sweep")
    expected = sweep.one(
        "SELECT count(*) FROM touch WHERE role = 3 AND address >= ? AND address < ?", *sweep.swept)
    checks.that(n == expected, f"{n} touches, {expected} rows")
    other = cells(sweep, (sweep.untouched[0] + 4096, sweep.untouched[1]))
    checks.that(other and not any(cell["touches"] for cell in other),
                "touches in the block that nobody touched")
    checks.that(any(cell["occupancy"] > 0.99 for cell in other),
                "the untouched block does not lie there")


def parts_are_parts(sweep):
    """A part in time has the touches of that time, and its cells are of it."""
    middle = sweep.one(
        "SELECT time_ns FROM sample JOIN touch ON sample_id = sample.id WHERE role = 3 AND address "
        ">= ?"
        " AND address < ? ORDER BY address LIMIT 1 OFFSET ?", *sweep.swept, sweep.n_pages // 2)
    for options, where in [(["--from", f"{middle}ns"], f"time_ns >= {middle}"),
                           (["--to", f"{middle}ns"], f"time_ns < {middle}")]:
        n = sum(cell["touches"] for cell in cells(sweep, sweep.swept, *options))
        expected = sweep.one(
            "SELECT count(*) FROM touch JOIN sample ON sample.id = sample_id WHERE role = 3"
            f" AND address >= ? AND address < ? AND {where}", *sweep.swept)
        checks.that(n == expected, f"{options}: {n} touches, not {expected}")
    half = (sweep.swept[0], (sweep.swept[0] + sweep.swept[1]) // 2)
    n = sum(cell["touches"] for cell in cells(sweep, half))
    expected = sweep.one(
        "SELECT count(*) FROM touch WHERE role = 3 AND address >= ? AND address < ?", *half)
    checks.that(n == expected, f"of half the addresses: {n} touches, not {expected}")


def in_terminal(command, columns, **variables):
    """What a command writes to a terminal of that width."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    child = subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL,
                             env=whole.environment(TERM="xterm-256color", COLUMNS="", **variables))
    os.close(slave)
    data = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    child.wait()
    os.close(master)
    return data.decode()


def shown(line):
    return re.sub(r"\x1b\[[0-9;]*m", "", line.rstrip("\r\n"))


def terminals_get_what_they_can_show(sweep):
    """Colours and half blocks on one that has them; shades elsewhere; nothing wider than it is."""
    command = [
        MEMSIGHT, "report", sweep.path, "--heatmap", "--addr",
        hexadecimal(sweep.swept), "--source", "faults"
    ]
    coloured = in_terminal(command, 90)
    checks.that("\x1b[38;5;" in coloured and ("▀" in coloured or "▄" in coloured),
                "no colours on a terminal")
    plain = in_terminal(command, 90, NO_COLOR="1")
    checks.that("\x1b[" not in plain and "░" in plain, "colours in spite of NO_COLOR")
    piped = whole.run(command)
    checks.that("\x1b[" not in piped and "█" in piped, "colours in a pipe")
    for name, text in [("coloured", coloured), ("plain", plain)]:
        rows = [shown(line) for line in text.splitlines() if "│" in line or "┤" in line]
        checks.that(
            len(rows) == 24 and max(map(len, rows)) == 90,
            f"{name}: {len(rows)} rows of {set(map(len, rows))}")
    rows = [
        line.split("│" if "│" in line else "┤", 1)[1] for line in piped.splitlines()
        if "│" in line or "┤" in line
    ]
    found = {
        len(rows) - 1 - i: [x for x, sign in enumerate(row) if sign in "░▒▓█"]
        for i, row in enumerate(rows)
    }
    found[0] = found[0][-1:]
    check_diagonal({row: columns for row, columns in found.items() if columns}, "the drawing")
    checks.that(f"{sweep.swept[0] & ~0xfff:x}"[:-4] in piped, "no address at the axis")
    for text in ["faults ", "(page faults)", "n = ", "process ", "victim-sweep", " s"]:
        checks.that(text in piped, f"the heatmap does not tell '{text}'")


def timelines_are_drawn_over_their_rows(sweep):
    text = whole.run([MEMSIGHT, "report", sweep.path, "--timeline"])
    rows = json.loads(whole.run([MEMSIGHT, "report", sweep.path, "--timeline", "--format", "json"]))
    checks.that(
        list(rows[0]) == [
            "time", "interval", "live_bytes", "max_live_bytes", "rss", "allocations", "frees",
            "samples", "faults", "touched"
        ], f"columns of the timeline are {list(rows[0])}")
    for word in ["live", "rss", "allocations/s", "faults/s"]:
        checks.that(re.search(rf"^ *{word} +\S+.*┤", text, re.MULTILINE), f"no curve of {word}")
    live = [line.split("┤")[1] for line in text.splitlines() if re.match(r" *live .*┤", line)][0]
    # Both blocks are allocated at once, live to the end, and are nearly all that there is.
    since = live.lstrip(" ▁▂▃▄▅▆")
    checks.that(len(since) > 5 and set(since[1:-1]) <= set("█▇"), f"live bytes are {live!r}")
    checks.that("live bytes, at most" in text, "the rows are gone")


def labels_of(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    return root, [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def svg_is_xml_with_its_labels(sweep):
    for kind, expected in [("heatmap", [
            "time (ms)", "address (holes left out)", "touches per cell"
    ]), ("timeline", ["time (ms)", "MiB", "live", "page faults"]),
                           ("series", ["wall time (ms)", "default", "n = 1"]),
                           ("flame", ["all", "main"]),
                           ("resident", ["resident (MiB)", "its own", "pages of libc.so.6"])]:
        path = sweep.file(kind + ".svg")
        plot(sweep, "--kind", kind, "-o", path, "--title", "A < B & \"C\" >", "--width", "120",
             "--height", "90")
        root, labels = labels_of(path)
        for label in expected + ["A < B & \"C\" >"]:
            checks.that(label in labels, f"{kind}: no text '{label}' in {labels}")
        checks.that((root.get("width"), root.get("height")) == ("340.16pt", "255.12pt"),
                    f"{kind}: {root.get('width')} x {root.get('height')}")
        with open(path, encoding="utf-8") as file:
            checks.that("://" not in file.read().replace("http://www.w3.org/2000/svg", ""),
                        f"{kind} names an address")
    _, labels = labels_of(sweep.file("heatmap.svg"))
    note = " ".join(label for label in labels if label)
    for text in ["n = ", "faults", "(page faults)", "victim-sweep", "cell:", "holes left out"]:
        checks.that(text in note, f"the note does not tell '{text}': {note}")


def notes_are_left_out_on_request(sweep):
    path = sweep.file("bare.svg")
    for kind in ["heatmap", "timeline", "series", "flame", "resident"]:
        plot(sweep, "--kind", kind, "--force", "-o", path)
        noted = labels_of(path)[1]
        plot(sweep, "--kind", kind, "--force", "--no-notes", "-o", path)
        bare = labels_of(path)[1]
        longest = max(noted, key=lambda text: len(text or ""))
        checks.that(len(longest) > 40 and longest not in bare, f"{kind}: {longest}")
        checks.that(max(len(text or "") for text in bare) <= 40, f"{kind}: notes in {bare}")


def curves_are_named_beside_their_ends(sweep):
    """Names cover nothing: they stand to the right of the panel's frame."""
    path = sweep.file("named.svg")
    plot(sweep, "--kind", "timeline", "--force", "-o", path)
    root, _ = labels_of(path)
    texts = {text.text: float(text.get("x"))
             for text in root.iter("{http://www.w3.org/2000/svg}text") if text.get("x")}
    numbers = [x for text, x in texts.items() if re.fullmatch(r"[0-9.]+", text)]
    for name in ["live", "page faults"]:
        checks.that(texts[name] > max(numbers), f"{name} at {texts[name]}, axis to {max(numbers)}")


def big_blocks_have_their_names(sweep):
    path = sweep.file("blocks.svg")
    low, high = min(sweep.swept[0], sweep.untouched[0]), max(sweep.swept[1], sweep.untouched[1])
    plot(sweep, "--kind", "heatmap", "-o", path, "--force", "--addr", hexadecimal((low, high)))
    labels = labels_of(path)[1]
    lines = sorted(line for (line,) in sweep.ask(
        "SELECT line FROM allocation JOIN stack ON stack.id = allocation.stack_id JOIN"
        " stack_line ON stack_line.stack_id = user_id WHERE size >= 65536 ORDER BY size DESC"
        " LIMIT 2"))
    checks.that(len(lines) == 2 and all(f"main:{line}" in labels for line in lines),
                f"blocks of lines {lines}: {labels}")


def a_flame_graph_is_as_wide_as_its_values(sweep):
    """The rectangle of main has its share of the width of all."""
    path = sweep.file("flame.svg")
    plot(sweep, "--kind", "flame", "--force", "-o", path, "--by", "bytes")
    (total,) = sweep.ask("SELECT sum(bytes) FROM site")[0]
    (of_main,) = sweep.ask("SELECT sum(bytes) FROM site JOIN stack_line USING (stack_id) WHERE"
                           " function = 'main'")[0]
    note = " ".join(text or "" for text in labels_of(path)[1])
    checks.that("bytes asked for" in note and "call sites" in note, note)
    with open(path, encoding="utf-8") as file:
        widths = [float(right) - float(left) for left, right in
                  re.findall(r'<path d="M([0-9.]+) [0-9.]+L([0-9.]+) [^"]*Z" fill', file.read())]
    shares = [width / max(widths) for width in widths]
    checks.that(any(abs(share - of_main / total) < 0.01 for share in shares[1:]),
                f"main has {of_main / total}: {shares}")


def names_of_ranges_lie_within_the_figure(sweep):
    """Also that of a thin one at the top, which stands above its begin."""
    tall = "end - start > 200000 AND end - start = (SELECT max(end - start) FROM band)"
    bands = sweep.ask(
        "SELECT start, end FROM band WHERE number IN (SELECT number + i FROM band, (SELECT 0 AS i "
        "UNION SELECT 1)"
        f" WHERE {tall}) ORDER BY start")
    checks.that(
        len(bands) == 2 and 20 * (bands[1][1] - bands[1][0]) < bands[0][1] - bands[0][0],
        f"no thin range above: {bands}")
    path = sweep.file("top.svg")
    plot(sweep, "--kind", "heatmap", "-o", path, "--addr", hexadecimal((bands[0][0], bands[1][1])))
    root, labels = labels_of(path)
    checks.that(f"{bands[1][0]:x}" in labels, f"the range at the top is not told: {labels}")
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        top = float(text.get("y")) - float(text.get("font-size"))
        checks.that(top >= 0 or text.get("transform"),
                    f"'{text.text}' is cut: it begins {top} above the figure")


def the_heap_has_its_name_without_allocations(sweep):
    """--no-alloc: what the kernel tells of mappings is what is known."""
    path, trace = sweep.file("bare-heap.svg"), sweep.file("no-alloc.mst")
    whole.run([MEMSIGHT, "record", "-q", "--no-alloc", "-o", trace, "--", VICTIM])
    whole.run([MEMSIGHT, "analyze", "-o", trace + ".db", trace])
    bands = whole.Database(trace +
                           ".db").ask("SELECT start, end, kind FROM band WHERE name = '[heap]'")
    checks.that(len(bands) == 1 and bands[0][2] == "heap", f"libc's heap is {bands}")
    kinds = whole.Database(trace + ".db").ask("SELECT DISTINCT kind FROM band")
    checks.that(("stack",) in kinds, f"no range is a stack: {kinds}")
    if bands:
        whole.run(
            [MEMSIGHT, "plot", trace + ".db", "-o", path, "--addr",
             hexadecimal(bands[0][:2])])
        _, labels = labels_of(path)
        checks.that("heap (brk)" in labels, f"libc's heap has another name: {labels}")
        check_owner_of(trace, *bands[0][:2])


def check_owner_of(trace, start, end):
    """Who is touched in the heap has in reports the name of pictures."""
    db = whole.Database(trace + ".db")
    n_faults = db.one(
        "SELECT count(*) FROM touch JOIN mapping ON mapping.id = owner_id WHERE owner_kind = 3 AND "
        "role = 3"
        " AND path = '[heap]'")
    strays = db.one(
        "SELECT count(*) FROM touch WHERE role = 3 AND touch.address BETWEEN ? AND ? AND "
        "owner_kind = 3"
        " AND owner_id IS NULL", start, end - 1)
    rows = json.loads(
        whole.run(
            [MEMSIGHT, "report", trace + ".db", "--objects", "--limit", "0", "--format", "json"]))
    heap = [row for row in rows if row["object"] == "heap (brk)"]
    checks.that(n_faults > 0 and strays == 0,
                f"{n_faults} faults of the heap, {strays} of no mapping")
    checks.that(len(heap) == 1 and heap[0]["kind"] == "mapping" and heap[0]["faults"] == n_faults,
                f"libc's heap is {heap}, not {n_faults} faults")


def a_figure_is_replaced_in_whole_or_not_at_all(sweep):
    path = sweep.file("replaced.svg")
    plot(sweep, "-o", path)
    with open(path, encoding="utf-8") as old:
        plot(sweep, "-o", path, "--force", "--title", "another")
        checks.that("another" not in old.read(),
                    "who reads a figure while it is replaced reads another one")
    with open(path, encoding="utf-8") as file:
        before = file.read()

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    outcome = whole.Outcome([MEMSIGHT, "plot", sweep.path, "-o", path, "--force"], preexec_fn=limit)
    checks.that(outcome.status == 1 and "cannot write" in outcome.messages,
                f"a full disk: {outcome.status} {outcome.messages}")
    with open(path, encoding="utf-8") as file:
        checks.that(file.read() == before, "a figure that could not be replaced is gone")
    left = [name for name in os.listdir(sweep.folder.name) if name.startswith(".memsight")]
    checks.that(not left, f"{left} was left")


def same_input_gives_same_bytes(sweep):
    for form in ["svg", "png", "pdf"] if HAS_CAIRO else ["svg"]:
        for kind in ["heatmap", "timeline", "series", "flame", "resident"]:
            first, second = (sweep.file(f"{name}.{form}") for name in ["first", "second"])
            for path in [first, second]:
                plot(sweep, "--kind", kind, "-o", path, "--force")
            with open(first, "rb") as one, open(second, "rb") as other:
                checks.that(one.read() == other.read(), f"{kind}.{form} differs from itself")
    done = subprocess.run([MEMSIGHT, "plot", sweep.path, "-o", "-"], capture_output=True,
                          env=whole.environment(), check=False)
    plot(sweep, "-o", sweep.file("file.svg"))
    with open(sweep.file("file.svg"), "rb") as file:
        checks.that(done.stdout == file.read(), "standard output and file differ")


def pixels_are_where_the_program_was(sweep):
    path = sweep.file("sweep.png")
    start, end = sweep.ask(
        "SELECT min(time_ns), max(time_ns) FROM touch JOIN sample ON sample.id = sample_id WHERE "
        "role = 3"
        " AND address >= ? AND address < ?", sweep.swept[0] + 4096, sweep.swept[1])[0]
    plot(sweep, "--from", f"{start}ns", "--to", f"{end}ns", "-o", path, "--source", "faults",
         "--addr", hexadecimal(
             sweep.swept), "--cells", "64x32", "--width", "100", "--height", "80", "--dpi", "150")
    image = png.Image(path)
    checks.that((image.width, image.height) == (591, 472), f"{image.width} x {image.height} pixels")
    checks.that(b"tIME" not in image.kinds and b"tEXt" not in image.kinds, f"chunks {image.kinds}")
    columns = {}
    for y in range(image.height):
        for x in range(image.width):
            if image.is_coloured(x, y):
                columns.setdefault(x, []).append(y)
    # The scale of colours stands by itself at the right.
    gap = max(a for a, b in zip(sorted(columns), sorted(columns)[1:]) if b - a > 10)
    cells_x = [x for x in sorted(columns) if x <= gap]
    middles = [sum(columns[x]) / len(columns[x]) for x in cells_x]
    # Steps of a cell, but never back down by more than one.
    cell = (max(max(columns[x]) for x in cells_x) - min(min(columns[x]) for x in cells_x)) / 32
    checks.that(all(b <= a + cell for a, b in zip(middles, middles[1:])), "the pixels do not rise")
    checks.that(middles[0] - middles[-1] > 25 * cell, f"from {middles[0]} to {middles[-1]}")


def a_pdf_has_its_size_and_no_clock(sweep):
    path = sweep.file("figure.pdf")
    plot(sweep, "-o", path, "--width", "100", "--height", "80")
    with open(path, "rb") as file:
        data = file.read()
    checks.that(data.startswith(b"%PDF-") and b"%%EOF" in data[-16:], "no PDF")
    plot(sweep, "-o", sweep.file("title.pdf"), "--title", os.fsdecode(b"no UTF-8: \xff"))


def cells_have_the_size_that_was_asked_for(sweep):
    outcome = plot(sweep, "-o", "-", "--time-unit", "20000000", "--block-bits", "18", "--addr",
                   hexadecimal(sweep.swept))
    checks.that(
        "cell: 20.0 ms x 256 KiB" in re.sub(r"</text>\n<text[^>]*>", " ", outcome.stdout.decode()),
        "cells of another size than was asked for")
    for options, text in [(["--time-unit", "10"], "--time-unit"),
                          (["--block-bits", "1"], "at most 2048")]:
        refused = plot(sweep, "-o", "-", *options, status=2)
        checks.that("at most 2048" in refused.messages and not refused.stdout,
                    f"{options}: {refused.messages} {text}")


REFUSED = [
    ([], 2, "--output"),
    (["-o", "figure.gif"], 2, ".svg, .png and .pdf"),
    (["-o", "-", "--width", "5"], 2, "20 to 2000"),
    (["-o", "-", "--font-size", "72"], 2, "too small"),
    (["-o", "-", "--cells", "0x5"], 2, "COLUMNSxROWS"),
    (["-o", "-", "--cells", "9999x5"], 2, "COLUMNSxROWS"),
    (["-o", "-", "--kind", "pie"], 2, "heatmap"),
    (["-o", "-", "--kind", "series", "--from", "1s"], 2, "no meaning"),
    (["-o", "-", "--kind", "timeline", "--by", "peak"], 2, "no meaning"),
    (["-o", "-", "--kind", "sharing"], 1, "nothing to draw"),
    (["-o", "-", "--kind", "series", "--metric", "beauty"], 1, "wall time"),
    (["-o", "-", "--source", "nowhere"], 1, "nowhere"),
    (["-o", "-", "--process", "4194304"], 1, "4194304"),
    (["-o", "-", "--addr", "10-20"], 1, "10-20"),
    (["-o", "-", "--from", "1000s"], 1, "1000s"),
    (["-o", "-", "--run", "no.such"], 1, "no.such"),
    (["-o", "/nonexistent/figure.svg"], 1, "/nonexistent/figure.svg"),
    (["-o", "-", "--time-unit", "0"], 2, "--time-unit"),
    (["-o", "-", "--block-bits", "60"], 2, "--block-bits"),
]


def what_is_wrong_is_one_clear_line(sweep):
    for options, status, text in REFUSED:
        outcome = plot(sweep, *options, status=status)
        checks.that(
            text in outcome.messages and outcome.messages.count("\n") == 1 and not outcome.stderr,
            f"plot {options} says {outcome.messages!r} {outcome.stderr!r}, not '{text}'")
        checks.that(not outcome.stdout, f"plot {options} writes")
    path = sweep.file("there.svg")
    with open(path, "w", encoding="utf-8") as file:
        file.write("mine")
    outcome = plot(sweep, "-o", path, status=1)
    with open(path, encoding="utf-8") as file:
        checks.that(file.read() == "mine" and "--force" in outcome.messages,
                    "a file was overwritten")
    plot(sweep, "-o", path, "--force")
    with open(path, encoding="utf-8") as file:
        checks.that(file.read().startswith("<?xml"), "--force does not overwrite")
    if not HAS_CAIRO:
        outcome = plot(sweep, "-o", sweep.file("x.png"), status=1)
        checks.that("libcairo2-dev" in outcome.messages, outcome.messages)
    for report in [["--heatmap", "--thread", "1"], ["--heatmap", "--cells", "x"],
                   ["--heatmap", "--timeline"]]:
        outcome = whole.Outcome([MEMSIGHT, "report", sweep.path, *report])
        checks.that(outcome.status == 2 and outcome.messages.count("\n") == 1,
                    f"report {report}: {outcome.messages}")


def an_empty_run_has_nothing_to_draw():
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "empty.mst")
        whole.run([MEMSIGHT, "record", "-o", trace, "--no-alloc", "--source", "none", "true"])
        for kind in ["heatmap", "timeline"]:
            outcome = whole.Outcome([MEMSIGHT, "plot", trace, "--kind", kind, "-o", "-"])
            checks.that(
                outcome.status == 1 and "nothing" in outcome.messages and not outcome.stdout,
                f"{kind}: {outcome.messages}")
        text = whole.run([MEMSIGHT, "report", trace, "--heatmap"])
        checks.that("--no-alloc" in text, f"report says {text!r}")
        found = whole.run([MEMSIGHT, "report", trace, "--heatmap", "--format", "json"])
        checks.that(json.loads(found) == [], f"cells of an empty run: {found}")


PARTS = {
    "cells": [
        cells_are_where_the_program_was, parts_are_parts
    ],
    "terminal": [terminals_get_what_they_can_show, timelines_are_drawn_over_their_rows],
    "files": [
        svg_is_xml_with_its_labels, notes_are_left_out_on_request,
        curves_are_named_beside_their_ends, big_blocks_have_their_names,
        a_flame_graph_is_as_wide_as_its_values, names_of_ranges_lie_within_the_figure,
        the_heap_has_its_name_without_allocations, a_figure_is_replaced_in_whole_or_not_at_all,
        same_input_gives_same_bytes, cells_have_the_size_that_was_asked_for,
        what_is_wrong_is_one_clear_line
    ],
    "pixels": [pixels_are_where_the_program_was, a_pdf_has_its_size_and_no_clock],
}


def main():
    if PART == "pixels" and not HAS_CAIRO:
        whole.skip("memsight was built without cairo")
    if PART == "files":
        an_empty_run_has_nothing_to_draw()
    sweep = Sweep()
    for part in PARTS[PART]:
        part(sweep)
    checks.end()


main()
