#include "common/elf-check.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "schemas/trace-format.h"

#define MAX_SEGMENTS 64u
#define MAX_LOADS    16u
#define MAX_NEEDED   64u
#define MAX_DYNAMIC  512u
#define MAX_CHAIN    4096u
#define NAME_BYTES   32u
#define CHUNK	     16u /* entries of a table that are read at once */
#define HEAD_BYTES   4096u /* of a file, read at once: in most, nearly all that is looked at */

/*
 * Libraries of sanitizers that replace malloc and end the program (or crash) when another library
 * comes before them. Those of leaks and of undefined behaviour bear it.
 */
static const char *const sanitizer_libraries[] = {
	"libasan.so",	    "libtsan.so",	"libhwasan.so",	      "libclang_rt.asan",
	"libclang_rt.tsan", "libclang_rt.msan", "libclang_rt.hwasan",
};

/* What executables define that have the run time of a sanitizer inside, with its own malloc. */
static const char *const sanitizer_symbols[] = {
	"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init", "__lsan_init",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct load {
	uint64_t address;
	uint64_t offset;
	uint64_t n_bytes;
};

/* A file that is being looked at. */
struct image_file {
	program_read_fn read;
	int fd;
	bool has_interpreter;
	bool is_cut; /* could not be read to the end: nothing is claimed about it */
	unsigned n_loads;
	unsigned n_needed;
	struct load loads[MAX_LOADS];
	uint64_t needed[MAX_NEEDED]; /* offsets in the table of strings */
	uint64_t interpreter_offset;
	uint64_t dynamic_offset;
	uint64_t dynamic_bytes;
	uint64_t strings; /* addresses; 0: none */
	uint64_t symbols;
	uint64_t hashes;
	long n_head; /* bytes that head holds; less than 1: none */
	uint8_t head[HEAD_BYTES];
};

static void begin_file(struct image_file *file, program_read_fn read, int fd)
{
	memset(file, 0, offsetof(struct image_file, head));
	file->read = read;
	file->fd = fd;
	file->n_head = read(fd, file->head, HEAD_BYTES, 0);
}

static bool read_at(const struct image_file *file, void *to, size_t n_bytes, uint64_t at)
{
	uint64_t n_head = file->n_head > 0 ? (uint64_t)file->n_head : 0;

	if (at > n_head || n_bytes > n_head - at)
		return file->read(file->fd, to, n_bytes, at) == (long)n_bytes;
	memcpy(to, file->head + at, n_bytes);
	return true;
}

/* The same at an address of the program. */
static bool read_address(const struct image_file *file, void *to, size_t n_bytes, uint64_t address)
{
	for (unsigned i = 0; i < file->n_loads; i++) {
		const struct load *load = &file->loads[i];

		if (address - load->address < load->n_bytes)
			return read_at(file, to, n_bytes, address - load->address + load->offset);
	}
	return false;
}

static void take_segment(struct image_file *file, const Elf64_Phdr *segment)
{
	if (segment->p_type == PT_INTERP) {
		file->has_interpreter = true;
		file->interpreter_offset = segment->p_offset;
	}
	if (segment->p_type == PT_DYNAMIC) {
		file->dynamic_offset = segment->p_offset;
		file->dynamic_bytes = segment->p_filesz;
	}
	if (segment->p_type == PT_LOAD && file->n_loads < MAX_LOADS)
		file->loads[file->n_loads++] =
			(struct load){ segment->p_vaddr, segment->p_offset, segment->p_filesz };
}

static void read_segments(struct image_file *file, const Elf64_Ehdr *head)
{
	Elf64_Phdr segments[CHUNK];

	file->is_cut = head->e_phentsize != sizeof(segments[0]) || head->e_phnum > MAX_SEGMENTS;
	for (unsigned i = 0; !file->is_cut && i < head->e_phnum; i += CHUNK) {
		unsigned n = head->e_phnum - i < CHUNK ? head->e_phnum - i : CHUNK;

		file->is_cut = !read_at(file, segments, n * sizeof(segments[0]),
					head->e_phoff + i * sizeof(segments[0]));
		for (unsigned j = 0; !file->is_cut && j < n; j++)
			take_segment(file, &segments[j]);
	}
}

static void take_dynamic(struct image_file *file, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_NEEDED:
		if (file->n_needed < MAX_NEEDED)
			file->needed[file->n_needed++] = entry->d_un.d_val;
		break;
	case DT_STRTAB:
		file->strings = entry->d_un.d_ptr;
		break;
	case DT_SYMTAB:
		file->symbols = entry->d_un.d_ptr;
		break;
	case DT_GNU_HASH:
		file->hashes = entry->d_un.d_ptr;
		break;
	default:
		break;
	}
}

