#pragma once
/* Processes of a series: how one begins, and how what it started is ended. */
#include <sys/types.h>

/* In a child of the series: signals as the series found them. Call it before anything else. */
void series_process_begin(void);

/*
 * Block the signals that end a series; a signalfd tells of them. Returns it, or a negative errno.
 */
int series_process_signals(void);

/* Kill the children of a process with SIGKILL, and theirs. */
void series_process_kill_children(pid_t pid);
