/* Opening events of the hardware: on which CPUs, led by what, and why not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "pmu/catalogue/sysfs.h"
#include "pmu/cpus.h"
#include "pmu/hardware-event.h"
#include "pmu/perf-clock.h"

/* ---- Refusals ---- */

static bool is_about_rights(int error)
{
	return error == -EACCES || error == -EPERM || error == -EMFILE || error == -ENFILE ||
	       error == -EBUSY || error == -ESRCH || error == -ENOSYS || error == -ENOMEM;
}

/* One sentence for all of them, so that a list of refusals can say it once. */
static int refuse_vendor(const struct pmu_host *host, struct pmu_refusal *ret_refusal)
{
	static const char *const which[PMU_VENDOR_COUNT] = {
		[PMU_VENDOR_OTHER] = "another", [PMU_VENDOR_INTEL] = "an Intel",
		[PMU_VENDOR_AMD] = "an AMD",	[PMU_VENDOR_ARM] = "an Arm",
		[PMU_VENDOR_POWER] = "a POWER",
	};
	static const char *const instead[PMU_VENDOR_COUNT] = {
		[PMU_VENDOR_OTHER] = "",
		[PMU_VENDOR_INTEL] = "--source pebs is this processor's, ",
		[PMU_VENDOR_AMD] = "--source ibs is this processor's, ",
		[PMU_VENDOR_ARM] = "--source spe is this processor's, ",
		[PMU_VENDOR_POWER] = "--source marked is this processor's, ",
	};

	return pmu_refuse(ret_refusal, -EOPNOTSUPP,
			  "this is %s processor\n%s--source clock needs no PMU",
			  which[host->vendor], instead[host->vendor]);
}

static void explain(const struct hardware_question *question, enum pmu_step step, int error,
		    struct pmu_refusal *ret_refusal)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	permissions.wants_kernel = question->options->mode == ACCESS_MODE_KERNEL;
	pmu_remedy(step, -error, &permissions, ret_refusal);
	if (step == PMU_STEP_OPEN && !is_about_rights(error))
		question->kind->explain(question->host, error, ret_refusal);
}

/* ---- One event on one CPU ---- */

/* What is being opened. */
struct opening {
	const struct pmu_host *host;
	const struct hardware_plan *plan;
	pid_t pid;
	struct pmu_notes *notes;
	struct perf_event_attr attr; /* of the event at hand; negotiated on its first CPU */
	bool is_negotiated;
	const struct pmu_event *event;
	struct pmu_event leader;
	bool has_leader;
};

/*
 * It only counts, so it takes no ring and no sample is its own. It has the group's clock, or the
 * kernel refuses the group; and it alone waits for the exec: a group runs when its leader does.
 */
static void fill_leader(const struct opening *opening, struct perf_event_attr *ret_attr)
{
	const struct perf_event_attr *attr = &opening->attr;

	*ret_attr = (struct perf_event_attr){
		.size = sizeof(*ret_attr),
		.type = opening->leader.type,
		.config = opening->leader.config,
		.disabled = 1,
		.inherit = attr->inherit,
		.enable_on_exec = opening->plan->attr.enable_on_exec,
		.exclude_user = attr->exclude_user,
		.exclude_kernel = attr->exclude_kernel,
		.exclude_hv = attr->exclude_hv,
		.exclude_guest = attr->exclude_guest,
		.use_clockid = attr->use_clockid,
		.clockid = attr->clockid,
	};
}

static int open_member(struct opening *opening, const struct pmu_place *place, int *ret_fd)
{
	if (opening->is_negotiated)
		return pmu_event_open_at(&opening->attr, place, ret_fd);
	return pmu_event_negotiate_at(&opening->attr, place, opening->notes, ret_fd);
}

static int open_led(struct opening *opening, int cpu, struct hardware_member *ret_member,
		    int *ret_fd)
{
	struct pmu_place place = { opening->pid, cpu, -1 };
	struct perf_event_attr leader;
	auto_close int leader_fd = -1;

	fill_leader(opening, &leader);
	int r = pmu_event_open_at(&leader, &place, &leader_fd);
	if (r < 0)
		return r;
	place.leader_fd = leader_fd;
	opening->attr.disabled = 0;
	opening->attr.enable_on_exec = 0;
	r = open_member(opening, &place, ret_fd);
	if (r < 0)
		return r;
	ret_member->leader = leader;
	ret_member->leader_fd = steal_fd(&leader_fd);
	return 0;
}