static void read_dynamic(struct image_file *file)
{
	uint64_t n = file->dynamic_bytes / sizeof(Elf64_Dyn);

	for (uint64_t i = 0; i < n && i < MAX_DYNAMIC; i += CHUNK) {
		Elf64_Dyn entries[CHUNK];
		uint64_t n_here = n - i < CHUNK ? n - i : CHUNK;

		if (!read_at(file, entries, n_here * sizeof(*entries),
			     file->dynamic_offset + i * sizeof(*entries)))
			return;
		for (uint64_t j = 0; j < n_here; j++) {
			if (entries[j].d_tag == DT_NULL)
				return;
			take_dynamic(file, &entries[j]);
		}
	}
}

/* Read a name out of the table of strings, cut off at NAME_BYTES. */
static bool read_name(const struct image_file *file, uint64_t offset, char name[NAME_BYTES])
{
	size_t n_bytes = NAME_BYTES - 1;

	/* Close to the end of the file there are fewer. */
	while (n_bytes > 0 && !read_address(file, name, n_bytes, file->strings + offset))
		n_bytes--;
	name[n_bytes] = '\0';
	return n_bytes > 0;
}

static bool is_sanitizer(const char *name, size_t n_bytes)
{
	for (size_t i = 0; i < LENGTH(sanitizer_libraries); i++) {
		size_t n = strlen(sanitizer_libraries[i]);

		if (n_bytes >= n && memcmp(name, sanitizer_libraries[i], n) == 0)
			return true;
	}
	return false;
}

static bool needs_sanitizer(const struct image_file *file)
{
	char name[NAME_BYTES];

	for (unsigned i = 0; file->strings && i < file->n_needed; i++) {
		if (read_name(file, file->needed[i], name) && is_sanitizer(name, strlen(name)))
			return true;
	}
	return false;
}

/* The hash of the GNU table (Drepper, "How to write shared libraries"; binutils bfd/elf.c). */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

static bool is_symbol(const struct image_file *file, uint32_t i, const char *wanted)
{
	char name[NAME_BYTES];
	Elf64_Sym symbol;

	return read_address(file, &symbol, sizeof(symbol), file->symbols + i * sizeof(symbol)) &&
	       symbol.st_shndx != SHN_UNDEF && read_name(file, symbol.st_name, name) &&
	       strcmp(name, wanted) == 0;
}

/* The head of the table of hashes; the filter stands behind it, then buckets, then chains. */
struct hash_head {
	uint32_t n_buckets;
	uint32_t first_symbol;
	uint32_t n_words; /* of the filter, 8 bytes each */
	uint32_t shift;
};

/* The filter says of nearly all names that they are not there. */
static bool may_define(const struct image_file *file, const struct hash_head *head, uint32_t hash)
{
	uint64_t word, bits;

	if (head->n_words == 0 || head->n_buckets == 0 || head->shift >= 32 ||
	    !read_address(file, &word, sizeof(word),
			  file->hashes + sizeof(*head) + UINT64_C(8) * (hash / 64 % head->n_words)))
		return false;
	bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> head->shift) % 64;
	return (word & bits) == bits;
}

static bool defines(const struct image_file *file, const struct hash_head *head, const char *name)
{
	uint32_t first, entry, hash = hash_of(name);
	uint64_t buckets = file->hashes + sizeof(*head) + UINT64_C(8) * head->n_words;
	uint64_t chain = buckets + UINT64_C(4) * head->n_buckets;

	if (!may_define(file, head, hash) ||
	    !read_address(file, &first, sizeof(first),
			  buckets + UINT64_C(4) * (hash % head->n_buckets)) ||
	    first < head->first_symbol)
		return false;
	for (uint32_t i = first; i - first < MAX_CHAIN; i++) {
		if (!read_address(file, &entry, sizeof(entry),
				  chain + UINT64_C(4) * (i - head->first_symbol)))
			return false;
		if ((entry | 1) == (hash | 1) && is_symbol(file, i, name))
			return true;
		if (entry & 1)
			return false;
	}
	return false;
}

