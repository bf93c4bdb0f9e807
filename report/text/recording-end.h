#pragma once
#include <sqlite3.h>
#include <stdint.h>

/*
 * Where the recording of a run ended before its program did: "recording stopped at 31.2 ms:
 * --max-size is reached", or that the trace was cut off; allocated. NULL: it did not, or there is
 * no memory.
 */
char *report_stop_text(sqlite3 *db, int64_t run_id);
