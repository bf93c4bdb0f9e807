#include "view/columns.h"

#include <errno.h>
#include <string.h>

#include "store/statement.h"

void columns_begin(struct columns *columns, const char *const *names, size_t n)
{
	memset(columns, 0, sizeof(*columns));
	columns->n_columns = n < COLUMNS_MAX ? n : COLUMNS_MAX;
	memcpy(columns->names, names, columns->n_columns * sizeof(*names));
}

void columns_write(struct columns *columns, struct json *json)
{
	json_open(json, '{');
	json_set_integer(json, "n", (int64_t)columns->n_rows);
	json_name(json, "columns");
	json_open(json, '{');
	for (size_t i = 0; i < columns->n_columns; i++) {
		json_name(json, columns->names[i]);
		json_open(json, '[');
		if (columns->n_rows)
			json_raw(json, &columns->values[i]);
		json_close(json, ']');
	}
	json_close(json, '}');
	json_close(json, '}');
	columns_drop(columns);
}

void columns_drop(struct columns *columns)
{
	for (size_t i = 0; i < columns->n_columns; i++)
		json_drop(&columns->values[i]);
	columns->n_columns = 0;
}

int columns_of(struct json *json, sqlite3_stmt *stmt, size_t *ret_n_rows)
{
	auto_columns struct columns columns = { 0 };
	int code;

	columns.n_columns = (size_t)sqlite3_column_count(stmt);
	if (columns.n_columns > COLUMNS_MAX)
		columns.n_columns = COLUMNS_MAX;
	for (size_t i = 0; i < columns.n_columns; i++)
		columns.names[i] = sqlite3_column_name(stmt, (int)i);
	while ((code = statement_advance(stmt)) == SQLITE_ROW) {
		for (size_t i = 0; i < columns.n_columns; i++)
			json_column(&columns.values[i], stmt, (int)i);
		columns_end_row(&columns);
	}
	if (ret_n_rows)
		*ret_n_rows = columns.n_rows;
	columns_write(&columns, json);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}