static bool read_hash_head(const struct image_file *file, struct hash_head *ret_head)
{
	return file->hashes && file->symbols && file->strings &&
	       read_address(file, ret_head, sizeof(*ret_head), file->hashes);
}

static bool has_sanitizer_inside(const struct image_file *file)
{
	struct hash_head head;
	bool has_head = read_hash_head(file, &head);

	for (size_t i = 0; has_head && i < LENGTH(sanitizer_symbols); i++) {
		if (defines(file, &head, sanitizer_symbols[i]))
			return true;
	}
	return false;
}

/*
 * Run by its name (ld.so PROGRAM) a loader loads us with the program; only debuggers need what it
 * defines.
 */
static bool is_loader(const struct image_file *file)
{
	struct hash_head head;

	return read_hash_head(file, &head) &&
	       (defines(file, &head, "_r_debug") || defines(file, &head, "_dl_debug_addr"));
}

/* Whether it is a 64-bit ELF file; what there is to read of it is read. */
static bool open_file(struct image_file *file, program_read_fn read, int fd)
{
	Elf64_Ehdr head;

	begin_file(file, read, fd);
	if (!read_at(file, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	read_segments(file, &head);
	if (!file->is_cut)
		read_dynamic(file);
	return true;
}

int program_file_why_not(program_read_fn read, int fd)
{
	struct image_file file;
	Elf64_Ehdr head;

	begin_file(&file, read, fd);
	if (!read_at(&file, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return TRACE_TRACED; /* a script: its interpreter is the image */
	if (head.e_ident[EI_CLASS] != ELFCLASS64)
		return TRACE_NOT_32BIT;
	read_segments(&file, &head);
	if (file.is_cut)
		return TRACE_TRACED;
	read_dynamic(&file);
	if (needs_sanitizer(&file) || has_sanitizer_inside(&file))
		return TRACE_NOT_SANITIZER;
	return file.has_interpreter || is_loader(&file) ? TRACE_TRACED : TRACE_NOT_STATIC;
}

/* Musl's loader, run by its name, is musl's libc; glibc's has no start of programs. */
static bool is_loader_of_musl(const struct image_file *file)
{
	struct hash_head head;

	return read_hash_head(file, &head) && defines(file, &head, "__libc_start_main") &&
	       defines(file, &head, "_dl_debug_addr");
}

bool program_file_is_musl(program_read_fn read, int fd)
{
	static const char wanted[] = "/ld-musl";
	struct image_file file;
	char path[256];

	if (!open_file(&file, read, fd))
		return false;
	if (!file.has_interpreter)
		return is_loader_of_musl(&file);
	long n = read(fd, path, sizeof(path) - 1, file.interpreter_offset);
	if (n <= 0)
		return false;
	for (long i = 0; i + (long)sizeof(wanted) - 1 <= n && path[i]; i++) {
		if (memcmp(path + i, wanted, sizeof(wanted) - 1) == 0)
			return true;
	}
	return false;
}

bool program_file_defines(program_read_fn read, int fd, const char *symbol)
{
	struct image_file file;
	struct hash_head table;

	return open_file(&file, read, fd) && read_hash_head(&file, &table) &&
	       defines(&file, &table, symbol);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

bool program_file_interpreter(program_read_fn read, int fd, char *ret_path, size_t n_bytes)
{
	char line[256]; /* what the kernel looks at (BINPRM_BUF_SIZE) */
	long n = read(fd, line, sizeof(line) - 1, 0);
	size_t length = 0;
	const char *path;

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	for (path = line + 2; is_space(*path); path++)
		;
	while (path[length] && path[length] != '\n' && !is_space(path[length]))
		length++;
	if (length == 0 || length >= n_bytes)
		return false;
	memcpy(ret_path, path, length);
	ret_path[length] = '\0';
	return true;
}

bool program_list_has_sanitizer(const char *list)
{
	const char *name = list; /* of the entry, behind its last slash */

	for (; list; list++) {
		if (*list == '/') {
			name = list + 1;
		} else if (*list == ':' || *list == ' ' || *list == '\0') {
			if (is_sanitizer(name, (size_t)(list - name)))
				return true;
			if (*list == '\0')
				break;
			name = list + 1;
		}
	}
	return false;
}
