#include "analyze/functions/probes.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/objects.h"
#include "common/array.h"

#define NOTE_KIND     3u /* of "stapsdt" */
#define MAX_ARGUMENTS 12u /* of sdt.h */
#define RSP	      4u

/* ---- Arguments ---- */

/* Name of 64 bits; the others follow from it. */
static const char *const registers[] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
};

static bool is_name(const char *text, size_t n, const char *name)
{
	return strlen(name) == n && memcmp(text, name, n) == 0;
}

/* rdi, edi, di, dil; rax, eax, ax, al, ah; r8, r8d, r8w, r8b. */
static bool find_register(const char *text, size_t n, uint8_t *ret_number, uint8_t *ret_shift)
{
	*ret_shift = 0;
	for (uint8_t i = 0; i < 16; i++) {
		const char *name = registers[i];
		size_t length = strlen(name);
		char old = name[1], high[] = { old, 'h', 0 }, low[] = { old, 'l', 0 };
		char part[] = { name[1], name[2], 'l', 0 };

		*ret_number = i;
		if (is_name(text, n, name))
			return true;
		if (i >= 8) {
			if (n == length + 1 && memcmp(text, name, length) == 0 &&
			    strchr("dwb", text[length]))
				return true;
			continue;
		}
		if ((n == 3 && text[0] == 'e' && memcmp(text + 1, name + 1, 2) == 0) ||
		    is_name(text, n, name + 1) || is_name(text, n, i < RSP ? low : part))
			return true;
		*ret_shift = 8;
		if (i < RSP && is_name(text, n, high))
			return true;
		*ret_shift = 0;
	}
	return false;
}

static bool find_symbol(struct object *object, const char *text, size_t n, uint64_t *ret_address)
{
	int n_symbols = object ? dwfl_module_getsymtab(object->module) : 0;

	for (int i = 1; i < n_symbols; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		GElf_Word section;
		const char *name = dwfl_module_getsym_info(object->module, i, &symbol, &address,
							   &section, NULL, NULL);

		if (name && section != SHN_UNDEF && is_name(text, n, name)) {
			*ret_address = address;
			return true;
		}
	}
	return false;
}

/* "name", "name+8" or "name-8"; a number is none. */
static bool parse_place(struct object *object, const char *text, size_t n, int64_t *ret_address)
{
	size_t n_name = strcspn(text, "+-(");
	uint64_t address;
	char *end = (char *)text + n;

	if (n_name > n)
		n_name = n;
	if (n_name == 0 || (text[0] >= '0' && text[0] <= '9') ||
	    !find_symbol(object, text, n_name, &address))
		return false;
	if (n_name < n)
		address += (uint64_t)strtoll(text + n_name, &end, 0);
	*ret_address = (int64_t)address;
	return end == text + n;
}

/* What lies in parentheses: "%rbp", "%rax,%rbx", "%rax,%rbx,8", ",%rbx,8". */
static bool parse_base(const char *text, struct plan_argument *argument)
{
	size_t n = strcspn(text, ",)");
	const char *index = text + n;
	uint8_t shift;

	if (n > 0 && (text[0] != '%' || !find_register(text + 1, n - 1, &argument->base, &shift)))
		return false;
	if (*index == ')')
		return n > 0 && index[1] == '\0';
	if (*index++ != ',')
		return false;
	n = strcspn(index, ",)");
	if (n < 2 || index[0] != '%' || !find_register(index + 1, n - 1, &argument->index, &shift))
		return false;
	index += n;
	if (*index == ',') {
		static const char scales[] = "1248";
		const char *scale = index[1] ? strchr(scales, index[1]) : NULL;

		if (!scale)
			return false;
		argument->shift = (uint8_t)(scale - scales);
		index += 2;
	}
	return strcmp(index, ")") == 0;
}

