#pragma once
/* A series from its config file: INI, as schemas/series.example.ini shows it. */
#include "series/series.h"

/*
 * Whether `record` has the option `key` of a [mode] and takes this value. Returns 0, or a negative
 * errno with one clause in message (SERIES_MESSAGE_BYTES). value NULL: none was written.
 */
typedef int (*series_option_check)(void *user, const char *key, const char *value, char *message);

struct series_file_reader {
	series_option_check check;
	void *user;
};

/*
 * Read a file. Returns 0 and a series that the caller destroys; or -EINVAL with "FILE:LINE: what is
 * wrong" in message, or another negative errno with a sentence there. Sets globals of libinih (its
 * limit of a line's length, no comments behind values): not for two threads at once.
 */
int series_file_read(const char *path, const struct series_file_reader *reader,
		     struct series **ret_series, char *message);
