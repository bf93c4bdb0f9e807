#pragma once
/*
 * One perf event on every online CPU for one process, its threads and its later children.
 *
 * inherit does not go with cpu = -1 (mmap then gives EINVAL), hence one event for each CPU, each
 * with a ring of its own. Sources do not share rings (PERF_EVENT_IOC_SET_OUTPUT): a trace keeps the
 * records of each source apart and verbatim, so a shared ring would have to be split record by
 * record; its LOST records would not tell which source lost; and a storm of page faults would push
 * out the records of maps. With a ring for each, samples also need no PERF_SAMPLE_IDENTIFIER.
 */
#include "pmu/event.h"
#include "pmu/remedy.h"
#include "pmu/ring.h"
#include "pmu/source.h"

/*
 * An event on every online CPU: fds[i] and rings[i] belong to cpus[i]. A ladder (period-ladder.h)
 * adds more events to each CPU, which write into its ring: fds[rung * n + i].
 */
struct pmu_event_set {
	struct perf_event_attr attr; /* as accepted; of the first rung and CPU */
	uint64_t mark_step; /* pmu_event_set_mark() */
	size_t n;
	size_t n_rungs; /* 1 without a ladder */
	int *fds;
	bool has_anchor;
	int anchor; /* pmu_event_set_anchor() */
	int *cpus;
	struct pmu_ring *rings;
	int *more; /* of a process that runs already: events of its other threads, of all CPUs */
	size_t n_more;
	bool is_replaced; /* all of fds[] stay off: more[] is of all threads */
	uint64_t n_lost_before; /* of what was in more[] before */
	uint32_t ring_bytes; /* of each */
	struct pmu_notes notes;
};

/* What every source asks for alike: disabled, inherit, clock, sample_id_all, watermark ... */
void pmu_event_fill_common(struct perf_event_attr *attr);

/*
 * Open the set. attr is what is wanted; the common part (disabled, inherit, clock, sample_id_all,
 * watermark ...) is filled in here. ring_bytes is rounded up to a power of two pages, and halved
 * while the limit of locked memory forbids it. ret_set->mark_step is taken as it is. On failure
 * nothing stays open and *ret_refusal explains. Returns 0 or a negative errno.
 */
int pmu_event_set_open(const struct perf_event_attr *attr, pid_t pid, uint32_t ring_bytes,
		       struct pmu_event_set *ret_set, struct pmu_refusal *ret_refusal);

/* What is done with each thread of a process that runs. */
struct pmu_each_thread {
	int (*add)(void *user, pid_t tid); /* 0 or a negative errno */
	void (*cut)(void *user, size_t n); /* take back all but the first n that were added */
	const size_t *n; /* of what has been added */
	void *user;
};

/*
 * Call add() for each thread of a process that runs; has_first: not for its first one. What is
 * opened on a thread is inherited by those that it starts, so one that is born meanwhile may have
 * it already: then all is taken back and begun anew, PMU_THREAD_TRIES times. Returns 0; how many of
 * the last try may have it twice, or not at all; or a negative errno, also of add(): nothing of
 * this process is left then.
 */
#define PMU_THREAD_TRIES 10
int pmu_each_thread(pid_t pid, bool has_first, const struct pmu_each_thread *each);

/*
 * The same for processes that run already (options->is_running; else nothing is done); has_first:
 * not for the first thread of options->pid. What may be there twice is noted. Returns 0 or a
 * negative errno: nothing is left then.
 */
int pmu_event_set_each_thread(struct pmu_event_set *set, const struct access_options *options,
			      bool has_first, const struct pmu_each_thread *each);

/*
 * Add the threads of processes that run already to a set of one rung, which was opened on the first
 * one: what inherits begins with the thread that it was opened on. As above.
 */
int pmu_event_set_add_threads(struct pmu_event_set *set, const struct access_options *options);

/*
 * Open the set's event a second time wherever it is open, switched off, with the same rings.
 * *ret_beside has nothing but more[]; pmu_event_set_discard() closes it, before the set is closed.
 * Returns 0 or a negative errno.
 */
int pmu_event_set_open_beside(const struct pmu_event_set *set, const struct access_options *options,
			      struct pmu_event_set *ret_beside);

/*
 * Open events of another period on all threads of processes that run, switched off, beside those of
 * the set: fds[] of inherited events cannot be given another period. The caller makes sure that no
 * thread is born meanwhile: one that inherits them and is found as well would have them twice.
 * Returns 0 and a set of nothing but more[], for pmu_event_set_replace() or
 * pmu_event_set_discard(); or a negative errno.
 */
int pmu_event_set_prepare(const struct pmu_event_set *set, uint64_t period, const pid_t *pids,
			  size_t n_pids, struct pmu_event_set *ret_next);

/* From here on they are the set's, in place of all that it had. Returns 0 or a negative errno. */
int pmu_event_set_replace(struct pmu_event_set *set, struct pmu_event_set *next, bool is_on);

/* They are not needed. Safe on a zeroed set and twice. */
void pmu_event_set_discard(struct pmu_event_set *next);

/*
 * Map a ring for each event of a set that was opened. ring_bytes as there; notes tell of halving.
 * Returns 0 or a negative errno.
 */
int pmu_event_set_map(struct pmu_event_set *set, uint32_t ring_bytes);

/* Close everything. Works on a zeroed set, and twice. */
void pmu_event_set_close(struct pmu_event_set *set);

/*
 * Switch a rung on or off, in the inherited threads and children too. Returns 0 or a negative
 * errno.
 */
int pmu_event_set_enable(const struct pmu_event_set *set, size_t rung, bool on);

/*
 * The period that the events of CPU number i are opened with, where those of the first have this
 * one. By it samples tell which event took them; CPUs beyond PMU_TURN_CPUS are as those before.
 */
static inline uint64_t pmu_event_set_mark(const struct pmu_event_set *set, uint64_t first, size_t i)
{
	return first + set->mark_step * (i % PMU_TURN_CPUS);
}

/*
 * Other periods for a rung, periods[i % n] on CPU number i: of threads and children that are born
 * from now on, and of the thread that was opened on, which begins with a whole one. Returns 0 or a
 * negative errno.
 */
int pmu_event_set_period(const struct pmu_event_set *set, size_t rung, const uint64_t *periods,
			 size_t n);

/*
 * Keep the set's events with the thread that it was opened on. Where threads have the same
 * inherited events the kernel exchanges these when it switches from one to the other, instead of
 * switching events: what was opened comes to lie with a thread that soon ends, and from then on new
 * periods reach nobody, without a word (6.18: 300 threads one after the other had the same three
 * periods). One event more that is never switched on, and not inherited, makes threads different.
 * Returns 0 or a negative errno.
 */
int pmu_event_set_anchor(struct pmu_event_set *set, pid_t pid);

/* As pmu_ring_drain(), of all rings. Returns the sum of bytes, or a negative errno. */
ssize_t pmu_event_set_drain(struct pmu_event_set *set, pmu_sink sink, void *context,
			    struct pmu_losses *losses);

/*
 * Sum of the kernel's counts of lost records (PERF_FORMAT_LOST) over the set. -EOPNOTSUPP when the
 * kernel does not count.
 */
int pmu_event_set_lost(const struct pmu_event_set *set, uint64_t *ret_lost);
