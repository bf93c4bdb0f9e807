#pragma once
#include "report/text/table.h"

/*
 * The rows of a statement as aligned columns, numbers to the right. Lines have style->width
 * columns: texts are cut as by fit_write(), and the last column, where next to nothing of it would
 * be seen, is under the others. Arguments and result as table_write().
 */
int table_text_write(FILE *out, sqlite3_stmt *stmt, const struct table_style *style,
		     size_t *ret_n_rows);
