#include "analyze/functions/functions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/functions/code-graph.h"
#include "analyze/functions/never.h"
#include "analyze/functions/rules.h"
#include "analyze/symbols/objects.h"
#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"

const char *function_way_text(enum code_way way)
{
	static const char *const texts[] = {
		[CODE_WAY_NOPS] = "nops",
		[CODE_WAY_JUMP] = "jump",
		[CODE_WAY_SHORT_JUMP] = "short jump",
		[CODE_WAY_UPROBE] = "uprobe",
	};

	return way == CODE_WAY_NONE ? NULL : texts[way];
}

const char *function_why_text(enum code_why why)
{
	static const char *const texts[] = {
		[CODE_WHY_SHORT] = "shorter than a jump",
		[CODE_WHY_ENTERED] = "code jumps to its first instructions",
		[CODE_WHY_FIXED] = "an instruction cannot be moved",
		[CODE_WHY_UNKNOWN] = "unknown instruction",
		[CODE_WHY_MISSING] = "its code is not in the file",
		[CODE_WHY_RESOLVER] = "chooses a function when the file is loaded",
		[CODE_WHY_START] = "begins or ends the program",
		[CODE_WHY_TWICE] = "returns more than once",
		[CODE_WHY_CALLER] = "ends in dlopen, which asks who has called it",
		[CODE_WHY_NEEDED] = "lock, allocator or loader",
		[CODE_WHY_NEAR] = "no room before the next jump of ours",
		[CODE_WHY_ARGUMENTS] = "its arguments cannot be read",
		[CODE_WHY_VARIABLE] = "its file has no variable of 8 bytes as pool=@ names it",
	};

	return why == CODE_WHY_NOT ? NULL : texts[why];
}

/* ---- Symbols ---- */

struct symbol {
	uint64_t start;
	uint64_t end;
	char *name; /* without a version */
	char *pretty; /* NULL: nothing else */
	bool is_local;
	bool is_resolver;
	bool is_address; /* the name is how somebody wrote it */
};

struct symbols {
	struct symbol *items;
	size_t n;
	size_t n_allocated;
};

static void finish_symbols(struct symbols *symbols)
{
	array_free(symbols->items, symbols->n, it, free(it->name), free(it->pretty));
}

/* The part of a function that a compiler has put elsewhere is none. */
static bool is_part(const char *name)
{
	return strstr(name, ".cold") != NULL;
}

static int add_symbol(struct symbols *symbols, const GElf_Sym *symbol, uint64_t address,
		      const char *name)
{
	if (grow_array(&symbols->items, symbols->n, &symbols->n_allocated,
		       sizeof(*symbols->items)) < 0)
		return -ENOMEM;
	struct symbol *item = &symbols->items[symbols->n];
	*item = (struct symbol){
		.start = address,
		.end = address + symbol->st_size,
		.name = strndup(name, strcspn(name, "@")),
		.is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL,
		.is_resolver = GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC,
	};
	if (!item->name)
		return -ENOMEM;
	item->pretty = symbols_demangle(item->name);
	symbols->n++;
	return 0;
}

/* Of several names of a place the global one, with few '_', is the one to be shown. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;
	size_t n_left = strspn(left->name, "_"), n_right = strspn(right->name, "_");

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	if (left->is_address != right->is_address)
		return left->is_address ? 1 : -1;
	if (left->is_local != right->is_local)
		return left->is_local ? 1 : -1;
	if (n_left != n_right)
		return n_left < n_right ? -1 : 1;
	return strcmp(left->name, right->name);
}

static int read_symbols(struct object *object, struct symbols *symbols)
{
	int n = dwfl_module_getsymtab(object->module);
	int r = 0;

	for (int i = 1; r == 0 && i < n; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		GElf_Word section;
		const char *name = dwfl_module_getsym_info(object->module, i, &symbol, &address,
							   &section, NULL, NULL);
		int type = name ? GELF_ST_TYPE(symbol.st_info) : STT_NOTYPE;

		if (name && *name && section != SHN_UNDEF && !is_part(name) &&
		    (type == STT_FUNC || type == STT_GNU_IFUNC))
			r = add_symbol(symbols, &symbol, address, name);
	}
	return r;
}

/* ---- Source files ---- */

