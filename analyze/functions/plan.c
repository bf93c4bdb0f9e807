#include "analyze/functions/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/functions/functions.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"
#include "decode/x86/move-code.h"
#include "schemas/trace-perf.h"

/* What lies there, and what a jump takes of it; what is moved comes later. */
static struct plan_function begin_function(const struct code_function *code)
{
	uint64_t jump_bytes = code->way == CODE_WAY_SHORT_JUMP ? PLAN_SHORT_BYTES : PLAN_JUMP_BYTES;
	struct plan_function function = {
		.address = code->start + code->at,
		.n_moved = code->n_moved_bytes,
		.n_before = code->n_moved_bytes > jump_bytes ? code->n_moved_bytes
							     : (uint8_t)jump_bytes,
		.is_short = code->way == CODE_WAY_SHORT_JUMP,
		.long_at = code->long_at,
	};

	memcpy(function.before, code->head, sizeof(code->head));
	memcpy(function.filling, code->filling, sizeof(code->filling));
	return function;
}

static bool refuse(struct code_function *code)
{
	code->way = CODE_WAY_NONE;
	code->why = CODE_WHY_FIXED;
	return false;
}

bool functions_plan_code(struct code_function *code, struct plan_function *ret_function)
{
	struct plan_function function = begin_function(code);

	if (code->way == CODE_WAY_NONE)
		return false;
	if (move_code(code->head, code->n_moved_bytes, function.address, &function) < 0)
		return refuse(code);
	*ret_function = function;
	return true;
}

/* False: it is not to be, or cannot be after all. */
static bool plan_one(struct found_function *found, struct plan_function *ret_function)
{
	struct code_function *code = &found->code;
	struct plan_function function = begin_function(code);
	bool is_planned;

	if (code->way == CODE_WAY_NONE || code->way == CODE_WAY_UPROBE)
		return false;
	if (found->probe) {
		function.name_id = text_name_id(found->probe->provider);
		function.kind = found->probe->kind;
		function.behind = found->probe->nop + 1;
		function.semaphore = found->probe->semaphore;
		memcpy(function.arguments, found->probe->arguments, sizeof(function.arguments));
	}
	if (found->probe)
		is_planned = move_probe(code->head, code->n_moved_bytes, function.address,
					code->place, &function) == 0 ||
			     refuse(code);
	else
		is_planned = functions_plan_code(code, &function);
	if (!is_planned)
		return false;
	if (!found->probe)
		function.name_id = text_name_id(found->allocator ? found->allocator : found->name);
	function.rule = found->rule;
	function.variable = found->variable;
	*ret_function = function;
	return true;
}

/* The file that the functions from here on are of; one that is gone matches none. */
static void begin_file(struct plan_file *file, const char *path, uint32_t first)
{
	struct stat status = { 0 };

	if (stat(path, &status) < 0)
		status = (struct stat){ 0 };
	*file = (struct plan_file){ status.st_dev, status.st_ino, first, 0 };
}

struct parts {
	struct plan_head *head;
	struct plan_file *files;
	struct plan_function *functions;
	size_t n_bytes;
};

static void fill(struct found_functions *found, struct functions_plan *plan, struct parts *parts)
{
	struct plan_head *head = parts->head;

	head->magic = PLAN_MAGIC;
	for (size_t i = 0; i < found->n; i++) {
		struct found_function *item = &found->items[i];

		if (i == 0 || item->file != item[-1].file)
			begin_file(&parts->files[head->n_files++], item->file, (uint32_t)plan->n);
		if (plan->n == PLAN_MAX_FUNCTIONS || !plan_one(item, &parts->functions[plan->n]))
			continue;
		plan->names[plan->n++] = item->probe	   ? item->probe->provider
					 : item->allocator ? item->allocator
							   : item->name;
		parts->files[head->n_files - 1].n++;
	}
	head->n_functions = (uint32_t)plan->n;
	parts->n_bytes = (size_t)((uint8_t *)&parts->functions[plan->n] - (uint8_t *)head);
}

/* As a file that nobody can change any more. */
static int seal(const struct parts *parts, struct functions_plan *plan)
{
	int fd = memfd_create("memsight-functions", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	plan->fd = fd;
	plan->n_bytes = parts->n_bytes;
	int r = io_write_all(fd, parts->head, parts->n_bytes);

	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	return r;
}

/* Of an instruction that is the first and the last one there is one probe. */
static void add_uprobes(const struct found_function *item, struct functions_plan *plan)
{
	struct plan_uprobe *entry = &plan->uprobes[plan->n_uprobes++];

	*entry = (struct plan_uprobe){ item->file, item->entry, text_name_id(item->name),
				       TRACE_PROBED_ENTER };
	for (size_t i = 0; i < item->exits.n; i++) {
		if (item->exits.items[i] == item->entry) {
			entry->what = TRACE_PROBED_BOTH;
			continue;
		}
		plan->uprobes[plan->n_uprobes] = *entry;
		plan->uprobes[plan->n_uprobes].offset = item->exits.items[i];
		plan->uprobes[plan->n_uprobes++].what = TRACE_PROBED_LEAVE;
	}
	plan->probed[plan->n_probed++] = item->name;
}

static int plan_uprobes(const struct found_functions *found, struct functions_plan *plan)
{
	size_t n = 0;

	for (size_t i = 0; i < found->n; i++)
		n += 1 + found->items[i].exits.n;
	plan->uprobes = calloc(n + 1, sizeof(*plan->uprobes));
	plan->probed = calloc(found->n + 1, sizeof(*plan->probed));
	if (!plan->uprobes || !plan->probed)
		return -ENOMEM;
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].code.way == CODE_WAY_UPROBE)
			add_uprobes(&found->items[i], plan);
	return 0;
}

int functions_plan(struct found_functions *found, struct functions_plan *ret_plan)
{
	size_t files_bytes = found->n_files * sizeof(struct plan_file);
	struct functions_plan plan = { .names = calloc(found->n + 1, sizeof(*plan.names)) };
	struct parts parts;
	int r = -ENOMEM;

	auto_free uint8_t *bytes =
		calloc(1, sizeof(*parts.head) + files_bytes + found->n * sizeof(*parts.functions));
	if (bytes && plan.names) {
		parts.head = (struct plan_head *)bytes;
		parts.files = (struct plan_file *)(parts.head + 1);
		parts.functions =
			(struct plan_function *)(bytes + sizeof(*parts.head) + files_bytes);
		fill(found, &plan, &parts);
		plan.fd = -1;
		r = plan_uprobes(found, &plan);
		if (r == 0 && (plan.n > 0 || plan.n_uprobes == 0))
			r = seal(&parts, &plan);
	}
	if (r < 0)
		functions_plan_finish(&plan);
	else
		*ret_plan = plan;
	return r;
}

void functions_plan_finish(struct functions_plan *plan)
{
	if (plan->fd > 0)
		close(plan->fd);
	free_all(plan->names, plan->uprobes, plan->probed);
	*plan = (struct functions_plan){ 0 };
}
