#pragma once
/* Programs under the small collector, in tests of Check. */
#include <check.h>
#include <sys/wait.h>

#include "mini-collector.h"

/* Run a program that must end well, and none of whose records may be damaged or left behind. */
static inline void mini_run_well(const struct mini_options *options, const char *const argv[],
				 struct mini_run *run)
{
	mini_run(options, argv, run);
	ck_assert_msg(WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0,
		      "%s: status 0x%x: %s", argv[1] ? argv[1] : argv[0], (unsigned)run->status,
		      run->output);
	ck_assert_uint_eq(run->n_bad, 0);
	ck_assert_uint_eq(run->n_uncommitted, 0);
}
