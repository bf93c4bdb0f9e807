#include "pmu/catalogue/catalogue.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/parse.h"
#include "common/text.h"
#include "pmu/catalogue/libpfm.h"
#include "pmu/catalogue/model.h"
#include "pmu/catalogue/sysfs.h"

/* ---- Names that are like one that is not known ---- */

/* Names that are no event: what to say of them. Used by catalogue.c. */

#define PMU_BAD_TERM_BYTES 64

/* The name without libpfm4's "pmu::". */
static inline const char *pmu_catalogue_bare(const char *name)
{
	const char *colons = strstr(name, "::");

	return colons ? colons + 2 : name;
}

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
	return array_find(near->best, near->n, it, strcmp(it->name, name) == 0);
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

	if (pmu_word_find(name) != PMU_WORD_NONE) {
		pmu_refuse(ret_refusal, -ENOENT,
			   "no event for %s is known on this processor (%s)\n"
			   "name one as rXXXX or PMU/FIELD=VALUE/, or use --source clock",
			   name, pmu_host_vendor(host));
		return;
	}
	list_near(host, name, &near);
	pmu_refuse(ret_refusal, -ENOENT, "there is no event %s here\n%s", name,
		   near.n ? "the nearest names are "
			  : "name it as loads, stores, llc-miss, rXXXX, PMU/FIELD=VALUE/, or as"
			    " libpfm4 does");
	size_t used = strlen(ret_refusal->fix);
	for (size_t i = 0; i < near.n && used < sizeof(ret_refusal->fix); i++)
		used += (size_t)snprintf(ret_refusal->fix + used, sizeof(ret_refusal->fix) - used,
					 "%s%s", i ? ", " : "", near.best[i].name);
}

/*
 * Why a name was refused, with the nearest names that there are. error: -ENOENT, or -EINVAL: then
 * bad is the part of it at fault ("" otherwise, or the PMU that is absent).
 */
static void pmu_catalogue_refuse(const struct pmu_host *host, int error, const char *name,
				 const char *bad, struct pmu_refusal *ret_refusal)
{
	if (error == -ENOENT && bad[0] && strchr(name, '/'))
		pmu_refuse(ret_refusal, error, "this machine has no PMU %s\nsee ls %.200s", bad,
			   host->devices);
	else if (error == -ENOENT)
		refuse_unknown(host, name, ret_refusal);
	else
		pmu_refuse(ret_refusal, error,
			   "event %.60s: %.60s is not a field, umask, modifier or value of it\n%s",
			   name, bad,
			   strchr(name, '/') ? "see ls /sys/bus/event_source/devices/PMU/format"
					     : "write it as libpfm4 or perf do");
}

#define LEAST_LATENCY 3 /* the hardware refuses 1 and 2 (Intel SDM 3B) */
#define MOST_LATENCY  UINT16_MAX

/* A question and what has been found. */
struct search {
	const struct pmu_host *host;
	const char *name; /* without perf's modifiers */
	const char *modifiers; /* "upp", or "" */
	uint32_t min_latency;
	struct pmu_event *events;
	int n;
	char bad[PMU_BAD_TERM_BYTES]; /* of -EINVAL: the part at fault */
};

/* ---- Modifiers, as perf has them behind a colon or slash ---- */

#define MODIFIERS "ukhpPGH"

static void modify(struct pmu_event *event, const char *modifiers)
{
	bool has_level = strpbrk(modifiers, "ukh") != NULL;

	if (has_level) {
		event->exclude_user = !strchr(modifiers, 'u');
		event->exclude_kernel = !strchr(modifiers, 'k');
	}
	if (strchr(modifiers, 'P'))
		event->precise = 3;
	for (const char *at = modifiers; *at; at++)
		if (*at == 'p' && event->precise < 3)
			event->precise++;
}

static bool are_modifiers(const char *text)
{
	return text[0] && strspn(text, MODIFIERS) == strlen(text);
}

/* ---- Adding what was found ---- */

static int add(struct search *search, const struct pmu_event *found, const char *name)
{
	struct pmu_event event = *found;

	if (search->n == PMU_MAX_EVENTS)
		return 0;
	event.is_latency = pmu_model_is_latency(search->host, &event);
	if (event.is_latency && !strstr(search->name, "ldlat") && !strstr(search->name, "config1"))
		event.config1 = search->min_latency ? search->min_latency : LEAST_LATENCY;
	if (event.is_latency && event.config1 < LEAST_LATENCY)
		event.config1 = LEAST_LATENCY;
	if (event.is_latency && event.config1 > MOST_LATENCY)
		return text_refuse(-EINVAL, search->bad, sizeof(search->bad), "ldlat=%llu",
				   (unsigned long long)event.config1);
	modify(&event, search->modifiers);
	snprintf(event.name, sizeof(event.name), "%s", name);
	search->events[search->n++] = event;
	return 0;
}

