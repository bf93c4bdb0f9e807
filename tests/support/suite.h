#pragma once
/* What test programs of Check begin and end with. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * A test may take as long as it does on a loaded machine: Check itself gives it 4 s. Cases ask for
 * this where they are created; what is in the environment already, or is set for a case, holds.
 */
__attribute__((constructor)) static void give_time(void)
{
	setenv("CK_DEFAULT_TIMEOUT", "60", false);
}

/*
 * Where a test is, Check writes to a file at each assertion, so that it can be said where a signal
 * ended it. Millions of these take longer than what is tested: behind the first hundred it is
 * written now and then.
 */
static inline void suite_mark_point(const char *file, int line)
{
	static _Thread_local unsigned n;

	if (n++ < 100 || n % 1024 == 0)
		_mark_point(file, line);
}
#define _mark_point(file, line) suite_mark_point(file, line)

/*
 * Run a suite, which is freed, and say what failed (CK_VERBOSITY=verbose: all). Returns the exit
 * status.
 */
static inline int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int n_failed;

	srunner_run_all(runner, CK_ENV);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