struct unit {
	uint64_t start;
	uint64_t end;
	const char *name;
};

struct units {
	struct unit *items;
	size_t n;
	size_t n_allocated;
};

DEFINE_ORDER(compare_units, struct unit, BY(start));

/* What each compilation unit's code covers. */
static int read_units(struct object *object, struct units *units)
{
	Dwarf_Addr bias = 0;
	Dwarf *dwarf = dwfl_module_getdwarf(object->module, &bias);
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	while (dwarf && dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0) {
		const char *name = dwarf_diename(&die);
		Dwarf_Addr base, start, end;
		ptrdiff_t at = 0;

		while (name && (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0) {
			if (grow_array(&units->items, units->n, &units->n_allocated,
				       sizeof(*units->items)) < 0)
				return -ENOMEM;
			units->items[units->n++] = (struct unit){ start + bias, end + bias, name };
		}
	}
	if (units->n)
		qsort(units->items, units->n, sizeof(*units->items), compare_units);
	return 0;
}

static const char *source_of(const struct units *units, uint64_t address)
{
	size_t i = array_n_until(units->items, units->n, start, address);

	return i > 0 && address < units->items[i - 1].end ? units->items[i - 1].name : NULL;
}

/* ---- Choosing ---- */

/* One file while it is looked through. */
struct look {
	struct function_choice *choice;
	struct found_functions *found;
	struct object *object;
	const char *path;
	bool is_system;
	enum never_in nevers; /* that hold for it */
	struct symbols symbols;
	struct units units;
	struct code_function *functions; /* one for each place that has symbols */
	size_t *first; /* its first symbol; one more behind the last */
	const struct function_rule **rules; /* of those that are an allocator's, else NULL */
	size_t n;
	struct probes probes;
};

static void finish_look(struct look *look)
{
	finish_symbols(&look->symbols);
	free_all(look->units.items, look->functions, look->first);
	probes_finish(&look->probes);
	free(look->rules);
}
#define auto_look __attribute__((cleanup(finish_look)))

/* ---- Addresses ---- */

static void keep_nearer(uint64_t address, uint64_t other, uint64_t *nearest)
{
	uint64_t old = *nearest > address ? *nearest - address : address - *nearest;
	uint64_t new = other > address ? other - address : address - other;

	if (new < old)
		*nearest = other;
}

/* The place of a function: what its symbol, or else the file's code, says of it. */
static bool find_begin(const struct symbols *symbols, const struct code_graph *graph,
		       uint64_t address, struct symbol *ret_symbol, uint64_t *ret_nearest)
{
	*ret_nearest = 0;
	for (size_t i = 0; i < symbols->n; i++) {
		ret_symbol->start = symbols->items[i].start;
		ret_symbol->end = symbols->items[i].end;
		if (ret_symbol->start == address)
			return true;
		keep_nearer(address, ret_symbol->start, ret_nearest);
	}
	for (size_t i = 0; graph && i < graph->n; i++) {
		ret_symbol->start = graph->functions[i].start;
		if (graph->functions[i].whole != i) /* a cold part */
			continue;
		if (ret_symbol->start == address) {
			ret_symbol->end = code_graph_end(graph, (uint32_t)i);
			return true;
		}
		keep_nearer(address, ret_symbol->start, ret_nearest);
	}
	return false;
}

/* No texts of the code are looked for. */
static const char *const no_texts[] = { NULL };

/* What is meant by address is a symbol with that for its name; what begins nowhere is none. */
static int add_addresses(struct look *look, struct object *object)
{
	auto_code_graph struct code_graph *graph = NULL;
	struct nearest_name *nearest;
	uint64_t address, near;
	const char *text;
	size_t at = 0;
	int r = 0;

	while (r == 0 && (text = function_choice_address(look->choice, look->path, &at, &address,
							 &nearest))) {
		struct symbol found = { .is_address = true };

		if (!graph && !find_begin(&look->symbols, NULL, address, &found, &near))
			r = code_graph_create(object, no_texts, &graph);
		if (r < 0 && r != -ENOEXEC)
			return r;
		if (!find_begin(&look->symbols, graph, address, &found, &near)) {
			snprintf(nearest->name, sizeof(nearest->name), "0x%" PRIx64, near);
			r = 0;
			continue;
		}
		r = grow_one(&look->symbols.items, look->symbols.n, &look->symbols.n_allocated);
		found.name = r == 0 ? strdup(text) : NULL;
		if (!found.name)
			return -ENOMEM;
		look->symbols.items[look->symbols.n++] = found;
	}
	return r;
}

/* One function for all symbols of a place. A symbol without a size reaches to the next one. */
static int group(struct look *look)
{
	const struct symbols *symbols = &look->symbols;

	look->functions = calloc(symbols->n + 1, sizeof(*look->functions));
	look->first = calloc(symbols->n + 1, sizeof(*look->first));
	look->rules = calloc(symbols->n + 1, sizeof(*look->rules));
	if (!look->functions || !look->first || !look->rules)
		return -ENOMEM;
	for (size_t i = 0; i < symbols->n; i++) {
		const struct symbol *symbol = &symbols->items[i];
		struct code_function *last = look->n ? &look->functions[look->n - 1] : NULL;

		if (last && last->start == symbol->start) {
			last->end = symbol->end > last->end ? symbol->end : last->end;
			continue;
		}
		if (last && last->end == last->start)
			last->end = symbol->start;
		look->first[look->n] = i;
		look->functions[look->n++] =
			(struct code_function){ .start = symbol->start, .end = symbol->end };
	}
	look->first[look->n] = symbols->n;
	return 0;
}

static bool takes(const struct look *look, size_t i, const char **names, const char **pretty)
{
	size_t first = look->first[i];
	struct function_names of = {
		.names = names,
		.pretty = pretty,
		.n = look->first[i + 1] - first,
		.source = source_of(&look->units, look->functions[i].start),
		.file = look->path,
		.is_system = look->is_system,
	};

	for (size_t k = 0; k < of.n; k++) {
		names[k] = look->symbols.items[first + k].name;
		pretty[k] = look->symbols.items[first + k].pretty;
	}
	look->found->n_all++;
	return function_choice_takes(look->choice, &of, &look->rules[i]);
}

static void forbid(const struct look *look, size_t i)
{
	struct code_function *function = &look->functions[i];

	for (size_t k = look->first[i]; k < look->first[i + 1]; k++) {
		const struct symbol *symbol = &look->symbols.items[k];
		enum code_why why = symbol->is_resolver
					    ? CODE_WHY_RESOLVER
					    : function_why_never(symbol->name, look->nevers);

		if (why == CODE_WHY_NOT)
			continue;
		function->way = CODE_WAY_NONE;
		function->why = (uint8_t)why;
	}
}

static void finish_found(struct found_function *item)
{
	if (item->probe) {
		free_all(item->probe->provider, item->probe->name);
	}
	free_all(item->probe, item->exits.items, item->allocator, item->name, item->module);
}

static int keep_found(struct found_functions *found, struct found_function *item)
{
	if (!item->name || !item->module ||
	    grow_array(&found->items, found->n, &found->n_allocated, sizeof(*found->items)) < 0) {
		finish_found(item);
		return -ENOMEM;
	}
	found->n_files += !found->n || found->items[found->n - 1].file != item->file;
	found->items[found->n++] = *item;
	return 0;
}

/* ELF address of a variable of 8 bytes; 0: the file has none of that name. */
static uint64_t find_variable(struct object *object, const char *wanted)
{
	int n = dwfl_module_getsymtab(object->module);

	for (int i = 1; i < n; i++) {
		GElf_Addr address;
		GElf_Word section;
		GElf_Sym symbol;
		const char *name = dwfl_module_getsym_info(object->module, i, &symbol, &address,
							   &section, NULL, NULL);

		if (name && section != SHN_UNDEF && symbol.st_size == sizeof(uint64_t) &&
		    GELF_ST_TYPE(symbol.st_info) == STT_OBJECT &&
		    strncmp(name, wanted, strlen(wanted)) == 0 &&
		    (!name[strlen(wanted)] || name[strlen(wanted)] == '@'))
			return address;
	}
	return 0;
}

static int refuse_uprobe(struct found_function *item, enum code_why why)
{
	item->code.way = CODE_WAY_NONE;
	item->code.why = (uint8_t)why;
	return 0;
}

/*
 * Nothing is replaced, and no code of ours runs: of what bars a jump little is left. Addresses
 * become places in the file.
 */
static int use_uprobes(struct object *object, struct found_function *item)
{
	const struct code_function *code = &item->code;
	const struct object_segment *segment = object_segment_at(object, code->start);

	if (code->way == CODE_WAY_NONE &&
	    (code->why == CODE_WHY_MISSING || code->why == CODE_WHY_RESOLVER ||
	     code->why == CODE_WHY_START || code->why == CODE_WHY_TWICE))
		return 0;
	if (code->loops)
		return refuse_uprobe(item, CODE_WHY_ENTERED);
	int r = segment ? code_exits_find(object, code, &item->exits) : -ENODATA;
	if (r == -ENODATA)
		return refuse_uprobe(item, CODE_WHY_UNKNOWN);
	if (r < 0)
		return r;
	item->code.way = CODE_WAY_UPROBE;
	item->code.why = CODE_WHY_NOT;
	item->entry = code->start - segment->address + segment->file_offset;
	for (size_t i = 0; i < item->exits.n; i++) {
		segment = object_segment_at(object, item->exits.items[i]);
		item->exits.items[i] += segment->file_offset - segment->address;
	}
	return 0;
}

static int add_found(const struct look *look, size_t i, bool by_uprobes)
{
	const struct code_function *function = &look->functions[i];
	const struct symbol *symbol = &look->symbols.items[look->first[i]];
	const char *source = source_of(&look->units, function->start);
	struct found_functions *found = look->found;
	struct found_function item = {
		.name = strdup(symbol->pretty ? symbol->pretty : symbol->name),
		.module = strdup(source ? source : text_base_name(look->path)),
		.file = look->path,
		.code = *function,
	};

	if (look->rules[i]) {
		item.allocator = strdup(look->rules[i]->allocator);
		item.rule = look->rules[i]->plan;
		if (look->rules[i]->variable) {
			item.variable = find_variable(look->object, look->rules[i]->variable);
			if (!item.variable && item.code.way != CODE_WAY_NONE) {
				item.code.way = CODE_WAY_NONE;
				item.code.why = CODE_WHY_VARIABLE;
			}
		}
		if (!item.allocator) {
			finish_found(&item);
			return -ENOMEM;
		}
	} else if (by_uprobes && use_uprobes(look->object, &item) < 0) {
		finish_found(&item);
		return -ENOMEM;
	}
	return keep_found(found, &item);
}

/* What was found of the code of probes. */
struct probe_codes {
	struct code_probe *items; /* by place */
	size_t n;
};

static void finish_codes(struct probe_codes *codes)
{
	free(codes->items);
}
#define auto_codes __attribute__((cleanup(finish_codes)))

static int add_probe(struct look *look, const struct probe *probe, const struct code_function *code)
{
	struct found_function item = {
		.module = strdup(text_base_name(look->path)),
		.file = look->path,
		.code = *code,
		.probe = malloc(sizeof(*item.probe)),
	};

	if (asprintf(&item.name, "%s:%s", probe->provider, probe->name) < 0)
		item.name = NULL;
	if (item.probe) {
		*item.probe = *probe;
		item.probe->provider = strdup(probe->provider);
		item.probe->name = strdup(probe->name);
	}
	if (!item.probe || !item.probe->provider || !item.probe->name) {
		finish_found(&item);
		return -ENOMEM;
	}
	look->found->n_probes++;
	return keep_found(look->found, &item);
}

/* A probe is there in all of its places, or not at all; who listens is counted once. */
static int add_places(struct look *look, struct probe *probe, const struct probe_codes *codes)
{
	const struct code_function *refused = NULL;
	struct code_function none;
	int r = 0;

	for (size_t i = 0; i < codes->n; i++)
		if (codes->items[i].nop == probe->nop && codes->items[i].code.way == CODE_WAY_NONE)
			refused = &codes->items[i].code;
	if (refused || !probe->is_readable) {
		none = (struct code_function){
			.start = probe->nop,
			.way = CODE_WAY_NONE,
			.why = probe->is_readable ? refused->why : CODE_WHY_ARGUMENTS,
		};
		return add_probe(look, probe, &none);
	}
	for (size_t i = 0; r == 0 && i < codes->n; i++) {
		if (codes->items[i].nop != probe->nop)
			continue;
		r = add_probe(look, probe, &codes->items[i].code);
		probe->semaphore = 0;
	}
	return r;
}

DEFINE_ORDER(compare_codes, struct code_probe, BY(place));

/* In place of a nop at which no jump fits: the branches that lead to it. */
static int branch_off(struct probe_codes *codes)
{
	struct probe_codes more = { 0 };
	size_t n = codes->n;

	for (size_t i = 0; i < codes->n; i++)
		n += codes->items[i].n_branches;
	more.items = calloc(n + 1, sizeof(*more.items));
	if (!more.items)
		return -ENOMEM;
	for (size_t i = 0; i < codes->n; i++) {
		const struct code_probe *code = &codes->items[i];
		bool is_off = code->code.way == CODE_WAY_NONE && code->n_branches > 0;

		for (unsigned k = 0; is_off && k < code->n_branches; k++)
			more.items[more.n++] =
				(struct code_probe){ .place = code->branches[k], .nop = code->nop };
		if (!is_off)
			more.items[more.n++] =
				(struct code_probe){ .place = code->nop, .nop = code->nop };
	}
	qsort(more.items, more.n, sizeof(*more.items), compare_codes);
	free(codes->items);
	*codes = more;
	return 0;
}

/* Look through the file's code. */
static int scan(struct look *look, struct object *object, struct probe_codes *codes)
{
	const struct probes *probes = &look->probes;
	bool is_short = false;

	codes->items = calloc(probes->n + 1, sizeof(*codes->items));
	if (!codes->items)
		return -ENOMEM;
	codes->n = probes->n;
	for (size_t i = 0; i < probes->n; i++)
		codes->items[i].place = codes->items[i].nop = probes->items[i].nop;
	int r = code_scan(object,
			  &(struct code_wish){ look->functions, look->n, codes->items, codes->n });
	for (size_t i = 0; i < codes->n; i++)
		is_short |=
			codes->items[i].code.way == CODE_WAY_NONE && codes->items[i].n_branches > 0;
	if (r < 0 || !is_short)
		return r;
	r = branch_off(codes);
	return r < 0 ? r
		     : code_scan(object, &(struct code_wish){ look->functions, look->n,
							      codes->items, codes->n });
}

static int choose(struct look *look, bool *is_taken)
{
	size_t most = 1;

	for (size_t i = 0; i < look->n; i++)
		if (look->first[i + 1] - look->first[i] > most)
			most = look->first[i + 1] - look->first[i];
	auto_free const char **names = calloc(most, sizeof(*names));
	auto_free const char **pretty = calloc(most, sizeof(*pretty));
	if (!names || !pretty)
		return -ENOMEM;
	for (size_t i = 0; i < look->n; i++)
		is_taken[i] = takes(look, i, names, pretty);
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct found_function *left = a, *right = b;
	uint64_t at = left->code.start + left->code.at, other = right->code.start + right->code.at;

	return at < other ? -1 : at > other;
}

static bool takes_room(const struct code_function *code)
{
	return code->way != CODE_WAY_NONE && code->way != CODE_WAY_UPROBE;
}

/* All that is wanted of the file, by address. A jump of ours lies in no other one. */
static int add_all(struct look *look, const struct functions_wish *wish, const bool *is_taken,
		   const struct probe_codes *codes)
{
	size_t first = look->found->n;
	uint64_t end = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < look->n; i++) {
		if (!is_taken[i] ||
		    (look->functions[i].n_instructions < wish->min_instructions && !look->rules[i]))
			continue;
		forbid(look, i);
		r = add_found(look, i, wish->by_uprobes);
	}
	for (size_t i = 0; r == 0 && i < look->probes.n; i++)
		r = add_places(look, &look->probes.items[i], codes);
	if (look->found->n > first)
		qsort(&look->found->items[first], look->found->n - first,
		      sizeof(*look->found->items), compare_found);
	for (size_t i = first; i < look->found->n; i++) {
		struct code_function *code = &look->found->items[i].code;

		if (takes_room(code) && code->start + code->at < end) {
			code->way = CODE_WAY_NONE;
			code->why = CODE_WHY_NEAR;
		}
		if (takes_room(code) && code->way != CODE_WAY_SHORT_JUMP)
			end = code->start + code->at +
			      (code->n_moved_bytes > CODE_JUMP_BYTES ? code->n_moved_bytes
								     : CODE_JUMP_BYTES);
	}
	return r;
}

