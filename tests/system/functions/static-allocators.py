#!/usr/bin/env python3
"""The allocator of static programs, as --functions-dry-run has it: what is found in a stripped copy
is where the symbols of the original are, for C libraries and kinds of programs. Arguments:
memsight, the source of a program that looks like glibc."""
import csv
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
LOOK_ALIKE = os.path.abspath(sys.argv[2])
checks = whole.Checks()

USES_ALL = """#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
void *volatile keep;
/* What looks like calloc, and is none. */
void *twice(size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) { errno = ENOMEM; return NULL; }
    return keep = malloc(all);
}
int lock_my_free_alloc(int n) { return keep ? n + 1 : n * 3; }
int main(int n, char **texts)
{
    void *block = NULL;
    keep = malloc(n); keep = realloc(keep, 100 * n); free(keep);
    keep = calloc(n, 20); free(keep); keep = aligned_alloc(64, 64 * n); free(keep);
    posix_memalign(&block, 64, n); keep = block; keep = twice(n, n); keep = strdup(texts[0]);
    return lock_my_free_alloc(n);
}
"""
USES_TWO = """#include <stdlib.h>
void *volatile keep;
int main(int n, char **texts) { keep = malloc(n); free(keep); return 0; }
"""
USES_NONE = "int main(void) { return 0; }\n"
CPP = """#include <iostream>
#include <map>
#include <string>
#include <thread>
int main(int n, char **texts)
{
    std::map<std::string, int> map;
    std::thread thread([&] { map[texts[0]] = n; });
    thread.join();
    std::cout << map.size() << std::endl;
}
"""
# A text of glibc's is no allocator.
LIAR = """#include <stdio.h>
int main(void) { return puts("realloc(): invalid pointer") + puts("free(): invalid pointer"); }
"""
GLIBC, MUSL = ["gcc", "-static"], ["musl-gcc", "-static"]
# What each is called by its code, and by its symbols; memalign stands for all of its kind.
SYMBOLS = {
    "glibc": {"malloc": ["malloc"], "calloc": ["calloc", "__libc_calloc"], "realloc": ["realloc"],
              "free": ["free"], "memalign": ["_mid_memalign.constprop.0", "_mid_memalign.isra.0",
                                             "_mid_memalign"]},
    "musl": {"malloc": ["__libc_malloc_impl"], "calloc": ["calloc"], "realloc": ["__libc_realloc"],
             "free": ["__libc_free"], "aligned_alloc": ["aligned_alloc"]},
}


def build(folder, compiler, source, *options):
    path = os.path.join(folder, "program")
    language = "c++" if "g++" in compiler[0] else "c"
    done = subprocess.run([*compiler, *options, "-x", language, "-", "-o", path], input=source,
                          text=True, capture_output=True, check=False)
    return path if done.returncode == 0 else None


def ask(path):
    """The rows of the allocator by name, those of other functions, and what is said beside."""
    outcome = whole.Outcome([MEMSIGHT, "record", "--functions-dry-run", "--format", "csv", path])
    rows = list(csv.DictReader(outcome.stdout.decode().splitlines()))
    own = {row["function"]: row for row in rows if ", by " in row["module"]}
    return own, [row for row in rows if ", by " not in row["module"]], outcome.messages


def symbols_of(path):
    found = {}
    for line in whole.run(["nm", path]).splitlines():
        words = line.split()
        if len(words) == 3:
            found[words[2]] = int(words[0], 16)
    return found


def check_stripped(path, libc, present):
    """Those that are there are found where they are, and nothing else is."""
    symbols, stripped = symbols_of(path), path + ".stripped"
    whole.run(["strip", "-o", stripped, path])
    own, _, messages = ask(stripped)
    for name, names in SYMBOLS[libc].items():
        truth = next((symbols[n] for n in names if n in symbols), None)
        checks.that((truth is not None) == (name in present), f"{name} {truth}: not as is thought")
        found = own.get(name)
        checks.that((found is None) == (truth is None) and
                    (found is None or (int(found["address"], 16) == truth and
                                       found["module"] == f"{libc}, by its code" and
                                       found["how"] == "jump")),
                    f"{path}: {name} is at {truth}, found: {found} {messages}")
    checks.that(set(own) <= set(SYMBOLS[libc]), f"{path}: {own}")
    return stripped


