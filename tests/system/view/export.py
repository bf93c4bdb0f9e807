#!/usr/bin/env python3
"""A page that was exported holds what the server answers, and nothing from elsewhere; it is written
in whole or not at all."""
import base64
import json
import os
import re
import stat
import sys
import tempfile

import contract
import served
import whole

MOST_BYTES = 5000000
MAKE_LARGE = ["--events", "2000000", "--samples", "1000000"]  # half of the events are allocations
NAMES = contract.read()


def read_page(path):
    """The text, and the answers in it."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r'<script type="application/json" id="memsight-answers">(.*?)</script>',
                       text, re.DOTALL)
    return text, json.loads(found[0]) if len(found) == 1 else {}


def unpacked(text, n_bytes):
    """Cells as a list of numbers, however they are packed (report/text/json.h)."""
    data = base64.b64decode(text.lstrip("!"))
    if text.startswith("!"):
        packed, data, i = data, bytearray(), 0
        while i < len(packed):
            control = packed[i]
            is_literal = control < 128
            data += packed[i + 1:i + 2 +
                           control] if is_literal else packed[i + 1:i + 2] * (control - 126)
            i += control + 2 if is_literal else 2
        if n_bytes == 2:
            half = len(data) // 2
            return [data[i] | data[half + i] << 8 for i in range(half)]
    return list(data) if n_bytes == 1 else [
        data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)
    ]


def check_picture(checks, key, ours, theirs):
    for name, n_bytes in [("counts", 2), ("category", 1), ("occupancy", 1)]:
        checks.that(
            unpacked(ours[name], n_bytes) == unpacked(theirs[name], n_bytes),
            f"{key}: other {name}")
    for name in ("blocks", "points"):
        n = ours[name]["n"]
        same = all(values == theirs[name]["columns"][column][:n]
                   for column, values in ours[name]["columns"].items())
        checks.that(same, f"{key}: other {name}")
    checks.that(ours["points"]["n"] in (0, theirs["points"]["n"]),
                f"{key} holds some of its points")


def shortened(answer):
    """Without what a stored answer may hold less of, or packs otherwise."""
    return {
        name: value
        for name, value in answer.items()
        if name not in ("nodes", "names", "n_left_out", "rows", "heat")
    }


def check_answers(checks, memsight, database, answers):
    with served.Server(memsight, database) as server:
        for key, ours in answers.items():
            name, _, query = key.partition("?")
            if name == "stored":
                continue
            for problem in contract.problems(NAMES, name, ours):
                checks.that(False, f"{problem} ({key})")
            parameters = query.split("&") if query else []
            checks.that(parameters == sorted(parameters), f"{key}: parameters are not in order")
            theirs = server.get(f"/{server.token}/api/{key}").json()
            if name == "picture":
                check_picture(checks, key, ours, theirs)
            elif name in ("flame", "diff", "object"):
                checks.that(
                    shortened(ours) == shortened(theirs), f"{key}: the file holds another answer")
            else:
                checks.that(ours == theirs, f"{key}: the file holds another answer")


def check_page(checks, text):
    checks.that(len(text.encode()) <= MOST_BYTES, f"the page has {len(text.encode())} bytes")
    addresses = set(
        re.findall(r"https?://[\w./-]*",
                   text.split('id="memsight-answers"', maxsplit=1)[0]))
    checks.that(addresses <= {"http://www.w3.org/2000/svg"}, f"the page names {addresses}")
    checks.that(
        "web/" not in re.sub(r"<!--.*?-->", "",
                             text.split("<body>", maxsplit=1)[0], flags=re.DOTALL),
        "the page names files outside of it")
    policy = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    checks.that(
        len(policy) == 1 and "default-src 'none'" in policy[0] and "connect-src" not in policy[0],
        f"policy {policy}")
    modules = json.loads(
        re.findall(r'<script type="importmap"[^>]*>(.*?)</script>', text, re.DOTALL)[0])["imports"]
    for name, address in modules.items():
        kind, _, data = address.partition(",")
        code = base64.b64decode(data)
        checks.that(kind == "data:text/javascript;base64" and len(code) > 50,
                    f"module {name} is {kind} of {len(code)} bytes")
    app = [name for name in modules if name.endswith("/app")]
    checks.that(len(app) == 1, "the page has no memsight/app")


def check_file(checks, memsight, database, folder):
    output = os.path.join(folder, "page.html")
    with open(output, "w", encoding="ascii") as file:
        file.write("mine")
    refused = whole.Outcome([memsight, "view", "--export", output, database])
    checks.that(
        refused.status == 1 and "--force" in refused.messages and refused.messages.count("\n") == 1,
        f"an existing file gives {refused.messages}")
    checks.that(open(output, encoding="ascii").read() == "mine", "an existing file was overwritten")
    os.chmod(database, 0o600)
    forced = whole.Outcome([memsight, "view", "--force", "--export", output, database])
    checks.that(forced.status == 0 and forced.stdout + forced.stderr == b"",
                f"--force gives {forced.status} {forced.messages}")
    checks.that(
        stat.S_IMODE(os.stat(output).st_mode) == 0o600,
        "others may read the page of a database that they may not read")
    for place in [os.path.join(folder, "nowhere", "x.html"), folder]:
        refused = whole.Outcome([memsight, "view", "--force", "--export", place, database])
        checks.that(refused.status == 1 and refused.messages.count("\n") == 1,
                    f"{place} gives {refused.status} {refused.messages}")
    left = [
        name for name in os.listdir(folder) if name.startswith("page.html.") or ".html." in name
    ]
    checks.that(not left, f"{left} was left")
    return output


def check_part(checks, memsight, recording, folder):
    """With --from and --to all that is counted is counted in that part."""
    output = os.path.join(folder, "part.html")
    end = recording.one("SELECT duration_ns FROM run")
    span = {"from": end // 4, "to": end // 2}
    part = ["--from", f"{span['from']}ns", "--to", f"{span['to']}ns"]
    whole.run([memsight, "view", "--export", output, *part, recording.path])
    _, answers = read_page(output)
    told = answers["stored"]
    checks.that({name: told[name] for name in span} == span, f"it says that it holds {told}")
    counted = [key for key in answers if key.split("?")[0] in ("report", "flame", "objects")]
    checks.that(
        counted and all(f"from={span['from']}&" in key and f"to={span['to']}" in key
                        for key in counted), f"it holds {counted}")
    check_answers(checks, memsight, recording.path, answers)
    late = whole.Outcome([memsight, "view", "--export", output, "--force", "--from",
                          f"{end + 1}ns", recording.path])
    checks.that(late.status == 1 and "end of the run" in late.messages, late.messages)


def check_anonymous(checks, memsight, database, folder, names):
    anonymous = os.path.join(folder, "anonymous.db")
    whole.run([memsight, "export", "--anonymise", "-o", anonymous, database])
    output = os.path.join(folder, "anonymous.html")
    whole.run([memsight, "view", "--export", output, anonymous])
    _, answers = read_page(output)
    text = json.dumps(answers)
    for name in names:
        # Packed numbers are letters, too: what is as short as a host called "vm" stands there by
        # chance.
        told = name in text if len(name) > 5 else re.search(
            rf"(?<![\w+]){re.escape(name)}(?![\w+=])", re.sub(r"[\w+/=]{200,}", "", text))
        checks.that(not told, f"the page of an anonymous database names {name}")
    checks.that('"function' in text and any(key.startswith("picture") for key in answers),
                "the page of an anonymous database is empty")


def check_large(checks, memsight, make_trace, folder):
    """A million blocks and a million samples, and still a page of the same size."""
    trace, database, output = (os.path.join(folder, name)
                               for name in ("large.mst", "large.db", "large.html"))
    whole.run([make_trace, *MAKE_LARGE, "-o", trace])
    whole.run([memsight, "analyze", "-o", database, trace])
    whole.run([memsight, "view", "--export", output, database])
    text, answers = read_page(output)
    check_page(checks, text)
    n = sum(key.startswith("picture?") for key in answers)
    print(f"a million blocks and samples: {len(text)} bytes, {len(answers)} answers, {n} pictures")
    checks.that(n > 1, "the page of a large database has no pictures of parts")


def main():
    memsight, victim, *large = sys.argv[1:]
    checks = whole.Checks()
    if large:
        with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
            check_large(checks, memsight, large[0], folder)
        checks.end()
    recording = whole.Recording(memsight, [victim, "200"])
    folder = recording.folder.name
    output = check_file(checks, memsight, recording.path, folder)
    text, answers = read_page(output)
    check_page(checks, text)
    checks.that({"runs", "run?run=1", "stored"} <= set(answers),
                f"the file holds {sorted(answers)[:5]}")
    check_answers(checks, memsight, recording.path, answers)
    check_part(checks, memsight, recording, folder)
    sites = {
        f"object?run=1&site={site}"
        for site, in recording.ask("SELECT stack_id FROM site WHERE run_id = 1 AND stack_id > 0")
    }
    held = {key for key in answers if key.startswith("object?") and "site=" in key}
    checks.that(
        len(sites) > 1 and held == sites,
        f"{len(sites)} call sites, the file holds the pages of {sorted(held)}")
    check_anonymous(
        checks, memsight, recording.path, folder,
        ["allocate_swept", "victim-sweep", os.uname().nodename])
    checks.end()


main()