static int look_into(struct look *look, struct object *object, const struct functions_wish *wish)
{
	int r = wish->probes ? probes_read(object, &look->probes) : 0;

	r = r ?: read_symbols(object, &look->symbols);
	if (r == 0 && look->choice)
		r = add_addresses(look, object);
	if (look->symbols.n)
		qsort(look->symbols.items, look->symbols.n, sizeof(*look->symbols.items),
		      compare_symbols);
	if (r == 0 && look->choice && function_choice_needs_sources(look->choice))
		r = read_units(object, &look->units);
	r = r ?: group(look);
	auto_free bool *is_taken = calloc(look->n + 1, sizeof(*is_taken));
	auto_codes struct probe_codes codes = { 0 };
	if (r == 0)
		r = !is_taken ? -ENOMEM : look->choice ? choose(look, is_taken) : 0;
	/* Of a file of which nothing is wanted nothing need be decoded. */
	if (r < 0 || (!memchr(is_taken, true, look->n) && look->probes.n == 0))
		return r;
	r = scan(look, object, &codes);
	if (r == 0 && !look->units.n)
		r = read_units(object, &look->units);
	return r < 0 ? r : add_all(look, wish, is_taken, &codes);
}

int functions_find(const struct functions_wish *wish, const char *path,
		   struct found_functions *found)
{
	enum system_file kind = function_system_file(path);
	struct objects *objects = NULL;
	bool is_choosing =
		wish->choice && function_choice_takes_file(wish->choice, path, kind != SYSTEM_NONE);

	if (kind == SYSTEM_LOADER || (!is_choosing && !wish->probes))
		return 0;
	int r = objects_create(NULL, &objects);
	if (r < 0)
		return r;
	struct object *object = objects_get(objects, NULL, 0, path, strlen(path));
	{
		auto_look struct look look = {
			.choice = is_choosing ? wish->choice : NULL,
			.found = found,
			.object = object,
			.path = path,
			.is_system = kind != SYSTEM_NONE,
		};

		look.nevers = kind != SYSTEM_NONE		   ? NEVER_IN_SYSTEM
			      : object && object_is_static(object) ? NEVER_IN_LIBC
								   : NEVER_ANYWHERE;
		r = !object		  ? -ENOMEM
		    : object_open(object) ? look_into(&look, object, wish)
					  : -ENOEXEC;
	}
	objects_destroy(objects);
	return r;
}

void functions_finish(struct found_functions *found)
{
	array_free(found->items, found->n, it, finish_found(it));
	*found = (struct found_functions){ 0 };
}
