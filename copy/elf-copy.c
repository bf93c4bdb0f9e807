#include "copy/elf-copy.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "copy/copy-note.h"
#include "schemas/copy.h"

#define MAX_SEGMENTS 128u
#define ALIGN	     16u /* of what is put behind each other */
#define MAX_BYTES    (UINT64_C(1) << 40) /* of a segment */

/* The largest page that the kernel may have. */
#if defined(__x86_64__)
#define MACHINE	   EM_X86_64
#define PAGE_BYTES UINT64_C(0x1000)
#elif defined(__aarch64__)
#define MACHINE	   EM_AARCH64
#define PAGE_BYTES UINT64_C(0x10000)
#else
#define MACHINE	   EM_PPC64
#define PAGE_BYTES UINT64_C(0x10000)
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTE_ORDER_HERE ELFDATA2LSB
#else
#define BYTE_ORDER_HERE ELFDATA2MSB
#endif

struct copying {
	struct elf_copy *copy;
	char *message;
	const struct elf_original *original;
	Elf64_Ehdr head;
	Elf64_Phdr segments[MAX_SEGMENTS + 1];
	unsigned n_segments;
	Elf64_Phdr *dynamic; /* in segments */
	Elf64_Dyn *entries; /* owned: with the one that is added */
	size_t n_entries;
	bool has_dynamic_moved;
	Elf64_Shdr *sections; /* owned: with room for one more; NULL: it has none */
	uint64_t old_strings; /* address */
	uint64_t old_strings_at; /* offset in the file */
	uint64_t old_strings_bytes;
	uint64_t address; /* of the new segment */
	uint64_t moved; /* offset in the file of what makes room for the table of segments */
	uint64_t moved_end;
	size_t moved_at; /* in more */
	size_t strings_at;
	size_t dynamic_at;
	size_t n_loaded; /* bytes of more that are in the segment */
};

