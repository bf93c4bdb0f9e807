#include "runner/placement/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "common/parse.h"
#include "common/text.h"
#include "runner/launch/library.h"

/* ---- memsight-kinds ---- */

#define HELPER_NAME "memsight-kinds"

int kinds_helper_add(struct kinds_helper *helper, const char *name, const char *value)
{
	char *word = NULL;

	if (helper->n == KINDS_HELPER_MAX_WORDS || asprintf(&word, "%s=%s", name, value) < 0)
		return -ENOMEM;
	helper->words[helper->n++] = word;
	return 0;
}

void kinds_helper_finish(struct kinds_helper *helper)
{
	while (helper->n > 0)
		free(helper->words[--helper->n]);
}

/* Start it; its standard output is to be read from *ret_fd. */
static int start(const struct kinds_helper *helper, char *path, pid_t *ret_pid, int *ret_fd)
{
	char *argv[KINDS_HELPER_MAX_WORDS + 2] = { path };
	posix_spawn_file_actions_t actions;
	int ends[2];

	memcpy(argv + 1, helper->words, helper->n * sizeof(argv[0]));
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_close int reading = ends[0], writing = ends[1];
	int err = posix_spawn_file_actions_init(&actions);
	if (err != 0)
		return -err;
	err = posix_spawn_file_actions_adddup2(&actions, writing, STDOUT_FILENO);
	err = err ?: posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err == 0)
		*ret_fd = steal_fd(&reading);
	return -err;
}

static int take_lines(FILE *file, void (*take)(void *user, const char *key, const char *value),
		      void *user, char problem[KINDS_HELPER_PROBLEM_BYTES])
{
	auto_free char *line = NULL;
	size_t n_bytes = 0;

	while (getline(&line, &n_bytes, file) > 0) {
		size_t n = strcspn(line, " \n");
		char *value = line + n + (line[n] == ' ');

		value[strcspn(value, "\n")] = '\0';
		line[n] = '\0';
		if (strcmp(line, "error") == 0)
			return text_refuse(-ENODEV, problem, KINDS_HELPER_PROBLEM_BYTES, "%s",
					   value);
		take(user, line, value);
	}
	return 0;
}

int kinds_helper_run(const struct kinds_helper *helper,
		     void (*take)(void *user, const char *key, const char *value), void *user,
		     char problem[KINDS_HELPER_PROBLEM_BYTES])
{
	char path[PATH_MAX];
	int status = 0, fd = -1, err;
	pid_t pid;

	err = library_find_beside(HELPER_NAME, path, sizeof(path));
	err = err ?: start(helper, path, &pid, &fd);
	if (err < 0)
		return text_refuse(
			err, problem, KINDS_HELPER_PROBLEM_BYTES,
			"%s needs %s, which cannot be run: %s (it is built where libmemkind and "
			"libnuma are)",
			helper->words[0], HELPER_NAME, strerror(-err));
	auto_fclose FILE *file = fdopen(fd, "r");
	if (!file)
		close(fd);
	err = file ? take_lines(file, take, user, problem) : -ENOMEM;
	TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
	if (err == 0 && status != 0)
		return text_refuse(-EPROTO, problem, KINDS_HELPER_PROBLEM_BYTES,
				   "%s was ended by %s %d", HELPER_NAME,
				   WIFSIGNALED(status) ? "signal" : "itself with status",
				   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return err;
}

/* ---- Where the command may run ---- */

/* CPUs and memory policy of the program: set in the child, looked at after its start. */

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
	char *text = NULL;
	size_t n;

	return io_read_proc(pid, name, FILE_MAX_BYTES, &text, &n) < 0 ? NULL : text;
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

#define PMEM "pmem"

/* What is being found out, and the sentence when it cannot be. */
struct finding {
	const struct run_options *options;
	struct placement *placement;
	char *problem;
	size_t n_bytes;
};

#define refuse(finding, err, ...)                                                                  \
	text_refuse(err, (finding)->problem, (finding)->n_bytes, __VA_ARGS__)

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

	if (!finding->options->heap)
		return 0;
	if (finding->options->no_alloc)
		return refuse(
			finding, -EINVAL,
			"--heap and --no-alloc: what is placed is known from allocations only");
	int err = parse_kind(finding, "--heap", finding->options->heap, &text);
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

	if (!value)
		return 0;
	if (strncmp(value, "node:", 5) == 0) {
		memcpy(placement->buffers_kind, "node", sizeof("node"));
		return kinds_helper_add(helper, "buffers", value);
	}
	int err = parse_kind(finding, "--buffers", value, &text);
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

	*ret_placement = (struct placement){ .kind = "" };
	int err = find_heap(&finding, &helper);
	err = err ?: find_buffers(&finding, &helper);
	err = err ?: find_binding(&finding, &helper);
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
