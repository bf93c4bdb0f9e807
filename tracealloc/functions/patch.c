/* Changes the code of functions that are chosen, as the plan says: see functions.h. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "schemas/attach.h"
#include "schemas/functions-plan.h"
#include "tracealloc/functions/functions.h"
#include "tracealloc/own-time.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/thunk.h"
#include "tracealloc/state.h"

#if defined(__x86_64__)
#define STEP_BYTES	 UINT64_C(0x10000) /* mmap_min_addr is a multiple of it, too */
#define REACH_BYTES	 (UINT64_C(1) << 30) /* of jmp rel32 are 2 GiB */
#define FAR_BYTES	 (UINT64_C(1500) << 20) /* behind a file: room for its heap is left */
#define FIXED_NO_REPLACE 0x100000 /* MAP_FIXED_NOREPLACE, Linux 4.17; before: a mere wish */
#define AREA_HEAD_BYTES	 16u /* the addresses of the stubs of functions and of probes */
#define SLOT_HEAD_BYTES	 23u /* the function's address, a call of the stub, the way in */
#define COUNT_BYTES	 8u /* what adds one to a counter */
#define SHSTK_STATUS	 0x5005 /* ARCH_SHSTK_STATUS, Linux 6.6 */

static const struct plan_head *plan;
static const struct plan_file *files;
static const struct plan_function *planned;
static struct ta_function *functions; /* of the same number as in the plan */
static struct ta_place *placed; /* of files */

static void refuse(uint32_t n)
{
	atomic_fetch_add_explicit(&ta_image.process->n_functions_refused, n, memory_order_relaxed);
}

/* The functions of the program may be instrumented themselves: none of them is called here. */
static bool is_equal(const uint8_t *left, const uint8_t *right, uint32_t n)
{
	uint8_t difference = 0;

	for (uint32_t i = 0; i < n; i++)
		difference |= left[i] ^ right[i];
	return difference == 0;
}

