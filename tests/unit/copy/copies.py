#!/usr/bin/env python3
"""memsight instrument. Arguments: memsight, a library, a program that loads one late, and programs
that need the library, made by several linkers."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import whole

MEMSIGHT, LIBRARY, LATE, *VICTIMS = map(os.path.abspath, sys.argv[1:])
VICTIM = VICTIMS[0]
checks = whole.Checks()


def run(command, env=None, **options):
    return whole.Outcome(command, env=whole.environment(**(env or {})), **options)


def instrument(folder, original, name, *options):
    """A copy whose trace has its name; its path."""
    path = os.path.join(folder, name)
    done = run([MEMSIGHT, "instrument", "-f", "-q", "-o", path, "--source", "none", "--trace",
                path + ".mst", *options, "--", original])
    checks.that(done.status == 0, f"no copy of {original}: {done.messages}")
    return path


def events_of(trace):
    """What was allocated, as sizes and counts; the trace is gone then."""
    database = trace + ".sum.db"
    whole.run([MEMSIGHT, "analyze", "-f", "-o", database, trace])
    found = whole.Database(database).ask(
        "SELECT size, count(*) FROM allocation JOIN call ON call.id = allocation.call"
        " WHERE call.name = 'malloc' GROUP BY 1 ORDER BY 1")
    for path in (trace, database):
        if os.path.exists(path):
            os.unlink(path)
    return found


def check_as_recorded(folder, original, name):
    """The copy behaves as the original, and its trace is that of `record'; stripped, too."""
    recorded = os.path.join(folder, "recorded.mst")
    plain = run([original, "7", "x y"])
    whole.Outcome([MEMSIGHT, "record", "-q", "--source", "none", "-o", recorded, original, "7",
                   "x y"])
    wanted = events_of(recorded)
    checks.that((77, 1) in wanted and (100, 100) in wanted and (50, 50) in wanted,
                f"{name}: {wanted}")
    copy = instrument(folder, original, name)
    for stage in ("as made", "stripped"):
        done = run([copy, "7", "x y"])
        checks.that(done.status == 7 and done.stdout == plain.stdout.replace(
            original.encode(), copy.encode()) and not done.stderr,
                    f"{name}, {stage}: {done.status} {done.stdout} {done.stderr} {done.messages}")
        found = events_of(copy + ".mst")
        checks.that(found == wanted, f"{name}, {stage}: {found}, recorded {wanted}")
        if not shutil.which("strip"):
            break
        whole.run(["strip", copy])


def check_its_life(folder):
    copy = instrument(folder, VICTIM, "life")
    trace = copy + ".mst"
    done = run([copy, "0", str(int(signal.SIGTERM))])
    checks.that(done.status == 128 + signal.SIGTERM, f"a signal: {done.status}")
    os.unlink(trace)
    done = run(["bash", "-c", f"exec -a another {copy}"])
    checks.that(done.stdout == b"another\n", f"another name: {done.stdout}")
    # The trace of the run before is there: the program must run all the same.
    done = run([copy, "3"])
    checks.that(done.status == 3 and "runs unrecorded" in done.messages and
                "is there already" in done.messages, f"a trace in the way: {done.messages}")
    os.unlink(trace)
    done = run([copy, "4"], {"MEMSIGHT_FREQ": "often"})
    checks.that(done.status == 4 and "runs unrecorded" in done.messages and
                not os.path.exists(trace), f"a wrong variable: {done.messages}")
    done = run([copy, "5"], {"MEMSIGHT_COPIES": "off"})
    checks.that(done.status == 5 and not done.messages and not os.path.exists(trace),
                f"off: {done.messages}")
    elsewhere = os.path.join(folder, "elsewhere.mst")
    done = run([copy], {"MEMSIGHT_OUTPUT": elsewhere, "MEMSIGHT_QUIET": "no"})
    checks.that(os.path.exists(elsewhere) and not os.path.exists(trace) and
                "recording life" in done.messages, f"variables win: {done.messages}")
    outer = os.path.join(folder, "outer.mst")
    done = run([MEMSIGHT, "record", "--source", "none", "-o", outer, copy, "6"])
    checks.that(done.status == 6 and not os.path.exists(trace) and (100, 100) in events_of(outer),
                f"a copy that is recorded: {done.messages}")
    loader = whole.run(["sh", "-c", f"ldd {VICTIM} | sed -n 's,.*\\(/[^ ]*/ld-[^ ]*\\).*,\\1,p'"])
    if loader.strip():
        done = run([loader.split()[0], copy, "8"])
        checks.that(done.status == 8 and (50, 50) in events_of(trace),
                    f"by {loader}: {done.messages}")
    script = os.path.join(folder, "script")
    with open(script, "w", encoding="ascii") as file:
        file.write(f"#!{copy}\n")
    os.chmod(script, 0o755)
    done = run([script, "2"])
    checks.that(done.stdout.split() == [copy.encode(), script.encode(), b"2"] and
                (100, 100) in events_of(trace), f"for a script: {done.stdout} {done.messages}")


def check_options(folder):
    copy = instrument(folder, VICTIM, "options", "--no-alloc")
    done = run([copy, "1"])
    checks.that(done.status == 1 and events_of(copy + ".mst") == [],
                f"--no-alloc: {done.status} {done.messages}")
    shown = whole.run([MEMSIGHT, "instrument", "--show", copy])
    checks.that(f"original  {os.path.realpath(VICTIM)}\n" in shown and
                f"options   --output={copy}.mst --source=none --no-alloc=yes --quiet=yes\n"
                in shown, f"--show: {shown}")
    mode = os.stat(copy).st_mode & 0o777
    checks.that(mode == os.stat(VICTIM).st_mode & 0o777, f"mode {mode:o}")
    # A command is the one of PATH, whatever lies here under its name.
    os.mkdir(os.path.join(folder, "env"))
    done = run([MEMSIGHT, "instrument", "-q", "-o", "found", "--", "env"], cwd=folder)
    shown = whole.run([MEMSIGHT, "instrument", "--show", os.path.join(folder, "found")])
    checks.that(done.status == 0 and f"original  {os.path.realpath(shutil.which('env'))}\n" in
                shown, f"a command: {done.messages} {shown}")
    copy = instrument(folder, VICTIM, "preset", "--preset", "leaks")
    shown = whole.run([MEMSIGHT, "instrument", "--show", copy])
    checks.that("--preset=leaks" in shown, f"--preset: {shown}")


def check_libraries(folder):
    name = os.path.basename(LIBRARY)
    copy = instrument(folder, LIBRARY, name)
    found = {"LD_LIBRARY_PATH": folder}
    done = run([VICTIM, "9"], found)
    checks.that(done.status == 9 and not done.messages, f"by a library: {done.messages}")
    events = events_of(copy + ".mst")
    checks.that((100, 100) in events and (50, 50) in events, f"by a library: {events}")
    done = run([LATE, copy])
    checks.that(done.status == 0 and "loaded into a program that runs already" in done.messages and
                not os.path.exists(copy + ".mst"), f"loaded late: {done.messages}")
    if shutil.which("strip"):
        whole.run(["strip", copy])
        done = run([VICTIM, "9"], found)
        checks.that(done.status == 9 and os.path.exists(copy + ".mst"),
                    f"a stripped library: {done.messages}")


def check_debugger(folder):
    if not shutil.which("gdb"):
        print("no gdb: not tried")
        return
    copy = instrument(folder, VICTIM, "debugged")
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", "-ex", "break from_library", "-ex", "run",
                           "-ex", "backtrace", "-ex", "continue", copy], capture_output=True,
                          text=True, env=whole.environment(), check=False)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        print("gdb may not trace here: not tried")
        return
    checks.that("in main" in done.stdout and "runs unrecorded" in done.stderr and
                not os.path.exists(copy + ".mst"), f"gdb: {done.stdout} {done.stderr}")


def check_refusals(folder):
    def refused(path, *words):
        target = os.path.join(folder, "none")
        done = run([MEMSIGHT, "instrument", "-o", target, "--", path])
        checks.that(done.status == 1 and all(word in done.messages for word in words) and
                    done.messages.count("\n") == 1 and not os.path.exists(target),
                    f"{path}: {done.status} {done.messages}")

    def made(name, content, mode=0o755):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    with open(VICTIM, "rb") as file:
        content = file.read()
    refused(made("setuid", content, 0o4755), "setuid")
    refused(made("text", b"hello\n"), "no ELF file")
    refused(made("empty", b""), "no ELF file")
    refused(made("sh", b"#!/bin/sh\n"), "script")
    refused(made("cut", content[:len(content) // 2]), "damaged or cut off")
    refused(made("other", content[:18] + b"\x08\x00" + content[20:]), "another processor")
    refused(made("signed", content + b"~Module signature appended~\n"), "signature")
    refused(folder, "no regular file")
    refused(os.path.join(folder, "absent"), "No such file")
    refused(instrument(folder, VICTIM, "twice"), "such a copy itself")
    for line, word in [(["--", VICTIM], "-o COPY"), (["-o", "x"], "something is missing"),
                       (["-o", "x", "--freq", "0", "--", VICTIM], "--freq"),
                       (["-o", "x", "--trigger", "nonsense", "--", VICTIM], "nonsense"),
                       (["-o", "x", "--pid", "1", "--", VICTIM], "--pid")]:
        done = run([MEMSIGHT, "instrument", *line])
        checks.that(done.status == 2 and word in done.messages, f"{line}: {done.messages}")
    done = run([MEMSIGHT, "instrument", "-o", VICTIM, "--", VICTIM])
    checks.that(done.status == 1 and "--force" in done.messages, done.messages)
    done = run([MEMSIGHT, "record", "--copy", VICTIM, "--", VICTIM, "3"], cwd=folder)
    checks.that(done.status == 3 and "is no copy" in done.messages and
                "runs unrecorded" in done.messages, f"--copy: {done.status} {done.messages}")


def main():
    with tempfile.TemporaryDirectory(prefix="memsight-copies-") as folder:
        for i, victim in enumerate(VICTIMS):
            check_as_recorded(folder, victim, f"victim-{i}")
        check_its_life(folder)
        check_options(folder)
        check_libraries(folder)
        check_debugger(folder)
        check_refusals(folder)
    checks.end()


main()
