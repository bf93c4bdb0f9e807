/* The table module. */
#include "analyze/process/module-list.h"
#include "store/statement.h"

static const char *debug_name(enum object_debug debug)
{
	switch (debug) {
	case OBJECT_LINES:
		return "lines";
	case OBJECT_SYMBOLS:
		return "symbols";
	case OBJECT_NONE:
		return "none";
	default:
		return NULL;
	}
}

static int write_module(const struct module *module, const struct task_process *process,
			sqlite3_stmt *statement, int64_t run_id)
{
	statement_integer(statement, 1, run_id);
	statement_integer(statement, 2, process->row);
	statement_text(statement, 3, module->object->path);
	statement_text(statement, 4, module->object->build_id);
	statement_integer(statement, 5, (int64_t)module->bias);
	statement_integer(statement, 6, (int64_t)module->start);
	statement_integer(statement, 7, (int64_t)module->end);
	statement_integer(statement, 8, module->load_ns);
	statement_integer_or_null(statement, 9, module->unload_ns, module->unload_ns != INT64_MAX);
	statement_text(statement, 10, debug_name(module->object->debug));
	return statement_run(statement);
}

static int write_image(const struct task_process *process, sqlite3_stmt *statement, int64_t run_id)
{
	const struct module_list *list = process ? process->modules : NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n; i++) {
		/*
		 * Heimdallr does not tell where libraries lay: such addresses only stand for them.
		 */
		if (!list->items[i].is_inherited && list->items[i].start < TRACE_MADE_UP_ADDRESS &&
		    list->items[i].load_ns < list->items[i].unload_ns)
			r = write_module(&list->items[i], process, statement, run_id);
	}
	return r;
}

int modules_write_all(struct tasks *tasks, sqlite3 *db, int64_t run_id)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db,
				  "INSERT INTO module(run_id, process_id, path, build_id, bias,"
				  " start, end, load_ns, unload_ns, debug_info)"
				  " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				  &statement);

	for (uint32_t i = 1; r == 0 && i <= tasks_n_processes(tasks); i++)
		r = write_image(tasks_process(tasks, i), statement, run_id);
	for (uint32_t i = TASKS_UNSEEN; r == 0 && tasks_process(tasks, i); i++) {
		const struct task_process *process = tasks_process(tasks, i);

		if (process->number == i && process->is_used)
			r = write_image(process, statement, run_id);
	}
	return r;
}
