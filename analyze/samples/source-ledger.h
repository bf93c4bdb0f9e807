#pragma once
/* The table source_ledger: what each source gave, what it lost, and what cannot be used of it. */

#include <stdint.h>

struct samples;

/*
 * Write a row for each source that ran, from what the recorder counted and what the import did.
 * After the last sample, before the database is ended. 0 or a negative errno.
 */
int sample_ledger_write(struct samples *samples);

/*
 * Write what CPU time of the program no sample of a source stands for, by the accounts of the
 * command and its waited-for children: those of user code, of the kernel or both, as the source
 * samples. Both 0 or less: not known, nothing is written. Behind sample_ledger_write(). 0 or a
 * negative errno.
 */
int sample_ledger_unsampled(const struct samples *samples, int64_t user_ns, int64_t system_ns);

struct sample_times {
	double user_ns; /* by the accounts; negative: not known */
	double system_ns;
	double sampled_ns; /* what samples stand for */
	double period_ns;
	double young_ns; /* at most so much was of threads too young to be sampled */
};

/*
 * The time that is missing of those accounts, of the kind that the unit names, or what young
 * threads had where that is more, or where the kernel's division into user and system may err by so
 * much. Negative: not known. Pure.
 */
double sample_ledger_missing(const char *unit, const struct sample_times *times);
