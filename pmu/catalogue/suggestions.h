#pragma once
/* Names that are no event: what to say of them. Used by catalogue.c. */
#include <string.h>

#include "pmu/host.h"
#include "pmu/remedy.h"

#define PMU_BAD_TERM_BYTES 64

/* The name without libpfm4's "pmu::". */
static inline const char *pmu_catalogue_bare(const char *name)
{
	const char *colons = strstr(name, "::");

	return colons ? colons + 2 : name;
}

/*
 * Why a name was refused, with the nearest names that there are. error: -ENOENT, or -EINVAL: then
 * bad is the part of it at fault ("" otherwise, or the PMU that is absent).
 */
void pmu_catalogue_refuse(const struct pmu_host *host, int error, const char *name, const char *bad,
			  struct pmu_refusal *ret_refusal);
