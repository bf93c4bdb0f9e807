#!/usr/bin/env python3
"""An archive of symbols beside a trace gives the same names on a machine that has none of the
programs. Arguments: memsight."""
import os
import re
import shutil
import subprocess
import sys

import whole

MEMSIGHT = os.path.abspath(sys.argv[1])
CASES = []

LIBRARY = """
#include <stdlib.h>
int shelf_counter[1000];
__attribute__((noinline)) static void *shelf_fill(int n)
{
	void *block = malloc(4801);
	for (int i = 0; i < 200000; i++)
		shelf_counter[i % 1000] += n;
	return block;
}
void *shelf_of(int n) { void *block = shelf_fill(n); return n > 1 ? shelf_of(n - 1) : block; }
"""
PROGRAM = """
#include <string.h>
#include <stdlib.h>
void *shelf_of(int n);
extern int shelf_counter[];
int main()
{
	char *text = strdup("a block of libc's");
	int kept = shelf_of(500) == NULL;
	free(text);
	return kept || shelf_counter[0] == 0;
}
"""


def case(function):
    CASES.append(function)
    return function


class Shop(whole.Checks):
    """A program with a library of its own, of which the debug file lies apart."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.machine = os.path.join(folder, "machine")
        os.makedirs(self.machine)
        self.library = os.path.join(self.machine, "libshelf.so")
        self.program = os.path.join(self.machine, "shop")
        self.trace = os.path.join(folder, "shop.mst")
        self.archive = self.trace + ".symbols.tar.zst"
        if not shutil.which("cc") or not shutil.which("objcopy"):
            whole.skip("no C compiler, or no objcopy (binutils)")
        self.compile(LIBRARY, self.library, "-shared", "-fPIC")
        self.compile(PROGRAM, self.program, self.library, "-Wl,-rpath,$ORIGIN")
        debug = os.path.join(self.machine, "libshelf.so.debug")
        whole.run(["objcopy", "--only-keep-debug", self.library, debug])
        whole.run(["objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, self.library])

    def compile(self, source, path, *words):
        done = subprocess.run([
            "cc", "-g", "-O1", "-fno-builtin", "-Wl,--build-id", "-x", "c", "-", "-x", "none", "-o",
            path, *words
        ], input=source, text=True, check=False, capture_output=True, env=whole.environment())
        if done.returncode:
            whole.skip(done.stderr)

    def record(self, *options, command=None):
        self.outcome = whole.Outcome([MEMSIGHT, "record", "-q", *options, "-o", self.trace, "--",
                                      *(command or [self.program])])
        self.that(self.outcome.status == 0,
                  f"record: {self.outcome.status} {self.outcome.messages}")

    def analyze(self, *options, name="shop.db", prefix=(MEMSIGHT,)):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            os.unlink(path)
        self.outcome = whole.Outcome([*prefix, "analyze", "-o", path, *options, self.trace])
        self.that(self.outcome.status == 0,
                  f"analyze {options}: {self.outcome.stdout} {self.outcome.messages}")
        return whole.Database(path)

    def elsewhere(self):
        """Words before a command of memsight that run it where no other file of this machine is."""
        root = os.path.join(self.folder, "elsewhere")
        tools = os.path.join(root, "tools")
        os.makedirs(tools)
        os.makedirs(os.path.join(root, "tmp"))
        found = re.findall(r"(/\S+\.so\S*)", whole.run(["ldd", MEMSIGHT]))
        found += [
            path for path in
            ["/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib/x86_64-linux-gnu/libgcc_s.so.1"]
            if os.path.exists(path)
        ]
        for path in [MEMSIGHT, *found]:
            shutil.copy(path, tools)
        loader = next(os.path.basename(path) for path in found if "/ld-linux" in path)
        inside = os.path.join(root, self.folder[1:])
        os.makedirs(inside)
        for path in [self.trace, self.archive]:
            if os.path.exists(path):
                shutil.copy(path, inside)
        prefix = [
            *([] if os.getuid() == 0 else ["unshare", "-Ur"]),
            shutil.which("chroot") or "/usr/sbin/chroot", root
        ]
        command = [*prefix, f"/tools/{loader}", "--library-path", "/tools", "/tools/memsight"]
        if whole.Outcome([*command, "--version"]).status != 0:
            whole.skip("this user may not change the root folder")
        return command, inside


def names(db):
    """All that has names, without ids."""
    return {
        "frames": sorted(db.ask("SELECT object, offset, coalesce(function, '') FROM frame")),
        "lines": sorted(
            db.ask(
                "SELECT object, offset, depth, frame_line.function, coalesce(file, ''), "
                "coalesce(line, 0)"
                " FROM frame_line JOIN frame ON frame.id = frame_id")),
        "variables": sorted(db.ask("SELECT object, name, offset, size FROM symbol")),
        "modules": sorted(
            db.ask("SELECT path, coalesce(build_id, ''), bias, start, end FROM module")),
        "owners": sorted(db.ask("SELECT source_id, role, owner_kind, phase, n FROM owner_share")),
    }


def compare(shop, here, there, what):
    for kind, expected in names(here).items():
        found = names(there)[kind]
        odd = [row for row in found if row not in expected
               ] + [row for row in expected if row not in found]
        shop.that(not odd, f"{what}: {kind} differ: {odd[:4]}")


@case
def another_machine_finds_the_same_names(shop):
    shop.record("--archive")
    here = shop.analyze()
    shop.that(
        here.one("SELECT count(*) FROM frame_line WHERE function = 'shelf_fill'") > 0,
        "no lines here")
    command, inside = shop.elsewhere()
    outcome = whole.Outcome(
        [*command, "analyze", "-o",
         os.path.join(shop.folder, "there.db"), shop.trace], env=whole.environment(TMPDIR="/tmp"))
    shop.that(outcome.status == 0 and outcome.messages =="",
              f"there: {outcome.stdout} {outcome.messages}")
    compare(shop, here, whole.Database(os.path.join(inside, "there.db")), "in another root")
    left = [
        name for name in os.listdir(os.path.join(shop.folder, "elsewhere/tmp"))
        if name.startswith("memsight-symbols")
    ]
    shop.that(left == [], f"left behind: {left}")
    # Without the archive there is nothing.
    os.unlink(os.path.join(inside, os.path.basename(shop.archive)))
    whole.run([*command, "analyze", "-o", os.path.join(shop.folder, "bare.db"), shop.trace],
              env=whole.environment(TMPDIR="/tmp"))
    bare = whole.Database(os.path.join(inside, "bare.db"))
    shop.that(
        bare.one("SELECT count(*) FROM frame WHERE function IS NOT NULL") == 0,
        "names out of nothing")


@case
def samples_are_followed_there_as_far_as_here(shop):
    """Of programs that spend their time in many pages of code, of which few are sampled."""
    shop.record("--archive", "--freq", "4999",
                command=["sh", "-c", "seq 200000 | sort -r | sort -n | tail -n 1"])
    here = shop.analyze()
    command, inside = shop.elsewhere()
    outcome = whole.Outcome(
        [*command, "analyze", "-o",
         os.path.join(shop.folder, "there.db"), shop.trace], env=whole.environment(TMPDIR="/tmp"))
    shop.that(outcome.status == 0 and outcome.messages =="",
              f"there: {outcome.stdout} {outcome.messages}")
    compare(shop, here, whole.Database(os.path.join(inside, "there.db")), "a pipeline")


@case
def a_library_beside_its_program_is_found_by_its_path(shop):
    """By $ORIGIN/../lib, as packages that can be moved have it, and without a build-id."""
    library = os.path.join(shop.machine, "lib", "libplain.so")
    program = os.path.join(shop.machine, "bin", "plain")
    for path in [library, program]:
        os.makedirs(os.path.dirname(path))
    shop.compile(LIBRARY, library, "-shared", "-fPIC", "-Wl,--build-id=none",
                 "-Wl,-soname,libplain.so")
    shop.compile(PROGRAM, program, library, "-Wl,-rpath,$ORIGIN/../lib", "-Wl,--build-id=none")
    shop.record("--archive", command=[program])
    here = shop.analyze()
    shop.that(
        here.one("SELECT count(*) FROM module WHERE path LIKE '%/bin/../lib/libplain.so'") > 0,
        "the loader left no '..' in the path")
    command, _ = shop.elsewhere()
    outcome = whole.Outcome(
        [*command, "analyze", "-o",
         os.path.join(shop.folder, "there.db"), shop.trace], env=whole.environment(TMPDIR="/tmp"))
    shop.that(outcome.status == 0 and outcome.messages =="",
              f"there: {outcome.stdout} {outcome.messages}")
    there = whole.Database(os.path.join(shop.folder, "elsewhere", shop.folder[1:], "there.db"))
    shop.that(
        there.one("SELECT count(*) FROM loss WHERE reason LIKE 'archive%'") == 0,
        "the archive is refused")
    compare(shop, here, there, "a library without a build-id")


@case
def an_archive_can_be_made_later_and_named(shop):
    shop.record("--source", "none")
    other = os.path.join(shop.folder, "symbols")
    said = whole.Outcome([MEMSIGHT, "archive", "-o", other, shop.trace])
    shop.that(said.status == 0 and "debug file" in said.messages and "gone" not in said.messages,
              said.messages)
    here = shop.analyze()
    shutil.rmtree(shop.machine)
    shop.that(
        shop.analyze(
            name="b.db").one("SELECT count(*) FROM frame WHERE function GLOB 'shelf*'") == 0,
        "names")
    compare(shop, here, shop.analyze("--symbols", other, name="c.db"), "--symbols")
    said = whole.Outcome([MEMSIGHT, "archive", shop.trace])
    shop.that(said.status == 0 and f"not in the archive: {shop.machine}" in said.messages,
              said.messages)


@case
def tar_reads_what_it_holds(shop):
    if not shutil.which("tar") or not shutil.which("zstd"):
        whole.skip("no tar with zstd")
    shop.record("--source", "none", "--archive")
    here = shop.analyze()
    folder = os.path.join(shop.folder, "unpacked")
    os.makedirs(folder)
    whole.run(["tar", "--zstd", "-C", folder, "-xf", shop.archive])
    shutil.rmtree(shop.machine)
    os.unlink(shop.archive)
    compare(shop, here, shop.analyze("--debug-dir", folder, name="b.db"), "unpacked by tar")
    # Samples are followed into code that was never sampled, so it is there; variables are not.
    files = [os.path.join(parent, file) for parent, _, files in os.walk(folder) for file in files]
    whole_files = [
        file for file in files if not file.endswith(".debug") and not os.path.islink(file)
    ]
    for file in whole_files:
        text = whole.run(["objdump", "-d", "--section=.text", file])
        shop.that(re.search(r"\t(?:ret|call) ", text), f"an archive lacks the code of {file}")
    text = whole.run(["objdump", "-s", "--section=.data", *whole_files])
    words = re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]+ ){1,4})", text, re.M)
    shop.that(words and not any(set(word) - set("0 ") for word in words),
              "an archive has variables")


@case
def an_archive_that_is_damaged_is_a_loss(shop):
    shop.record("--source", "none", "--archive")
    size = os.path.getsize(shop.archive)
    os.truncate(shop.archive, size // 2)
    db = shop.analyze()
    shop.that(db.losses().get(("analyze", "archive of symbols: cannot be read")) == 1,
              f"{db.losses()}")
    with open(shop.archive, "wb") as file:
        file.write(b"no archive at all")
    db = shop.analyze()
    shop.that(db.losses().get(("analyze", "archive of symbols: cannot be read")) == 1,
              f"{db.losses()}")
    outcome = whole.Outcome([MEMSIGHT, "analyze", "--symbols", "/nowhere", shop.trace])
    shop.that(outcome.status == 1 and "cannot use --symbols /nowhere" in outcome.messages,
              outcome.messages)


@case
def files_that_are_gone_when_the_program_ends_are_kept(shop):
    """A program that removes itself, and one in a mount namespace of its own, as containers are."""
    script = f"rm {shop.program} {shop.library}; "
    shop.record("--source", "none", "--archive",
                command=["sh", "-c", f"{shop.program} & sleep 0.5; {script} wait"])
    shop.that("gone" not in shop.outcome.messages, f"{shop.outcome.messages}")


@case
def a_containers_files_are_kept(shop):
    prefix = ["unshare", *([] if os.getuid() == 0 else ["-Ur"]), "-m"]
    place = os.path.join(shop.folder, "inside")
    os.makedirs(place)
    script = f"mount -t tmpfs none {place} && cp {shop.machine}/* {place} && {place}/shop"
    if whole.Outcome([*prefix, "sh", "-c", script]).status != 0:
        whole.skip("this user may not make a mount namespace")
    shop.record("--source", "none", "--archive", command=[*prefix, "sh", "-c", script])
    db = shop.analyze()
    found = db.one("SELECT count(*) FROM frame WHERE path = ? AND function = 'main'",
                   f"{place}/shop")
    shop.that(found > 0, f"main of a container's program: {found}; {shop.outcome.messages}")


whole.run_cases(CASES, Shop)