def check_named(path, libc, wanted):
    own, others, messages = ask(path)
    symbols = symbols_of(path)
    for name in wanted:
        checks.that(name in own and int(own[name]["address"], 16) == symbols[name] and
                    own[name]["module"] == f"{libc}, by name", f"{path}: {name}: {own.get(name)}")
    checks.that("found by name" in messages, messages)
    # What must not be entered is refused; what is only called so is not.
    refused = {row["function"] for row in others if row["why_not"] == "lock, allocator or loader"}
    free = {row["function"] for row in others if row["how"]}
    checks.that({"main", "lock_my_free_alloc", "twice"} <= free, f"{path}: not {free}")
    for name in ["malloc", "free", "realloc"] + (
            ["_int_malloc", "_int_free", "__lll_lock_wait_private", "ptmalloc_init.part.0"]
            if libc == "glibc" else ["__lock", "__unlock", "alloc_slot", "nontrivial_free"]):
        checks.that(name in refused, f"{path}: {name} can be entered")


def check_damage(stripped):
    """Without sections, and cut: no crash, and nothing that is wrong."""
    truth, _, _ = ask(stripped)
    with open(stripped, "rb") as file:
        data = bytearray(file.read())
    path = stripped + ".damaged"
    bare = data[:40] + struct.pack("<Q", 0) + data[48:58] + struct.pack("<HHH", 0, 0, 0) + data[64:]
    for what in [bare, data[:len(data) // 2], data[:70], data[:20], b""]:
        with open(path, "wb") as file:
            file.write(what)
        os.chmod(path, 0o755)
        own, _, messages = ask(path)
        checks.that(messages and "signal" not in messages, messages)
        checks.that(all(truth[name]["address"] == row["address"] for name, row in own.items()),
                    f"{path}: {own} and not {truth}")


def check_libc(folder, compiler, libc):
    if not shutil.which(compiler[0]) or not build(folder, compiler, USES_NONE):
        print("not measured: no", *compiler)
        return False
    everything, two = set(SYMBOLS[libc]), {"malloc", "free"}
    for options in [["-O0"], ["-O2"]]:
        path = build(folder, compiler, USES_ALL, "-fno-builtin", *options)
        stripped = check_stripped(path, libc, everything)
        if options == ["-O2"]:
            check_named(path, libc, ["calloc", "posix_memalign"] if libc == "musl"
                        else ["malloc", "calloc", "realloc", "free", "posix_memalign"])
            check_damage(stripped)
        check_stripped(build(folder, compiler, USES_TWO, *options), libc,
                       everything if libc == "glibc" else two)
    return True


def check_kinds(folder):
    """Position independent; C++ with threads, whose operators have names."""
    everything = set(SYMBOLS["glibc"])
    pie = build(folder, ["gcc", "-static-pie"], USES_ALL, "-O2", "-fno-builtin")
    if pie:
        check_stripped(pie, "glibc", everything)
    cpp = build(folder, ["g++", "-static"], CPP, "-O2")
    if cpp:
        own, _, _ = ask(cpp)
        symbols = symbols_of(cpp)
        for name in ["_Znwm", "_ZdlPv", "_Znam"]:
            checks.that(name in own and int(own[name]["address"], 16) == symbols[name],
                        f"{name}: {own.get(name)}")
        check_stripped(cpp, "glibc", everything)


def check_look_alike(folder):
    """Of the fuzzer's seed all are found, so that it reaches what finds them."""
    path = os.path.join(folder, "look-alike")
    whole.run(["gcc", "-Os", "-nostdlib", "-static", "-fno-builtin", "-fcf-protection=none",
               "-fno-stack-protector", "-fno-ipa-ra", "-Wl,-N,--build-id=none", LOOK_ALIKE, "-o",
               path])
    symbols = symbols_of(path)
    whole.run(["strip", path])
    own, _, _ = ask(path)
    checks.that({name: int(row["address"], 16) for name, row in own.items()} ==
                {name: symbols["my_" + name] for name in SYMBOLS["glibc"]}, f"{own} {symbols}")


def check_nothing(folder, compiler):
    """No allocator, texts or not: nothing is found, and that is said."""
    for source in [USES_NONE, LIAR]:
        path = build(folder, compiler, source)
        whole.run(["strip", path])
        own, _, messages = ask(path)
        checks.that(not own and "is static and has no names of functions; " in messages,
                    f"{own} {messages}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if not check_libc(folder, GLIBC, "glibc"):
            whole.skip("no static programs can be built")
        check_kinds(folder)
        check_look_alike(folder)
        if check_libc(folder, MUSL, "musl"):
            check_nothing(folder, MUSL)
    checks.end()


main()