static int open_on_cpu(struct opening *opening, int cpu, struct hardware_member *ret_member,
		       int *ret_fd)
{
	int r = -ENODATA;

	*ret_member = (struct hardware_member){ .leader_fd = -1 };

	if (!opening->has_leader)
		r = open_member(opening, &(struct pmu_place){ opening->pid, cpu, -1 }, ret_fd);
	/* ENODATA: "add an auxiliary event in front of it", also where sysfs names none. */
	if (r == -ENODATA && !opening->has_leader)
		opening->has_leader =
			pmu_catalogue_leader(opening->host, opening->event, true, &opening->leader);
	if (r == -ENODATA && opening->has_leader)
		r = open_led(opening, cpu, ret_member, ret_fd);
	ret_member->attr = opening->attr;
	opening->is_negotiated |= r == 0;
	return r;
}

static void begin(struct opening *opening, const struct pmu_event *event)
{
	struct perf_event_attr attr = opening->plan->attr;
	bool wants_perf_clock = opening->plan->wants_perf_clock;

	attr.type = event->type;
	attr.config = event->config;
	attr.config1 |= event->config1;
	attr.config2 |= event->config2;
	if (event->precise)
		attr.precise_ip = event->precise;
	pmu_event_fill_common(&attr);
	if (wants_perf_clock) {
		attr.use_clockid = 0;
		attr.clockid = 0;
	}
	opening->event = event;
	opening->attr = attr;
	opening->is_negotiated = false;
	opening->has_leader = pmu_catalogue_leader(opening->host, event, false, &opening->leader);
}

/* ---- On all CPUs of an event ---- */

static bool is_among(int cpu, const int *cpus, int n)
{
	for (int i = 0; i < n; i++)
		if (cpus[i] == cpu)
			return true;
	return n == 0; /* no list: all */
}

static int grow(struct hardware_stream *stream)
{
	struct pmu_event_set *set = &stream->events.set;
	int r = grow_array_of(&set->fds, set->n, 1, sizeof(*set->fds));

	r = r ?: grow_array_of(&set->cpus, set->n, 1, sizeof(*set->cpus));
	return r ?: grow_array_of(&stream->members, set->n, 1, sizeof(*stream->members));
}

static int add_on_cpu(struct hardware_stream *stream, struct opening *opening, int cpu)
{
	struct pmu_event_set *set = &stream->events.set;
	int r = grow(stream);

	r = r ?: open_on_cpu(opening, cpu, &stream->members[set->n], &set->fds[set->n]);
	if (r < 0)
		return r;
	set->cpus[set->n++] = cpu;
	return 0;
}

static int add_event(struct hardware_stream *stream, struct opening *opening,
		     const struct pmu_event *event)
{
	auto_free int *online = NULL, *own = NULL;
	int n_online = pmu_cpus_online(&online);
	int n_own = pmu_sysfs_cpus(opening->host, event->pmu, &own);
	size_t n_before = stream->events.set.n;

	if (n_online < 0 || n_own < 0)
		return n_online < 0 ? n_online : n_own;
	begin(opening, event);
	for (int i = 0; i < n_online; i++) {
		int r = is_among(online[i], own, n_own) ? add_on_cpu(stream, opening, online[i])
							: 0;

		if (r == -ENODEV && n_online > 1) /* went offline since */
			pmu_notes_add(opening->notes, "CPU %d is offline", online[i]);
		else if (r < 0)
			return r;
	}
	return stream->events.set.n > n_before ? 0 : -ENODEV;
}

/* Records of all events of a source are read in one way. */
static bool is_alike(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type && a->read_format == b->read_format;
}

static void close_from(struct hardware_stream *stream, size_t first)
{
	struct pmu_event_set *set = &stream->events.set;

	for (size_t i = first; i < set->n; i++) {
		close(set->fds[i]);
		cleanup_close(&stream->members[i].leader_fd);
	}
	set->n = first;
}