static void copy(uint8_t *to, const void *from, uint32_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static bool put_near(uint8_t *at, uintptr_t behind, uintptr_t target)
{
	int64_t distance = (int64_t)(target - behind);
	int32_t word = (int32_t)distance;

	copy(at, &word, sizeof(word));
	return distance == word;
}

/* ---- Where jumps lead to ---- */

/* Are calls of regions only counted, in the shared memory? */
static bool is_counting(void)
{
	return ta_image.control->n_trips != 0;
}

/* And no function of an allocator, nor a probe. */
static bool is_region(const struct plan_function *function)
{
	return function->kind == PLAN_FUNCTION && !function->rule.is_rule;
}

static bool is_counted(const struct plan_function *function)
{
	return is_counting() && is_region(function);
}

static uint32_t slot_bytes(const struct plan_function *function)
{
	return (SLOT_HEAD_BYTES + function->n_code + 15u) & ~15u;
}

static uint8_t *try_map(uint64_t at, size_t n_bytes)
{
	long found = ta_syscall(SYS_mmap, (long)at, (long)n_bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | FIXED_NO_REPLACE, -1, 0);

	if (found == (long)at)
		return (uint8_t *)found;
	if (found > 0)
		ta_syscall(SYS_munmap, found, (long)n_bytes, 0, 0, 0, 0);
	return NULL;
}

/* Below the file, or far behind it. */
static uint8_t *map_near(const struct ta_place *place, size_t n_bytes)
{
	uint64_t low = (place->start - n_bytes) & ~(STEP_BYTES - 1);
	uint64_t high = ((place->end + STEP_BYTES) & ~(STEP_BYTES - 1)) + FAR_BYTES;
	uint8_t *found = NULL;

	if (place->end - place->start + n_bytes > REACH_BYTES / 2)
		return NULL;
	for (uint64_t by = 0; !found && by < REACH_BYTES && by + STEP_BYTES < low; by += STEP_BYTES)
		found = try_map(low - by, n_bytes);
	for (uint64_t by = 0; !found && by < REACH_BYTES / 4; by += 16 * STEP_BYTES)
		found = try_map(high - by, n_bytes);
	return found;
}

/* Where the jump leads to, in the slot: what calls us, what counts, or what the recorder wrote. */
static uint32_t entry_offset(const struct plan_function *function)
{
	if (is_counted(function))
		return SLOT_HEAD_BYTES - COUNT_BYTES;
	return function->kind == PLAN_FUNCTION ? 8 : SLOT_HEAD_BYTES;
}

/*
 * Threads, processes and signal handlers may call at once. No register changes but the flags,
 * which no function expects anything of.
 */
static bool fill_count(const struct ta_place *place, uint32_t i, uint8_t *code)
{
	copy(code - COUNT_BYTES, (const uint8_t[]){ 0xf0, 0x48, 0xff, 0x05 }, 4); /* lock incq */
	return put_near(code - 4, (uintptr_t)code, (uintptr_t)place->trips + i * sizeof(uint64_t));
}

/* What a function's jump leads to. False: something is out of reach. */
static bool fill_slot(const struct ta_place *place, uint32_t i, uint8_t *slot)
{
	const struct plan_function *function = &planned[i];
	const struct ta_function *own = &functions[i];
	static const uint8_t enter[] = TA_FUNCTION_ENTER;
	uint8_t *code = slot + SLOT_HEAD_BYTES;
	bool is_near;

	if (is_counted(function)) {
		is_near = fill_count(place, i, code);
	} else {
		copy(slot, &own, sizeof(own));
		copy(slot + 8, (const uint8_t[]){ 0xff, 0x15 }, 2); /* call *stub(%rip) */
		is_near = put_near(slot + 10, (uintptr_t)slot + 14, (uintptr_t)place->area);
		copy(slot + 14, enter, sizeof(enter));
	}
	copy(code, function->code, function->n_code);
	for (uint32_t k = 0; k < function->n_fixes && k < PLAN_MAX_FIXES; k++) {
		const struct plan_fix *fix = &function->fixes[k];
		uintptr_t target = fix->kind == PLAN_FIX_OWN	? (uintptr_t)slot
				   : fix->kind == PLAN_FIX_STUB ? (uintptr_t)place->area + 8
								: place->bias + fix->target;

		if (fix->kind == PLAN_FIX_ADDRESS)
			copy(code + fix->at, &target, sizeof(target));
		else
			is_near &= put_near(code + fix->at, (uintptr_t)code + fix->behind, target);
	}
	return is_near;
}

static bool is_as_planned(const struct ta_place *place, const struct plan_function *function)
{
	const uint8_t *at = (const uint8_t *)(place->bias + function->address);

	return is_equal(at, function->before, function->n_before) &&
	       (!function->is_short ||
		is_equal(at + function->long_at, function->filling, PLAN_JUMP_BYTES));
}

static size_t trips_bytes(void)
{
	size_t n_bytes = ta_image.control->n_trips * sizeof(uint64_t);

	return (n_bytes + ta_image.page_bytes - 1) & ~(size_t)(ta_image.page_bytes - 1);
}

/* The counters once more, near the code. Of size 0 mremap maps what is shared a second time. */
static bool map_trips(uint8_t *at)
{
	const uint8_t *trips = (const uint8_t *)ta_image.control + ta_image.control->trips_at;

	return ta_syscall(SYS_mremap, (long)trips, 0, (long)trips_bytes(),
			  MREMAP_MAYMOVE | MREMAP_FIXED, (long)at, 0) == (long)at;
}

/* Make the code that jumps lead to, for all functions of the file that are as they were. */
static bool fill_area(struct ta_place *place, const struct plan_file *file)
{
	const char *stubs[] = { ta_function_enter_stub, ta_function_probe_stub };
	size_t n_bytes = AREA_HEAD_BYTES;
	uint32_t at = AREA_HEAD_BYTES;

	for (uint32_t i = file->first; i < file->first + file->n; i++)
		n_bytes += slot_bytes(&planned[i]);
	place->area_bytes = (n_bytes + TA_PAGE_BYTES - 1) & ~(size_t)(TA_PAGE_BYTES - 1);
	place->area = map_near(place, place->area_bytes + trips_bytes());
	if (!place->area)
		return false;
	place->trips = place->area + place->area_bytes;
	if (is_counting() && !map_trips(place->trips))
		return false;
	copy(place->area, stubs, sizeof(stubs));
	for (uint32_t i = file->first; i < file->first + file->n; i++) {
		functions[i].name_id = planned[i].name_id;
		functions[i].planned = &planned[i];
		functions[i].bias = place->bias;
		functions[i].rule = planned[i].rule.is_rule ? &planned[i].rule : NULL;
		functions[i].entry = 0;
		if (!is_as_planned(place, &planned[i]) || !fill_slot(place, i, place->area + at))
			continue;
		functions[i].entry = at + entry_offset(&planned[i]);
		at += slot_bytes(&planned[i]);
	}
	return ta_syscall(SYS_mprotect, (long)place->area, (long)place->area_bytes,
			  PROT_READ | PROT_EXEC, 0, 0, 0) == 0;
}

static void drop_area(struct ta_place *place)
{
	if (place->area)
		ta_syscall(SYS_munmap, (long)place->area, (long)(place->area_bytes + trips_bytes()),
			   0, 0, 0, 0);
	place->area = NULL;
}

/* ---- Jumps ---- */

static struct attach_jump jump_of(uintptr_t at, const uint8_t *jump, uint8_t n)
{
	struct attach_jump made = { .address = at, .n = n };

	copy(made.before, (const uint8_t *)at, n);
	copy(made.jump, jump, n);
	return made;
}

/* What becomes of a function's code, in the order in which it is written. How many; 0: none. */
static uint32_t make_jumps(const struct ta_place *place, uint32_t i, struct attach_jump ret[2])
{
	const struct plan_function *function = &planned[i];
	uintptr_t at = place->bias + function->address, jump = at;
	uint8_t code[PLAN_JUMP_BYTES] = { 0xe9 };

	if (function->is_short)
		jump += (uintptr_t)(intptr_t)function->long_at;
	if (!functions[i].entry || !is_as_planned(place, function) ||
	    !put_near(code + 1, jump + PLAN_JUMP_BYTES,
		      (uintptr_t)place->area + functions[i].entry))
		return 0;
	ret[0] = jump_of(jump, code, PLAN_JUMP_BYTES);
	ret[0].is_filling = function->is_short;
	ret[0].n_moved = function->is_short ? 0 : function->n_moved;
	if (!function->is_short)
		return 1;
	code[0] = 0xeb;
	code[1] = (uint8_t)(jump - (at + PLAN_SHORT_BYTES));
	ret[1] = jump_of(at, code, PLAN_SHORT_BYTES);
	ret[1].n_moved = PLAN_SHORT_BYTES;
	return 2;
}

/* Code may be written. */
static bool write_jumps(const struct ta_place *place, uint32_t i)
{
	struct attach_jump jumps[2];
	uint32_t n = make_jumps(place, i, jumps);

	for (uint32_t k = 0; k < n; k++)
		copy((uint8_t *)jumps[k].address, jumps[k].jump, jumps[k].n);
	return n > 0;
}

/* Its allocator computes what a probe says only while somebody listens. */
static void listen(const struct ta_place *place, const struct plan_function *function, int more)
{
	if (function->semaphore)
		__atomic_fetch_add((uint16_t *)(place->bias + function->semaphore), (uint16_t)more,
				   __ATOMIC_RELAXED);
}

/* All executable segments of a file, of whole pages. False: one may not be changed. */
static bool protect_code(const struct ta_module *module, long protection)
{
	uintptr_t mask = -(uintptr_t)ta_image.page_bytes;
	bool is_done = true;

	for (unsigned i = 0; i < TA_MODULE_RANGES && module->code[i].end; i++) {
		uintptr_t start = module->code[i].start & mask;
		uintptr_t end = (module->code[i].end + ta_image.page_bytes - 1) & mask;

		is_done &= ta_syscall(SYS_mprotect, (long)start, (long)(end - start), protection, 0,
				      0, 0) == 0;
	}
	return is_done;
}

/* The file lies there: make what its jumps lead to. False: there is no room. */
static bool prepare(const struct ta_module *module, const struct plan_file *file,
		    struct ta_place *place)
{
	if (place->area && place->bias != module->bias)
		drop_area(place);
	place->bias = module->bias;
	place->start = module->start;
	place->end = module->end;
	place->planned = &planned[file->first];
	place->n = file->n;
	place->has_probes = false;
	for (uint32_t i = file->first; i < file->first + file->n; i++)
		place->has_probes |= planned[i].kind != PLAN_FUNCTION;
	if (place->area || fill_area(place, file))
		return true;
	drop_area(place);
	refuse(file->n);
	return false;
}

static void patch(const struct ta_module *module, const struct plan_file *file,
		  struct ta_place *place)
{
	uint32_t n_refused = 0;

	if (!prepare(module, file, place))
		return;
	/* The loader maps code so that it can be read and run, and nothing else. */
	if (!protect_code(module, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		protect_code(module, PROT_READ | PROT_EXEC);
		refuse(file->n);
		return;
	}
	atomic_store(&place->is_there, true);
	for (uint32_t i = file->first; i < file->first + file->n; i++) {
		if (write_jumps(place, i)) {
			listen(place, &planned[i], 1);
			continue;
		}
		functions[i].entry = 0;
		n_refused++;
	}
	protect_code(module, PROT_READ | PROT_EXEC);
	refuse(n_refused);
}

/* ---- Which files ---- */

static const struct plan_file *file_of(const struct ta_module *module)
{
	static const char program[] = "/proc/self/exe";
	const char *path = module == ta_module_at(0) ? program : module->path;
	struct stat status = { 0 };

	if (!path || path[0] != '/' ||
	    ta_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, 0, 0, 0) < 0)
		return NULL;
	for (uint32_t i = 0; i < plan->n_files; i++)
		if (files[i].inode == status.st_ino && files[i].device == status.st_dev)
			return &files[i];
	return NULL;
}

/* Is everything in it what its size promises? It is used without further checks. */
static bool is_sound(const struct plan_head *head, size_t n_bytes)
{
	uint32_t next = 0;

	if (n_bytes < sizeof(*head) || head->magic != PLAN_MAGIC ||
	    head->n_functions > PLAN_MAX_FUNCTIONS || head->n_files > head->n_functions + 1024 ||
	    n_bytes < sizeof(*head) + head->n_files * sizeof(*files) +
			      head->n_functions * sizeof(*planned))
		return false;
	for (uint32_t i = 0; i < head->n_files; i++) {
		const struct plan_file *file = (const struct plan_file *)(head + 1) + i;

		if (file->first != next || file->n > head->n_functions - next)
			return false;
		next += file->n;
	}
	return true;
}

/* Each has a folder there. */
static bool is_alone(void)
{
	struct stat status = { 0 };

	return ta_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&status, 0, 0,
			  0) == 0 &&
	       status.st_nlink == 3;
}

