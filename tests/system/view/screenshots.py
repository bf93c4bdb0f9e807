"""Makes the pictures of docs/images: Debian's sqlite3 and xz recorded, their pages in chromium.

Arguments: memsight, the folder that the pictures go to. Not a test: scripts/screenshots runs it.
"""
import os
import sys
import tempfile

import browser
import whole

SQL = """
PRAGMA cache_size = -120000;
PRAGMA temp_store = memory;
CREATE TABLE word(id INTEGER PRIMARY KEY, text TEXT, n INTEGER);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 700000)
    INSERT INTO word SELECT i, printf('%016x', abs(random())), i % 1000 FROM c;
SELECT sum(length(text)) FROM word;
CREATE INDEX word_text ON word(text);
SELECT count(*) FROM word a JOIN word b ON b.text = a.text WHERE a.id % 4 = 0;
UPDATE word SET n = n + 1 WHERE id % 3 = 0;
SELECT count(DISTINCT substr(text, 1, 4)) FROM word;
DELETE FROM word WHERE id % 2;
VACUUM;
"""
MOST_BYTES = 200 << 10
IDLE = "return ![...document.querySelectorAll('[aria-busy=true]')].some((e) => e.offsetParent)"


def save(page, folder, name):
    page.until(IDLE)
    page.painted()
    path = os.path.join(folder, name)
    page.driver.save_screenshot(path)
    size = os.path.getsize(path)
    print(f"{path}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"{path} is larger than {MOST_BYTES:,} bytes")


def open_page(page, served, fragment, ready):
    page.open(served.address + fragment)
    page.until("return document.documentElement.dataset.ready === arguments[0]", ready)
    page.until(IDLE)


def of_sqlite(page, memsight, folder, work):
    script = os.path.join(work, "words.sql")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SQL)
    recording = whole.Recording(memsight, ["sqlite3", ":memory:", f".read {script}"],
                                ["--freq", "5000"])
    with browser.Served(memsight, recording.path) as served:
        page.resize(1280, 1180)
        open_page(page, served, "#page=memory", "memory")
        page.until("return document.querySelector('#scene')?.dataset.drawn > 0")
        save(page, folder, "view-memory.png")
        page.resize(1280, 800)
        open_page(page, served, "#page=flame", "flame")
        save(page, folder, "view-flame.png")
        open_page(page, served, "#page=objects", "objects")
        save(page, folder, "view-objects.png")
        page.resize(390, 844)
        open_page(page, served, "#page=memory", "memory")
        save(page, folder, "view-phone.png")


def of_xz(page, memsight, folder, work):
    text = os.path.join(work, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write(os.urandom(6 << 20).hex())
    recording = whole.Recording(
        memsight, ["sh", "-c", f"exec xz -T2 --block-size=4MiB -4 -k -c {text} >{work}/text.xz"],
        ["--freq", "2000"])
    with browser.Served(memsight, recording.path) as served:
        page.resize(1280, 660)
        page.prefer("dark")
        open_page(page, served, "#page=memory&by=thread", "memory")
        page.until("return document.querySelector('#scene')?.dataset.drawn > 0")
        save(page, folder, "view-threads.png")
        page.prefer("light")
        page.resize(1280, 1080)
        site = recording.one("SELECT stack_id FROM allocation ORDER BY size DESC LIMIT 1")
        open_page(page, served, f"#page=object&site={site}", "object")
        save(page, folder, "view-object.png")


def main():
    memsight, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="memsight-shots-") as work, browser.Browser() as page:
        of_sqlite(page, memsight, folder, work)
        of_xz(page, memsight, folder, work)


main()
