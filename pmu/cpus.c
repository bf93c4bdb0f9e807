#include "pmu/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"

#define MAX_CPU	       65535
#define LIST_MAX_BYTES (1 << 20)

static int parse_cpu(const char **text, int *ret_cpu)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	long cpu = strtol(*text, &end, 10);
	if (cpu > MAX_CPU)
		return -EINVAL;
	*text = end;
	*ret_cpu = (int)cpu;
	return 0;
}

/* One "3" or "0-3". */
static int parse_range(const char **text, int *ret_first, int *ret_last)
{
	int r = parse_cpu(text, ret_first);

	if (r < 0)
		return r;
	*ret_last = *ret_first;
	if (**text != '-')
		return 0;
	(*text)++;
	r = parse_cpu(text, ret_last);
	return r < 0 ? r : *ret_last < *ret_first ? -EINVAL : 0;
}

static int append_range(int **cpus, int n, int first, int last)
{
	int count = last - first + 1;

	if (n + count > MAX_CPU + 1) /* a list that repeats itself */
		return -EINVAL;
	if (grow_array_of(cpus, (size_t)n, (size_t)count, sizeof(**cpus)) < 0)
		return -ENOMEM;
	for (int i = 0; i < count; i++)
		(*cpus)[n + i] = first + i;
	return n + count;
}

int pmu_cpus_parse(const char *list, int **ret_cpus)
{
	auto_free int *cpus = NULL;
	const char *text = list;
	int n = 0;

	for (;;) {
		int first, last;
		int r = parse_range(&text, &first, &last);

		if (r < 0)
			return r;
		n = append_range(&cpus, n, first, last);
		if (n < 0)
			return n;
		if (*text != ',')
			break;
		text++;
	}
	if (*text != '\0' && *text != '\n')
		return -EINVAL;
	*ret_cpus = steal_ptr(&cpus);
	return n;
}

int pmu_cpus_online(int **ret_cpus)
{
	auto_free char *list = NULL;
	auto_free int *cpus = NULL;
	int n;

	if (io_read_file("/sys/devices/system/cpu/online", LIST_MAX_BYTES, &list, NULL) == 0) {
		n = pmu_cpus_parse(list, ret_cpus);
		if (n > 0 || n == -ENOMEM)
			return n;
	}
	/* No /sys, as in some containers: open everywhere and leave out those that are offline. */
	long n_configured = sysconf(_SC_NPROCESSORS_CONF);
	n = append_range(&cpus, 0, 0, n_configured > 0 ? (int)n_configured - 1 : 0);
	if (n > 0)
		*ret_cpus = steal_ptr(&cpus);
	return n;
}