static bool has_shadow_stack(void)
{
	uint64_t features = 0;

	return ta_syscall(SYS_arch_prctl, SHSTK_STATUS, (long)&features, 0, 0, 0, 0) == 0 &&
	       features & 1;
}

/* What came with the welcome. False: there is none, or nothing can be done by it. */
static bool take_plan(bool may_unwind, bool is_late)
{
	const struct plan_head *head = ta_image.plan;

	if (!head || !is_sound(head, ta_image.plan_bytes))
		return false;
	long memory = ta_map_private(head->n_functions * sizeof(*functions) +
				     head->n_files * sizeof(*placed));
	if (memory < 0 || (is_counting() && ta_image.control->n_trips < head->n_functions) ||
	    !may_unwind || has_shadow_stack() || (!is_late && !is_alone()) ||
	    !ta_function_begin()) {
		refuse(head->n_functions);
		return false;
	}
	files = (const struct plan_file *)(head + 1);
	planned = (const struct plan_function *)(files + head->n_files);
	placed = (struct ta_place *)memory;
	functions = (struct ta_function *)(placed + head->n_files);
	plan = head;
	ta_places = (struct ta_places){ placed, head->n_files };
	return true;
}

/* Are there calls whose times are recorded? */
static bool has_times(void)
{
	bool has = false;

	for (uint32_t i = 0; i < plan->n_functions && !is_counting(); i++)
		has |= is_region(&planned[i]);
	return has;
}