/*
 * Hybrid processors have one event for each kind of core. One that cannot be opened leaves its
 * cores out, which is said; all failing is a failure.
 */
static int add_events(struct hardware_stream *stream, struct opening *opening)
{
	struct pmu_event_set *set = &stream->events.set;
	int error = -ENODEV;

	for (int i = 0; i < opening->plan->n_events; i++) {
		const struct pmu_event *event = &opening->plan->events[i];
		size_t n_before = set->n;
		int r = add_event(stream, opening, event);

		if (r == 0 && n_before > 0 && !is_alike(&opening->attr, &set->attr))
			r = -EOPNOTSUPP;
		if (r < 0) {
			close_from(stream, n_before);
			error = error == -ENODEV ? r : error;
			if (opening->plan->n_events > 1)
				pmu_notes_add(opening->notes, "no samples on the cores of %s: %s",
					      event->pmu, strerrordesc_np(-r));
		} else if (n_before == 0) {
			set->attr = opening->attr;
			stream->event = *event;
		}
	}
	return set->n ? 0 : error;
}

/* ---- Threads of a process that runs ---- */

/* Leave this many of more[]. */
static void close_more(void *user, size_t n)
{
	struct hardware_stream *stream = user;
	struct pmu_event_set *set = &stream->events.set;

	while (set->n_more > n) {
		close(set->more[--set->n_more]);
		cleanup_close(&stream->more_leaders[set->n_more]);
	}
}

/* One event of a thread as it was opened on the first one, into the same ring. */
static int add_member(struct hardware_stream *stream, pid_t tid, size_t i)
{
	struct pmu_event_set *set = &stream->events.set;
	struct hardware_member member = stream->members[i];
	struct pmu_place place = { tid, set->cpus[i], -1 };
	auto_close int leader_fd = -1, fd = -1;
	int r = 0;

	member.attr.enable_on_exec = member.leader.enable_on_exec = 0;
	if (member.leader_fd >= 0)
		r = pmu_event_open_at(&member.leader, &place, &leader_fd);
	place.leader_fd = leader_fd;
	r = r ?: pmu_event_open_at(&member.attr, &place, &fd);
	if (r == 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, set->fds[i]) < 0)
		r = -errno;
	if (r < 0)
		return r;
	stream->more_leaders[set->n_more] = steal_fd(&leader_fd);
	set->more[set->n_more++] = steal_fd(&fd);
	return 0;
}

static int add_thread(void *user, pid_t tid)
{
	struct hardware_stream *stream = user;
	struct pmu_event_set *set = &stream->events.set;
	size_t first = set->n_more;
	int r = grow_array_of(&set->more, first, set->n, sizeof(*set->more));

	r = r ?: grow_array_of(&stream->more_leaders, first, set->n, sizeof(*stream->more_leaders));
	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = add_member(stream, tid, i);
	if (r < 0)
		close_more(stream, first);
	return r == -ESRCH ? 0 : r; /* it has ended since */
}

static int add_threads(struct hardware_stream *stream, const struct access_options *options)
{
	struct pmu_event_set *set = &stream->events.set;
	const struct pmu_each_thread each = { add_thread, close_more, &set->n_more, stream };

	return pmu_event_set_each_thread(set, options, true, &each);
}

/* ---- Sets ---- */

static int open_plan(const struct hardware_plan *plan, const struct pmu_host *host, pid_t pid,
		     struct hardware_stream *stream)
{
	struct opening opening = {
		.host = host, .plan = plan, .pid = pid, .notes = &stream->events.set.notes
	};
	int r;

	*stream = (struct hardware_stream){ .host = *host };
	stream->events.set.notes = plan->notes;
	stream->events.set.n_rungs = 1;
	if (plan->wants_perf_clock) {
		r = pmu_perf_clock_open(&stream->clock);
		if (r < 0)
			return r;
	}
	r = add_events(stream, &opening);
	if (r < 0)
		pmu_hardware_finish(stream);
	return r;
}

/* Without perf's clock in reach the stamps are of CLOCK_MONOTONIC_RAW, which costs large PEBS. */
static int open_plan_with_clock(struct hardware_plan *plan, const struct pmu_host *host, pid_t pid,
				struct hardware_stream *stream)
{
	struct pmu_perf_clock *clock = NULL;

