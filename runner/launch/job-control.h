#pragma once
/*
 * The recorder stops and goes on with the program, so that a shell has its terminal back as without
 * it.
 */
#include <sys/types.h>

/*
 * The signal by which the command, our child, has stopped since it was asked last, and still is; 0:
 * none.
 */
int job_control_stopped(pid_t command);

/*
 * Stop this process by that signal. When it goes on, so does the command; it also goes on when
 * somebody else has let the command go on, or it has ended. command 0: there is none any more.
 * pidfd: of the command, or -1.
 */
void job_control_stop(pid_t command, int pidfd, int signal_number);