static int refuse(struct copying *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct copying *c, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(c->message, COPY_MESSAGE_BYTES, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int refuse_damaged(struct copying *c, const char *what)
{
	return refuse(c, "is damaged or cut off: %s", what);
}

static int refuse_static(struct copying *c)
{
	return refuse(c, "is linked statically: it has no loader that could start recording");
}

static uint64_t round_up(uint64_t number, uint64_t to)
{
	return (number + to - 1) / to * to;
}

/* Whether the file has these bytes. */
static bool has(const struct copying *c, uint64_t at, uint64_t n_bytes)
{
	return at <= c->copy->n_bytes && n_bytes <= c->copy->n_bytes - at;
}

/* The file offset of n_bytes at an address; 0: no segment loads them from the file. */
static uint64_t offset_of(const struct copying *c, uint64_t address, uint64_t n_bytes)
{
	for (unsigned i = 0; i < c->n_segments; i++) {
		const Elf64_Phdr *load = &c->segments[i];
		uint64_t in = address - load->p_vaddr;

		if (load->p_type == PT_LOAD && address >= load->p_vaddr && in <= load->p_filesz &&
		    n_bytes <= load->p_filesz - in && load->p_offset <= c->copy->n_bytes &&
		    has(c, load->p_offset + in, n_bytes))
			return load->p_offset + in;
	}
	return 0;
}

static int read_head(struct copying *c)
{
	const unsigned char *ident = c->head.e_ident;

	if (c->copy->n_bytes >= 2 && memcmp(c->copy->bytes, "#!", 2) == 0)
		return refuse(c, "is a script: make a copy of a program that it starts, or of the "
				 "one that its first line names");
	if (!has(c, 0, SELFMAG) || memcmp(c->copy->bytes, ELFMAG, SELFMAG) != 0)
		return refuse(c, "is no ELF file");
	if (!has(c, 0, sizeof(c->head)))
		return refuse_damaged(c, "it ends within its first 64 bytes");
	memcpy(&c->head, c->copy->bytes, sizeof(c->head));
	if (ident[EI_CLASS] != ELFCLASS64)
		return refuse(c, "is a file of 32 bits");
	if (ident[EI_DATA] != BYTE_ORDER_HERE || c->head.e_machine != MACHINE)
		return refuse(c, "is for another processor (ELF machine %u)", c->head.e_machine);
	if (c->head.e_type != ET_EXEC && c->head.e_type != ET_DYN)
		return refuse(c, "is neither a program nor a library (an object file or a core)");
	if (c->head.e_phentsize != sizeof(Elf64_Phdr) || c->head.e_phnum == 0 ||
	    !has(c, c->head.e_phoff, c->head.e_phnum * sizeof(Elf64_Phdr)))
		return refuse_damaged(c, "its table of segments is not there");
	if (c->head.e_phnum > MAX_SEGMENTS)
		return refuse(c, "has %u segments, more than %u", c->head.e_phnum, MAX_SEGMENTS);
	c->n_segments = c->head.e_phnum;
	memcpy(c->segments, c->copy->bytes + c->head.e_phoff, c->n_segments * sizeof(Elf64_Phdr));
	return 0;
}

static Elf64_Phdr *last_load(struct copying *c)
{
	Elf64_Phdr *last = NULL;

	for (unsigned i = 0; i < c->n_segments; i++) {
		if (c->segments[i].p_type == PT_LOAD)
			last = &c->segments[i];
	}
	return last;
}

static int check_segments(struct copying *c)
{
	const Elf64_Phdr *last = last_load(c);
	struct copy_note note;
	bool has_interpreter = false;
	uint64_t from = 0;

	for (unsigned i = 0; i < c->n_segments; i++) {
		const Elf64_Phdr *segment = &c->segments[i];

		has_interpreter |= segment->p_type == PT_INTERP;
		if (segment->p_type == PT_DYNAMIC)
			c->dynamic = &c->segments[i];
		if (segment->p_type != PT_LOAD)
			continue;
		if (!has(c, segment->p_offset, segment->p_filesz))
			return refuse_damaged(c, "a segment lies behind its end");
		if (segment->p_vaddr < from || segment->p_memsz > MAX_BYTES ||
		    segment->p_vaddr > UINT64_MAX / 2)
			return refuse_damaged(c, "its segments lie in no order");
		from = segment->p_vaddr + segment->p_memsz;
	}
	if (!last)
		return refuse_damaged(c, "no segment of it is loaded");
	if (copy_note_parse(c->copy->bytes + last->p_offset, last->p_filesz, &note) != -ENOENT)
		return refuse(c, "is such a copy itself: make one of its original");
	if (!c->dynamic)
		return refuse_static(c);
	if (!has(c, c->dynamic->p_offset, c->dynamic->p_filesz))
		return refuse_damaged(c, "its dynamic section is not there");
	return has_interpreter || c->head.e_type == ET_DYN ? 0 : refuse_static(c);
}

static bool may_be_left_out(const Elf64_Dyn *entry)
{
	/* How many of the relocations need no symbol: the loader is a little faster with it. */
	return entry->d_tag == DT_RELACOUNT || entry->d_tag == DT_RELCOUNT;
}

/* The entries up to and with the first DT_NULL, behind a new one. */
static int take_entries(struct copying *c)
{
	size_t n_old = c->dynamic->p_filesz / sizeof(Elf64_Dyn), n = 0;

	c->entries = calloc(n_old + 1, sizeof(*c->entries));
	if (!c->entries)
		return -ENOMEM;
	memcpy(c->entries + 1, c->copy->bytes + c->dynamic->p_offset, n_old * sizeof(Elf64_Dyn));
	while (n < n_old && c->entries[1 + n].d_tag != DT_NULL)
		n++;
	if (n == n_old)
		return refuse_damaged(c, "its dynamic section has no end");
	c->n_entries = n + 2;
	/* Linkers leave room; where they did not, an entry that is no necessity gives its own. */
	for (size_t i = 1; i <= n && c->n_entries > n_old; i++) {
		if (!may_be_left_out(&c->entries[i]))
			continue;
		memmove(c->entries + i, c->entries + i + 1,
			(c->n_entries - i - 1) * sizeof(*c->entries));
		c->n_entries--;
	}
	c->has_dynamic_moved = c->n_entries > n_old;
	return 0;
}

static Elf64_Dyn *entry_of(struct copying *c, int64_t tag)
{
	for (size_t i = 1; i < c->n_entries; i++) {
		if (c->entries[i].d_tag == tag)
			return &c->entries[i];
	}
	return NULL;
}

static int read_dynamic(struct copying *c)
{
	int r = take_entries(c);

	if (r < 0)
		return r;
	const Elf64_Dyn *strings = entry_of(c, DT_STRTAB), *size = entry_of(c, DT_STRSZ);
	const Elf64_Dyn *flags = entry_of(c, DT_FLAGS_1);
	if (!strings || !size)
		return refuse_damaged(c, "its dynamic section names no strings");
	c->old_strings = strings->d_un.d_val;
	c->old_strings_bytes = size->d_un.d_val;
	c->old_strings_at = offset_of(c, c->old_strings, c->old_strings_bytes);
	if (!c->old_strings_at)
		return refuse_damaged(c, "its dynamic strings are not there");
	bool is_program = flags && flags->d_un.d_val & DF_1_PIE;
	for (unsigned i = 0; i < c->n_segments && is_program; i++)
		is_program = c->segments[i].p_type != PT_INTERP;
	return is_program ? refuse_static(c) : 0;
}

static int read_sections(struct copying *c)
{
	size_t n = c->head.e_shnum, n_bytes = n * sizeof(Elf64_Shdr);

	if (c->head.e_shoff == 0)
		return 0;
	if (n == 0 || n + 1 >= SHN_LORESERVE || c->head.e_shentsize != sizeof(Elf64_Shdr) ||
	    !has(c, c->head.e_shoff, n_bytes) || c->head.e_shstrndx >= n)
		return refuse_damaged(c, "its table of sections is not there");
	c->sections = malloc(n_bytes + sizeof(Elf64_Shdr));
	if (!c->sections)
		return -ENOMEM;
	memcpy(c->sections, c->copy->bytes + c->head.e_shoff, n_bytes);
	const Elf64_Shdr *names = &c->sections[c->head.e_shstrndx];
	return names->sh_type == SHT_NOBITS || names->sh_size > UINT32_MAX ||
			       !has(c, names->sh_offset, names->sh_size)
		       ? refuse_damaged(c, "the names of its sections are not there")
		       : 0;
}

/* Segments that name where something lies which nothing else refers to. */
static bool may_move(const Elf64_Phdr *segment)
{
	return segment->p_type == PT_INTERP || segment->p_type == PT_NOTE ||
	       segment->p_type == PT_GNU_PROPERTY;
}

/* Entries of the dynamic section that alone refer to a whole section. */
static bool is_reference(const Elf64_Dyn *entry)
{
	return entry->d_tag == DT_GNU_HASH || entry->d_tag == DT_HASH ||
	       entry->d_tag == DT_SYMTAB || entry->d_tag == DT_VERSYM || entry->d_tag == DT_VERNEED;
}

static bool may_move_section(const struct copying *c, const Elf64_Shdr *section)
{
	for (size_t i = 1; i < c->n_entries && section->sh_type != SHT_NOBITS; i++) {
		if (is_reference(&c->entries[i]) && c->entries[i].d_un.d_val == section->sh_addr &&
		    offset_of(c, section->sh_addr, section->sh_size) == section->sh_offset)
			return true;
	}
	return false;
}

/* Let these bytes move, if they lie behind what moves so far, with zeros between at most. */
static bool add_moved(struct copying *c, uint64_t at, uint64_t n_bytes)
{
	if (at < c->moved || !has(c, at, n_bytes) || at + n_bytes <= c->moved_end ||
	    at >= c->moved_end + ALIGN)
		return false;
	for (uint64_t i = c->moved_end; i < at; i++) {
		if (c->copy->bytes[i])
			return false;
	}
	c->moved_end = at + n_bytes;
	return true;
}

/* Let what lies next move, if it may and begins before `before`; false: nothing. */
static bool move_next(struct copying *c, uint64_t before)
{
	for (unsigned i = 0; i < c->n_segments; i++) {
		const Elf64_Phdr *segment = &c->segments[i];

		if (may_move(segment) && segment->p_offset < before &&
		    add_moved(c, segment->p_offset, segment->p_filesz))
			return true;
	}
	for (unsigned i = 0; c->sections && i < c->head.e_shnum; i++) {
		const Elf64_Shdr *section = &c->sections[i];

		if (may_move_section(c, section) && section->sh_offset < before &&
		    add_moved(c, section->sh_offset, section->sh_size))
			return true;
	}
	return false;
}

/*
 * Room for one more line behind the table of segments: the loader's name, the notes, and tables
 * of symbols lie there, and can lie elsewhere. The table itself must stay behind the head, where
 * strip writes it.
 */
static int find_room(struct copying *c)
{
	c->moved = c->moved_end = c->head.e_phoff + c->n_segments * sizeof(Elf64_Phdr);
	while (c->moved_end - c->moved < sizeof(Elf64_Phdr)) {
		if (!move_next(c, UINT64_MAX))
			return refuse(c, "has no room for another line in its table of segments");
	}
	/* What has begun to move moves as a whole: a segment may hold several notes. */
	while (move_next(c, c->moved_end))
		continue;
	return 0;
}

/* A line for the new segment in the table, behind the last that is loaded. */
static Elf64_Phdr *add_segment(struct copying *c)
{
	unsigned at = (unsigned)(last_load(c) - c->segments) + 1;
	unsigned n_dynamic = (unsigned)(c->dynamic - c->segments);
	uint64_t end = 0;

	for (unsigned i = 0; i < c->n_segments; i++) {
		const Elf64_Phdr *load = &c->segments[i];

		if (load->p_type == PT_LOAD && load->p_vaddr + load->p_memsz > end)
			end = load->p_vaddr + load->p_memsz;
	}
	c->address = round_up(end, PAGE_BYTES);
	c->copy->more_at = round_up(c->copy->n_bytes, PAGE_BYTES);
	memmove(c->segments + at + 1, c->segments + at, (c->n_segments - at) * sizeof(Elf64_Phdr));
	c->n_segments++;
	c->dynamic = c->segments + n_dynamic + (n_dynamic >= at);
	return &c->segments[at];
}

/* n_bytes more (NULL: zeros) from a multiple of align on. Where, or 0: no memory, or the first. */
static size_t append(struct copying *c, const void *from, size_t n_bytes, unsigned align)
{
	size_t at = round_up(c->copy->n_more, align);

	uint8_t *more = realloc(c->copy->more, at + n_bytes);
	if (!more)
		return 0;
	c->copy->more = more;
	memset(more + c->copy->n_more, 0, at + n_bytes - c->copy->n_more);
	if (from)
		memcpy(more + at, from, n_bytes);
	c->copy->n_more = at + n_bytes;
	return at;
}

/* What the new segment holds, behind the note. */
static int fill_segment(struct copying *c)
{
	const uint8_t *bytes = c->copy->bytes;
	uint64_t from = c->moved - c->moved % ALIGN;

	c->moved_at = append(c, bytes + from, c->moved_end - from, ALIGN);
	c->strings_at = append(c, bytes + c->old_strings_at, c->old_strings_bytes, ALIGN);
	if (!c->moved_at || !c->strings_at ||
	    !append(c, c->original->library, strlen(c->original->library) + 1, 1))
		return -ENOMEM;
	c->moved_at += c->moved - from;
	if (c->has_dynamic_moved)
		c->dynamic_at = append(c, NULL, c->n_entries * sizeof(Elf64_Dyn), ALIGN);
	c->n_loaded = c->copy->n_more;
	return c->has_dynamic_moved && !c->dynamic_at ? -ENOMEM : 0;
}

static bool has_moved(const struct copying *c, uint64_t offset)
{
	return offset >= c->moved && offset < c->moved_end;
}

static void set_dynamic(struct copying *c)
{
	size_t n_bytes = c->n_entries * sizeof(Elf64_Dyn);

	for (size_t i = 1; i < c->n_entries; i++) {
		Elf64_Dyn *entry = &c->entries[i];
		uint64_t at = is_reference(entry) ? offset_of(c, entry->d_un.d_val, 0) : 0;

		if (has_moved(c, at))
			entry->d_un.d_val = c->address + c->moved_at + at - c->moved;
	}
	entry_of(c, DT_STRTAB)->d_un.d_val = c->address + c->strings_at;
	entry_of(c, DT_STRSZ)->d_un.d_val = c->old_strings_bytes + strlen(c->original->library) + 1;
	c->entries[0].d_tag = DT_NEEDED;
	c->entries[0].d_un.d_val = c->old_strings_bytes;
	if (!c->has_dynamic_moved) {
		memset(c->copy->bytes + c->dynamic->p_offset, 0, c->dynamic->p_filesz);
		memcpy(c->copy->bytes + c->dynamic->p_offset, c->entries, n_bytes);
		return;
	}
	memcpy(c->copy->more + c->dynamic_at, c->entries, n_bytes);
	c->dynamic->p_offset = c->copy->more_at + c->dynamic_at;
	c->dynamic->p_vaddr = c->dynamic->p_paddr = c->address + c->dynamic_at;
	c->dynamic->p_filesz = c->dynamic->p_memsz = n_bytes;
}

static void set_segments(struct copying *c, Elf64_Phdr *new)
{
	uint64_t at = c->moved_at - c->moved;

	*new = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = c->has_dynamic_moved ? PF_R | PF_W : PF_R,
		.p_offset = c->copy->more_at,
		.p_vaddr = c->address,
		.p_paddr = c->address,
		.p_filesz = c->n_loaded,
		.p_memsz = c->n_loaded,
		.p_align = PAGE_BYTES,
	};
	for (unsigned i = 0; i < c->n_segments; i++) {
		Elf64_Phdr *segment = &c->segments[i];

		if (segment->p_type == PT_PHDR)
			segment->p_filesz = segment->p_memsz = c->n_segments * sizeof(*segment);
		if (!may_move(segment) || !has_moved(c, segment->p_offset))
			continue;
		segment->p_vaddr = segment->p_paddr = c->address + at + segment->p_offset;
		segment->p_offset += c->copy->more_at + at;
	}
	c->head.e_phnum = (Elf64_Half)c->n_segments;
	memset(c->copy->bytes + c->moved, 0, c->moved_end - c->moved);
	memcpy(c->copy->bytes + c->head.e_phoff, c->segments, c->n_segments * sizeof(Elf64_Phdr));
}

/* Where the sections lie now: strip and readelf go by them. */
static void set_sections(const struct copying *c)
{
	for (unsigned i = 0; i < c->head.e_shnum; i++) {
		Elf64_Shdr *section = &c->sections[i];
		uint64_t at = c->moved_at - c->moved + section->sh_offset;

		if (section->sh_flags & SHF_ALLOC && section->sh_type != SHT_NOBITS &&
		    has_moved(c, section->sh_offset)) {
			section->sh_addr = c->address + at;
			section->sh_offset = c->copy->more_at + at;
		}
		if (section->sh_type == SHT_STRTAB && section->sh_flags & SHF_ALLOC &&
		    section->sh_addr == c->old_strings) {
			section->sh_addr = c->address + c->strings_at;
			section->sh_offset = c->copy->more_at + c->strings_at;
			section->sh_size = c->old_strings_bytes + strlen(c->original->library) + 1;
		}
		if (section->sh_type == SHT_DYNAMIC && c->has_dynamic_moved) {
			section->sh_addr = c->address + c->dynamic_at;
			section->sh_offset = c->copy->more_at + c->dynamic_at;
			section->sh_size = c->n_entries * sizeof(Elf64_Dyn);
		}
	}
}

static int add_section(struct copying *c)
{
	size_t n = c->head.e_shnum;
	Elf64_Shdr note = {
		.sh_type = SHT_NOTE,
		.sh_flags = SHF_ALLOC,
		.sh_addr = c->address,
		.sh_offset = c->copy->more_at,
		.sh_size = c->original->n_note_bytes,
		.sh_addralign = 4,
	};

	if (!c->sections)
		return 0;
	Elf64_Shdr *names = &c->sections[c->head.e_shstrndx];
	size_t names_at = append(c, c->copy->bytes + names->sh_offset, names->sh_size, ALIGN);
	if (!names_at || !append(c, COPY_NOTE_SECTION, sizeof(COPY_NOTE_SECTION), 1))
		return -ENOMEM;
	note.sh_name = (Elf64_Word)names->sh_size;
	names->sh_offset = c->copy->more_at + names_at;
	names->sh_size += sizeof(COPY_NOTE_SECTION);
	set_sections(c);
	c->sections[n] = note;
	size_t at = append(c, c->sections, (n + 1) * sizeof(note), ALIGN);
	c->head.e_shoff = c->copy->more_at + at;
	c->head.e_shnum++;
	return at ? 0 : -ENOMEM;
}

static int make(struct copying *c)
{
	int r = read_head(c) ?: check_segments(c);
	r = r ?: read_dynamic(c);
	r = r ?: read_sections(c);
	r = r ?: find_room(c);
	if (r < 0)
		return r;
	Elf64_Phdr *new = add_segment(c);
	append(c, c->original->note, c->original->n_note_bytes, 1);
	r = c->copy->more ? fill_segment(c) : -ENOMEM;
	if (r < 0)
		return r;
	set_dynamic(c);
	set_segments(c, new);
	r = add_section(c);
	memcpy(c->copy->bytes, &c->head, sizeof(c->head));
	return r;
}

int elf_copy_make(const struct elf_original *original, struct elf_copy *ret_copy,
		  char message[static COPY_MESSAGE_BYTES])
{
	struct copying *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	*ret_copy = (struct elf_copy){ .bytes = original->bytes, .n_bytes = original->n_bytes };
	message[0] = '\0';
	if (!c)
		return r;
	c->copy = ret_copy;
	c->message = message;
	c->original = original;
	r = make(c);
	free_all(c->sections, c->entries, c);
	return r;
}

void elf_copy_free(struct elf_copy *copy)
{
	free_all(copy->bytes, copy->more);
	*copy = ELF_COPY_EMPTY;
}

/* The last segment of an open file that is loaded. */
static int find_last(int fd, Elf64_Phdr *ret_last)
{
	Elf64_Ehdr head;

	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phnum > MAX_SEGMENTS)
		return -ENOENT;
	*ret_last = (Elf64_Phdr){ .p_type = PT_NULL };
	for (unsigned i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr segment;
		off_t at = (off_t)(head.e_phoff + i * sizeof(segment));

		if (pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return -ENOENT;
		if (segment.p_type == PT_LOAD)
			*ret_last = segment;
	}
	return ret_last->p_type == PT_LOAD ? 0 : -ENOENT;
}

int copy_note_read(const char *path, void **ret_bytes, struct copy_note *ret_note)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	Elf64_Phdr last;

	*ret_bytes = NULL;
	if (fd < 0)
		return -errno;
	int r = find_last(fd, &last);
	if (r < 0)
		return r;
	size_t n_bytes = last.p_filesz < COPY_MAX_BYTES ? last.p_filesz : COPY_MAX_BYTES;
	auto_free char *bytes = malloc(n_bytes + 1);
	if (!bytes)
		return -ENOMEM;
	ssize_t n = pread(fd, bytes, n_bytes, (off_t)last.p_offset);
	r = n < 0 ? -errno : copy_note_parse(bytes, (size_t)n, ret_note);
	if (r == 0)
		*ret_bytes = steal_ptr(&bytes);
	return r;
}
