#pragma once
/* What was not recorded or cannot be used: equal losses add up to one row of the table `loss`. */
#include <stddef.h>
#include <stdint.h>

struct db;

/* How the reason begins where samples are fewer than the CPU time. */
#define LOSS_NEVER_CAME "samples that never came"

struct losses_item {
	int64_t process_row; /* INT64_MIN: the whole run */
	int64_t thread_row; /* INT64_MIN: the whole process */
	int64_t from_ns; /* INT64_MIN: not known */
	int64_t to_ns;
	uint64_t count;
	char *source;
	char *reason;
};

/* All zero is empty. */
struct losses {
	struct losses_item *items;
	size_t n;
	uint64_t total;
};

void losses_finish(struct losses *losses);

/* Add a loss; strings are copied, a count of 0 is none. Returns 0 or -ENOMEM. */
int losses_add(struct losses *losses, const struct losses_item *item);

/* The same for the whole run, with no time. */
int losses_count(struct losses *losses, const char *source, const char *reason, uint64_t count);

/* The same of several. */
struct losses_row {
	const char *source;
	const char *reason;
	uint64_t count;
};
int losses_count_each(struct losses *losses, const struct losses_row *rows, size_t n);

/* Returns 0 or a negative errno. */
int losses_write(const struct losses *losses, struct db *db, int64_t run_id);
