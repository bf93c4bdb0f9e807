#include "pmu/catalogue/libpfm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef MEMSIGHT_HAS_PFM
#include <dlfcn.h>
#include <perfmon/pfmlib_perf_event.h> /* has a copy of linux/perf_event.h of its own */

#include "common/cleanup.h"

#define LIBRARY "libpfm.so.4"

struct library {
	pfm_err_t (*initialize)(void);
	pfm_err_t (*encode)(const char *name, int levels, pfm_os_t os, void *arguments);
	pfm_err_t (*pmu_info)(pfm_pmu_t pmu, pfm_pmu_info_t *ret_info);
	int (*next_event)(int index);
	pfm_err_t (*event_info)(int index, pfm_os_t os, pfm_event_info_t *ret_info);
	pfm_err_t (*attribute_info)(int index, int attribute, pfm_os_t os,
				    pfm_event_attr_info_t *ret_info);
};

/* It stays loaded: it keeps tables of its own, and is asked again. */
static int load(struct library *ret_library)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	struct library library;
	const struct {
		const char *name;
		void *into;
	} symbols[] = {
		{ "pfm_initialize", &library.initialize },
		{ "pfm_get_os_event_encoding", &library.encode },
		{ "pfm_get_pmu_info", &library.pmu_info },
		{ "pfm_get_event_next", &library.next_event },
		{ "pfm_get_event_info", &library.event_info },
		{ "pfm_get_event_attr_info", &library.attribute_info },
	};

	if (!handle)
		return -ENOSYS;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(handle, symbols[i].name);

		memcpy(symbols[i].into, &symbol, sizeof(symbol));
		if (!symbol)
			return -ENOSYS;
	}
	if (library.initialize() != PFM_SUCCESS)
		return -ENOSYS;
	*ret_library = library;
	return 0;
}

/* Is there a modifier "u", "k" ... among ":modifiers"? Umasks are longer than one letter. */
static bool has_modifier(const char *name, char modifier)
{
	const char lower[] = { ':', modifier, '\0' };

	for (const char *at = strstr(name, lower); at; at = strstr(at + 1, lower))
		if (!at[2] || at[2] == ':' || at[2] == '=')
			return true;
	return false;
}

static void fill(const struct perf_event_attr *attr, const char *asked, struct pmu_event *ret_event)
{
	struct pmu_event event = { .type = attr->type,
				   .config = attr->config,
				   .config1 = attr->config1,
				   .config2 = attr->config2,
				   .precise = attr->precise_ip };

	if (has_modifier(asked, 'u') || has_modifier(asked, 'k')) {
		event.exclude_user = attr->exclude_user;
		event.exclude_kernel = attr->exclude_kernel;
	}
	/* The library's full name lists every modifier that was left at its default. */
	snprintf(event.name, sizeof(event.name), "%s", asked);
	*ret_event = event;
}

/* "EVENT" in the host's PMU is "pmu::EVENT". */
static bool with_pmu(const struct pmu_host *host, const char *name, char *ret, size_t n_bytes)
{
	bool has_pmu = strstr(name, "::") || !host->library_pmu[0];

	return snprintf(ret, n_bytes, "%s%s%s", has_pmu ? "" : host->library_pmu,
			has_pmu ? "" : "::", name) < (int)n_bytes;
}

int pmu_names_encode(const struct pmu_host *host, const char *name, struct pmu_event *ret_event)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	auto_free char *full = NULL;
	pfm_perf_encode_arg_t arguments = { .attr = &attr,
					    .fstr = &full,
					    .size = sizeof(arguments) };
	struct library library;
	char whole[256];
	int r = load(&library);

	if (r < 0)
		return r;
	if (!with_pmu(host, name, whole, sizeof(whole)))
		return -ENOENT;
	r = library.encode(whole, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT_EXT, &arguments);
	if (r != PFM_SUCCESS)
		return r == PFM_ERR_NOTFOUND || r == PFM_ERR_NOTSUPP ? -ENOENT : -EINVAL;
	fill(&attr, name, ret_event);
	return 0;
}

/* ---- All names ---- */

struct walk {
	struct library library;
	void (*each)(void *context, const char *name);
	void *context;
};

static void each_umask(const struct walk *walk, const pfm_event_info_t *event)
{
	char name[PMU_EVENT_NAME_BYTES];

	walk->each(walk->context, event->name);
	for (int i = 0; i < event->nattrs; i++) {
		pfm_event_attr_info_t attribute = { .size = sizeof(attribute) };

		if (walk->library.attribute_info(event->idx, i, PFM_OS_PERF_EVENT_EXT,
						 &attribute) != PFM_SUCCESS ||
		    attribute.type != PFM_ATTR_UMASK)
			continue;
		snprintf(name, sizeof(name), "%s:%s", event->name, attribute.name);
		walk->each(walk->context, name);
	}
}

static void each_of_pmu(const struct walk *walk, const pfm_pmu_info_t *pmu)
{
	for (int i = pmu->first_event; i != -1; i = walk->library.next_event(i)) {
		pfm_event_info_t event = { .size = sizeof(event) };

		if (walk->library.event_info(i, PFM_OS_PERF_EVENT_EXT, &event) == PFM_SUCCESS)
			each_umask(walk, &event);
	}
}

void pmu_names_each(const struct pmu_host *host, void (*each)(void *context, const char *name),
		    void *context)
{
	struct walk walk = { .each = each, .context = context };

	if (load(&walk.library) < 0)
		return;
	for (int i = 0; i < PFM_PMU_MAX; i++) {
		pfm_pmu_info_t pmu = { .size = sizeof(pmu) };

		if (walk.library.pmu_info((pfm_pmu_t)i, &pmu) != PFM_SUCCESS ||
		    pmu.type != PFM_PMU_TYPE_CORE)
			continue;
		if (host->library_pmu[0] ? strcmp(pmu.name, host->library_pmu) == 0
					 : pmu.is_present)
			each_of_pmu(&walk, &pmu);
	}
}

bool pmu_catalogue_has_library(void)
{
	struct library library;

	return load(&library) == 0;
}

#else

int pmu_names_encode(const struct pmu_host *host, const char *name, struct pmu_event *ret_event)
{
	(void)host;
	(void)name;
	(void)ret_event;
	return -ENOSYS;
}

void pmu_names_each(const struct pmu_host *host, void (*each)(void *context, const char *name),
		    void *context)
{
	(void)host;
	(void)each;
	(void)context;
}

bool pmu_catalogue_has_library(void)
{
	return false;
}
#endif
