"""memsight for another processor: it builds with Debian's cross compiler, its tests in C pass under
qemu-user, a program is recorded by a recorder that both run there, and the same trace gives the
same database on that processor and on this one.

usage: ports.py TREE PROCESSOR MEMSIGHT [BUILD]   (BUILD: a folder to build in, or that is built
already; it stays)
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import whole

QEMU = {"aarch64": "qemu-aarch64", "powerpc64le": "qemu-ppc64le"}
TRIPLE = "{}-linux-gnu"
SECONDS = 10800  # for one program: emulated, on a machine where others run

# Suites whose tests are programs in C. tests/platform/ports itself has what the others show by
# running memsight.
SUITES = {
    "common", "pmu", "perf-data", "decode", "tracealloc", "analyze", "cli", "series", "make-trace"
}

# What qemu-user does not do as the kernel does, and the tests that see it.
NO_EXEC = "a program for the other processor starts no other: the kernel knows nothing of qemu"
KERNEL_SIDE = "qemu-user's own memory, name or system calls are looked at"
OWN_FILES = "programs of this host are looked at, and the other processor's folder lies over them"
FOREIGN_NAMES = "libpfm4 has the names of its own processor family only"
NO_FILTER = "qemu-user takes no seccomp filters"
UNABLE = {
    "a_container_that_forbids_perf_is_recognised": NO_FILTER,
    "a_refused_auto_still_names_its_sources_and_describes_them": NO_FILTER,
    "a_pair_between_two_others_lies_on_their_line_within_the_errors": "qemu-user computes the "
                                                                      "counter",
    "each_processor_has_its_own_codes": FOREIGN_NAMES,
    "a_machine_s_names_are_found": FOREIGN_NAMES,
    "a_bad_name_is_refused_and_the_nearest_are_told": FOREIGN_NAMES,
    "files_tell_why_they_cannot_be_traced": OWN_FILES,
    "a_stripped_file_finds_its_debug_file_by_debuglink": OWN_FILES,
    "a_pattern_becomes_a_program_for_each_file": OWN_FILES,
    "a_program_started_with_a_clean_environment_is_followed": NO_EXEC,
    "a_block_of_a_vfork_child_is_its_parents": NO_EXEC,
    "the_users_own_preload_stays": NO_EXEC,
    "the_environment_of_another_recording_is_left_alone": NO_EXEC,
    "an_environment_that_is_right_is_not_touched": NO_EXEC,
    "without_follow_a_started_program_sees_nothing_of_us": NO_EXEC,
    "a_program_that_cannot_be_started_changes_nothing": NO_EXEC,
    "a_chain_starts_with_its_thread_and_the_modules": KERNEL_SIDE,
    "ten_thousand_threads_need_the_memory_of_one": KERNEL_SIDE,
    "a_null_sink_stores_nothing_and_loses_nothing": KERNEL_SIDE,
    "a_program_that_may_only_allocate_is_not_hurt": KERNEL_SIDE,
    "a_tight_limit_of_address_space_is_left_to_the_program": KERNEL_SIDE,
    "what_changes_mapped_memory_is_an_event_with_whole_pages": KERNEL_SIDE,
    "a_group_that_is_switched_off_leaves_no_event": KERNEL_SIDE,
}


class Port:
    def __init__(self, tree, processor):
        self.tree = pathlib.Path(tree)
        self.processor = processor
        self.folder = pathlib.Path(os.environ.get("MEMSIGHT_PORTS",
                                                  "/var/cache/memsight")) / processor
        self.qemu = [QEMU[processor], "-L", str(self.folder / "root")]

    def need(self):
        if not shutil.which(self.qemu[0]):
            whole.skip(f"there is no {self.qemu[0]} (package qemu-user)")
        if not shutil.which(TRIPLE.format(self.processor) + "-ar"):
            whole.skip(
                f"there is no {TRIPLE.format(self.processor)}-ar (package "
                f"binutils-{TRIPLE.format(self.processor)})"
            )
        if not (self.folder / "complete").exists():
            whole.skip(f"there is no {self.folder} (scripts/cross-root {self.processor} makes it)")

    def build(self, build):
        whole.run([
            "meson", "setup", build, self.tree, "-Dwerror=true", "--cross-file",
            self.folder / "folder.ini", "--cross-file",
            self.tree / "scripts/cross" / (self.processor + ".ini")
        ])
        whole.run(["ninja", "-C", build])

    def emulated(self, *command, **options):
        return subprocess.run([*self.qemu, *map(str, command)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", check=False,
                              timeout=SECONDS, **options)


def unit_tests(build):
    """The commands of the tests that are programs of ours, by name."""
    listed = json.loads(whole.run(["meson", "introspect", "--tests", build]))
    for test in listed:
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        at = [i for i, word in enumerate(test["cmd"]) if word.startswith(str(build))]
        if (suites & SUITES or test["name"] in ("drain", "recording")) and \
                "long" not in suites and at and not test["cmd"][at[0]].endswith("/memsight") and \
                not any("python" in word for word in test["cmd"][:at[0]]):
            yield test["name"], test["cmd"][at[0]:]


def run_unit(port, env, name, command):
    """Failed checks of one program, those that qemu explains, and how many it has."""
    began = time.monotonic()
    try:
        done = port.emulated(*command, env=env)
    except subprocess.TimeoutExpired:
        return [f"{name}: not done after {SECONDS} s"], set(), 0
    failed = set(re.findall(r":[FE]:[^:]*:(\w+):\d+:", done.stdout))
    wrong = [f"{name}: {check}\n{done.stdout[-1500:]}" for check in failed - UNABLE.keys()]
    if done.returncode not in (0, whole.SKIP) and not failed:
        wrong.append(
            f"{name}: exit status {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    summary = re.search(r"Checks: (\d+)", done.stdout)
    n_checks = int(summary.group(1)) if summary else 0
    seconds = time.monotonic() - began
    print(f"{seconds:6.1f} s  {name}: {n_checks} checks{', FAILED' if wrong else ''}", flush=True)
    return wrong, failed & UNABLE.keys(), n_checks


def run_units(port, build, folder):
    """Failed checks that qemu does not explain; says how many programs and checks there were."""
    env = whole.environment(MEMSIGHT_EMULATOR=" ".join(port.qemu), TMPDIR=str(folder),
                            CK_TIMEOUT_MULTIPLIER="100")
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda unit: run_unit(port, env, *unit), unit_tests(build)))
    unable = set().union(*(explained for _, explained, _ in results))
    print(
        f"{len(results)} test programs, {sum(n for *_, n in results)} checks; not to be seen under "
        f"qemu-user: {len(unable)}"
    )
    return [text for wrong, _, _ in results for text in wrong]


def record(port, build, folder):
    trace = folder / "port.mst"
    victim = build / "tests/platform/ports/victim-ports"
    done = port.emulated(build / "memsight", "record", "-o", trace, "--force", "--", *port.qemu,
                         victim)
    print(done.stderr)
    return trace, done


def dump(path):
    """All rows, but for those of the emulator's own files: it is a program of this host, and which
    of its files an emulated analyze sees is a matter of its -L."""
    return collections.Counter(
        row for row in whole.Database(path).database.iterdump()
        if not ('INTO "module"' in row and ("/usr/bin/qemu-" in row or "x86_64-linux-gnu" in row)))


def check_truth(database, arch):
    """The victim's blocks, exactly."""
    def blocks(size, where="1"):
        return database.one(f"SELECT count(*) FROM allocation WHERE size = ? AND {where}", size)
    wrong = []
    for what, found, expected in [
        ("machine", database.one("SELECT value FROM fact WHERE key = 'machine'"), arch),
        ("blocks handed over", blocks(777), 6000),
        ("of them freed", blocks(777, "freed_ns IS NOT NULL"), 6000),
        ("blocks of the child", blocks(555), 100),
        ("processes", database.one("SELECT count(*) FROM process WHERE traced"), 2),
        ("maps of whole pages", database.one("SELECT count(*) FROM mapping WHERE size = 102400"),
         1), ("losses", database.losses(), {})
    ]:
        if found != expected:
            wrong.append(f"{what}: {found!r}, not {expected!r}")
    names = [
        row[0] for row in database.ask(
            "WITH RECURSIVE up(id, n) AS (SELECT stack_id, 0 FROM allocation WHERE size = 4321 "
            "UNION ALL"
            " SELECT stack.parent_id, n + 1 FROM up JOIN stack ON stack.id = up.id WHERE "
            "stack.parent_id IS NOT NULL)"
            " SELECT function FROM up JOIN stack_line ON stack_id = up.id ORDER BY n")
    ]
    if names[:3] != ["inner_caller", "outer_caller", "main"]:
        wrong.append(f"the stack of the block of 4321 bytes is {names}")
    return wrong


