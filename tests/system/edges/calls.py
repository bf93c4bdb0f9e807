#!/usr/bin/env python3
"""Correctness of calls (cases 21-34): results, errno and addresses are as without us, and the set
of live blocks is what it was at every moment."""
from edges import case, main
from whole import environment, run

MILLIONS = 2500000  # rounds in each of four threads: 10^7 in all
# One arena, and no caches of threads: what one thread frees the next one gets.
ONE_ARENA = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"}


def victim(edge, *arguments, env=None):
    return edge.compare([edge.victim("victim-calls"), *map(str, arguments)], env=env)


@case
def a_realloc_that_fails_leaves_its_block_alive(edge):
    traced = victim(edge, "kept")
    edge.that(traced.outcome.stdout == b"wrong=0x0\n", traced.outcome.stdout)
    edge.that(traced.n_blocks(2301, end_kind=1) == 100, "100 blocks, each given back by free")
    edge.that(not traced.losses(), f"no end without a block: {traced.losses()}")


@case
def results_and_errno_without_memory_are_those_of_the_c_library(edge):
    """Also posix_memalign with alignments that are none: EINVAL, and the pointer is left alone."""
    traced = victim(edge, "no-memory")
    edge.that(b"untouched=0x1" in traced.outcome.stdout,
              "posix_memalign that fails changes nothing")
    n = traced.one("SELECT count(*) FROM allocation WHERE size > 1 << 40 OR size < 0")
    edge.that(n == 0, f"{n} blocks of calls that failed")


@case
def calls_for_nothing_are_what_the_c_library_makes_of_them(edge):
    traced = victim(edge, "zeros")
    edge.that(
        traced.n_blocks(0, end_kind=1) == 3,
        "malloc(0), calloc(0, 7) and realloc(NULL, 0) are blocks")
    edge.that(traced.n_blocks(2311, end_kind=1) + traced.n_blocks(2311, end_kind=2) == 1,
              "realloc(block, 0) gives it back")
    edge.that(not traced.losses(), f"nothing else happened: {traced.losses()}")


@case
def a_map_moves_to_where_the_program_wished(edge):
    traced = victim(edge, "wish")
    edge.that(b"wished=" in traced.outcome.stdout, traced.outcome.stdout)


@case
def alignments_are_kept(edge):
    traced = victim(edge, "alignments")
    edge.that(traced.outcome.stdout == b"wrong=0x0\n", traced.outcome.stdout)
    n = traced.one("SELECT count(*) FROM allocation WHERE size IN (2321, 2322, 2323)"
                   " AND end_kind = 1")
    edge.that(n == 3 * 18, f"{n} blocks of 18 alignments")


@case
def a_block_may_be_written_as_far_as_it_says(edge):
    traced = victim(edge, "usable")
    n = traced.one("SELECT count(*) FROM allocation WHERE end_kind = 2")
    edge.that(n == 429, f"{n} blocks were moved by realloc")


def check_reuse(edge, program, n_rounds, mixes=True):
    traced = victim(edge, program, n_rounds, env=environment(**ONE_ARENA))
    losses = traced.losses()
    n_alive = traced.n_alive_twice()
    dropped = losses.get(("tracealloc", "pool full"), 0)
    sizes = traced.ask(
        "SELECT count(*), count(DISTINCT address), sum(freed_ns IS NULL) FROM allocation"
        " WHERE size >= 2331")[0]
    print("blocks, addresses, alive at the end:", sizes, "alive twice:", n_alive, losses)
    edge.that(n_alive == 0, f"{n_alive} blocks were born where another one was alive")
    edge.that(sizes[0] + dropped >= 4 * n_rounds, f"{sizes[0]} blocks and {dropped} dropped")
    if not dropped:
        edge.that(not losses, f"nothing is lost: {losses}")
        edge.that(sizes[2] == 0, f"{sizes[2]} blocks live on")
    edge.that(sizes[1] < sizes[0] / 4, "addresses are used again and again")
    early = traced.one("SELECT value FROM total WHERE name = 'early_frees'")
    unknown = traced.one("SELECT value FROM total WHERE name = 'before_trace_frees'")
    print("frees that were stamped before the birth of their block:", early)
    edge.that(dropped or unknown == 0, f"{unknown} frees of blocks that nobody saw")
    handed = traced.one("SELECT count(*) FROM allocation WHERE size >= 2331"
                        " AND freed_thread_id <> thread_id")
    edge.that(handed > (n_rounds / 50 if mixes else 0),
              f"only {handed} blocks were given back by another thread")