static bool parse_memory(struct object *object, const char *text, struct plan_argument *argument)
{
	const char *open = strchr(text, '(');
	size_t n = open ? (size_t)(open - text) : strlen(text);
	char *end;

	argument->kind = PLAN_ARGUMENT_IN_FILE;
	if (!open || strcmp(open, "(%rip)") == 0)
		return parse_place(object, text, n, &argument->add);
	argument->kind = PLAN_ARGUMENT_MEMORY;
	argument->add = strtoll(text, &end, 0);
	return end == open && parse_base(open + 1, argument);
}

bool probe_argument_parse(struct object *object, const char *text, struct plan_argument *ret)
{
	struct plan_argument argument = { .base = PLAN_NO_REGISTER, .index = PLAN_NO_REGISTER };
	char *end;
	long size = strtol(text, &end, 10);
	bool is_read = false;

	if (end == text || *end != '@' || size < -8 || size > 8)
		return false;
	argument.is_signed = size < 0;
	argument.n_bytes = (uint8_t)(size < 0 ? -size : size);
	if ((argument.n_bytes & (argument.n_bytes - 1)) || argument.n_bytes == 0)
		return false;
	text = end + 1;
	if (*text == '$') {
		argument.kind = PLAN_ARGUMENT_CONSTANT;
		/* Of 64 bits the upper half of what is unsigned is written so, too. */
		argument.add = text[1] == '-' ? strtoll(text + 1, &end, 0)
					      : (int64_t)strtoull(text + 1, &end, 0);
		is_read = end > text + 1 && *end == '\0';
	} else if (*text == '%' && !strchr(text, ':')) {
		argument.kind = PLAN_ARGUMENT_REGISTER;
		is_read =
			find_register(text + 1, strlen(text + 1), &argument.base, &argument.shift);
	} else if (*text != '%') {
		is_read = parse_memory(object, text, &argument);
	}
	if (is_read)
		*ret = argument;
	return is_read;
}

/* ---- Notes ---- */

/* Which argument of a probe is what; 0: it has none. The first is the block. */
struct known {
	const char *provider;
	const char *name;
	uint8_t kind;
	uint8_t size;
	uint8_t weighted;
};

static const struct known knowns[] = {
	{ "otel_memory", "alloc", PLAN_PROBE_ALLOC, 2, 3 },
	{ "otel_memory", "free", PLAN_PROBE_FREE, 0, 0 },
	{ "memsight", "alloc", PLAN_PROBE_ALLOC, 2, 4 },
	{ "memsight", "free", PLAN_PROBE_FREE, 0, 0 },
	{ "*", "memsight_alloc", PLAN_PROBE_ALLOC, 2, 3 },
	{ "*", "memsight_free", PLAN_PROBE_FREE, 0, 0 },
};

static const struct known *known_as(const char *provider, const char *name)
{
	return array_find(knowns, COUNT_OF(knowns), it,
			  fnmatch(it->provider, provider, 0) == 0 && strcmp(it->name, name) == 0);
}

/* The description of a note is 3 addresses, and 3 texts one behind the other. */
struct note {
	uint64_t nop;
	uint64_t base; /* where .stapsdt.base was: a prelink moves both */
	uint64_t semaphore;
	const char *provider;
	const char *name;
	const char *arguments;
};

static bool read_note(const char *bytes, size_t n, struct note *ret_note)
{
	const char *end = bytes + n, *at = bytes + 24;
	const char *texts[3];

	if (n < 27)
		return false;
	for (size_t i = 0; i < 3; i++) {
		const char *zero = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;

		if (!zero)
			return false;
		texts[i] = at;
		at = zero + 1;
	}
	memcpy(ret_note, bytes, 24);
	ret_note->provider = texts[0];
	ret_note->name = texts[1];
	ret_note->arguments = texts[2];
	return true;
}

static bool read_arguments(struct object *object, const struct known *known, const char *text,
			   struct probe *probe)
{
	char copy[64];

