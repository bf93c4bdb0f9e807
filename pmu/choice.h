#pragma once
/*
 * What --source means: names with commas between them, each with a rate of its own if need be, such
 * as "auto", "clock@1000,faults@1", "pebs@5003,faults" or "clock@1000003p".
 *
 *	NAME@N    timed sources (clock): N samples per second of CPU time; others: one in N of what
 *	          the source counts
 *	NAME@Np one sample for each N of what the source counts (ns of CPU time, loads, faults ...)
 *	NAME@NHz N samples per second; the kernel adapts the period where the source is not timed
 *
 * "auto" is the first access source that opens, and page faults; "none" is nothing. The source of
 * tasks is added to any other.
 */
#include "pmu/source.h"

#define PMU_CHOICE_MESSAGE_BYTES 192

/* A source that is to be opened, or that auto passed over. */
struct pmu_chosen {
	const struct access_source *source;
	uint64_t freq_hz; /* behind the '@'; 0: not given */
	uint64_t period;
	int error; /* negative errno: auto tried it, and it does not open ... */
	struct pmu_refusal refusal; /* ... because of this */
	bool is_passed_over; /* and a lesser one opens */
};

struct pmu_choice {
	struct pmu_chosen items[PMU_MAX_SOURCES];
	size_t n;
	bool has_auto;
};

/*
 * Parse a choice; nothing is tried yet: items are the sources that were named. Returns 0, or
 * -EINVAL with one line in message: an unknown name, a rate that cannot be, or a combination that
 * makes no sense, and why.
 */
int pmu_choice_parse(const char *text, struct pmu_choice *ret_choice,
		     char message[PMU_CHOICE_MESSAGE_BYTES]);

/*
 * Make the list of what to open: auto becomes the access sources that it passes over (their error
 * tells why), then the first whose probe succeeds (or, where none does, all with their errors),
 * then faults; tasks come last. options.freq_hz and .period are for access sources that have no
 * rate of their own.
 */
void pmu_choice_resolve(struct pmu_choice *choice, const struct access_options *options);

/* Is a source of that name among the items? */
bool pmu_choice_has(const struct pmu_choice *choice, const char *name);

/* The options to open an item with: *options with the item's own rate, where it has one. */
struct access_options pmu_chosen_options(const struct pmu_chosen *chosen,
					 const struct access_options *options);
