#!/usr/bin/env python3
"""record --functions-dry-run. Arguments: memsight, the victim, the same whose code begins at 0, a
program whose code is gone for a while."""
import csv
import io
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import whole

MEMSIGHT, VICTIM, AT_ZERO, UNMAPPED = map(os.path.abspath, sys.argv[1:5])
checks = whole.Checks()

JUMP, SHORT, NOPS = "jump", "short jump", "nops"
TOO_SHORT = "shorter than a jump"
ENTERED = "code jumps to its first instructions"
OPENS = "ends in dlopen, which asks who has called it"
FIXED = "an instruction cannot be moved"
# What victim-functions.S has: instructions, how, why not.
FUNCTIONS = {
    "one_byte": (1, "", TOO_SHORT),
    "three_bytes": (2, JUMP, ""),  # with filling behind it
    "one_byte_and_room": (1, JUMP, ""),
    "plain": (3, JUMP, ""),
    "behind_endbr": (3, JUMP, ""),
    "loops_at_once": (5, SHORT, ""),  # with filling before another one
    "loops_behind_filling": (5, SHORT, ""),
    "loops_later": (5, JUMP, ""),
    "loops_as_a_whole": (3, "", ENTERED),
    "opens": (1, "", OPENS),
    "entered_from_afar": (9, "", ENTERED),
    "enters_another": (2, JUMP, ""),
    "named_in_data": (9, "", ENTERED),
    "by_table": (9, "", ENTERED),
    "calls_first": (2, JUMP, ""),
    "calls_too_early": (3, "", FIXED),
    "system_call_first": (2, "", FIXED),
    "patchable": (7, NOPS, ""),
    "patchable_behind_endbr": (4, NOPS, ""),
    "solver::step(int)": (2, JUMP, ""),
    "solve_matrix": (2, JUMP, ""),
}


def dry_run(*options, program=VICTIM):
    return whole.Outcome([MEMSIGHT, "record", "--functions-dry-run", *options, "--", program])


def rows(*options, program=VICTIM):
    outcome = dry_run("--format", "csv", *options, program=program)
    checks.that(outcome.status == 0, f"{options}: {outcome.status} {outcome.messages}")
    return list(csv.DictReader(io.StringIO(outcome.stdout.decode())))


def names(*options, program=VICTIM):
    return {row["function"] for row in rows(*options, program=program)}


def check_ways(program):
    """Each function is decoded and judged as its instructions say."""
    found = {row["function"]: (int(row["instructions"]), row["how"], row["why_not"])
             for row in rows(program=program)}
    for name, expected in FUNCTIONS.items():
        checks.that(found.get(name) == expected,
                    f"{program}: {name}: {found.get(name)}, not {expected}")
    checks.that(found.get("_start", ("",))[-1] == "begins or ends the program", "_start")


def check_choice(folder):
    """Names match plain and demangled, lists by whole names, exclusions win."""
    solve = {"solve_matrix", "solver::step(int)"}
    several = ("--function-include", "^plain$", "--function-include", "^calls_first$")
    for options, expected in (
            (("--function-include", "^solve"), solve),
            (("--function-include", "ZN6solver"), {"solver::step(int)"}),
            (("--function-include", "^solve_second$"), {"solve_matrix"}),
            (several, {"plain", "calls_first"}),
            ((*several, "--function-exclude", "call"), {"plain"}),
            (("--function-include", "^solve", "--module-include", "nowhere|^victim-func"), solve),
            (("--function-include", "^(plain|one_)", "--min-instructions", "2"), {"plain"})):
        checks.that(names(*options) == expected, f"{options}: {names(*options)}")
    path = os.path.join(folder, "list")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# a remark\nplain\n  solve_*\r\nvictim-functions!three_bytes\n"
                   "libc!one_byte\nnot_there\n")
    outcome = dry_run("--function-list", path, "--format", "json")
    found = {row["function"] for row in json.loads(outcome.stdout)}
    checks.that(found == {"plain", "solve_matrix", "three_bytes"}, f"list: {found}")
    checks.that("2 lines of --function-list match no function: libc!one_byte, not_there"
                in outcome.messages, f"list: {outcome.messages}")


