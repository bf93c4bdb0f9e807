#pragma once
/*
 * Whether runs keep limits, for a gate in continuous integration: numbers against what was asked
 * for, and against those of other runs. A limit that losses make uncertain is not called kept.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/diff/diff.h"

struct suppressions;

/* What is looked at; the names are those of the options --max-NAME. */
enum check_rule {
	CHECK_PEAK, /* live bytes, at most */
	CHECK_LEAKED, /* bytes not freed that neither libraries keep nor a suppression names */
	CHECK_RSS, /* resident bytes of the largest process, at most */
	CHECK_ALLOCATIONS, /* calls */
	CHECK_RULE_COUNT
};

enum check_verdict { CHECK_KEPT, CHECK_EXCEEDED, CHECK_NOT_KNOWN, CHECK_VERDICT_COUNT };

struct check_request {
	struct diff_side sides[2]; /* what to compare with (no runs: nothing), what is checked */
	bool has_most[CHECK_RULE_COUNT];
	int64_t most[CHECK_RULE_COUNT]; /* bytes, or calls */
	double tolerance; /* of the value before: 0.03 */
	const struct suppressions *suppressions; /* may be NULL */
	bool allows_losses; /* judge what was recorded */
};

#define CHECK_PLACES 3u

/* Who has most of it, or what grew most. */
struct check_place {
	int64_t value;
	char *text; /* owned: a call stack on one line, or what the memory is */
	char *file; /* owned: the innermost frame of the program's own that has a line, or NULL */
	int64_t line;
};

struct check_result {
	enum check_rule rule;
	enum check_verdict verdict;
	bool is_change; /* against the other runs; else against a limit */
	/* Of a limit the worst of the runs; of a change means over the runs. */
	double value, before;
	double most; /* that would be kept */
	double half; /* of the 95 % interval of value - before (Welch); negative: none */
	char *why; /* owned: why it is not known, or NULL */
	struct check_place places[CHECK_PLACES]; /* of what is exceeded */
	size_t n_places;
};

struct check_results {
	struct check_result items[2 * CHECK_RULE_COUNT];
	size_t n;
};

/* "peak", "leaked" ...; a number of a rule as text: "16.5 MiB", "5,505,148". */
const char *check_rule_name(enum check_rule rule);
struct format_text check_rule_text(enum check_rule rule, double value);

/* "kept", "exceeded", "not known". */
const char *check_verdict_name(enum check_verdict verdict);

/* The worst verdict: CHECK_EXCEEDED before CHECK_NOT_KNOWN before CHECK_KEPT. */
enum check_verdict check_worst(const struct check_results *results);

/*
 * Look at all that has a limit, and at every rule where there are runs to compare with (resident
 * memory only with repetitions on both sides). Both
 * databases are only read; report_functions_register() comes first. Returns 0, -ENOMEM, or -EPROTO
 * with *ret_failed the handle whose statement_message() says what is wrong. Free with
 * check_results_finish(), in each case.
 */
int check_runs(const struct check_request *request, struct check_results *ret_results,
	       sqlite3 **ret_failed);
void check_results_finish(struct check_results *results);

/* Writes results of a thing of that name; 0 or -EIO, -ENOMEM. */
typedef int check_write_fn(FILE *out, const struct check_results *results, const char *name);

check_write_fn check_write_text; /* for people */
check_write_fn check_write_json; /* {"name", "verdict", "checks": [...]} */
check_write_fn check_write_junit; /* a test suite, as Jenkins and GitLab read them */
check_write_fn check_write_github; /* workflow commands: annotations at the program's lines */
