/* Sources, events and counters: opened on this process, and closed again. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pmu/catalogue/catalogue.h"
#include "pmu/count.h"
#include "pmu/source.h"
#include "runner/host/avail-internal.h"

int avail_sources(const struct avail *avail)
{
	struct access_options options = { .pid = getpid() };
	int err = 0;

	for (size_t i = 0; pmu_sources[i] && err == 0; i++) {
		const struct access_source *source = pmu_sources[i];
		struct pmu_refusal refusal = { 0 };
		bool is_there;

		if (source->role == ACCESS_ROLE_TASKS)
			continue;
		is_there = source->probe(source, &options, &refusal) == 0;
		err = avail_give(avail,
				 &(struct avail_item){ "sources", source->name, is_there,
						       is_there ? source->about : refusal.why,
						       is_there ? "" : refusal.fix });
	}
	return err;
}

/* Whether a name can be counted on this process; whatever can be sampled can be counted. */
static int try_counter(const struct avail *avail, const char *section, const char *name,
		       const char *about)
{
	struct pmu_counters counters;
	struct avail_item item = { section, name, false, about, "" };
	int err;

	pmu_counters_open(name, getpid(), &counters);
	item.is_there = counters.counters[0].fd >= 0;
	if (item.is_there && counters.counters[0].is_user_only)
		item.about = "in user mode only: perf_event_paranoid";
	if (!item.is_there) {
		item.about = counters.counters[0].refusal.why;
		item.fix = counters.counters[0].refusal.fix;
	}
	err = avail_give(avail, &item);
	pmu_counters_close(&counters);
	return err;
}

int avail_events(const struct avail *avail)
{
	static const char *const words[] = { "loads", "stores", "llc-miss", "all-loads" };
	struct pmu_host host;
	int err = 0;

	pmu_host_read(&host);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && err == 0; i++) {
		struct pmu_event events[PMU_MAX_EVENTS];
		struct pmu_refusal refusal = { 0 };

		if (pmu_catalogue_find(&host, words[i], 0, events, &refusal) > 0)
			err = try_counter(avail, "events", words[i], events[0].name);
		else
			err = avail_give(avail, &(struct avail_item){ "events", words[i], false,
								      refusal.why, refusal.fix });
	}
	return err;
}

int avail_counters(const struct avail *avail)
{
	int err = 0;

	for (size_t i = 0; pmu_counter_kernel_name(i) && err == 0; i++)
		err = try_counter(avail, "counters", pmu_counter_kernel_name(i), "");
	return err;
}
