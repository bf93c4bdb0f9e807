/* CPUs and memory policy of the program: set in the child, looked at after its start. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "runner/placement/placement.h"

#define FILE_MAX_BYTES (64u << 20)

/* As /proc/PID/numa_maps writes them; by MPOL_*. */
static const char *const mode_names[] = { "default",	"prefer", "bind",
					  "interleave", "local",  "prefer (many)" };

static const char *mode_name(int mode)
{
	size_t i = (size_t)mode;

	return i < sizeof(mode_names) / sizeof(mode_names[0]) ? mode_names[i] : "another";
}

int placement_bind(const struct placement_binding *binding)
{
	if (binding->has_cpus && sched_setaffinity(0, sizeof(binding->cpus), &binding->cpus) < 0)
		return -errno;
	if (binding->policy.mode != 0 && syscall(SYS_set_mempolicy, binding->policy.mode,
						 binding->policy.mask, RECORDING_MAX_NODES) < 0)
		return -errno;
	return 0;
}

/* "0-2,5" as the kernel writes it, to "0,1,2,5". */
static void spread(const char *list, char *text, size_t n_bytes)
{
	size_t n = 0;

	text[0] = '\0';
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10);
		unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

		for (; first <= last && n + 16 < n_bytes; first++)
			n += (size_t)snprintf(text + n, n_bytes - n, n ? ",%lu" : "%lu", first);
		list = end + (*end == ',');
	}
}

static char *read_proc(pid_t pid, const char *name)
{
	char path[64];
	char *text = NULL;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return io_read_file(path, FILE_MAX_BYTES, &text, &n) < 0 ? NULL : text;
}

static bool check_cpus(const struct placement_binding *binding, pid_t pid, char *found,
		       size_t n_bytes)
{
	static const char label[] = "\nCpus_allowed_list:\t";
	auto_free char *status = read_proc(pid, "status");
	const char *line = status ? strstr(status, label) : NULL;

	found[0] = '\0';
	if (line)
		spread(line + sizeof(label) - 1, found, n_bytes);
	return !found[0] || strcmp(found, binding->cpu_list) == 0;
}

/* Its first map has the policy of the process: "7f12... bind:0 file=..." */
static bool check_policy(const struct placement_binding *binding, pid_t pid, char *found,
			 size_t n_bytes)
{
	auto_free char *maps = read_proc(pid, "numa_maps");
	const char *word = maps ? strchr(maps, ' ') : NULL;
	const char *mode = mode_name(binding->policy.mode);
	char nodes[PLACEMENT_LIST_BYTES];
	size_t n;

	found[0] = '\0';
	if (!word)
		return true;
	n = strcspn(++word, ":\n ");
	snprintf(found, n_bytes, "%.*s", (int)strcspn(word, " \n"), word);
	spread(word[n] == ':' ? word + n + 1 : "", nodes, sizeof(nodes));
	return n == strlen(mode) && memcmp(word, mode, n) == 0 &&
	       strcmp(nodes, binding->policy.list) == 0;
}

bool placement_check(const struct placement_binding *binding, pid_t pid, char *cpus, char *policy,
		     size_t n_bytes)
{
	bool ok = true;

	cpus[0] = policy[0] = '\0';
	if (binding->has_cpus)
		ok = check_cpus(binding, pid, cpus, n_bytes);
	if (binding->policy.mode != 0)
		ok = check_policy(binding, pid, policy, n_bytes) && ok;
	return ok;
}

/* ---- Facts ---- */

struct giving {
	int (*give)(void *context, const char *key, const char *value);
	void *context;
	int err;
};

static void give(struct giving *giving, const char *key, const char *value)
{
	if (giving->err == 0 && value && *value)
		giving->err = giving->give(giving->context, key, value);
}

static void give_number(struct giving *giving, const char *key, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	give(giving, key, text);
}

static void give_nodes(struct giving *giving, const char *key, const struct placement_nodes *nodes)
{
	char text[PLACEMENT_LIST_BYTES + 32];

	if (nodes->mode == 0)
		return;
	snprintf(text, sizeof(text), "%s:%s", mode_name(nodes->mode), nodes->list);
	give(giving, key, text);
}

int placement_facts(const struct placement *placement, const struct run_options *options,
		    int (*give_fact)(void *context, const char *key, const char *value),
		    void *context)
{
	struct giving giving = { give_fact, context, 0 };

	if (placement->kind[0]) {
		give(&giving, "memsight.heap", placement->kind);
		give(&giving, "memsight.heap_dir", placement->dir);
		give(&giving, "memsight.heap_dax",
		     !placement->dir[0]	 ? NULL
		     : placement->is_dax ? "yes"
					 : "no");
		give_nodes(&giving, "memsight.heap_nodes", &placement->heap);
		give_number(&giving, "memsight.heap_bytes", placement->heap_bytes);
		give_number(&giving, "memsight.heap_min_bytes", options->heap_min_bytes);
		give(&giving, "memsight.heap_spill", options->spill ? "yes" : "no");
	}
	give(&giving, "memsight.buffers", placement->buffers_kind);
	give(&giving, "memsight.buffers_dir", placement->buffers_dir);
	give_nodes(&giving, "memsight.buffers_nodes", &placement->buffers);
	give(&giving, "memsight.cpus", placement->binding.cpu_list);
	give_nodes(&giving, "memsight.policy", &placement->binding.policy);
	return giving.err;
}