def main():
    tree, processor, native, *built = sys.argv[1:]
    port = Port(tree, processor)
    port.need()
    with tempfile.TemporaryDirectory(prefix="memsight-ports-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o711)  # some of the tests become an ordinary user
        build = pathlib.Path(*built) if built else folder / "build"
        wrong = []
        if not (build / "build.ninja").exists():
            port.build(build)
        wrong += run_units(port, build, folder)
        trace, done = record(port, build, folder)
        if done.returncode != 7 or done.stdout != "child 9 kept 1\n":
            wrong.append(f"the program ended with {done.returncode}, wrote {done.stdout!r}")
        there, here = folder / "there.db", folder / "here.db"
        emulated = port.emulated(build / "memsight", "analyze", "-o", there, trace)
        if emulated.returncode != 0:
            wrong.append(f"analyze there: {emulated.stderr}")
        whole.run([native, "analyze", "--sysroot", port.folder / "root", "-o", here, trace])
        wrong += check_truth(whole.Database(here), {"powerpc64le": "ppc64le"}.get(
            processor, processor))
        rows_there, rows_here = dump(there), dump(here)
        for where, rows in [("there", rows_there - rows_here), ("here", rows_here - rows_there)]:
            wrong += [f"only in the database made {where}: {row}" for row in list(rows)[:6]]
    print("\n".join(wrong) or "as expected")
    return 1 if wrong else 0


sys.exit(main())
