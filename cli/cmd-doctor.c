#include <stdbool.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "runner/host/doctor.h"

#define SUBJECT_COLUMNS 26

/* What is printed, and what was found. */
struct visit {
	bool only_problems;
	bool is_missing;
};

static int print_finding(void *user, const struct doctor_finding *finding)
{
	static const char *const levels[] = {
		[DOCTOR_FINE] = "fine",
		[DOCTOR_NOTE] = "note",
		[DOCTOR_MISSING] = "MISSING",
	};
	struct visit *visit = user;

	visit->is_missing |= finding->level == DOCTOR_MISSING;
	if (visit->only_problems && finding->level == DOCTOR_FINE)
		return 0;
	printf("%-8s %-*s %s\n", levels[finding->level], SUBJECT_COLUMNS, finding->subject,
	       finding->text);
	if (finding->fix[0])
		printf("%-8s %-*s -> %s\n", "", SUBJECT_COLUMNS, "", finding->fix);
	return 0;
}

int cmd_doctor(const struct option_set *options)
{
	struct visit visit = { .only_problems = option_flag(options, OPTION_PROBLEMS) };

	doctor_look(print_finding, &visit);
	return visit.is_missing ? CMD_FAILED : CMD_DONE;
}