	for (unsigned number = 1; number <= MAX_ARGUMENTS; number++) {
		size_t n = strcspn(text, " ");
		struct plan_argument *to = number == 1		       ? &probe->arguments[0]
					   : number == known->size     ? &probe->arguments[1]
					   : number == known->weighted ? &probe->arguments[2]
								       : NULL;

		if (n == 0)
			return number > 1 && number > known->size;
		if (to && n >= sizeof(copy))
			return false;
		if (to) {
			memcpy(copy, text, n);
			copy[n] = '\0';
			if (!probe_argument_parse(object, copy, to))
				return false;
		}
		text += n + (text[n] == ' ');
	}
	return true;
}

/* Is it a word of data that may be written, and that the loader does not seal? */
static bool is_counter(struct object *object, uint64_t address)
{
	const struct object_segment *segment = object_segment_at(object, address);
	size_t n = 0;

	elf_getphdrnum(object->elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr head;

		if (gelf_getphdr(object->elf, (int)i, &head) && head.p_type == PT_GNU_RELRO &&
		    address - head.p_vaddr < head.p_memsz)
			return false;
	}
	return segment && segment->is_writable && !segment->is_executable &&
	       address - segment->address + 2 <= segment->memory_bytes;
}

static int add_probe(struct object *object, const struct note *note, struct probes *probes)
{
	const struct known *known = known_as(note->provider, note->name);
	struct probe probe = { .nop = note->nop, .semaphore = note->semaphore };

	if (!known)
		return 0;
	if (grow_array(&probes->items, probes->n, &probes->n_allocated, sizeof(*probes->items)) < 0)
		return -ENOMEM;
	probe.kind = known->kind;
	probe.is_readable = read_arguments(object, known, note->arguments, &probe) &&
			    (note->semaphore == 0 || is_counter(object, note->semaphore));
	probe.provider = strdup(note->provider);
	probe.name = strdup(note->name);
	probes->items[probes->n++] = probe;
	return probe.provider && probe.name ? 0 : -ENOMEM;
}

static uint64_t find_base(struct object *object, size_t names)
{
	Elf_Scn *section = NULL;
	GElf_Shdr head;

	while ((section = elf_nextscn(object->elf, section))) {
		const char *name = gelf_getshdr(section, &head)
					   ? elf_strptr(object->elf, names, head.sh_name)
					   : NULL;

		if (name && strcmp(name, ".stapsdt.base") == 0)
			return head.sh_addr;
	}
	return 0;
}

static int read_section(struct object *object, Elf_Data *data, uint64_t base, struct probes *probes)
{
	size_t at = 0, next, name, text;
	GElf_Nhdr head;
	int r = 0;

	while (r == 0 && (next = gelf_getnote(data, at, &head, &name, &text)) > 0) {
		const char *bytes = data->d_buf;
		struct note note;

		at = next;
		if (head.n_type != NOTE_KIND || head.n_namesz != sizeof("stapsdt") ||
		    memcmp(bytes + name, "stapsdt", sizeof("stapsdt")) != 0 ||
		    !read_note(bytes + text, head.n_descsz, &note))
			continue;
		if (base && note.base) {
			note.nop += base - note.base;
			note.semaphore += note.semaphore ? base - note.base : 0;
		}
		r = add_probe(object, &note, probes);
	}
	return r;
}

DEFINE_ORDER(compare_probes, struct probe, BY(nop));

int probes_read(struct object *object, struct probes *probes)
{
	Elf_Scn *section = NULL;
	size_t names;
	int r = 0;

	if (elf_getshdrstrndx(object->elf, &names) < 0)
		return 0;
	while (r == 0 && (section = elf_nextscn(object->elf, section))) {
		GElf_Shdr head;
		Elf_Data *data;

		if (gelf_getshdr(section, &head) && head.sh_type == SHT_NOTE &&
		    (data = elf_getdata(section, NULL)))
			r = read_section(object, data, find_base(object, names), probes);
	}
	if (probes->n > 0)
		qsort(probes->items, probes->n, sizeof(*probes->items), compare_probes);
	return r;
}

void probes_finish(struct probes *probes)
{
	array_free(probes->items, probes->n, it, free(it->provider), free(it->name));
	*probes = (struct probes){ 0 };
}