@case
def an_address_that_goes_from_thread_to_thread_is_one_block_at_a_time(edge):
    check_reuse(edge, "reuse", 50000)


@case
def ten_million_blocks_that_go_from_thread_to_thread_never_overlap(edge):
    check_reuse(edge, "reuse", MILLIONS)


@case
def a_block_that_another_thread_frees_at_once_lives_until_then(edge):
    """Its free may be stamped before its birth: 1 in 10^4 to 10^6, where two processors do nothing
    else."""
    check_reuse(edge, "handed", 300000, mixes=False)


@case
def reallocs_that_race_with_reuse_never_overlap(edge):
    check_reuse(edge, "pingpong", 50000)


@case
def ten_million_reallocs_that_race_with_reuse_never_overlap(edge):
    check_reuse(edge, "pingpong", MILLIONS)


@case
def what_one_thread_makes_and_another_frees_is_never_negative(edge):
    traced = victim(edge, "producer", 200000)
    n, by_other = traced.ask("SELECT count(*), sum(freed_thread_id <> thread_id) FROM allocation"
                             " WHERE size = 2351")[0]
    edge.that((n, by_other) == (200000, 200000),
              f"{n} blocks, {by_other} freed by the other thread")
    lowest = traced.one("""
        SELECT min(live) FROM (SELECT sum(change) OVER (ORDER BY time_ns, change DESC) AS live FROM
            (
            SELECT allocated_ns AS time_ns, size AS change FROM allocation UNION ALL
            SELECT freed_ns, -size FROM allocation WHERE freed_ns IS NOT NULL))""")
    edge.that(lowest >= 0, f"live bytes: {lowest} at the lowest")
    edge.that(traced.one("SELECT min(live_bytes) FROM timeline") >= 0, "nor in the timeline")
    most = traced.one("SELECT value FROM total WHERE name = 'peak_bytes'")
    edge.that(most < 2351 * (64 + 8) + (1 << 20), f"no more is live than the queue holds: {most}")


@case
def a_free_of_a_block_that_nobody_saw_is_counted(edge):
    traced = victim(edge, "unknown")
    n = traced.one("SELECT value FROM total WHERE name = 'before_trace_frees'")
    edge.that(traced.n_blocks(2361) == 0, "glibc's own entry is not ours")
    edge.that(n == 100, f"{n} frees of blocks that nobody saw")
    edge.that(traced.n_blocks(2362) == 100, "the others were seen")
    edge.that(traced.n_alive_twice() == 0, "and ended when their place was used again")


@case
def blocks_that_outlive_the_program_are_not_called_leaks(edge):
    for name in ("alive", "killed"):
        traced = victim(edge, name)
        edge.that(traced.n_blocks(2371, end_kind=0) == 5, f"{name}: blocks that nobody gave back")
        report = run([edge.memsight, "report", "--leaks", traced.path])
        print(report.splitlines()[0])
        edge.that("were not freed" in report and "11.6 KiB" in report, report)
        edge.that(("alive when killed" in report) == (name == "killed"), report)


@case
def an_allocator_in_the_program_is_left_alone_and_told(edge):
    program = edge.victim("victim-allocator")
    traced = edge.compare([program])
    edge.that(traced.n_blocks(2381) == 0, "its calls do not leave the program")
    edge.that(
        f"{program} has a malloc of its own: blocks that it does not take from the C library are "
        "not recorded" in traced.messages, f"said: {traced.messages}")
    edge.that(traced.losses().get(("tracealloc", "malloc of its own")) == 1, f"{traced.losses()}")


if __name__ == "__main__":
    main()