/* ---- "pmu/terms/" ---- */

static int add_terms(struct search *search, const char *pmu, const char *terms)
{
	struct pmu_event event = { 0 };
	char name[PMU_EVENT_NAME_BYTES];
	int r = pmu_sysfs_terms(search->host, pmu, terms, &event, search->bad);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%s/%s/", pmu, terms);
	return add(search, &event, name);
}

static int find_terms(struct search *search)
{
	char copy[PMU_EVENT_NAME_BYTES];

	snprintf(copy, sizeof(copy), "%s", search->name);
	char *terms = strchr(copy, '/');
	*terms++ = '\0';
	char *modifiers = strchr(terms, '/');
	if (!modifiers || (modifiers[1] && !are_modifiers(modifiers + 1)))
		return text_refuse(-EINVAL, search->bad, sizeof(search->bad), "%s",
				   modifiers ? modifiers + 1 : "no second /");
	*modifiers++ = '\0';
	search->modifiers = modifiers;
	int r = add_terms(search, copy, terms);
	if (r == -ENOENT)
		snprintf(search->bad, sizeof(search->bad), "%.63s", copy);
	return r;
}

/* ---- rXXXX ---- */

static int find_raw(struct search *search)
{
	const char *digits = search->name + 1;
	struct pmu_event event = { .type = PERF_TYPE_RAW };

	if (search->name[0] != 'r' || !digits[0] || strlen(digits) > 16 ||
	    strspn(digits, "0123456789abcdefABCDEF") != strlen(digits))
		return -ENOENT;
	event.config = strtoull(digits, NULL, 16);
	return add(search, &event, search->name);
}

/* ---- Names in sysfs ---- */

struct alias {
	struct search *search;
	const char *name;
};

static int add_alias(void *context, const char *pmu)
{
	const struct alias *alias = context;
	char path[PMU_EVENT_NAME_BYTES + 8];

	snprintf(path, sizeof(path), "events/%s", alias->name);
	if (pmu_sysfs_has(alias->search->host, pmu, path))
		add_terms(alias->search, pmu, alias->name);
	return 0;
}

/* One event for each PMU that has the name: hybrid processors have two or three. */
static int find_alias(struct search *search, const char *name)
{
	struct alias alias = { search, name };

	if (!name[0] || strchr(name, '/') || strlen(name) >= PMU_EVENT_NAME_BYTES)
		return -ENOENT;
	pmu_sysfs_each_pmu(search->host, add_alias, &alias);
	return search->n ? 0 : -ENOENT;
}

/* ---- Our own table ---- */

static int add_model(struct search *search, const char *pmu, const struct pmu_model_event *row)
{
	struct pmu_event event = { .type = PERF_TYPE_RAW,
				   .config = row->config,
				   .config1 = row->config1 };
	char copy[PMU_EVENT_NAME_BYTES], *slash;
	uint64_t type;

	snprintf(copy, sizeof(copy), "%s", row->name);
	slash = strchr(copy, '/');
	if (slash) { /* another PMU, by its fields */
		*slash++ = '\0';
		slash[strcspn(slash, "/")] = '\0';
		return add_terms(search, copy, slash);
	}
	if (pmu[0] && pmu_sysfs_number(search->host, pmu, "type", &type) == 0) {
		event.type = (uint32_t)type;
		snprintf(event.pmu, sizeof(event.pmu), "%s", pmu);
	}
	return add(search, &event, row->name);
}

