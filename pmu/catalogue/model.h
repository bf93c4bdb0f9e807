#pragma once
/*
 * Our own table: processors by their numbers, and the events that the kernel's sysfs and libpfm4 do
 * not have, or have wrong. Sources stand beside the rows. Pure.
 */
#include <stdbool.h>
#include <stdint.h>

#include "pmu/catalogue/catalogue.h"

/* What a person can ask for without knowing the processor. */
enum pmu_word {
	PMU_WORD_LOADS, /* sampled loads, with their latency where that can be had */
	PMU_WORD_STORES,
	PMU_WORD_LLC_MISS, /* loads that missed the last cache */
	PMU_WORD_ALL_LOADS, /* every load, without latency */
	PMU_WORD_COUNT,
	PMU_WORD_NONE = PMU_WORD_COUNT,
};

extern const char *const pmu_words[PMU_WORD_COUNT]; /* "loads" ... */

/* The word of that text, or PMU_WORD_NONE. */
enum pmu_word pmu_word_find(const char *text);

struct pmu_model_event {
	const char *name; /* as libpfm4 would call it, or pmu/terms/ */
	uint64_t config;
	uint64_t config1;
	bool is_correction; /* libpfm4 has this name with another code */
};

/*
 * The n-th event of our table for this processor and word; PMU_WORD_NONE: those of that name, or
 * all with NULL. pmu is "cpu_atom" for the small cores of a hybrid processor, else any. NULL: no
 * more.
 */
const struct pmu_model_event *pmu_model_event(const struct pmu_host *host, const char *pmu,
					      enum pmu_word word, const char *name, unsigned n);

/* Names of libpfm4 that mean a word, best first; ends in NULL. */
const char *const *pmu_model_names(enum pmu_word word);

/* Does the event sample loads by latency, with the least of it in config1? */
bool pmu_model_is_latency(const struct pmu_host *host, const struct pmu_event *event);
