#!/usr/bin/env python3
"""Threads, stacks and signals: stacks that are full, tiny or foreign, destructors, cancellation,
numbers that are used again, ends while others allocate."""
import os
import re
import resource

from edges import case, main, unshared
from whole import run, skip

BLOCK = 4801  # as in victim-threads.c


def compare_threads(edge, *words, prefix=(), status=0, options=(), lost=(), **more):
    """A victim whose blocks are all there and all given back; `lost`: reasons of losses that may
    be."""
    traced = edge.compare([*prefix, edge.victim("victim-threads"), *words], options,
                          cwd=edge.folder, **more)
    if traced.outcome.status == 77:
        skip(f"{' '.join(words)}: not allowed here")
    said = re.search(rb"^blocks=(0x[0-9a-f]+)$", traced.outcome.stdout, re.MULTILINE)
    n_said = int(said.group(1), 16) if said else -1
    edge.that(traced.outcome.status == status, f"{words}: status {traced.outcome.status}")
    edge.that(
        traced.n_blocks(BLOCK) == n_said,
        f"{words}: {traced.n_blocks(BLOCK)} blocks; {traced.outcome.stdout} {traced.messages}")
    edge.that(traced.n_blocks(BLOCK, end_kind=1) == n_said, f"{words}: all are given back")
    edge.that(traced.n_alive_twice() == 0, f"{words}: no two blocks at one place")
    edge.that({reason
               for _, reason in traced.losses()} <= set(lost), f"{words}: losses {traced.losses()}")
    return traced


@case
def a_handler_of_a_full_stack_may_allocate(edge):
    traced = compare_threads(edge, "overflow", status=3, lost=["stack cut short"])
    report = run([edge.memsight, "report", "--losses", traced.path])
    edge.that("hint: stack cut short: recorded up to" in report, report)


@case
def coroutines_on_stacks_from_malloc_are_recorded(edge):
    for stacks in ["dwarf", "fp"]:
        compare_threads(edge, "switch-stacks", options=["--stacks", stacks])


@case
def threads_with_the_smallest_stacks_are_recorded(edge):
    compare_threads(edge, "tiny-stacks")


@case
def destructors_of_every_round_are_recorded_or_counted(edge):
    """Four keys, whose destructors come back in each of the four rounds. Ours ends the thread in
    the last one: what comes behind it is counted."""
    traced = edge.compare([edge.victim("victim-threads"), "destructors"])
    edge.that(b"rounds=0x10\nblocks=0x11\n" in traced.outcome.stdout, f"{traced.outcome.stdout}")
    late = traced.losses().get(("tracealloc", "thread or process ending"), 0)
    edge.that(
        traced.n_blocks(BLOCK) >= 1 + 12, f"{traced.n_blocks(BLOCK)} blocks: those of three rounds")
    edge.that(2 * traced.n_blocks(BLOCK) + late == 2 * 17,
              f"{traced.n_blocks(BLOCK)} blocks, {late} counted")


@case
def cancelled_threads_leave_nothing_behind(edge):
    compare_threads(edge, "cancel")


@case
def each_thread_is_told_apart_whatever_its_number(edge):
    """60 threads that all have the number 301, one behind the other."""
    traced = compare_threads(edge, "same-number", "60", prefix=unshared("-p", "-f", "--mount-proc"))
    rows = traced.ask("SELECT count(*), count(DISTINCT thread_id) FROM allocation WHERE size = ?",
                      BLOCK)
    edge.that(rows == [(60, 60)], f"blocks and threads: {rows}")


@case
def a_hundred_thousand_short_threads_are_recorded(edge):
    compare_threads(edge, "sequence", "100000", options=["-s", "none"], timeout=1200)


@case
def four_thousand_threads_at_once_are_recorded(edge):
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if 0 <= most < 5000:
        skip("this user may not have 4,000 threads")
    traced = compare_threads(edge, "parallel", "4000", options=["-s", "none"],
                             timeout=1200)
    edge.that(
        traced.one("SELECT count(DISTINCT thread_id) FROM allocation WHERE size = ?",
                   BLOCK) == 4000, "each has its own")


@case
def a_program_that_can_make_no_thread_is_recorded(edge):
    """No thread of ours either: there is none. As an ordinary user, whom the limit binds."""
    prefix = edge.ordinary_user()
    traced = compare_threads(edge, "no-more", prefix=prefix)
    edge.that(b"thread=0xb\nprocess=0xb\n" in traced.outcome.stdout,
              f"EAGAIN: {traced.outcome.stdout}")


@case
def a_stack_without_limit_changes_nothing(edge):
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    compare_threads(edge, "tiny-stacks", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_STACK, (hard, hard)))


@case
def programs_that_end_while_their_threads_allocate_end_well(edge):
    check_busy_ends(edge, 30)


@case
def a_thousand_programs_that_end_while_their_threads_allocate_end_well(edge):
    check_busy_ends(edge, 1000)


def check_busy_ends(edge, n):
    traced = edge.compare([edge.victim("victim-threads"), "busy-ends",
                           str(n)], ["-s", "none"], timeout=1500)
    edge.that(b"right=0x%x\n" % n in traced.outcome.stdout, f"{traced.outcome.stdout}")
    edge.that(traced.n_blocks(BLOCK) == n, f"{traced.n_blocks(BLOCK)} blocks")
    lost = set(traced.losses()) - {("tracealloc", "cut off by the end"),
                                   ("tracealloc", "pool full")}
    edge.that(not lost, f"losses {traced.losses()}")


@case
def masks_and_handlers_of_signals_are_unchanged(edge):
    compare_threads(edge, "signals")


@case
def names_of_threads_stand_in_the_database(edge):
    traced = compare_threads(edge, "names")
    rows = [
        name
        for name, in traced.ask("SELECT name FROM thread_name JOIN thread ON thread.id = thread_id"
                                " WHERE NOT is_main ORDER BY time_ns")
    ]
    edge.that(rows[-2:] == ["first name", "second name"], f"{rows}")


@case
def programs_built_for_shadow_stacks_are_recorded(edge):
    """Where the loader would turn the shadow stack off for a library that is not marked, ours is.
    """
    program = edge.compile(
        "#include <stdlib.h>\nint main(void){for(int i=0;i<7;i++)free(malloc(4801));return 5;}",
        "-fcf-protection=full", "-fno-builtin", "-Wl,-z,shstk")
    if not program:
        skip("this compiler does not know -fcf-protection")
    traced = edge.compare([program], env=dict(os.environ, GLIBC_TUNABLES="glibc.cpu.x86_shstk=on"))
    edge.that(traced.outcome.status == 5 and traced.n_blocks(BLOCK) == 7, f"{traced.messages}")
    library = os.path.join(os.path.dirname(edge.memsight), "libtracealloc.so")
    edge.that("SHSTK" in run(["readelf", "-n", library]), "the library is marked")


if __name__ == "__main__":
    main()
