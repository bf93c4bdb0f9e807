#pragma once
/* Shared by config-file.c and config-keys.c: a file of a series while it is read. */
#include <stdio.h>

#include "series/config-file.h"

/* A file while it is read. */
struct series_reading {
	FILE *file;
	int line; /* that was read last */
	bool section_begins;
	const struct series_file_reader *reader;
	struct series *series;
	struct series_workload *workload; /* of the section that we are in */
	struct series_mode *mode;
	char section[256];
	char key[64]; /* that is being taken */
	int error;
	char *message; /* of the first thing that is wrong */
};

/* Say what is wrong, of the key at hand or of its section. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int series_complain(struct series_reading *reading,
							  const char *format, ...);

/*
 * Take a key of the section that we are in; an empty value opens a list on the lines below. 0,
 * -ENOMEM, or -EINVAL after series_complain().
 */
int series_key_take(struct series_reading *reading, const char *key, const char *value);
