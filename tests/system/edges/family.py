#!/usr/bin/env python3
"""Processes: forks, vfork, children in shared memory, every way to start a program, ids used again.
"""
import os
import re
import shutil
import subprocess

from edges import case, main, unshared
from whole import Outcome, skip

BLOCK = 4801  # as in victim-family.c


def compare_family(edge, *words, prefix=(), status=0):
    """A victim whose blocks are all there, and nothing is lost."""
    traced = edge.compare([*prefix, edge.victim("victim-family"), *words], cwd=edge.folder)
    if traced.outcome.status == 77:
        skip(f"{' '.join(words)}: not allowed here")
    said = re.search(rb"^blocks=(0x[0-9a-f]+)$", traced.outcome.stdout, re.MULTILINE)
    edge.that(traced.outcome.status == status, f"{words}: status {traced.outcome.status}")
    edge.that(
        said and traced.n_blocks(BLOCK) == int(said.group(1), 16),
        f"{words}: {traced.n_blocks(BLOCK)} blocks; {traced.outcome.stdout} {traced.messages}")
    edge.that(traced.losses() == {}, f"{words}: losses {traced.losses()}")
    return traced


@case
def a_child_in_the_memory_of_its_parent_writes_its_parents_events(edge):
    """Not a thread, and not a process with memory of its own: what it allocates is its parent's,
    who gives it back. That it is another process shows in its exec."""
    traced = compare_family(edge, "clone-memory")
    edge.that(
        traced.one("SELECT count(*) FROM allocation WHERE size = ? AND end_kind = 1", BLOCK) == 11,
        "all are given back")
    edge.that(
        traced.one("SELECT count(DISTINCT process_id) FROM allocation WHERE size = ?", BLOCK) == 1,
        "in one process")
    traced = compare_family(edge, "vfork")
    edge.that(traced.one("SELECT count(*) FROM process WHERE traced AND birth = 'exec'") == 2,
              "the program that the vfork child becomes is one of its own")


@case
def every_way_to_start_a_program_is_followed(edge):
    """By spawn, system and popen; the second time after clearenv(), which the shells are named for.
    """
    traced = compare_family(edge, "start-all")
    n_shells = traced.one(
        "SELECT count(*) FROM process WHERE traced AND birth = 'exec' AND command LIKE"
        " 'sh -c%exit 3%'")
    edge.that(n_shells == 2, f"{n_shells} shells that had their environment are traced")
    # What a shell was called that is gone may not be known any more; that it was there is.
    edge.that("not traced" in traced.messages, traced.messages)


def copy_program(program, root):
    """A folder that holds what a program needs, at the same places; not our library."""
    needs = re.findall(
        r"(/\S+) \(0x",
        subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout)
    for path in needs:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(program, root + "/program")


@case
def a_program_in_another_root_that_cannot_load_us_runs_in_silence(edge):
    """The loader would complain on the program's stderr; the recording names it instead."""
    root = os.path.join(edge.folder, "root")
    copy_program(edge.victim("victim-family"), root)
    prefix = [] if os.getuid() == 0 else unshared()
    traced = edge.compare([*prefix, "/usr/sbin/chroot", root, "/program", "one"])
    edge.that(traced.outcome.status == 0 and not traced.outcome.stderr, f"{traced.outcome.stderr}")
    edge.that(traced.n_blocks(BLOCK) == 0 and "1 not traced" in traced.messages, traced.messages)
    edge.that("program" in traced.why_not(), f"{traced.why_not()}")


@case
def a_user_who_may_not_read_us_starts_programs_in_silence(edge):
    """As above: a build in a folder of root's, and setpriv, which has its capabilities up to the
    exec."""
    if os.getuid() != 0:
        skip("only root becomes another user")
    if not shutil.which("setpriv"):
        skip("setpriv is not installed")
    private = os.path.join(edge.folder, "private")
    os.mkdir(private, 0o700)
    build = os.path.dirname(os.path.abspath(edge.memsight))
    for path in (edge.memsight, *(os.path.join(build, name) for name in os.listdir(build)
                                  if name.startswith("libtracealloc") and name.endswith(".so"))):
        shutil.copy(path, private)
    trace = os.path.join(edge.folder, "private.mst")
    outcome = Outcome([
        os.path.join(private, os.path.basename(edge.memsight)), "record", "-o", trace, "--",
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "ls -d /; true"
    ])
    edge.that(outcome.status == 0 and outcome.stdout == b"/\n",
              f"{outcome.status} {outcome.stdout} {outcome.messages}")
    edge.that(not outcome.stderr, f"{outcome.stderr}")
    edge.that("not traced" in outcome.messages, outcome.messages)


@case
def forks_beside_threads_that_allocate_lose_nothing(edge):
    compare_family(edge, "storm", "100")


@case
def ten_thousand_forks_beside_threads_that_allocate_lose_nothing(edge):
    traced = edge.compare([edge.victim("victim-family"), "storm", "10000"], ["-s", "none"],
                          timeout=1500)
    lost = {reason: count for (_, reason), count in traced.losses().items()}
    print(traced.messages, lost)
    edge.that(traced.outcome.status == 0, f"status {traced.outcome.status}")
    edge.that(traced.n_blocks(BLOCK) == 10000, f"{traced.n_blocks(BLOCK)} blocks; {lost}")


@case
def processes_with_the_same_id_are_told_apart(edge):
    prefix = unshared("-p", "-f", "--mount-proc")
    traced = compare_family(edge, "same-id", "60", prefix=prefix)
    rows = traced.ask(
        "SELECT process.ns_pid, count(*) FROM process JOIN allocation ON process_id = process.id"
        " WHERE size = ? GROUP BY process.id", BLOCK)
    edge.that(rows == [(301, 1)] * 60, f"{rows}")


DROPS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	FILE *pipe;
	char line[8] = "";

	if (setgid(65534) || setuid(65534) || system("echo from a shell; exit 3") != 3 << 8)
		return 1;
	pipe = popen("echo on", "r");
	if (!pipe || !fgets(line, sizeof(line), pipe) || pclose(pipe))
		return 2;
	free(malloc(4903));
	return line[0] == 'o' ? 7 : 3;
}
"""


@case
def shells_of_a_program_that_lost_the_right_to_read_us_start_in_silence(edge):
    """system() and popen() after setuid, of a build in a folder that is root's own."""
    program = edge.compile(DROPS, "-fno-builtin")
    if os.getuid() != 0 or not program:
        skip("only root can become another user")
    private = os.path.join(edge.folder, "private")
    os.mkdir(private, 0o700)
    for name in ("memsight", "libtracealloc.so"):
        shutil.copy(os.path.join(os.path.dirname(edge.memsight), name), private)
    os.chmod(edge.folder, 0o755)
    edge.memsight = os.path.join(private, "memsight")
    traced = edge.compare([program])
    edge.that(traced.outcome.status == 7 and traced.n_blocks(4903) == 1,
              f"status {traced.outcome.status}")


if __name__ == "__main__":
    main()
