#include "runner/placement/placement.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/parse.h"
#include "runner/placement/kinds-helper.h"

#define PMEM "pmem"

/* What is being found out, and the sentence when it cannot be. */
struct finding {
	const struct run_options *options;
	struct placement *placement;
	char *problem;
	size_t n_bytes;
};

__attribute__((format(printf, 3, 4))) static int refuse(const struct finding *finding, int err,
							const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->problem, finding->n_bytes, format, arguments);
	va_end(arguments);
	return err;
}

/* KIND[:DIR][,SIZE]; dir is "" and bytes 0 without them. */
struct kind_text {
	char kind[32];
	char dir[PATH_MAX];
	uint64_t bytes;
};

static int parse_kind(const struct finding *finding, const char *option, const char *text,
		      struct kind_text *ret_kind)
{
	size_t n = strcspn(text, ":,");
	const char *comma = strrchr(text + n, ',');
	size_t dir_bytes =
		text[n] == ':' ? (comma ? (size_t)(comma - text) : strlen(text)) - n - 1 : 0;

	*ret_kind = (struct kind_text){ .bytes = 0 };
	if (n >= sizeof(ret_kind->kind) || dir_bytes >= sizeof(ret_kind->dir))
		return refuse(finding, -EINVAL, "%s: '%s' is too long", option, text);
	memcpy(ret_kind->kind, text, n);
	memcpy(ret_kind->dir, text + n + 1, dir_bytes);
	if (comma && comma[1] && parse_size(comma + 1, &ret_kind->bytes) < 0)
		return refuse(finding, -EINVAL, "%s: '%s' is not a size (such as 64M or 2G)",
			      option, comma + 1);
	return 0;
}

/* A folder as the heap and its forks will need it. */
static int find_dir(const struct finding *finding, const char *option, const char *dir,
		    char ret_path[PATH_MAX])
{
	if (!*dir)
		return refuse(finding, -EINVAL, "%s: pmem needs a folder: pmem:DIR,SIZE", option);
	if (!realpath(dir, ret_path))
		return refuse(finding, -errno, "%s: pmem:%s: %s", option, dir, strerror(errno));
	if (strlen(ret_path) >= RECORDING_DIR_BYTES)
		return refuse(finding, -ENAMETOOLONG, "%s: pmem:%s: the name is too long", option,
			      dir);
	return 0;
}

static int find_heap(const struct finding *finding, struct kinds_helper *helper)
{
	struct placement *placement = finding->placement;
	struct kind_text text;
	int err;

	if (!finding->options->heap)
		return 0;
	if (finding->options->no_alloc)
		return refuse(
			finding, -EINVAL,
			"--heap and --no-alloc: what is placed is known from allocations only");
	err = parse_kind(finding, "--heap", finding->options->heap, &text);
	if (err == 0 && text.bytes && text.bytes < PLACEMENT_MIN_BYTES)
		err = refuse(finding, -EINVAL, "--heap: a heap needs at least 32M");
	if (err < 0)
		return err;
	memcpy(placement->kind, text.kind, sizeof(placement->kind));
	placement->heap_bytes = text.bytes;
	if (strcmp(text.kind, PMEM) == 0) {
		if (!text.bytes)
			placement->heap_bytes = PLACEMENT_DEFAULT_FILE_BYTES;
		err = find_dir(finding, "--heap", text.dir, placement->dir);
		return err < 0 ? err : kinds_helper_add(helper, "pmem", placement->dir);
	}
	if (text.dir[0])
		return refuse(finding, -EINVAL, "--heap: only pmem takes a folder");
	return kinds_helper_add(helper, "heap", text.kind);
}

static int find_buffers(const struct finding *finding, struct kinds_helper *helper)
{
	struct placement *placement = finding->placement;
	const char *value = finding->options->buffers;
	struct kind_text text;
	int err;

	if (!value)
		return 0;
	if (strncmp(value, "node:", 5) == 0) {
		memcpy(placement->buffers_kind, "node", sizeof("node"));
		return kinds_helper_add(helper, "buffers", value);
	}
	err = parse_kind(finding, "--buffers", value, &text);
	if (err < 0)
		return err;
	memcpy(placement->buffers_kind, text.kind, sizeof(placement->buffers_kind));
	placement->buffers_bytes = text.bytes;
	if (strcmp(text.kind, PMEM) == 0) {
		err = find_dir(finding, "--buffers", text.dir, placement->buffers_dir);
		return err < 0 ? err : kinds_helper_add(helper, "pmem", placement->buffers_dir);
	}
	if (text.dir[0])
		return refuse(finding, -EINVAL, "--buffers: only pmem takes a folder");
	return kinds_helper_add(helper, "buffers", text.kind);
}