void ta_functions_begin(bool may_unwind)
{
	struct ta_module *module;

	if (!take_plan(may_unwind, false))
		return;
	for (uint32_t i = 0; (module = ta_module_at(i)); i++) {
		const struct plan_file *file = file_of(module);

		if (file && !atomic_load(&placed[file - files].is_there))
			patch(module, file, &placed[file - files]);
	}
	if (!has_times())
		return;
	ta_own_more = ta_function_measure;
	if (TA_IS_AGENT)
		ta_function_measure_soon(); /* no thread has a seat yet */
	else
		ta_own_begin();
}

static bool is_still_loaded(const struct ta_place *place, const struct plan_file *file)
{
	const struct ta_module *module = ta_module_find(place->bias + planned[file->first].address);

	return module && module->bias == place->bias && file_of(module) == file;
}

void ta_functions_loaded(uintptr_t pc)
{
	const struct ta_module *module = plan && !ta_image.is_late ? ta_module_find(pc) : NULL;
	const struct plan_file *file = module ? file_of(module) : NULL;
	struct ta_place *place = file ? &placed[file - files] : NULL;
	const struct plan_function *first = file ? &planned[file->first] : NULL;

	if (!file || file->n == 0)
		return;
	if (place->area && place->bias != module->bias && is_still_loaded(place, file)) {
		refuse(file->n); /* it is there twice: dlmopen */
		return;
	}
	/* Loaded at the start, and changed then: this is its own start. */
	for (uint32_t i = 0; i < file->n; i++)
		if (place->bias == module->bias && functions[file->first + i].entry &&
		    !is_as_planned(place, &first[i]))
			return;
	patch(module, file, place);
}

