#include "analyze/symbols/symbol-table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"

struct symbol_table *symbol_table_destroy(struct symbol_table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; i < table->functions.n; i++)
		free(table->functions.items[i].pretty);
	for (size_t i = 0; i < table->variables.n; i++)
		free(table->variables.items[i].pretty);
	for (size_t i = 0; i < table->n_sections; i++)
		free(table->sections[i].name);
	array_free(table->tails, table->n_tails, it, free(it->name));
	free_all(table->starts, table->functions.items, table->variables.items, table->sections,
		 table);
	return NULL;
}

/* Which of the object's lists a symbol belongs to; NULL: none. */
static struct symbol_list *list_of(struct symbol_table *table, const GElf_Sym *symbol)
{
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return &table->functions;
	case STT_OBJECT:
	case STT_COMMON:
		return symbol->st_size ? &table->variables : NULL;
	default:
		return NULL;
	}
}

/* What people call a place that has several names: global before weak before local, few '_'. */
static int rank(const GElf_Sym *symbol, const char *name)
{
	int binding = GELF_ST_BIND(symbol->st_info);
	int rank = binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;

	return 4 * rank + (name[0] == '_') + (name[0] == '_' && name[1] == '_');
}

struct candidate {
	struct symbol_entry entry;
	int rank;
};

struct candidates {
	struct candidate *items;
	size_t n;
	size_t n_allocated;
};

DEFINE_ORDER(compare_candidates, struct candidate,
	     BY(entry.address) ?: BY(rank)
			       ?: ORDER(strlen(a->entry.name), strlen(b->entry.name))
				  ?: strcmp(a->entry.name, b->entry.name));

/* The end of the section around an address: where a symbol without a size ends at the latest. */
static uint64_t section_end(struct object *object, uint64_t address)
{
	const struct object_segment *segment = object_segment_at(object, address);
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(object->elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_flags & SHF_ALLOC &&
		    address - header.sh_addr < header.sh_size)
			return header.sh_addr + header.sh_size;
	}
	return segment ? segment->address + segment->memory_bytes : address;
}

/* Of aliases keep the best; give an end to those without; note how far the ones before reach. */
static int settle(struct object *object, struct candidates *candidates, struct symbol_list *list)
{
	uint64_t max_end = 0;

	if (candidates->n)
		qsort(candidates->items, candidates->n, sizeof(*candidates->items),
		      compare_candidates);
	for (size_t i = 0; i < candidates->n; i++) {
		struct symbol_entry entry = candidates->items[i].entry;
		size_t next = i + 1;

		for (; next < candidates->n; next++) {
			const struct symbol_entry *other = &candidates->items[next].entry;

			if (other->address != entry.address)
				break;
			if (other->end > entry.end)
				entry.end = other->end;
		}
		if (entry.end == entry.address) {
			uint64_t end = section_end(object, entry.address);
			uint64_t limit = next < candidates->n
						 ? candidates->items[next].entry.address
						 : UINT64_MAX;

			entry.end = end < limit ? end : limit;
		}
		max_end = entry.end > max_end ? entry.end : max_end;
		entry.max_end = max_end;
		if (array_add(list->items, list->n, list->n_allocated, entry) < 0)
			return -ENOMEM;
		i = next - 1;
	}
	return 0;
}

static int add(struct candidates *candidates, const GElf_Sym *symbol, uint64_t address,
	       const char *name)
{
	return array_add(
		candidates->items, candidates->n, candidates->n_allocated,
		(struct candidate){
			.entry = { .address = address,
				   .end = address + symbol->st_size,
				   .name = name,
				   .is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL },
			.rank = rank(symbol, name),
		});
}

static int read_symbols(struct object *object, struct symbol_table *table,
			struct candidates *functions, struct candidates *variables)
{
	int n = dwfl_module_getsymtab(object->module);

