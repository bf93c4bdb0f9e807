"""The frame of the page, time x address and the page of an object, in a real browser.

Arguments: memsight, victim-sweep. The victim sweeps one array from end to end and leaves another
alone.
"""
import base64
import json
import os
import sys

import browser
import whole
from browser import Keys

SWEEP_MS = "900"

# The last picture is that of the state in the URL, and is drawn.
SETTLED = """
    const scene = document.querySelector("#scene");
    if (!scene || !scene.dataset.request || scene.getAttribute(
        "aria-busy") !== "false") return false;
    const request = JSON.parse(scene.dataset.request);
    const state = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const whole = { from: "0", low: "0" };
    const same = (key) => state[key] === undefined ? (key in whole ? String(
        request[key]) === whole[key] : true)
        : String(request[key]) === state[key];
    return ["from", "to", "low", "high"].every(same) && (
        state.by ?? "direction") === request.by ? request : false;"""


class Page:
    """The page of one recording in one browser."""

    def __init__(self, recording, served, chromium):
        self.recording, self.served, self.chromium = recording, served, chromium
        self.run = served.answer("runs")["columns"]["id"][0]
        self.process = served.answer("run", run=self.run)["processes"]["columns"]["id"][0]
        self.bands = served.answer("bands", run=self.run, process=self.process)["columns"]

    def open(self, state=""):
        self.chromium.open(f"{self.served.address}#page=memory{state}")
        return self.settled()

    def settled(self):
        return self.chromium.until(SETTLED)

    def block(self, function):
        """(id, start, size, allocation, freed, site) of a function's only block."""
        rows = self.recording.ask(
            "SELECT a.id, a.address, a.size, a.allocated_ns, a.freed_ns, a.stack_id FROM"
            " allocation a JOIN stack s ON s.id = a.stack_id"
            " JOIN frame f ON f.id = s.frame_id WHERE f.function = ?", function)
        if len(rows) != 1:
            raise SystemExit(f"{len(rows)} blocks of {function}")
        return rows[0]

    def place(self, address):
        """Where an address stands on the squeezed axis."""
        for start, end, y in zip(self.bands["start"], self.bands["end"], self.bands["y"]):
            if start <= address < end:
                return y + address - start
        raise SystemExit(f"{address:#x} is in no band")

    def open_block(self, function, more=""):
        """The picture of exactly one block, from edge to edge; its pixels and the frame they lie
        in."""
        _, start, size, allocation, freed, _ = self.block(function)
        low = self.place(start)
        self.open(f"&from={allocation}&high={low + size}&low={low}&to={freed}{more}")
        frame = json.loads(
            self.chromium.js("return document.querySelector('#scene').dataset.frame"))
        return self.chromium.canvas("#scene-canvas"), {
            key: int(value)
            for key, value in frame.items()
        }


def columns_of(pixels, frame, is_wanted):
    """Of each column of the plot that has such pixels: (part of the width, part of the height from
    below)."""
    found = []
    for x in range(frame["left"] + 3, frame["right"] - 3):
        rows = [
            y for y in range(frame["top"] + 3, frame["bottom"] - 3) if is_wanted(pixels.at(x, y))
        ]
        if rows:
            middle = sum(rows) / len(rows)
            found.append(((x - frame["left"]) / frame["width"],
                          (frame["bottom"] - middle) / frame["height"]))
    return found


def a_sweep_is_drawn_as_a_diagonal(checks, page):
    pixels, frame = page.open_block("allocate_swept")
    found = columns_of(pixels, frame, browser.is_vivid)
    checks.that(len(found) > 50, f"{len(found)} columns with touches")
    if not found:
        return
    heights = [y for _, y in found]
    checks.that(heights[0] < 0.15 and heights[-1] > 0.85,
                f"it goes from {heights[0]:.2f} to {heights[-1]:.2f} of the array")
    falls = sum(b < a - 0.05 for a, b in zip(heights, heights[1:]))
    checks.that(falls <= len(heights) // 50,
                f"{falls} of {len(heights)} columns lie below the one before")