bool ta_functions_are_on(void)
{
	return plan != NULL;
}

/* ---- Where the program runs already ---- */

/* What is made for whoever writes and takes back; in memory of its own. */
static struct {
	bool is_made;
	struct attach_jump *jumps;
	uint32_t n_jumps;
	struct attach_area *areas;
	uint32_t n_areas;
} late;

static size_t late_bytes(void)
{
	return plan->n_functions * 2 * sizeof(*late.jumps) + plan->n_files * sizeof(*late.areas);
}

/* What maps code may be forbidden by a filter that ends the program for it. */
static bool may_map_code(void)
{
	const long change[6] = { TA_PAGE_BYTES, TA_PAGE_BYTES, PROT_READ | PROT_EXEC };
	const long again[6] = { TA_PAGE_BYTES, 0, TA_PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
				TA_PAGE_BYTES };
	const long stat[6] = { AT_FDCWD };

	return !ta_sandbox_is_on || (ta_sandbox_allows(SYS_mprotect, change) &&
				     ta_sandbox_allows(SYS_newfstatat, stat) &&
				     (!is_counting() || ta_sandbox_allows(SYS_mremap, again)));
}

static void list_jumps(const struct plan_file *file, struct ta_place *place)
{
	uint32_t n_refused = 0;

	for (uint32_t i = file->first; i < file->first + file->n; i++) {
		uint32_t n = make_jumps(place, i, &late.jumps[late.n_jumps]);

		functions[i].entry = n ? functions[i].entry : 0;
		late.n_jumps += n;
		n_refused += n == 0;
	}
	refuse(n_refused);
	late.areas[late.n_areas++] =
		(struct attach_area){ (uintptr_t)place->area,
				      (uintptr_t)place->area + place->area_bytes };
	atomic_store(&place->is_there, true);
}

