#!/usr/bin/env python3
"""Memory, of programs and of ours: control groups, locked memory, what tracing adds, long runs, and
traces that are larger than the memory that reads them."""
import json
import os
import re
import resource
import signal
import subprocess
import time

from edges import Traced, case, main
from whole import Outcome, environment, run, skip

BLOCK = 4801  # as in victim-resources.c
MIB = 1 << 20


def compare_blocks(edge, command, options=(), status=0, **more):
    traced = edge.compare(command, options, cwd=edge.folder, **more)
    said = re.search(rb"^blocks=(0x[0-9a-f]+)$", traced.outcome.stdout, re.MULTILINE)
    edge.that(traced.outcome.status == status, f"{command}: status {traced.outcome.status}")
    edge.that(
        said and traced.n_blocks(BLOCK) == int(said.group(1), 16),
        f"{command}: {traced.n_blocks(BLOCK)} blocks; {traced.outcome.stdout} {traced.messages}")
    return traced


@case
def a_large_block_is_one_block_and_no_mapping(edge):
    """The C library maps it past our hooks, and remaps it in realloc: it is counted once."""
    traced = compare_blocks(edge, [edge.victim("victim-resources"), "large"])
    edge.that(
        traced.n_blocks(64 * MIB) == 3 and traced.n_blocks(128 * MIB) == 3,
        "three blocks that grow")
    n_maps = traced.one("SELECT count(*) FROM mapping WHERE call IS NOT NULL AND size >= ?",
                        60 * MIB)
    edge.that(n_maps == 0, f"{n_maps} mappings of that size")


LOCKED_ALLOCATOR = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *at, *end;
void *malloc(size_t size)
{
	void *block;
	size = (size + 31) / 16 * 16;
	pthread_mutex_lock(&lock);
	if ((size_t)(end - at) < size) {
		at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		end = at + (1 << 20);
	}
	block = at;
	at += size;
	pthread_mutex_unlock(&lock);
	return block;
}
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void free(void *block) { (void)block; }
"""


@case
def an_allocator_that_maps_under_its_lock_does_not_hang(edge):
    """Its mmap comes to our hook while the lock is held: what we did with malloc there would wait
    for ever."""
    allocator = edge.compile(LOCKED_ALLOCATOR, "-shared", "-fPIC", "-fno-builtin")
    if not allocator:
        skip("no compiler")
    traced = compare_blocks(
        edge,
        ["env", f"LD_PRELOAD={allocator}",
         edge.victim("victim-resources"), "resident", "2000"], status=4, timeout=60)
    n_maps = traced.one("SELECT count(*) FROM mapping WHERE is_nested AND size = ?", MIB)
    edge.that(n_maps >= 2000 * BLOCK // MIB, f"{n_maps} mappings made inside of malloc")


class Group:
    """A control group with a limit of memory, or skip. .enter: a shell's words to go into it."""

    PLACES = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]

    def __init__(self, n_bytes):
        for place, file in self.PLACES:
            self.folder = f"{place}/memsight-test-{os.getpid()}"
            try:
                os.mkdir(self.folder)
            except OSError:
                continue
            try:
                for name, value in [(file, n_bytes), ("memory.swap.max", 0),
                                    ("memory.memsw.limit_in_bytes", n_bytes)]:
                    if name == file or os.path.exists(f"{self.folder}/{name}"):
                        with open(f"{self.folder}/{name}", "w", encoding="ascii") as out:
                            out.write(str(value))
            except OSError:
                os.rmdir(self.folder)
                continue
            self.enter = f"echo 0 >{self.folder}/cgroup.procs || exit 99; "
            return
        skip("no control group of memory can be made here")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(100):
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.05)


@case
def a_program_in_a_small_control_group_has_room_beside_us(edge):
    """Recorder and program share 64 MiB, as much as --buffer-size would take."""
    victim = edge.victim("victim-resources")
    with Group(64 * MIB) as group:
        untraced = Outcome(["sh", "-c", f"{group.enter} exec {victim} moderate"])
        trace = os.path.join(edge.folder, "a.mst")
        outcome = Outcome([
            "sh", "-c", f"{group.enter} exec {edge.memsight} record -o {trace} -- {victim} moderate"
        ])
    for difference in outcome.differs_from(untraced):
        edge.that(False, difference)
    edge.that(outcome.status == 3 and "control group" in outcome.messages,
              f"{outcome.status} {outcome.messages}")
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    edge.that(Traced(trace + ".db", outcome).n_blocks(BLOCK) == 1000000, "all blocks are there")


@case
def a_program_killed_for_want_of_memory_leaves_its_events(edge):
    with Group(64 * MIB) as group:
        script = f"{group.enter} exec {edge.victim('victim-resources')} eat"
        traced = compare_blocks(edge, ["sh", "-c", script], status=128 + signal.SIGKILL)
    edge.that(traced.one("SELECT ended_cleanly FROM run") == 1, "the trace is whole")


