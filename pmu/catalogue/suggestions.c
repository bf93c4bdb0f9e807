#include "pmu/catalogue/suggestions.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "common/parse.h"
#include "pmu/catalogue/libpfm.h"
#include "pmu/catalogue/model.h"
#include "pmu/catalogue/sysfs.h"

/* ---- The nearest names ---- */

struct near {
	char word[64];
	struct {
		char name[64];
		unsigned distance;
	} best[PMU_MAX_NEAREST];
	size_t n;
};

static void lower(char *ret, size_t n_bytes, const char *text)
{
	snprintf(ret, n_bytes, "%s", text);
	for (; *ret; ret++)
		*ret = (char)tolower((unsigned char)*ret);
}

static bool is_listed(const struct near *near, const char *name)
{
	for (size_t i = 0; i < near->n; i++)
		if (strcmp(near->best[i].name, name) == 0)
			return true;
	return false;
}

/* In order of distance; of equals the first offered stays. */
static void offer(void *context, const char *name)
{
	struct near *near = context;
	struct parse_nearest nearest = { .word = near->word };
	char folded[64];
	size_t at = near->n;

	lower(folded, sizeof(folded), name);
	parse_nearest_offer(&nearest, folded);
	if (!nearest.name || strlen(name) >= sizeof(folded) || is_listed(near, name))
		return;
	while (at > 0 && near->best[at - 1].distance > nearest.distance)
		at--;
	if (at == PMU_MAX_NEAREST)
		return;
	if (near->n < PMU_MAX_NEAREST)
		near->n++;
	memmove(&near->best[at + 1], &near->best[at], (near->n - at - 1) * sizeof(near->best[0]));
	snprintf(near->best[at].name, sizeof(near->best[at].name), "%s", name);
	near->best[at].distance = nearest.distance;
}

static int offer_alias(void *context, const char *name)
{
	if (!strchr(name, '.')) /* "x.unit", "x.scale" */
		offer(context, name);
	return 0;
}

struct near_host {
	const struct pmu_host *host;
	struct near *near;
};

static int offer_aliases(void *context, const char *pmu)
{
	const struct near_host *both = context;

	return pmu_sysfs_each_event(both->host, pmu, offer_alias, both->near);
}

static void list_near(const struct pmu_host *host, const char *name, struct near *near)
{
	struct near_host both = { host, near };
	const struct pmu_model_event *row;

	lower(near->word, sizeof(near->word), pmu_catalogue_bare(name));
	for (int i = 0; i < PMU_WORD_COUNT; i++)
		offer(near, pmu_words[i]);
	pmu_sysfs_each_pmu(host, offer_aliases, &both);
	for (unsigned i = 0; (row = pmu_model_event(host, "", PMU_WORD_NONE, NULL, i)); i++)
		if (!strchr(row->name, '/'))
			offer(near, row->name);
	pmu_names_each(host, offer, near);
}

/* ---- Refusals ---- */

static void refuse_unknown(const struct pmu_host *host, const char *name,
			   struct pmu_refusal *ret_refusal)
{
	struct near near = { 0 };
	size_t used;

	if (pmu_word_find(name) != PMU_WORD_NONE) {
		snprintf(ret_refusal->why, sizeof(ret_refusal->why),
			 "no event for %s is known on this processor (%s)", name,
			 pmu_host_vendor(host));
		snprintf(ret_refusal->fix, sizeof(ret_refusal->fix),
			 "name one as rXXXX or PMU/FIELD=VALUE/, or use --source clock");
		return;
	}
	list_near(host, name, &near);
	snprintf(ret_refusal->why, sizeof(ret_refusal->why), "there is no event %s here", name);
	used = (size_t)snprintf(ret_refusal->fix, sizeof(ret_refusal->fix), "%s",
				near.n ? "the nearest names are "
				       : "name it as loads, stores, llc-miss, rXXXX,"
					 " PMU/FIELD=VALUE/, or as libpfm4 does");
	for (size_t i = 0; i < near.n && used < sizeof(ret_refusal->fix); i++)
		used += (size_t)snprintf(ret_refusal->fix + used, sizeof(ret_refusal->fix) - used,
					 "%s%s", i ? ", " : "", near.best[i].name);
}

void pmu_catalogue_refuse(const struct pmu_host *host, int error, const char *name, const char *bad,
			  struct pmu_refusal *ret_refusal)
{
	*ret_refusal = (struct pmu_refusal){ .error = -error };
	if (error == -ENOENT && bad[0] && strchr(name, '/')) {
		snprintf(ret_refusal->why, sizeof(ret_refusal->why), "this machine has no PMU %s",
			 bad);
		snprintf(ret_refusal->fix, sizeof(ret_refusal->fix), "see ls %.200s",
			 host->devices);
	} else if (error == -ENOENT) {
		refuse_unknown(host, name, ret_refusal);
	} else {
		snprintf(ret_refusal->why, sizeof(ret_refusal->why),
			 "event %.60s: %.60s is not a field, umask, modifier or value of it", name,
			 bad);
		snprintf(ret_refusal->fix, sizeof(ret_refusal->fix), "%s",
			 strchr(name, '/') ? "see ls /sys/bus/event_source/devices/PMU/format"
					   : "write it as libpfm4 or perf do");
	}
}
