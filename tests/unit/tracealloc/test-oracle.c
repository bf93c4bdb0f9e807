/*
 * Our call stacks beside libunwind's, at the same calls, in real programs (oracle.c). Prints what
 * was compared and how the two differ where they do.
 *
 *	test-oracle [SCALE]	default: 1; 10 compares more than a million events
 *	test-oracle -- COMMAND	of this program alone
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-collector.h"

#define EVENTS_PERMILLE	  999
#define DISTINCT_PERMILLE 990

static const char python[] =
	"import json\n"
	"d = [{'id': i, 'name': 'n%d' % i, 'v': [1.5 * i, None, True]} for i in range(1000 * "
	"SCALE)]\n"
	"assert json.loads(json.dumps(d)) == d\n";

static const char sqlite[] =
	"CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);"
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000 * SCALE)"
	" INSERT INTO t SELECT i, 'row ' || i, i * 0.5 FROM n;"
	"CREATE INDEX i ON t(b);"
	"SELECT substr(b, 1, 6), sum(c), count(*) FROM t GROUP BY 1 ORDER BY 2 LIMIT 3;";

struct workload {
	const char *name;
	const char *argv[8];
	const char *set;
};

static char folder[] = "/tmp/oracle-XXXXXX";
static char out_variable[64];
static char source_path[64];

/* Totals of the lines of one program. */
struct totals {
	unsigned long events, equal, distinct, distinct_equal, unplaced;
};

static void replace_scale(char *to, size_t size, const char *text, unsigned scale)
{
	const char *at = strstr(text, "SCALE");

	snprintf(to, size, "%.*s%u%s", (int)(at - text), text, scale, at + strlen("SCALE"));
}

/* A C file of functions of many forms, for cc1. */
static void write_source(unsigned scale)
{
	FILE *file = fopen(source_path, "w");

	if (!file)
		abort();
	fprintf(file,
		"int printf(const char *, ...);\nstruct p { int a; double b; struct p *n; };\n");
	for (unsigned i = 0; i < 25 * scale; i++)
		fprintf(file,
			"static double f%u(struct p *p, int n) {\n"
			" double s = %u; int t[%u] = { 0 };\n"
			" for (int i = 0; i < n; i++) { for (struct p *q = p; q; q = q->n)\n"
			"  { t[(i + q->a) %% %u] += i; if (q->a > %u) s += q->b * t[i %% %u]; "
			"else s -= i; }\n"
			"  switch (i %% 7) { case 1: s *= 2; break; case 3: s = -s; break; case "
			"5: printf(\"%%f\", s); } }\n"
			" return s + t[0]; }\n"
			"double g%u(struct p *p) { return f%u(p, %u) + f%u(p->n, 3); }\n",
			i, i, i % 13 + 1, i % 13 + 1, i, i % 13 + 1, i, i, i + 5, i);
	fclose(file);
}

static void read_line(const char *line, struct totals *totals)
{
	struct totals one;

	if (sscanf(line, "%*s events %lu equal %lu distinct %lu equal %lu unplaced %lu",
		   &one.events, &one.equal, &one.distinct, &one.distinct_equal, &one.unplaced) != 5)
		return;
	totals->events += one.events;
	totals->equal += one.equal;
	totals->distinct += one.distinct;
	totals->distinct_equal += one.distinct_equal;
	totals->unplaced += one.unplaced;
}

/* Print what the processes wrote, and add up. */
static struct totals read_out(const char *path)
{
	struct totals totals = { 0 };
	char line[1024];
	FILE *file = fopen(path, "r");

	while (file && fgets(line, sizeof(line), file)) {
		fputs(line, stdout);
		read_line(line, &totals);
	}
	if (file)
		fclose(file);
	unlink(path);
	return totals;
}

static struct totals compare(const char *const argv[], const char *set)
{
	struct mini_options options = {
		.stacks = RING_STACKS_DWARF,
		.n_chunks = 1024,
		.is_discarding = true,
		.library = ORACLE,
		.set = set,
	};
	struct mini_run run;

	mini_run(&options, argv, &run);
	if (!WIFEXITED(run.status) || WEXITSTATUS(run.status) != 0) {
		printf("%s: status 0x%x: %s\n", argv[0], (unsigned)run.status, run.output);
		exit(EXIT_FAILURE);
	}
	mini_finish(&run);
	return read_out(getenv("TA_ORACLE_OUT"));
}

static bool is_good(const char *name, const struct totals *totals)
{
	bool good = totals->events > 0 && totals->unplaced == 0 &&
		    totals->equal * 1000 >= totals->events * EVENTS_PERMILLE &&
		    totals->distinct_equal * 1000 >= totals->distinct * DISTINCT_PERMILLE;

	printf("%-8s %9lu events, %8.4f %% equal; %7lu distinct stacks, %8.4f %% equal%s\n", name,
	       totals->events, 100.0 * (double)totals->equal / (double)totals->events,
	       totals->distinct, 100.0 * (double)totals->distinct_equal / (double)totals->distinct,
	       good ? "" : "  TOO FEW");
	return good;
}

static bool run_all(unsigned scale)
{
	static char python_text[512];
	static char sqlite_text[512];
	static char throw_text[16];
	static char random_text[16];
	char object[80];
	const struct workload workloads[] = {
		{ "python3", { "/usr/bin/python3", "-c", python_text }, "PYTHONMALLOC=malloc" },
		{ "cc1", { CC1, "-quiet", "-O2", source_path, "-o", object }, NULL },
		{ "sqlite3", { "/usr/bin/sqlite3", ":memory:", sqlite_text }, NULL },
		{ "C++", { VICTIM_THROW, throw_text }, NULL },
		/* 1,000 paths at random, over the words that others have left standing. */
		{ "random", { CHURN, "-s", "1000", "-n", random_text }, NULL },
	};
	bool good = true;

	replace_scale(python_text, sizeof(python_text), python, scale);
	replace_scale(sqlite_text, sizeof(sqlite_text), sqlite, scale);
	snprintf(throw_text, sizeof(throw_text), "%u", 2000 * scale);
	snprintf(random_text, sizeof(random_text), "%u", 20000 * scale);
	snprintf(object, sizeof(object), "%s/a.s", folder);
	write_source(scale);
	for (size_t i = 0; i < sizeof(workloads) / sizeof(*workloads); i++) {
		struct totals totals;

		if (access(workloads[i].argv[0], X_OK) < 0) {
			printf("%s: left out, no %s\n", workloads[i].name, workloads[i].argv[0]);
			continue;
		}
		totals = compare(workloads[i].argv, workloads[i].set);
		good &= is_good(workloads[i].name, &totals);
		fflush(stdout);
	}
	unlink(object);
	return good;
}

int main(int argc, char **argv)
{
	bool good;

	if (!mkdtemp(folder))
		abort();
	snprintf(out_variable, sizeof(out_variable), "%s/out", folder);
	snprintf(source_path, sizeof(source_path), "%s/a.c", folder);
	setenv("TA_ORACLE_OUT", out_variable, 1);
	if (argc > 2 && strcmp(argv[1], "--") == 0) {
		struct totals totals = compare((const char *const *)argv + 2, NULL);

		good = is_good(argv[2], &totals);
	} else {
		good = run_all(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	}
	unlink(source_path);
	rmdir(folder);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
