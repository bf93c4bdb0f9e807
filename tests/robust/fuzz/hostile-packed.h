#pragma once
/*
 * One change of a database that somebody changed (hostile.h), and those of what lies packed in it:
 * chunks. Checksums are put right, so that readers get as far as the numbers.
 */
#include <sqlite3.h>
#include <stdint.h>

struct hostile_change {
	uint8_t kind;
	uint8_t table;
	uint8_t column;
	uint8_t row; /* 255: all rows */
	uint64_t value;
};

/* Change numbers in one packed column. Nothing happens where the database has none. */
void hostile_change_chunk(sqlite3 *db, const struct hostile_change *change);
