/*
 * Helper of `memsight record`: says what kinds of memory, nodes and CPUs of this host stand behind
 * names, so that memsight itself needs neither libmemkind nor libnuma (and libmemkind brings hwloc
 * with plugins into a process).
 *
 * usage: memsight-kinds NAME=VALUE...
 *
 *	heap=KIND		"heap MODE NODES BYTES": mbind(2)'s mode, its nodes, what they have
 *	buffers=KIND|node:LIST	"buffers MODE NODES BYTES"
 *	pmem=DIR		"pmem yes|no": whether the folder lies on DAX
 *	cpunodebind=LIST	"cpus LIST", as physcpubind=LIST
 *	membind=LIST		"policy MODE NODES", as interleave=LIST and preferred=NODE
 *
 * Prints one such line for each word and exits with 0; or "error TEXT" and 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <memkind.h>
#include <numaif.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap/kind-nodes.h"
#include "heap/node-set.h"

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;

	printf("error ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	exit(1);
}

static void print_kind(const char *what, const struct kind_nodes *found)
{
	char text[NODE_SET_TEXT_BYTES] = "-";

	if (found->nodes)
		node_set_write(found->nodes, text);
	printf("%s %d %s %llu\n", what, found->mode, text, (unsigned long long)found->bytes);
}

static void say_kind(const char *what, const char *name)
{
	struct kind_nodes found;
	char why[512];

	if (kind_nodes_find(name, &found, why, sizeof(why)) < 0)
		fail("--%s %s: %s", what, name, why);
	print_kind(what, &found);
}

static void say_heap(const char *value)
{
	say_kind("heap", value);
}

static struct bitmask *need_nodes(const char *option, const char *list)
{
	char why[256];
	struct bitmask *nodes = node_set_parse(list, why, sizeof(why));

	if (!nodes)
		fail("--%s %s: %s", option, list, why);
	return nodes;
}

static void say_buffers(const char *value)
{
	struct kind_nodes found = { .mode = MPOL_BIND };

	if (strncmp(value, "node:", 5) != 0) {
		say_kind("buffers", value);
		return;
	}
	found.nodes = need_nodes("buffers", value + 5);
	print_kind("buffers", &found);
}

/* A file as the heap makes it: some file systems let nobody. */
static int try_file(const char *dir)
{
	char path[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		snprintf(path, sizeof(path), "%s/memsight-heap-XXXXXX", dir);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return errno;
	int err = posix_fallocate(fd, 0, 4096);
	close(fd);
	return err;
}

static void say_pmem(const char *dir)
{
	int err = try_file(dir);

	if (err != 0)
		fail("pmem:%s: no file can be made there: %s", dir, strerror(err));
	printf("pmem %s\n", memkind_check_dax_path(dir) == 0 ? "yes" : "no");
}

static void say_cpus(const struct bitmask *cpus)
{
	char text[NODE_SET_TEXT_BYTES];

	node_set_write(cpus, text);
	printf("cpus %s\n", text);
}

static void say_node_cpus(const char *list)
{
	struct bitmask *cpus = node_set_cpus_of(need_nodes("cpunodebind", list));

	if (!cpus || numa_bitmask_weight(cpus) == 0)
		fail("--cpunodebind %s: no CPU of these nodes may be used", list);
	say_cpus(cpus);
}

static void say_physical_cpus(const char *list)
{
	char why[256];
	struct bitmask *cpus = node_set_parse_cpus(list, why, sizeof(why));

	if (!cpus)
		fail("--physcpubind %s: %s", list, why);
	say_cpus(cpus);
}

/* Set it here as well: what the kernel refuses is told before the program starts. */
static void say_policy(const char *option, const char *list, int mode)
{
	struct bitmask *nodes = need_nodes(option, list);
	char text[NODE_SET_TEXT_BYTES];

	if (mode == MPOL_PREFERRED && numa_bitmask_weight(nodes) != 1)
		fail("--%s %s: one node only", option, list);
	if (set_mempolicy(mode, nodes->maskp, nodes->size + 1) < 0)
		fail("--%s %s: %s", option, list, strerror(errno));
	set_mempolicy(MPOL_DEFAULT, NULL, 0);
	node_set_write(nodes, text);
	printf("policy %d %s\n", mode, text);
}

static void say_membind(const char *list)
{
	say_policy("membind", list, MPOL_BIND);
}

static void say_interleave(const char *list)
{
	say_policy("interleave", list, MPOL_INTERLEAVE);
}

static void say_preferred(const char *list)
{
	say_policy("preferred", list, MPOL_PREFERRED);
}

static const struct {
	const char *name;
	void (*say)(const char *value);
} words[] = {
	{ "heap=", say_heap },
	{ "buffers=", say_buffers },
	{ "pmem=", say_pmem },
	{ "cpunodebind=", say_node_cpus },
	{ "physcpubind=", say_physical_cpus },
	{ "membind=", say_membind },
	{ "interleave=", say_interleave },
	{ "preferred=", say_preferred },
};

static void say(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].name);

		if (strncmp(word, words[i].name, n) == 0) {
			words[i].say(word + n);
			return;
		}
	}
	fail("memsight-kinds does not know %s", word);
}

int main(int argc, char **argv)
{
	if (numa_available() < 0)
		fail("this kernel has no NUMA interface (CONFIG_NUMA)");
	for (int i = 1; i < argc; i++)
		say(argv[i]);
	return 0;
}
