#!/usr/bin/env python3
"""The traced program is sacred: what it may have and do untraced it may have and do traced."""
import resource
import subprocess

from edges import case, main
from whole import environment

BLOCK = 4903  # as in victim-sacred.c


def compare_sacred(edge, how, n_blocks, options=(), losses=(), **variables):
    """The victim, with nothing lost but what is named."""
    traced = edge.compare([edge.victim("victim-sacred"), how], options, cwd=edge.folder,
                          env=environment(EDGE_FOLDER=edge.build, **variables))
    edge.that(traced.outcome.status == 0, f"{how}: status {traced.outcome.status}")
    edge.that(traced.n_blocks(BLOCK) == n_blocks, f"{how}: {traced.n_blocks(BLOCK)} blocks")
    edge.that({reason
               for _, reason in traced.losses()} <= set(losses), f"{how}: losses {traced.losses()}")
    return traced


@case
def all_keys_of_threads_are_the_program_s(edge):
    """And threads that begin afterwards are told apart and ended, though nobody tells of their end.
    """
    traced = compare_sacred(edge, "keys", 510)
    edge.that(
        traced.one("SELECT count(*) FROM thread WHERE n_events > 0") == 511,
        "each thread has a row")
    compare_sacred(edge, "c11-keys", 2)


@case
def bad_pointers_to_exec_and_spawn_are_the_kernel_s_to_refuse(edge):
    compare_sacred(edge, "bad-pointers", 10)


@case
def a_misaligned_stack_does_no_harm(edge):
    for options in ((), ("--stacks", "fp"), ("--source", "none")):
        # The victim's assembly says nothing about its frame.
        compare_sacred(edge, "misaligned", 5100, options, ["stack cut short"])


DEEP = 4907  # as in edge-deep.c


@case
def libraries_that_find_libc_before_us_are_recorded(edge):
    """Opened with RTLD_DEEPBIND: blocks, a mapping, and blocks that one side made and the other
    freed."""
    for how in ("deep", "deep-lazy", "deep-sealed", "plain-lazy", "outer"):
        traced = compare_sacred(edge, how, 1)
        edge.that(
            traced.n_blocks(DEEP) == 502, f"{how}: {traced.n_blocks(DEEP)} blocks of the library")
        n = traced.n_blocks(DEEP, end_kind=1) + traced.n_blocks(BLOCK, end_kind=1)
        edge.that(n == 503, f"{how}: {n} of them were freed")
        n = traced.one(
            "SELECT count(*) FROM mapping WHERE size = 4907 * 4096 AND freed_ns IS NOT NULL")
        edge.that(n == 1, f"{how}: {n} mappings")


UNSEEN_FREES = "frees not seen: address allocated again"
UNSEEN = ("libraries of another namespace (dlmopen, LD_AUDIT) or allocator, whose blocks are not "
          "seen")


def check_unseen(edge, traced):
    """One library is a loss, and the loss is named."""
    edge.that(traced.losses().get(("tracealloc", UNSEEN)) == 1, f"losses {traced.losses()}")
    edge.that(" 0 lost" not in traced.messages, f"said {traced.messages}")


@case
def a_library_of_another_namespace_is_a_loss(edge):
    check_unseen(edge, compare_sacred(edge, "namespace", 1, losses=[UNSEEN]))


@case
def an_auditing_library_is_a_loss(edge):
    """In each process; the program's own blocks are recorded."""
    audit = edge.victim("libedge-audit.so")
    check_unseen(edge, compare_sacred(edge, "make", 100, losses=[UNSEEN], LD_AUDIT=audit))


@case
def a_library_without_start_files_is_recorded_or_counted(edge):
    """It does not say that it was loaded: what it allocated before somebody asked it is a loss."""
    traced = compare_sacred(edge, "deep-bare", 1, losses=[UNSEEN])
    edge.that(
        traced.n_blocks(DEEP) == 501, f"{traced.n_blocks(DEEP)} blocks but that of the constructor")
    check_unseen(edge, traced)
    check_unseen(edge, compare_sacred(edge, "deep-unasked", 1, losses=[UNSEEN]))


@case
def a_library_that_a_deep_one_brings_along_is_recorded_or_counted(edge):
    """Where its calls lead is known when they were made: they are seen from then on."""
    check_unseen(edge, compare_sacred(edge, "deep-outer", 1, losses=[UNSEEN, UNSEEN_FREES]))