def check_sets():
    """A collection asks for functions of the C library; nothing else does, and no lock is had."""
    found = rows("--collection", "io,pthread")
    checks.that({"write", "pthread_create"} <= {row["function"].lstrip("_") for row in found},
                "collections")
    checks.that(not any("mutex" in row["function"] for row in found), "locks in a collection")
    every = rows("--module-include", r"^libc\.")
    refused = {row["function"].lstrip("_") for row in every
               if row["why_not"] == "lock, allocator or loader"}
    checks.that({"malloc", "calloc", "pthread_mutex_lock"} <= refused, "malloc is instrumented")


def check_process(folder):
    """Of a process it is the files that it has mapped, as by dlopen; one that is gone is told."""
    library = os.path.join(folder, "liblater.so")
    shutil.copy(VICTIM, library)
    code = ("import mmap, sys\n"
            "file = open(sys.argv[1], 'rb')\n"
            "kept = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ"
            " | mmap.PROT_EXEC)\n"
            "print('there', flush=True)\n"
            "sys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", code, library], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        command = [MEMSIGHT, "record", "--functions-dry-run", "--format", "csv",
                   "--function-include", "^solve_m", "-p", str(process.pid)]
        outcome = whole.Outcome(command)
        checks.that(b"solve_matrix," in outcome.stdout, f"process: {outcome.messages}")
        os.unlink(library)
        outcome = whole.Outcome(command)
        checks.that(outcome.status == 1 and "cannot be read any more" in outcome.messages,
                    f"gone: {outcome.status} {outcome.messages}")
        process.stdin.close()
    outcome = whole.Outcome(command)
    checks.that(outcome.status == 1 and not outcome.stdout, f"ended: {outcome.messages}")