def an_array_that_nobody_touches_stays_empty(checks, page):
    pixels, frame = page.open_block("allocate_untouched")
    block = pixels.at(frame["left"] + frame["width"] // 2, frame["top"] + frame["height"] // 2)
    other = [(x, y) for x in range(frame["left"] + 6, frame["right"] - 6, 2)
             for y in range(frame["top"] + 30, frame["bottom"] - 6, 2) if pixels.at(x, y) != block]
    checks.that(not other,
                f"{len(other)} pixels are not the block's colour {block}, such as {other[:3]}")
    outside = page.chromium.js(
        "return getComputedStyle(document.documentElement).getPropertyValue('--surface').trim()")
    ground = tuple(int(outside[i:i + 2], 16) for i in (1, 3, 5))
    checks.that(block[:3] != ground, "the block cannot be told from the ground")
    checks.that("0 touches" in page.chromium.text("#scene-counted"),
                page.chromium.text("#scene-counted"))


def the_picture_tells_its_counts_to_who_does_not_see_it(checks, page):
    page.open()
    said = page.chromium.js(
        "return document.querySelector('#scene-canvas').getAttribute('aria-label')")
    answer = page.served.answer("picture", run=page.run, process=page.process, by="direction",
                                width=10, height=10)
    for n, word in [(answer["n_blocks"], "block"), (answer["n_samples"], "touch")]:
        checks.that(f"{n:,} {word}" in said, f"no '{n:,} {word}' in: {said}")
    checks.that(answer["n_samples"] > 0 and answer["n_blocks"] >= 2,
                f"{answer['n_samples']} touches, {answer['n_blocks']} blocks")


def the_wheel_zooms_both_axes_or_one(checks, page):
    before = page.open()
    wheel = """
        const scene = document.querySelector("#scene");
        const box = scene.getBoundingClientRect();
        scene.dispatchEvent(new WheelEvent("wheel", { deltaY: -300,
            clientX: box.left + box.width / 2, clientY: box.top + box.height / 2,
            bubbles: true, cancelable: true, ...arguments[0] }));"""
    page.chromium.js(wheel, {})
    page.chromium.until("return location.hash.includes('from=') && location.hash.includes('low=')")
    after = page.settled()
    checks.that(after["to"] - after["from"] < before["to"] - before["from"],
                f"time: {before} {after}")
    checks.that(after["high"] - after["low"] < before["high"] - before["low"],
                f"addresses: {before} {after}")
    for keys, kept, changed in [({"shiftKey": True}, ("low", "high"), ("from", "to")),
                                ({"altKey": True}, ("from", "to"), ("low", "high"))]:
        old = page.settled()
        page.chromium.js(wheel, keys)
        page.chromium.until("return !location.hash.includes(arguments[0])",
                            f"{changed[0]}={old[changed[0]]}")
        new = page.settled()
        checks.that(all(new[key] == old[key] for key in kept), f"with {keys}: {old} {new}")
        checks.that(new[changed[1]] - new[changed[0]] < old[changed[1]] - old[changed[0]],
                    f"with {keys}: {old} {new}")


def a_wheel_that_turns_while_the_page_is_laid_out_is_not_lost(checks, page):
    before = page.open()
    page.chromium.js("""
        const scene = document.querySelector("#scene");
        const box = scene.getBoundingClientRect();
        scene.style.height = `${box.height - 40}px`;
        // Between the layout that is answered after 120 ms and the state that follows the
        // wheel after 160.
        setTimeout(() => scene.dispatchEvent(new WheelEvent("wheel", { deltaY: -300,
            clientX: box.left + box.width / 2,
            clientY: box.top + box.height / 2, bubbles: true, cancelable: true })), 60);""")
    page.chromium.until("return location.hash.includes('from=') && location.hash.includes('low=')")
    after = page.settled()
    checks.that(after["to"] - after["from"] < before["to"] - before["from"], f"{before} {after}")


def a_drag_moves_and_a_box_selects_what_all_panels_follow(checks, page):
    page.open()
    page.chromium.js("document.querySelector('#scene').scrollIntoView({ block: 'center' })")
    drag = browser.ActionChains(page.chromium.driver)
    scene = page.chromium.driver.find_element("css selector", "#scene")
    drag.key_down(Keys.SHIFT).move_to_element_with_offset(scene, -100, -60) \
        .click_and_hold().move_by_offset(60, 40) \
        .move_by_offset(140, 80).release().key_up(Keys.SHIFT).perform()
    page.chromium.until("return location.hash.includes('from=') && location.hash.includes('high=')")
    boxed = page.settled()
    shown = page.chromium.text(".chips")
    checks.that("time" in shown and "addresses" in shown,
                f"the header does not tell the selection: {shown}")
    drag = browser.ActionChains(page.chromium.driver)
    drag.move_to_element_with_offset(scene, 0, 0).click_and_hold().move_by_offset(
        60, 0).move_by_offset(60, 0).release().perform()
    page.chromium.until("return !location.hash.includes(arguments[0])", f"from={boxed['from']}")
    moved = page.settled()
    checks.that(moved["from"] < boxed["from"],
                f"a drag to the right shows what was before: {boxed} {moved}")
    checks.that(
        abs((moved["to"] - moved["from"]) - (boxed["to"] - boxed["from"])) <= 2,
        f"as much: {boxed} {moved}")
    page.chromium.js("history.back()")
    page.chromium.until("return location.hash.includes(arguments[0])", f"from={boxed['from']}")
    checks.that(page.settled()["from"] == boxed["from"], "back shows the view before")


def a_category_is_switched_off_and_on_in_the_legend(checks, page):
    pixels, frame = page.open_block("allocate_swept")
    n_all = len(columns_of(pixels, frame, browser.is_vivid))
    names = page.chromium.js(
        "return [...document.querySelectorAll('.legend .key-name')].map((e) => e.textContent)")
    checks.that({"read", "write"} <= set(names), f"the legend has {names}")
    for _ in range(len(names)):
        page.chromium.js("document.querySelector('.legend .key[aria-pressed=true]').click()")
    page.chromium.until("return !document.querySelector('.legend .key[aria-pressed=true]')")
    n_none = len(columns_of(page.chromium.canvas("#scene-canvas"), frame, browser.is_vivid))
    checks.that(n_all > 50 and n_none == 0,
                f"{n_all} columns with all categories, {n_none} with none")
    page.chromium.js("document.querySelector('.legend .key').click()")
    n_one = len(columns_of(page.chromium.canvas("#scene-canvas"), frame, browser.is_vivid))
    checks.that(n_one > 0, "none with one category")


def colours_and_sources_are_chosen_and_stay_in_the_link(checks, page):
    page.open()
    page.chromium.choose("Colour", "thread")
    page.chromium.until("return location.hash.includes('by=thread')")
    checks.that(page.settled()["by"] == "thread", "the picture is not by thread")
    sources = page.served.answer("run", run=page.run)["sources"]["columns"]
    faults = sources["id"][sources["name"].index("faults")]
    page.chromium.choose("Source", faults)
    page.chromium.until("return location.hash.includes('source=')")
    page.chromium.until(
        "return JSON.parse(document.querySelector('#scene').dataset.request).source === "
        "arguments[0]",
        str(faults))
    address = page.chromium.driver.current_url
    said = page.chromium.text("#scene-counted")
    page.chromium.open(address)
    page.settled()
    page.chromium.until(
        "return document.querySelector('#scene-counted').innerText === arguments[0]", said)
    checks.that(
        page.chromium.js("return document.querySelector('select[aria-label=Colour]').value") ==
        "thread", "the link does not keep the colour")


def hovering_tells_what_is_there_and_a_click_opens_it(checks, page):
    ident, start, size, allocation, freed, site = page.block("allocate_swept")
    page.open_block("allocate_swept")
    page.chromium.js("document.querySelector('#scene').scrollIntoView({ block: 'center' })")
    scene = page.chromium.driver.find_element("css selector", "#scene")
    browser.ActionChains(page.chromium.driver).move_to_element_with_offset(scene, 40, 10).perform()
    tip = page.chromium.until(
        "const t = document.querySelector('.tip'); return t && !t.hidden && "
        "t.innerText.includes('offset') && t.innerText"
    )
    for word in ["time", "address", "block of 16.0 MiB", "main", "victim-sweep.c"]:
        checks.that(word in tip, f"'{word}' is not in the box beside the pointer: {tip}")
    browser.ActionChains(page.chromium.driver).move_to_element_with_offset(scene, 40,
                                                                           10).click().perform()
    page.chromium.until("return location.hash.includes('page=object')")
    state = page.chromium.state()
    checks.that(state.get("block") == str(ident), f"block {ident} was clicked: {state}")
    page.chromium.until(
        "return document.querySelector('[data-object]')?.dataset.object === arguments[0]",
        f"block {ident}")
    text = page.chromium.text("main")
    for word in ["main victim-sweep.c:", "16.0 MiB", f"{start:#x}", "main"]:
        checks.that(word in text, f"'{word}' is not on the page of the block")
    checks.that(freed > allocation and size == 16 << 20 and site,
                "the victim's block is another one")


def the_page_of_an_object_shows_its_own_picture_and_source_text(checks, page):
    *_, site = page.block("allocate_swept")
    page.chromium.open(f"{page.served.address}#page=object&site={site}")
    page.chromium.until(
        "return document.querySelector('[data-object]')?.dataset.object === arguments[0]",
        f"site {site}")
    page.chromium.until("return document.querySelector('.heat canvas')?.width > 100")
    pixels = page.chromium.canvas(".heat canvas")
    found = columns_of(
        pixels, {
            "left": 84, "right": pixels.width - 8, "top": 8, "bottom": pixels.height - 26,
            "width": pixels.width - 92, "height": pixels.height - 34
        }, browser.is_vivid)
    heights = [y for _, y in found]
    checks.that(len(found) > 50 and heights[0] < 0.25 and heights[-1] > 0.75,
                f"offset x time: {len(found)} columns from {heights[:1]} to {heights[-1:]}")
    check_scale(checks, page, site)
    page.chromium.click(".stack .folded summary")
    page.chromium.click(".stack .place")
    line = page.chromium.until("return document.querySelector('.source .here')?.innerText")
    checks.that("malloc(SWEPT_BYTES)" in line, f"the line of the source text: {line}")
    text = page.chromium.text("main")
    for word in [
            "Readers and writers", "Instructions that touch it", "work_on", "±", "95 %", "n ="
    ]:
        checks.that(word in text, f"'{word}' is not on the page of the site")
    said = page.served.answer("object", run=page.run, site=site)
    threads = said["threads"]["columns"]
    checks.that(len(threads["thread"]) == 1, f"one thread touches it: {threads}")
    parts = threads["time_read_ns"][0] + threads["time_write_ns"][0]
    checks.that(0 < parts <= threads["time_ns"][0] * 1.000001,
                f"time of reads and writes is part of all: {threads}")
    by_place = {what: sum(said[what]["columns"]["time_ns"]) for what in ("offsets", "instructions")}
    checks.that(
        all(abs(time - threads["time_ns"][0]) < 1000 for time in by_place.values()),
        f"by offset and by instruction it is the same time: {by_place} {threads['time_ns']}")
    page.chromium.click(".neighbours a")
    page.chromium.until("return !location.hash.includes(arguments[0])", f"site={site}")
    checks.that("site" in page.chromium.state(), "next leads to no site")


def check_scale(checks, page, site):
    """The colours of offset x time have a scale, whose end is the fullest cell."""
    heat = page.served.answer("object", run=page.run, site=site)["heat"]
    data = base64.b64decode(heat["packed"])
    most = max(data[i] | data[i + 1] << 8 for i in range(0, len(data), 2))
    text = page.chromium.text(".heat-key")
    checks.that(text.split()[0] == "1" and f"{most:,}" in text and "touch" in text,
                f"the scale up to {most} says {text!r}")
    scale, pixels = page.chromium.canvas(".heat-key .ramp"), page.chromium.canvas(".heat canvas")
    colours = {
        pixels.at(x, y)[:3]
        for x in range(160, pixels.width - 30, 2) for y in range(10, pixels.height - 30, 2)
    }
    last = scale.at(scale.width - 1, 5)[:3]
    checks.that(last in colours, f"no cell has the colour {last} of the fullest one")


def the_keyboard_alone_does(checks, page):
    page.open()
    for _ in range(60):
        if page.chromium.js("return document.activeElement.id === 'scene'"):
            break
        page.chromium.keys(Keys.TAB)
    checks.that(
        page.chromium.js("return document.activeElement.id") == "scene",
        "Tab does not reach the picture")
    ring = page.chromium.js("return getComputedStyle(document.activeElement).outlineStyle")
    checks.that(ring != "none", "no focus ring is seen")
    page.chromium.keys("+")
    page.chromium.until("return location.hash.includes('from=')")
    zoomed = page.settled()
    page.chromium.keys(Keys.ARROW_RIGHT)
    page.chromium.until("return !location.hash.includes(arguments[0])", f"from={zoomed['from']}")
    checks.that(page.settled()["from"] > zoomed["from"], "the right arrow does not go on in time")
    page.chromium.keys("0")
    page.chromium.until("return !location.hash.includes('from=')")
    page.settled()
    page.chromium.keys(Keys.ENTER)
    page.chromium.until("return location.hash.includes('page=object')")
    checks.that("block" in page.chromium.state(),
                f"Enter opens what is in the middle: {page.chromium.state()}")


def light_and_dark_follow_the_system_and_the_switch(checks, page):
    grounds = {}
    for scheme in ("light", "dark"):
        page.chromium.prefer(scheme)
        page.open()
        grounds[scheme] = page.chromium.js("return getComputedStyle(document.body).backgroundColor")
        pixels = page.chromium.canvas("#scene-canvas")
        checks.that(
            any(
                browser.is_vivid(pixels.at(x, y)) for x in range(0, pixels.width, 2)
                for y in range(0, pixels.height, 2)), f"nothing coloured is drawn on {scheme}")
    checks.that(grounds["light"] != grounds["dark"], f"both are {grounds}")
    page.chromium.click("#theme-button")
    page.chromium.until("return getComputedStyle(document.body).backgroundColor === arguments[0]",
                        grounds["light"])
    page.chromium.js("localStorage.clear()")
    page.chromium.prefer("light")


def a_phone_needs_no_sideways_scrolling(checks, page):
    page.chromium.resize(390, 844)
    *_, site = page.block("allocate_swept")
    try:
        for fragment in ("", "#page=memory", f"#page=object&site={site}"):
            page.chromium.open(page.served.address + fragment)
            page.chromium.until("return document.documentElement.dataset.ready")
            page.chromium.until(
                "return ![...document.querySelectorAll('[aria-busy=true]')].some((e) => "
                "e.offsetParent)"
            )
            width = page.chromium.js("return document.documentElement.scrollWidth")
            checks.that(width <= 390, f"{fragment or 'findings'}: {width} pixels wide")
    finally:
        page.chromium.resize(1280, 900)


def a_file_shows_the_same_without_server_and_network(checks, page):
    path = os.path.join(page.recording.folder.name, "page.html")
    whole.run([page.memsight, "view", "--export", path, page.recording.path])
    ident, start, size, allocation, freed, site = page.block("allocate_swept")
    low = page.place(start)
    with browser.Browser() as alone:
        alone.go_offline()
        alone.open(f"file://{path}#page=memory")
        alone.until(SETTLED)
        checks.that("Exported file" in alone.text("header"), "the header does not say what this is")
        answer = page.served.answer("picture", run=page.run, process=page.process, by="direction",
                                    width=10, height=10)
        said = alone.text("#scene-counted")
        checks.that(
            f"{answer['n_samples']:,} touches" in said and f"{answer['n_blocks']:,} blocks" in said,
            said)
        alone.open(
            f"file://{path}#page=memory&from={allocation}&high={low + size}&low={low}&to={freed}")
        alone.until(SETTLED)
        frame = {
            key: int(value)
            for key, value in json.loads(
                alone.js("return document.querySelector('#scene').dataset.frame")).items()
        }
        heights = [y for _, y in columns_of(alone.canvas("#scene-canvas"), frame, browser.is_vivid)]
        checks.that(len(heights) > 50 and heights[0] < 0.15 and heights[-1] > 0.85,
                    f"the sweep: {len(heights)} columns, from {heights[:1]} to {heights[-1:]}")
        checks.that("nearest is drawn" in alone.text("#scene-counted"),
                    alone.text("#scene-counted"))
        alone.js("document.querySelector('#scene').focus()")
        alone.keys(Keys.ENTER)
        alone.until("return location.hash.includes('page=object')")
        checks.that(alone.state().get("site") == str(site),
                    f"site {site} was opened, block {ident}: {alone.state()}")
        alone.until(
            "return document.querySelector('[data-object]')?.dataset.object === arguments[0]",
            f"site {site}")
        checks.that("main victim-sweep.c:" in alone.text("main"),
                    "the page of the site does not name it")
        alone.check_quiet(checks, f"file://{path}")


# Recordings that lack something: how they are made and what the page says instead of a picture, or
# below it.
LACKING = [
    (["--source", "none"], "#scene-counted", "no source took samples in this run"),
    (["--no-alloc"], "#scene-counted", "no allocation was recorded"),
    (["--no-alloc", "--source", "none"], ".panel-scene .pane-state",
     "Nothing was recorded in this run"),
]


def what_a_recording_lacks_is_said(_, page):
    folder = page.recording.folder.name
    for i, (record, selector, words) in enumerate(LACKING):
        trace, path = os.path.join(folder, f"lacking-{i}.mst"), os.path.join(
            folder, f"lacking-{i}.db")
        whole.run([page.memsight, "record", "-o", trace, *record, "--", page.victim, "20"])
        whole.run([page.memsight, "analyze", "-o", path, trace])
        with browser.Served(page.memsight, path) as served:
            page.chromium.open(served.address + "#page=memory")
            page.chromium.until(
                "return document.querySelector(arguments[0])?.innerText.includes(arguments[1])",
                selector, words)
            page.chromium.open(served.address + "#page=object")
            page.chromium.until(
                "return document.querySelector('.panel-object "
                ".pane-state')?.innerText.includes('No object is chosen')"
            )
            page.chromium.read_logs()
            # Other servers than that of the last test.
            page.chromium.requested = [
                url for url in page.chromium.requested if not url.startswith(served.address)
            ]


def a_server_that_is_gone_is_said(checks, page):
    with browser.Served(page.memsight, page.recording.path) as other:
        page.chromium.open(other.address + "#page=memory")
        page.settled()
    page.chromium.choose("Colour", "thread")
    said = page.chromium.until("return document.querySelector('.pane-state.fault')?.innerText")
    checks.that("memsight view" in said and "Try again" in said, said)


def nothing_leaves_the_machine_and_the_console_is_free_of_errors(checks, page):
    page.chromium.forget([
        url for url in page.chromium.opened
        if url.startswith("http://127.0.0.1:") and url != page.served.address
    ])
    page.chromium.check_quiet(checks, page.served.address)


TESTS = [
    a_sweep_is_drawn_as_a_diagonal, an_array_that_nobody_touches_stays_empty,
    the_picture_tells_its_counts_to_who_does_not_see_it, the_wheel_zooms_both_axes_or_one,
    a_wheel_that_turns_while_the_page_is_laid_out_is_not_lost,
    a_drag_moves_and_a_box_selects_what_all_panels_follow,
    a_category_is_switched_off_and_on_in_the_legend,
    colours_and_sources_are_chosen_and_stay_in_the_link,
    hovering_tells_what_is_there_and_a_click_opens_it,
    the_page_of_an_object_shows_its_own_picture_and_source_text, the_keyboard_alone_does,
    light_and_dark_follow_the_system_and_the_switch, a_phone_needs_no_sideways_scrolling,
    a_file_shows_the_same_without_server_and_network, what_a_recording_lacks_is_said,
    a_server_that_is_gone_is_said, nothing_leaves_the_machine_and_the_console_is_free_of_errors
]


def main():
    memsight, victim = sys.argv[1:]
    recording = whole.Recording(memsight, [victim, SWEEP_MS])
    recording.need_source("clock")
    with browser.Served(memsight, recording.path) as served, browser.Browser() as chromium:
        page = Page(recording, served, chromium)
        page.memsight, page.victim = memsight, victim
        browser.run_tests(TESTS, page)


main()