@case
def without_locked_memory_allocations_are_recorded_all_the_same(edge):
    """As an ordinary user, whose perf rings count as locked beyond what the system gives."""
    prefix = edge.ordinary_user()
    trace = os.path.join(edge.folder, "a.mst")
    command = [edge.victim("victim-resources"), "moderate"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    outcome = Outcome([*prefix, edge.memsight, "record", "-o", trace, "--", *command],
                      preexec_fn=limit, env=environment(TMPDIR=edge.folder))
    for difference in outcome.differs_from(Outcome([*prefix, *command], preexec_fn=limit)):
        edge.that(False, difference)
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    traced = Traced(trace + ".db", outcome)
    edge.that(traced.n_blocks(BLOCK) == 1000000, f"{traced.n_blocks(BLOCK)} blocks")
    refused = traced.ask("SELECT name, error, remedy FROM source WHERE error <> 0")
    edge.that(all(remedy for _, _, remedy in refused), f"what is refused has a remedy: {refused}")


def memory_of(edge):
    with open(os.path.join(edge.folder, "status"), encoding="ascii") as file:
        return {
            name: int(kib) * 1024
            for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", file.read(), re.MULTILINE)
        }


@case
def tracing_adds_little_memory_to_a_program(edge):
    """Anonymous memory: the state of a thread, tables and the library's own data. Shared: the pool.
    """
    command = [edge.victim("victim-resources"), "resident", "200000"]
    Outcome(command, cwd=edge.folder)
    before = memory_of(edge)
    traced = compare_blocks(edge, command, status=4)
    with_us = memory_of(edge)
    for name, most in [("RssAnon", 1 * MIB), ("RssFile", 8 * MIB), ("RssShmem", 64 * MIB + MIB),
                       ("VmSize", 80 * MIB)]:
        added = with_us[name] - before[name]
        print(name, "adds", added // 1024, "KiB")
        edge.that(added <= most, f"{name}: {added} bytes more")
    edge.that(traced.losses() == {}, f"{traced.losses()}")


def resident_of(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@case
def a_long_run_takes_no_more_memory_than_a_short_one(edge):
    """Ten thousand events a second for a minute, the recorder's memory after 10 s and at the end.
    """
    trace = os.path.join(edge.folder, "a.mst")
    recorder = subprocess.Popen([
        edge.memsight, "record", "-o", trace, "--",
        edge.victim("victim-resources"), "steady", "60"
    ], stdout=subprocess.PIPE, env=environment(), cwd=edge.folder)
    time.sleep(10)
    early = resident_of(recorder.pid)
    most = early
    while recorder.poll() is None:
        try:
            most = max(most, resident_of(recorder.pid))
        except (OSError, IndexError):
            break
        time.sleep(0.5)
    said = int(re.search(rb"blocks=(0x[0-9a-f]+)", recorder.communicate()[0]).group(1), 16)
    print("resident after 10 s", early // 1024, "KiB, at most", most // 1024, "KiB;", said,
          "blocks")
    edge.that(recorder.returncode == 0, f"status {recorder.returncode}")
    edge.that(most - early <= 4 * MIB, f"{most - early} bytes more")
    run([edge.memsight, "analyze", "-o", trace + ".db", trace])
    edge.that(
        Traced(trace + ".db", Outcome(["true"])).n_blocks(BLOCK) == said, "all blocks are there")


@case
def a_hundred_million_events_are_analysed_in_one_gibibyte(edge):
    if os.statvfs(edge.folder).f_bavail * os.statvfs(edge.folder).f_frsize < 16 << 30:
        skip("a database of that size needs 16 GiB of disk")
    trace, truth = os.path.join(edge.folder, "a.mst"), os.path.join(edge.folder, "truth.json")
    make_trace = os.path.join(edge.build, "../../support/make-trace/make-trace")
    run([make_trace, "--events", "100000000", "-o", trace, "--truth", truth])
    with open(truth, encoding="ascii") as file:
        heap = json.load(file)["heap"]
    for options in ([], ["--no-plain"]):
        check_large(edge, trace, options, heap)


def check_large(edge, trace, options, heap):
    begin = time.monotonic()
    outcome = Outcome([edge.memsight, "analyze", *options, "-o", trace + ".db", trace],
                      timeout=3000,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))
    print(f"{os.path.getsize(trace) >> 20} MiB of trace, {time.monotonic() - begin:.0f} s",
          outcome.messages)
    edge.that(outcome.status == 0, f"status {outcome.status}: {outcome.messages} {outcome.stderr}")
    traced = Traced(trace + ".db", outcome)
    totals = dict(traced.ask("SELECT name, value FROM total"))
    edge.that(totals["events"] == 100000000, f"{totals}")
    for ours, true in [("allocations", "births"), ("frees", "deaths"), ("bytes", "born_bytes"),
                       ("live_blocks", "live_blocks"), ("live_bytes", "live_bytes"),
                       ("peak_bytes", "peak_bytes")]:
        edge.that(totals[ours] == heap[true],
                  f"{options} {ours}: {totals[ours]}, in truth {heap[true]}")
    os.remove(trace + ".db")


if __name__ == "__main__":
    main()
