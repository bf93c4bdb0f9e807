#!/usr/bin/env python3
"""--leaks is about the program's own blocks: what libraries keep is one line, and hides none of
them. Arguments: memsight, a program in C that leaks what its argument says, a clean one in C++."""
import json
import os
import re
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, PROGRAM, CPP = sys.argv[1:4]
checks = whole.Checks()
# argument: the function that the only lines of the program's own are about
STREAM = "_IO_|› (fputc|fgets|fwrite|getc|fputs)"  # buffers of streams that are still open
LEAKS = {"file": "fopen", "setvbuf": "leak", "strdup": "strdup", "newlocale": "newlocale",
         "getaddrinfo": "getaddrinfo"}


DEBUG = "/usr/lib/debug"
HIDDEN = [
    "unshare", "-rm" if os.getuid() else "-m", "sh", "-c",
    f'mount -t tmpfs none {DEBUG} && exec "$@"', "sh"
]
hides_debug = False  # whether libc's debug information is out of the way


def record(folder, command):
    trace = os.path.join(folder, "run.mst")
    whole.run(
        [MEMSIGHT, "record", "-q", "--force", "--source", "none", "-o", trace, "--", *command],
        input="a line\n")
    if os.path.exists(trace + ".db"):
        os.remove(trace + ".db")
    if hides_debug:
        whole.run([*HIDDEN, MEMSIGHT, "analyze", trace])
        db = whole.Database(trace + ".db")
        lines = db.one(
            "SELECT count(*) FROM frame JOIN frame_line ON frame_id = frame.id WHERE path GLOB "
            "'*/libc.so*'"
        )
        checks.that(lines == 0, f"libc has {lines} lines: nothing is proved")
    return trace


def report(trace, *options):
    done = subprocess.run([MEMSIGHT, "report", trace, "--leaks", *options], stdout=subprocess.PIPE,
                          text=True, env=whole.environment(), check=False)
    return done.returncode, done.stdout


def check_clean(folder, command):
    trace = record(folder, command)
    status, text = report(trace, "--fail")
    checks.that(status == 0, f"{command}: a clean program fails: {text}")
    checks.that("\nkept by libraries until the end" in text,
                f"{command}: no word of what is kept: {text}")
    checks.that(report(trace, "--fail", "--full")[0] == 0, f"{command}: --full fails it")
    listed = json.loads(report(trace, "--full", "--format", "json")[1])
    checks.that(json.loads(report(trace, "--format", "json")[1]) == [], f"{command}: json has rows")
    db = whole.Database(trace + ".db")
    checks.that(
        listed
        and sum(row["bytes"] for row in listed) == db.one("SELECT sum(live_bytes) FROM site"),
        f"{command}: --full does not list all that is left: {listed}")
    checks.that(all(row["allocated at"].startswith("kept by libraries (") for row in listed),
                f"{command}: {listed}")


def check_leak(folder, argument, function):
    trace = record(folder, [PROGRAM, argument])
    status, text = report(trace, "--fail")
    checks.that(status == 1, f"{argument}: passes: {text}")
    rows = json.loads(report(trace, "--format", "json")[1])
    own = [row for row in rows if function in row["allocated at"]]
    checks.that(own, f"{argument}: {function} is not listed: {text}")
    others = [row for row in rows if row not in own and not re.search(STREAM, row["allocated at"])]
    checks.that(not others, f"{argument}: listed, too: {others}")


def check_exec(folder):
    """What a wrapper has when it becomes the program is given back by that: no leak of anybody."""
    trace = record(folder, ["bash", "-c", f"exec {PROGRAM}"])
    status, text = report(trace, "--fail")
    checks.that(status == 0 and re.search("^given back by exec, no leak: .* in [0-9,]+ blocks?$",
                                          text, re.MULTILINE), f"exec: {text}")
    whole.run([MEMSIGHT, "analyze", "--force", trace])
    db = whole.Database(trace + ".db")
    checks.that(
        db.ask("SELECT sum(exec_blocks), sum(exec_bytes) FROM site") == db.ask(
            "SELECT count(*), sum(size) FROM allocation WHERE end_kind = 4")
        and db.one("SELECT sum(exec_blocks) FROM site") > 0, "exec: not the blocks of the rows")
    done = whole.Outcome([MEMSIGHT, "check", "--max-leaked", "0", trace])
    checks.that(done.status == 0, f"check: {done.messages}")
    findings = whole.run([MEMSIGHT, "report", trace, "--findings", "--format", "json"])
    checks.that("leak" not in [row["rule"] for row in json.loads(findings)], findings)


def check_without_debug(folder):
    """libc without debug information: what allocates has no names, and localtime() goes on in it by
    a jump."""
    global hides_debug
    hides_debug = True
    if whole.Outcome([*HIDDEN, "true"]).status != 0 and os.path.isdir(DEBUG):
        print("not checked without debug information:", DEBUG, "cannot be hidden here")
    else:
        check_clean(folder, [PROGRAM])
        for argument in ["strdup", "file", "getaddrinfo"]:
            check_leak(folder, argument, LEAKS[argument])
    hides_debug = False


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-test-") as folder:
        for command in [[PROGRAM], [CPP]]:
            check_clean(folder, command)
        for argument, function in LEAKS.items():
            check_leak(folder, argument, function)
        check_exec(folder)
        check_without_debug(folder)
        rules = os.path.join(folder, "known")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("leak:strdup\n")
        trace = record(folder, [PROGRAM, "strdup"])
        status, text = report(trace, "--fail", "--suppressions", rules)
        checks.that(status == 0 and "\nleft out by --suppressions: 15 B in 1 block\n" in text,
                    f"suppressed: {text}")
    checks.end()


main()