static void list_all(void)
{
	struct ta_module *module;
	long memory = ta_map_private(late_bytes());

	if (memory < 0) {
		refuse(plan->n_functions);
		return;
	}
	late.jumps = (struct attach_jump *)memory;
	late.areas = (struct attach_area *)(late.jumps + 2 * plan->n_functions);
	for (uint32_t i = 0; (module = ta_module_at(i)); i++) {
		const struct plan_file *file = file_of(module);
		struct ta_place *place = file ? &placed[file - files] : NULL;

		if (place && !atomic_load(&place->is_there) && prepare(module, file, place))
			list_jumps(file, place);
	}
}

void ta_functions_list(struct attach_functions *ret_functions)
{
	const struct plan_head *head = ta_image.plan;

	if (head && !late.is_made && !may_map_code())
		refuse(head->n_functions);
	else if (head && !late.is_made && take_plan(true, true))
		list_all();
	late.is_made = true;
	*ret_functions = (struct attach_functions){
		.jumps = (uintptr_t)late.jumps,
		.n_jumps = late.n_jumps,
		.areas = (uintptr_t)late.areas,
		.n_areas = late.n_areas,
	};
}

static bool has_probes(const struct plan_file *file)
{
	bool has = false;

	for (uint32_t k = file->first; k < file->first + file->n; k++)
		has |= functions[k].entry && planned[k].semaphore;
	return has;
}

static void listen_all(int more)
{
	for (uint32_t i = 0; i < plan->n_files; i++) {
		if (!has_probes(&files[i]) || !is_still_loaded(&placed[i], &files[i]))
			continue;
		for (uint32_t k = files[i].first; k < files[i].first + files[i].n; k++)
			if (functions[k].entry)
				listen(&placed[i], &planned[k], more);
	}
}

void ta_functions_commit(void)
{
	if (late.n_jumps == 0)
		return;
	listen_all(1);
	if (!has_times())
		return;
	ta_own_more = ta_function_measure;
	ta_function_measure_soon();
}

void ta_functions_end(void)
{
	ta_own_more = NULL;
	if (plan) {
		listen_all(-1);
		ta_thunk_forget(&ta_function_gone);
		for (uint32_t i = 0; i < plan->n_files; i++)
			drop_area(&placed[i]);
		ta_syscall(SYS_munmap, (long)late.jumps, (long)(late.jumps ? late_bytes() : 0), 0,
			   0, 0, 0);
		ta_syscall(SYS_munmap, (long)placed,
			   (long)(plan->n_functions * sizeof(*functions) +
				  plan->n_files * sizeof(*placed)),
			   0, 0, 0, 0);
	}
	if (ta_image.plan)
		ta_syscall(SYS_munmap, (long)ta_image.plan, (long)ta_image.plan_bytes, 0, 0, 0, 0);
	late = (typeof(late)){ 0 };
	ta_places = (struct ta_places){ NULL, 0 };
	plan = NULL;
}

#else
/* No recorder has a plan for it. */
void ta_functions_begin(bool may_unwind)
{
}

void ta_functions_loaded(uintptr_t pc)
{
	(void)pc;
}

bool ta_functions_are_on(void)
{
	return false;
}

void ta_functions_list(struct attach_functions *ret_functions)
{
	*ret_functions = (struct attach_functions){ 0 };
}

void ta_functions_commit(void)
{
}

void ta_functions_end(void)
{
}
#endif