@case
def calls_of_libc_beside_another_allocator_are_recorded(edge):
    """Not what the allocator itself takes there; and posix_memalign has no name of its own in libc.
    """
    other = edge.victim("libedge-other.so")
    traced = compare_sacred(edge, "libc", 500, LD_PRELOAD=other)
    edge.that(traced.n_blocks(BLOCK, end_kind=1) == 500, "all of them were freed")
    traced = compare_sacred(edge, "deep", 1, losses=[UNSEEN], LD_PRELOAD=other)
    edge.that(
        traced.n_blocks(DEEP, end_kind=1) == 402, f"{traced.n_blocks(DEEP)} blocks of the library")
    check_unseen(edge, traced)


@case
def calls_of_libc_s_own_functions_are_recorded(edge):
    traced = compare_sacred(edge, "libc", 500)
    edge.that(traced.n_blocks(BLOCK, end_kind=1) == 500, "all of them were freed")


@case
def strict_seccomp_is_survived_and_what_it_hides_is_counted(edge):
    reason = "strict seccomp: no time can be asked for"
    for how, n_blocks in (("strict", 100), ("strict-by-syscall", 100), ("strict-thread", 200)):
        traced = compare_sacred(edge, how, n_blocks, losses=[reason])
        edge.that(traced.losses().get(("tracealloc", reason)) == 2000, f"{how}: {traced.losses()}")
        edge.that(" 2,000 lost" in traced.messages, f"said {traced.messages}")


@case
def a_program_without_the_time_stamp_counter_is_recorded(edge):
    traced = compare_sacred(edge, "no-counter", 500)
    edge.that(traced.n_blocks(BLOCK, end_kind=1) == 500, "all were freed")
    n = traced.one(
        "SELECT count(*) FROM allocation WHERE allocated_ns < 0 OR allocated_ns > freed_ns"
        " OR freed_ns > (SELECT duration_ns FROM run)")
    edge.that(n == 0, f"{n} blocks have times outside of the run")


@case
def a_filter_that_kills_who_waits_is_survived(edge):
    """Where the pool is full such a program drops and counts."""
    for source in ("clock", "signal"):
        traced = edge.compare([edge.victim("victim-sacred"), "fill"],
                              ["--buffer-size", "4M", "--source", source], cwd=edge.folder)
        n = traced.one("SELECT sum(n_events) FROM thread") + traced.losses().get(
            ("tracealloc", "pool full"), 0)
        print(source, traced.losses())
        edge.that(2000000 <= n <= 2000100, f"{n} events are recorded or counted")


@case
def a_filter_that_kills_who_asks_is_survived(edge):
    for source in ("clock", "signal"):
        compare_sacred(edge, "unasked", 200, ["--source", source], [
            "stopped: a seccomp filter forbids the return from signals",
            "threads without a timer (limit of pending signals, ulimit -i)"])


@case
def a_filter_that_would_kill_us_at_the_start_of_a_program_is_not_met(edge):
    reason = "programs started behind a seccomp filter that would kill us"
    traced = compare_sacred(edge, "no-sockets", 200, losses=[reason])
    edge.that(traced.losses().get(("tracealloc", reason)) == 1, f"losses {traced.losses()}")


@case
def what_the_kernel_refuses_confines_nothing(edge):
    compare_sacred(edge, "refused", 200)


@case
def a_small_alternate_stack_is_the_program_s_alone(edge):
    """There are no samples while it is set, and the time without is counted."""
    reason = ("ms of CPU time with the signal blocked by the program, or its alternate stack too "
              "small")
    traced = compare_sacred(edge, "small-stacks", 0, ["--source", "signal"], [reason])
    edge.that(traced.losses().get(("signal", reason), 0) > 0, f"losses {traced.losses()}")


@case
def a_small_limit_of_the_stack_is_the_program_s_alone(edge):
    """We run, record and analyse; the program has the limit that it was given."""
    for n_kib in (64, 128, 256):
        traced = edge.compare(
            ["/bin/sh", "-c", "ulimit -s; ulimit -Hs"],
            preexec_fn=lambda n=n_kib * 1024: resource.setrlimit(resource.RLIMIT_STACK, (n, n)))
        edge.that(traced.outcome.stdout == b"%d\n%d\n" % (n_kib, n_kib),
                  f"the limits: {traced.outcome.stdout}")
        report = subprocess.run(
            [edge.memsight, "report", traced.path], stdout=subprocess.DEVNULL, check=False,
            preexec_fn=lambda n=n_kib * 1024: resource.setrlimit(resource.RLIMIT_STACK, (n, n)))
        edge.that(report.returncode == 0, f"{n_kib} KiB: report {report.returncode}")