	if (plan->wants_perf_clock && pmu_perf_clock_open(&clock) < 0)
		plan->wants_perf_clock = false;
	pmu_perf_clock_close(clock);
	return open_plan(plan, host, pid, stream);
}

static int try_variant(const struct hardware_question *question, pid_t pid,
		       struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	const struct hardware_kind *kind = question->kind;
	struct hardware_plan plan = { .attr.size = sizeof(plan.attr) };
	int r = kind->plan(question, &plan, ret_refusal);

	if (r < 0)
		return r;
	plan.attr.enable_on_exec = question->options->enable_on_exec;
	r = open_plan_with_clock(&plan, question->host, pid, ret_stream);
	if (r < 0)
		explain(question, PMU_STEP_OPEN, r, ret_refusal);
	return r;
}

/*
 * The variants, best first. What is told is why the best failed, unless another lacks rights only.
 */
static int open_best(const struct hardware_kind *kind, const struct access_options *options,
		     pid_t pid, struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	struct hardware_question question = { .kind = kind, .options = options };
	struct pmu_host host;
	int error = 0, r = 0;

	if (!options->host)
		pmu_host_read(&host);
	question.host = options->host ? options->host : &host;
	if (question.host->vendor != kind->vendor)
		return refuse_vendor(question.host, ret_refusal);
	do {
		struct pmu_refusal refusal = { 0 };

		r = try_variant(&question, pid, ret_stream, &refusal);
		if (r < 0 && r != -ERANGE && (!error || is_about_rights(r))) {
			error = r;
			*ret_refusal = refusal;
		}
		question.variant++;
	} while (r < 0 && r != -ERANGE && !is_about_rights(r));
	return r == 0 ? 0 : error;
}

int pmu_hardware_probe(const struct access_source *source, const struct access_options *options,
		       struct pmu_refusal *ret_refusal)
{
	struct hardware_stream stream;
	int r = open_best(source->hardware, options, 0, &stream, ret_refusal);

	if (r == 0)
		pmu_hardware_finish(&stream);
	return r;
}

int pmu_hardware_init(const struct access_source *source, const struct access_options *options,
		      struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	const struct hardware_kind *kind = source->hardware;
	struct hardware_stream stream;
	struct pmu_event_set *set = &stream.events.set;
	int r = open_best(kind, options, options->pid, &stream, ret_refusal);

	if (r < 0)
		return r;
	set->rings = calloc(set->n, sizeof(*set->rings));
	r = set->rings ? pmu_event_set_map(set, pmu_event_ring_bytes(source, options)) : -ENOMEM;
	if (r < 0) {
		explain(&(struct hardware_question){ .kind = kind,
						     .host = &stream.host,
						     .options = options },
			PMU_STEP_MAP, r, ret_refusal);
		pmu_hardware_finish(&stream);
		return r;
	}
	/* Rings that are mapped take the records of other events. */
	r = add_threads(&stream, options);
	if (r < 0) {
		pmu_refuse_threads(r, ret_refusal);
		pmu_hardware_finish(&stream);
		return r;
	}
	stream.events.base.source = source;
	/*
	 * One rung: primes, jitter of IBS and SPE, and the choice of what to tag are the
	 * hardware's.
	 */
	pmu_ladder_plan(set->attr.sample_period, 1, 0, set->n, &stream.events.ladder);
	if (kind->remark)
		kind->remark(&set->attr, &stream.remarks);
	*ret_stream = stream;
	return 0;
}

void pmu_hardware_finish(struct hardware_stream *stream)
{
	struct pmu_event_set *set = &stream->events.set;

	for (size_t i = 0; i < set->n; i++) {
		if (set->rings)
			pmu_ring_finish(&set->rings[i]);
		close(set->fds[i]);
		cleanup_close(&stream->members[i].leader_fd);
	}
	close_more(stream, 0);
	free_all(set->fds, set->more, set->rings, stream->members, stream->more_leaders, set->cpus);
	pmu_perf_clock_close(stream->clock);
	*stream = (struct hardware_stream){ 0 };
}
