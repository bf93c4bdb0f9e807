#pragma once
/* What of the machine must not change while a series runs, or its runs cannot be compared. */
#include <stddef.h>

struct series_observer;

struct series_host {
	char *text; /* "key=value" lines as they were at first */
};

/* Note how it is now. Without memory nothing is noted, and nothing will differ. */
void series_host_take(struct series_host *host);

/* Warn of what has changed since, once for each change; name: the run that has just ended. */
void series_host_compare(struct series_host *host, const char *name,
			 const struct series_observer *observer);

void series_host_finish(struct series_host *host); /* safe on a zeroed one */
