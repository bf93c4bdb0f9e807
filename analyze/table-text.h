#pragma once
#include "analyze/table.h"

/*
 * The rows of a statement as aligned columns, numbers to the right, the last column cut at
 * style->width. Arguments and result as table_write().
 */
int table_text_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
		     size_t *ret_n_rows);

/* Columns that a terminal needs for a UTF-8 text: code points, not bytes. */
unsigned table_text_columns(const char *text);

/* Write at most width columns of a text, ending in "..." when it is cut; 0: all of it. */
void table_text_cut(FILE *out, const char *text, unsigned width);