static int find_model(struct search *search, enum pmu_word word, bool only_corrections)
{
	/* The PMUs of hybrid processors, or the one of all others. */
	static const char *const hybrid[] = { "cpu_core", "cpu_atom" };
	bool is_hybrid = pmu_sysfs_has(search->host, hybrid[0], "type");

	for (size_t i = 0; i < (is_hybrid ? 2 : 1); i++) {
		const char *pmu = is_hybrid ? hybrid[i] : "";
		const struct pmu_model_event *row = pmu_model_event(
			search->host, pmu, word,
			word == PMU_WORD_NONE ? pmu_catalogue_bare(search->name) : NULL, 0);

		if (!row || (only_corrections && !row->is_correction))
			continue;
		int r = add_model(search, pmu, row);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return search->n ? 0 : -ENOENT;
}

/* ---- libpfm4 ---- */

static int find_library(struct search *search, const char *name)
{
	struct pmu_event event;
	int r = pmu_names_encode(search->host, name, &event);

	if (r == -EINVAL)
		snprintf(search->bad, sizeof(search->bad), "%.63s", name);
	return r < 0 ? r : add(search, &event, name);
}

static int find_library_word(struct search *search, enum pmu_word word)
{
	const char *const *names = pmu_model_names(word);

	for (size_t i = 0; names[i]; i++)
		if (find_library(search, names[i]) == 0)
			return 0;
	return -ENOENT;
}

/* ---- In order ---- */

static int find_word(struct search *search, enum pmu_word word)
{
	static const char *const aliases[PMU_WORD_COUNT] = {
		[PMU_WORD_LOADS] = "mem-loads",
		[PMU_WORD_STORES] = "mem-stores",
		[PMU_WORD_LLC_MISS] = "",
		[PMU_WORD_ALL_LOADS] = "",
	};

	if (find_alias(search, aliases[word]) == 0 || find_model(search, word, true) == 0 ||
	    find_library_word(search, word) == 0)
		return 0;
	return find_model(search, word, false);
}

static int find_name(struct search *search)
{
	int r = find_raw(search);

	if (r != -ENOENT)
		return r;
	if (find_alias(search, search->name) == 0 || find_model(search, PMU_WORD_NONE, true) == 0)
		return 0;
	r = find_library(search, search->name);
	if (r == 0)
		return 0;
	return find_model(search, PMU_WORD_NONE, false) == 0 ? 0 : r;
}

static int find(struct search *search)
{
	enum pmu_word word = pmu_word_find(search->name);

	if (strchr(search->name, '/'))
		return find_terms(search);
	return word == PMU_WORD_NONE ? find_name(search) : find_word(search, word);
}

/* Cut ":upp" off. libpfm4 has u and k itself, and one letter alone may be its modifier. */
static const char *cut_modifiers(char *name)
{
	char *colon = strrchr(name, ':');

	if (!colon || colon == name || strchr(name, '/') || !are_modifiers(colon + 1))
		return "";
	*colon = '\0';
	return colon + 1;
}

int pmu_catalogue_find(const struct pmu_host *host, const char *name, uint32_t min_latency,
		       struct pmu_event *ret_events, struct pmu_refusal *ret_refusal)
{
	struct pmu_event events[PMU_MAX_EVENTS];
	char copy[PMU_EVENT_NAME_BYTES];
	struct search search = {
		.host = host, .name = copy, .min_latency = min_latency, .events = events
	};
	int r = -ENOENT;

	if (snprintf(copy, sizeof(copy), "%s", name) < (int)sizeof(copy) && copy[0]) {
		search.modifiers = cut_modifiers(copy);
		r = find(&search);
	}
	if (r == 0 && search.n > 0) {
		memcpy(ret_events, events, (size_t)search.n * sizeof(events[0]));
		return search.n;
	}
	r = r == -EINVAL ? -EINVAL : -ENOENT; /* without libpfm4 a name is as unknown */
	pmu_catalogue_refuse(host, r, name, search.bad, ret_refusal);
	return r;
}

bool pmu_catalogue_leader(const struct pmu_host *host, const struct pmu_event *event, bool is_asked,
			  struct pmu_event *ret_leader)
{
	static const char alias[] = "mem-loads-aux";
	const char *const pmus[] = { event->pmu, "cpu_core", "cpu" };
	struct pmu_event leader = { .type = event->type, .config = 0x8203 };
	char bad[PMU_BAD_TERM_BYTES];

	if (!event->is_latency)
		return false;
	for (size_t i = 0; i < (event->pmu[0] ? 1 : 3); i++) {
		if (!pmu_sysfs_has(host, pmus[i], "events/mem-loads-aux") ||
		    pmu_sysfs_terms(host, pmus[i], alias, &leader, bad) < 0)
			continue;
		is_asked = true;
		break;
	}
	if (!is_asked)
		return false;
	snprintf(leader.name, sizeof(leader.name), "%s", alias);
	*ret_leader = leader;
	return true;
}
