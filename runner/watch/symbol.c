#include "runner/watch/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/parse.h"

#define PAGE_BYTES UINT64_C(4096)

struct watch_file {
	int fd;
	Elf *elf;
};

int watch_file_open(const char *path, struct watch_file **ret_file)
{
	struct watch_file *file = calloc(1, sizeof(*file));
	int err = 0;

	if (!file)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	file->fd = open(path,
			O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO must not hold us */
	if (file->fd < 0)
		err = -errno;
	if (err == 0)
		file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
	if (err == 0 && (!file->elf || elf_kind(file->elf) != ELF_K_ELF))
		err = -ENOEXEC;
	if (err < 0)
		return watch_file_close(file), err;
	*ret_file = file;
	return 0;
}

struct watch_file *watch_file_close(struct watch_file *file)
{
	if (!file)
		return NULL;
	elf_end(file->elf);
	cleanup_close(&file->fd);
	free(file);
	return NULL;
}

static bool kind_of(const GElf_Sym *symbol, enum watch_symbol_kind *ret_kind)
{
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_OBJECT:
	case STT_COMMON:
	case STT_NOTYPE: /* assembly says nothing of its variables */
		*ret_kind = WATCH_SYMBOL_VARIABLE;
		return true;
	case STT_FUNC:
	case STT_GNU_IFUNC:
		*ret_kind = WATCH_SYMBOL_FUNCTION;
		return true;
	case STT_TLS:
		*ret_kind = WATCH_SYMBOL_THREAD_LOCAL;
		return true;
	default:
		return false;
	}
}

/* What is done with a symbol that the file defines. */
typedef void (*visit_symbol)(void *user, const char *name, const GElf_Sym *symbol,
			     enum watch_symbol_kind kind);

/* The symbols of each table of a type. */
static void each_symbol(Elf *elf, uint32_t type, visit_symbol visit, void *user)
{
	Elf_Scn *section = NULL;
	GElf_Shdr head;

	while ((section = elf_nextscn(elf, section))) {
		bool is_table = gelf_getshdr(section, &head) && head.sh_type == type;
		Elf_Data *data = is_table ? elf_getdata(section, NULL) : NULL;
		size_t n = data && head.sh_entsize ? data->d_size / head.sh_entsize : 0;

		for (size_t i = 0; i < n; i++) {
			enum watch_symbol_kind kind;
			GElf_Sym symbol;

			if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
			    !kind_of(&symbol, &kind))
				continue;
			const char *name = elf_strptr(elf, head.sh_link, symbol.st_name);
			if (name)
				visit(user, name, &symbol, kind);
		}
	}
}

struct search {
	const char *name;
	struct watch_symbol found;
	bool has_global;
};

static void compare(void *user, const char *name, const GElf_Sym *symbol,
		    enum watch_symbol_kind kind)
{
	struct search *search = user;
	bool is_local = GELF_ST_BIND(symbol->st_info) == STB_LOCAL;

	if (strcmp(name, search->name) != 0 ||
	    (search->found.n_same++ > 0 && (search->has_global || is_local)))
		return;
	search->has_global = !is_local;
	search->found.kind = kind;
	search->found.value = symbol->st_value;
	search->found.n_bytes = symbol->st_size;
}

/* .symtab has all that .dynsym has; a stripped file has the latter alone. */
bool watch_file_find(struct watch_file *file, const char *name, struct watch_symbol *ret_symbol)
{
	struct search search = { .name = name };

	each_symbol(file->elf, SHT_SYMTAB, compare, &search);
	if (search.found.n_same == 0)
		each_symbol(file->elf, SHT_DYNSYM, compare, &search);
	if (search.found.n_same > 0)
		*ret_symbol = search.found;
	return search.found.n_same > 0;
}

bool watch_file_bias(struct watch_file *file, uint64_t address, uint64_t file_offset,
		     uint64_t *ret_bias)
{
	size_t n = 0;

	if (elf_getphdrnum(file->elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(file->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		if (file_offset < segment.p_offset / PAGE_BYTES * PAGE_BYTES ||
		    file_offset >= segment.p_offset + segment.p_filesz)
			continue;
		*ret_bias = address - (segment.p_vaddr - segment.p_offset + file_offset);
		return true;
	}
	return false;
}

static void offer(void *user, const char *name, const GElf_Sym *symbol, enum watch_symbol_kind kind)
{
	(void)symbol;
	if (kind == WATCH_SYMBOL_FUNCTION)
		parse_nearest_offer(user, name);
}

void watch_file_offer(struct watch_file *file, struct parse_nearest *nearest)
{
	each_symbol(file->elf, SHT_SYMTAB, offer, nearest);
	each_symbol(file->elf, SHT_DYNSYM, offer, nearest);
}