def check_refusals(folder):
    """One line that says what is wrong, and where."""
    found = rows("--alloc-function", "solve_matrix:size=arg1,pool=@nothing")
    checks.that([row["why_not"] for row in found] == ["its file has no variable of 8 bytes as"
                                                      " pool=@ names it"], f"{found}")
    binary = os.path.join(folder, "binary")
    with open(binary, "wb") as file:
        file.write(b"name\0name\n")
    script = os.path.join(folder, "script")
    with open(script, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    os.chmod(script, 0o755)
    for status, options, text in (
            (2, ("--function-include", "a(b[c"), "(at character 5)"),
            (2, ("--function-exclude", "(ab)(c"), "(at character 5)"),
            (2, ("--module-include", "[z-a]"), "(at character 4)"),
            (2, ("--collection", "memry"), "memory, string"),
            (1, ("--function-include", "^slove_matr"), "is solve_matrix meant?"),
            (1, ("--function-include", "^xyzzy"), "no function matches"),
            (1, ("--function-list", "/nowhere"), "No such file"),
            (1, ("--function-list", "/dev/null"), "names no function"),
            (1, ("--function-list", binary), "a byte of 0"),
            (1, ("--function-exclude", "."), "is chosen"),
            (2, ("--alloc-function", "solve_matrix"), "no ':' with what the arguments are"),
            (2, ("--alloc-function", "solve_(:size=arg1"), "(at character 1)"),
            (2, ("--alloc-function", "a:size=arg13"), "a size is argN, intN, argN*argM, or a number"
             " of bytes (at character 8)"),
            (2, ("--alloc-function", "a:size=arg1,bytes=arg2"), "no key: size, count, ptr, end,"
             " old, free, next, ref, unref, left, pool, create, reset, destroy, name (at"
             " character 13)"),
            (2, ("--alloc-function", "a:size=arg1,ptr=arg2"), "is ret, or *argN (at character 17)"),
            (2, ("--alloc-function", "a:free=ret"), "one of arg1 to arg12, int1 to int12"),
            (2, ("--alloc-function", "a:ptr=arg1[8"), "*argN, or argN[OFFSET] (at character 7)"),
            (2, ("--alloc-function", "a:ptr=arg1[70000],size=8"), "or argN[OFFSET]"),
            (2, ("--alloc-function", "a:ptr=arg1[8],end=arg1"), "an end is argN[OFFSET]"),
            (2, ("--alloc-function", "a:ptr=arg1[8],end=arg2[16]"), "ptr= of the same argument"),
            (2, ("--alloc-function", "a:ptr=arg1[8],end=arg1[16],size=8"), "without size="),
            (2, ("--alloc-function", "a:ret=ptr"), "a block needs its size=, or end= (at"
             " character 3)"),
            (2, ("--alloc-function", "a:pool=arg1"), "one of size, free, ref, unref, create,"),
            (2, ("--alloc-function", "a:ref=arg1,left=ret"), "left= goes with unref="),
            (2, ("--alloc-function", "a:unref=arg1,left=arg2"), "what is left is ret"),
            (2, ("--alloc-function", "a:unref=arg1,size=8"), "unref= goes with left="),
            (2, ("--alloc-function", "a:size=0"), "no number of bytes"),
            (2, ("--alloc-function", ":size=arg1"), "for names is empty"),
            (1, ("--alloc-function", "slove_matrix:size=arg1"), "is solve_matrix meant?"),
            (1, ("--alloc-function", "solve_:size=arg1"), "no function matches"),
            (2, ("--allocators", "arp"), "apr, glib"),
            (1, ("--module-include", r"^libc\.", "--function-include", "^pthread_mutex_lock$"),
             "must not be instrumented")):
        outcome = dry_run(*options)
        checks.that(outcome.status == status and text in outcome.messages
                    and not outcome.stdout and outcome.messages.count("\n") == 1,
                    f"{options}: {outcome.status} {outcome.stdout} {outcome.messages}")
    for program, text in ((script, "of a script name the interpreter"), ("/nowhere", "nowhere")):
        outcome = dry_run(program=program)
        checks.that(outcome.status == 1 and text in outcome.messages,
                    f"{program}: {outcome.messages}")
    for status, options, text in (
            (2, ("--no-alloc", "--function-include", "^plain$"), "that --no-alloc leaves out"),
            (1, ("--function-include", "^one_byte$"), "shorter than a jump"),
            (2, ("-p", str(os.getpid()), "--no-alloc"), "that is started")):
        command = [MEMSIGHT, "record", *options]
        outcome = whole.Outcome(command if "-p" in options else [*command, "--", VICTIM])
        checks.that(outcome.status == status and text in outcome.messages
                    and outcome.messages.count("\n") == 1, f"{options}: {outcome.messages}")


def check_exec():
    """A process without code, as amid an exec, is looked at again until it has some."""
    with subprocess.Popen([UNMAPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"gone\n":
            print("not measured: no memory may be code")
            return
        with subprocess.Popen([MEMSIGHT, "record", "--functions-dry-run", "--format", "csv",
                               "--function-include", "^main$", "-p", str(process.pid)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as memsight:
            time.sleep(0.3) # it looks for a second
            process.stdin.write(b"\n")
            process.stdin.flush()
            output, messages = memsight.communicate()
        checks.that(memsight.returncode == 0 and b"main," in output, f"{output} {messages}")
        process.stdin.write(b"\n")


def check_files(folder):
    """Files without names, and files that end too early, give an answer, not a crash."""
    stripped = os.path.join(folder, "stripped")
    if shutil.which("strip"):
        subprocess.run(["strip", "-o", stripped, VICTIM], check=True)
        outcome = dry_run("--function-include", "^solve", program=stripped)
        checks.that(outcome.status == 1 and "stripped" in outcome.messages,
                    f"{outcome.messages}")
    with open(VICTIM, "rb") as file:
        whole_file = file.read()
    cut = os.path.join(folder, "cut")
    head = bytearray(whole_file)
    table, = struct.unpack_from("<Q", head, 32)
    for at in range(table, table + 56 * head[56], 56):
        struct.pack_into("<Q", head, at + 32, 1 << 62)  # p_filesz: more than there can be
    with open(cut, "wb") as file:
        file.write(head)
    os.chmod(cut, 0o755)
    checks.that(dry_run(program=cut).status in (0, 1), "a head that promises too much")
    for i in range(16):
        with open(cut, "wb") as file:
            file.write(whole_file[:len(whole_file) * i // 16])
        os.chmod(cut, 0o755)
        outcome = dry_run(program=cut)
        checks.that(outcome.status in (0, 1), f"cut at {i}/16: {outcome.status}")


if platform.machine() != "x86_64":
    print("skipped: functions are entered on x86-64 only")
    sys.exit(77)
with tempfile.TemporaryDirectory() as scratch:
    check_ways(VICTIM)
    check_ways(AT_ZERO)
    check_choice(scratch)
    check_sets()
    check_process(scratch)
    check_exec()
    check_refusals(scratch)
    check_files(scratch)
checks.end()
