#pragma once
/* What test programs of Check begin and end with. */
#include <check.h>
#include <stdlib.h>

/*
 * A case whose tests may take as long as they do on a loaded machine: Check itself gives them 4 s.
 */
static inline TCase *suite_case(const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_set_timeout(tcase, 60);
	return tcase;
}

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