@case
def a_limit_that_a_program_sets_itself_is_its_own(edge):
    """Of address space and of private memory; as an ordinary user it can be raised no further than
    it was."""
    words = edge.ordinary_user()
    for prefix in ([], words) if words else ([],):
        traced = edge.compare([*prefix, edge.victim("victim-sacred"), "limit"], cwd=edge.folder)
        edge.that(traced.outcome.status == 0, f"status {traced.outcome.status}")
        edge.that(
            traced.n_blocks(BLOCK) == 100 and not traced.losses(), f"losses {traced.losses()}")
        traced = edge.compare([*prefix, edge.victim("victim-sacred"), "limit-data"],
                              cwd=edge.folder)
        edge.that(
            traced.n_blocks(BLOCK) == 200 and not traced.losses(), f"losses {traced.losses()}")


@case
def a_limit_that_is_set_by_a_system_call_or_passed_on_is_the_program_s(edge):
    traced = edge.compare([edge.victim("victim-sacred"), "limit-raw"], cwd=edge.folder)
    edge.that(b"819200" in traced.outcome.stdout and not traced.losses(),
              f"{traced.outcome.stdout} {traced.losses()}")


STATIC = """
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
int main(void)
{
	struct rlimit limit;

	usleep(100000); /* who has started it gives it its limits a moment after its start */
	for (int i = 0; i < 2; i++)
		if (getrlimit(i ? RLIMIT_DATA : RLIMIT_AS, &limit) == 0)
			printf("%ld %ld\\n", (long)limit.rlim_cur, (long)limit.rlim_max);
}
"""


@case
def programs_that_are_started_have_the_limits_that_were_set(edge):
    """By spawn, fork, vfork and the shell; also who is not traced, and then starts somebody itself.
    """
    victim, words = edge.victim("victim-sacred"), edge.ordinary_user()
    static = edge.compile(STATIC, "-static")
    for program in filter(None, (victim, static)):
        for prefix in ([], words) if words else ([],):
            traced = edge.compare([*prefix, victim, "limit-started"], cwd=edge.folder,
                                  env=environment(EDGE_PROGRAM=program, EDGE_HOW="limit-read"))
            edge.that(traced.outcome.stdout.count(b"status=0x0") == 6, f"{traced.outcome.stdout}")
            edge.that(
                traced.n_blocks(BLOCK) == (700 if program == victim else 100),
                f"{traced.n_blocks(BLOCK)}")
            # What the agent of a static program maps counts there: without room it is left out.
            no_room = {("tracealloc", "image not traced: no room for the shared memory"): 6}
            edge.that(traced.losses() in ([{}] if program == victim else [{}, no_room]),
                      f"losses {traced.losses()}")


@case
def a_limit_of_private_memory_from_before_the_start_is_the_program_s(edge):
    for n_kib in (1500, 20000):
        traced = edge.compare([
            "/bin/sh", "-c", f"ulimit -Sd {n_kib}; exec {edge.victim('victim-sacred')} limit-given"
        ])
        edge.that(
            b"pieces=0x1" in traced.outcome.stdout and traced.n_blocks(BLOCK) == 200
            and not traced.losses(), f"{n_kib} KiB: {traced.outcome.stdout} {traced.losses()}")


@case
def a_program_may_lock_what_it_may_without_us(edge):
    """As an ordinary user it has a few MiB for that, as root all; ours is not locked along with it.
    """
    words = edge.ordinary_user()
    for prefix in ([], words) if words else ([],):
        traced = edge.compare([*prefix, edge.victim("victim-sacred"), "lock"], cwd=edge.folder)
        edge.that(traced.outcome.status == 0, f"status {traced.outcome.status}")
        edge.that(
            traced.n_blocks(BLOCK) == 300 and not traced.losses(), f"losses {traced.losses()}")
        said = traced.outcome.stdout.decode().split()
        done = {f"{name}=0x0" for name in ("current", "future", "again", "fault", "much", "never")}
        n = traced.one(
            "SELECT count(*) FROM mapping_event WHERE call = (SELECT id FROM call WHERE name = "
            "'mlockall')"
        )
        edge.that(n == len(done.intersection(said)) > 3, f"{n} calls of mlockall, {said}")


if __name__ == "__main__":
    main()