	for (int i = 1; i < n; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		GElf_Word section;
		const char *name = dwfl_module_getsym_info(object->module, i, &symbol, &address,
							   &section, NULL, NULL);
		struct symbol_list *list =
			name && *name && section != SHN_UNDEF ? list_of(table, &symbol) : NULL;

		if (list && add(list == &table->functions ? functions : variables, &symbol, address,
				name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_section(struct symbol_table *table, const char *name, uint64_t address,
		       uint64_t size)
{
	char *label = NULL;

	if (grow_one(&table->sections, table->n_sections, &table->n_sections_allocated) < 0 ||
	    asprintf(&label, "[%s]", name) < 0)
		return -ENOMEM;
	table->sections[table->n_sections++] = (struct symbol_section){ label, address, size };
	return 0;
}

/* Sections first; then the segments, for what lies between them and for files without. */
static int read_sections(struct object *object, struct symbol_table *table)
{
	Elf_Scn *section = NULL;
	size_t names = 0;
	int r = 0;

	if (elf_getshdrstrndx(object->elf, &names) < 0)
		names = 0;
	while (r == 0 && (section = elf_nextscn(object->elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC) ||
		    header.sh_flags & (SHF_EXECINSTR | SHF_TLS))
			continue;
		const char *name = elf_strptr(object->elf, names, header.sh_name);
		r = add_section(table, name && *name ? name : "data", header.sh_addr,
				header.sh_size);
	}
	for (size_t i = 0; r == 0 && i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (!segment->is_executable)
			r = add_section(table, segment->is_writable ? "data" : "rodata",
					segment->address, segment->memory_bytes);
	}
	return r;
}

static struct symbol_table *symbol_table_create(struct object *object)
{
	struct symbol_table *table = calloc(1, sizeof(*table));
	struct candidates functions = { 0 };
	struct candidates variables = { 0 };

	if (table && (read_sections(object, table) < 0 ||
		      read_symbols(object, table, &functions, &variables) < 0 ||
		      settle(object, &functions, &table->functions) < 0 ||
		      settle(object, &variables, &table->variables) < 0))
		table = symbol_table_destroy(table);
	free_all(functions.items, variables.items);
	return table;
}

struct symbol_table *symbol_table_of(struct object *object)
{
	if (!object_open(object))
		return NULL;
	if (!object->symbols)
		object->symbols = symbol_table_create(object);
	return object->symbols;
}

struct symbol_entry *symbol_list_find(const struct symbol_list *list, uint64_t address)
{
	size_t low = array_n_until(list->items, list->n, address, address);

	while (low > 0 && list->items[low - 1].max_end > address) {
		struct symbol_entry *entry = &list->items[--low];

		if (address < entry->end)
			return entry;
	}
	return NULL;
}

const struct symbol_section *symbol_table_section(const struct symbol_table *table,
						  uint64_t address)
{
	return array_find(table->sections, table->n_sections, it, address - it->address < it->size);
}

const struct symbol_entry *symbol_list_named(const struct symbol_list *list, const char *name)
{
	return array_find(list->items, list->n, it, strcmp(it->name, name) == 0);
}

/* ---- Functions without a symbol ---- */

#define MAX_BODY   65536u /* bytes of a function that are looked at */
#define MAX_BEHIND 4 /* names that are told */
#define JUMP	   0xe9 /* jmp rel32 */
#define JUMP_BYTES 5u

DEFINE_ORDER(compare_starts, uint64_t, ORDER(*a, *b));

/* The last start that is not above an address, or NULL. */
static const uint64_t *start_at(const struct symbol_table *table, uint64_t address)
{
	size_t n = array_n_while(table->starts, table->n_starts, it, *it <= address);

	return n ? &table->starts[n - 1] : NULL;
}

/* .eh_frame_hdr as every linker writes it (LSB Core, 10.6.2): 4-byte offsets from its own begin. */
static void read_starts(struct object *object, struct symbol_table *table)
{
	struct {
		uint8_t version, pointer_encoding, count_encoding, table_encoding;
		int32_t pointer;
		uint32_t n;
	} head;
	struct {
		int32_t start, entry;
	} row;
	GElf_Phdr segment;
	size_t n_segments = 0;

	if (elf_getphdrnum(object->elf, &n_segments) < 0)
		return;
	for (size_t i = 0; i < n_segments && !table->starts; i++) {
		if (!gelf_getphdr(object->elf, (int)i, &segment) ||
		    segment.p_type != PT_GNU_EH_FRAME ||
		    object_read(object, segment.p_vaddr, &head, sizeof(head)) < sizeof(head) ||
		    head.version != 1 || head.pointer_encoding != 0x1b ||
		    head.count_encoding != 0x03 || head.table_encoding != 0x3b ||
		    head.n > segment.p_memsz / sizeof(row))
			continue;
		table->starts = calloc(head.n + 1, sizeof(*table->starts));
		for (; table->starts && table->n_starts < head.n; table->n_starts++) {
			uint64_t at = sizeof(head) + table->n_starts * sizeof(row);
			if (object_read(object, segment.p_vaddr + at, &row, sizeof(row)) <
			    sizeof(row))
				break;
			table->starts[table->n_starts] =
				segment.p_vaddr + (uint64_t)(int64_t)row.start;
		}
	}
	if (table->n_starts)
		qsort(table->starts, table->n_starts, sizeof(*table->starts), compare_starts);
}

/* Whether a function without a symbol begins at an address. */
static bool is_nameless(const struct symbol_table *table, uint64_t address)
{
	const uint64_t *start = start_at(table, address);

	return start && *start == address && !symbol_list_find(&table->functions, address);
}

static void add_tail(struct symbol_table *table, uint64_t address, const char *name)
{
	struct symbol_tail tail = { address, strdup(name) };

	if (tail.name && grow_one(&table->tails, table->n_tails, &table->n_tails_allocated) == 0)
		table->tails[table->n_tails++] = tail;
	else
		free(tail.name);
}

/*
 * All jumps of a function that lead to the begin of a nameless one: no other four bytes happen to
 * do so.
 */
static void find_jumps(struct object *object, struct symbol_table *table,
		       const struct symbol_entry *entry, uint8_t *body)
{
	uint64_t n = entry->end - entry->address;

	if (entry->is_local || strncmp(entry->name, "_Z", 2) == 0)
		return;
	n = object_read(object, entry->address, body, n < MAX_BODY ? n : MAX_BODY);
	for (const uint8_t *at = body; (at = memchr(at, JUMP, n - (size_t)(at - body))); at++) {
		uint64_t end = (uint64_t)(at - body) + JUMP_BYTES;
		int32_t distance;

		if (end > n)
			return;
		memcpy(&distance, at + 1, sizeof(distance));
		uint64_t target = entry->address + end + (uint64_t)(int64_t)distance;
		if (is_nameless(table, target))
			add_tail(table, target, entry->name);
	}
}

DEFINE_ORDER(compare_tails, struct symbol_tail, BY(address) ?: strcmp(a->name, b->name));

/*
 * The names of one place become one; some stay, and "..." for the others. Returns how many tails it
 * was.
 */
static size_t join_tails(const struct symbol_tail *tails, size_t n, char **ret_name)
{
	char *joined = NULL;
	size_t n_bytes, n_names = 0, i = 0;
	FILE *out = open_memstream(&joined, &n_bytes);

	for (; i < n && tails[i].address == tails[0].address; i++) {
		if (!out || (i > 0 && strcmp(tails[i].name, tails[i - 1].name) == 0))
			continue;
		n_names++;
		if (n_names <= MAX_BEHIND)
			fprintf(out, "%s%s", n_names > 1 ? ", " : "(behind ", tails[i].name);
	}
	if (out) {
		fputs(n_names > MAX_BEHIND ? ", ...)" : ")", out);
		if (fclose(out) != 0) {
			free(joined);
			joined = NULL;
		}
	}
	*ret_name = joined;
	return i;
}

static void find_tails(struct object *object, struct symbol_table *table)
{
	GElf_Ehdr header;
	uint8_t *body = NULL;
	size_t n_left = 0;

	table->has_tails = true;
	if (!gelf_getehdr(object->elf, &header) || header.e_machine != EM_X86_64)
		return;
	read_starts(object, table);
	if (table->n_starts)
		body = malloc(MAX_BODY);
	for (size_t i = 0; body && i < table->functions.n; i++)
		find_jumps(object, table, &table->functions.items[i], body);
	free(body);
	if (table->n_tails)
		qsort(table->tails, table->n_tails, sizeof(*table->tails), compare_tails);
	for (size_t i = 0, n; i < table->n_tails; i += n) {
		struct symbol_tail tail = { table->tails[i].address, NULL };
		n = join_tails(&table->tails[i], table->n_tails - i, &tail.name);
		for (size_t k = i; k < i + n; k++)
			free(table->tails[k].name);
		if (tail.name)
			table->tails[n_left++] = tail;
	}
	table->n_tails = n_left;
}

const char *symbol_table_tail(struct object *object, struct symbol_table *table, uint64_t address)
{
	if (!table->has_tails)
		find_tails(object, table);

	const uint64_t *start = start_at(table, address);
	size_t n = start ? array_n_until(table->tails, table->n_tails, address, *start) : 0;
	const struct symbol_tail *tail = n ? &table->tails[n - 1] : NULL;

	return tail && tail->address == *start ? tail->name : NULL;
}