/* Options of which at most one may be given. */
static int find_one_of(const struct finding *finding, struct kinds_helper *helper,
		       const char *const *names, const char *const *values)
{
	const char *given = NULL;
	int err = 0;

	for (; *names && err == 0; names++, values++) {
		if (!*values)
			continue;
		if (given)
			return refuse(finding, -EINVAL, "--%s and --%s exclude each other", given,
				      *names);
		given = *names;
		err = kinds_helper_add(helper, given, *values);
	}
	return err;
}

static int find_binding(const struct finding *finding, struct kinds_helper *helper)
{
	static const char *const cpu_names[] = { "cpunodebind", "physcpubind", NULL };
	static const char *const policy_names[] = { "membind", "interleave", "preferred", NULL };
	const struct run_options *options = finding->options;
	const char *const cpus[] = { options->cpunodebind, options->physcpubind };
	const char *const policies[] = { options->membind, options->interleave,
					 options->preferred };
	int err = find_one_of(finding, helper, cpu_names, cpus);

	return err < 0 ? err : find_one_of(finding, helper, policy_names, policies);
}

static void read_list(const char *list, uint64_t *mask, unsigned limit)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long i = strtoul(list, &end, 10);

		if (i < limit)
			mask[i / 64] |= UINT64_C(1) << i % 64;
		list = end + (*end == ',');
	}
}

static void take_nodes(struct placement_nodes *nodes, const char *line, uint64_t *ret_bytes)
{
	/* MODE NODES [BYTES] */
	sscanf(line, "%d %8191s %" SCNu64, &nodes->mode, nodes->list, ret_bytes);
	read_list(nodes->list, nodes->mask, RECORDING_MAX_NODES);
}

static void take_line(void *user, const char *key, const char *value)
{
	struct placement *placement = user;
	uint64_t cpus[CPU_SETSIZE / 64] = { 0 };
	uint64_t bytes = 0;

	if (strcmp(key, "heap") == 0) {
		take_nodes(&placement->heap, value, &bytes);
		if (!placement->heap_bytes)
			placement->heap_bytes = bytes;
	} else if (strcmp(key, "buffers") == 0) {
		take_nodes(&placement->buffers, value, &bytes);
	} else if (strcmp(key, "policy") == 0) {
		take_nodes(&placement->binding.policy, value, &bytes);
	} else if (strcmp(key, "pmem") == 0 && placement->dir[0] && !placement->is_dax_known) {
		/* The heap's folder is asked about before that of the buffers. */
		placement->is_dax = strcmp(value, "yes") == 0;
		placement->is_dax_known = true;
	} else if (strcmp(key, "cpus") == 0) {
		read_list(value, cpus, CPU_SETSIZE);
		memcpy(&placement->binding.cpus, cpus, sizeof(cpus));
		placement->binding.has_cpus = true;
		snprintf(placement->binding.cpu_list, PLACEMENT_LIST_BYTES, "%s", value);
	}
}

int placement_find(const struct run_options *options, struct placement *ret_placement,
		   char *problem, size_t n_bytes)
{
	struct finding finding = { options, ret_placement, problem, n_bytes };
	auto_kinds_helper struct kinds_helper helper = { .n = 0 };
	int err;

	*ret_placement = (struct placement){ .kind = "" };
	err = find_heap(&finding, &helper);
	if (err == 0)
		err = find_buffers(&finding, &helper);
	if (err == 0)
		err = find_binding(&finding, &helper);
	if (err < 0 || helper.n == 0)
		return err;
	return kinds_helper_run(&helper, take_line, ret_placement, problem);
}

char *placement_variable(const struct placement *placement, const struct run_options *options)
{
	char *text = NULL;
	int n = asprintf(&text, "%s %" PRIu64 " %" PRIu64 " %d %d %s %s", placement->kind,
			 placement->heap_bytes, options->heap_min_bytes, options->spill,
			 placement->heap.mode, placement->heap.list[0] ? placement->heap.list : "-",
			 placement->dir);

	return n < 0 ? NULL : text;
}
