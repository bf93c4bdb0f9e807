#include "runner/agent/agent-file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "schemas/ring.h"

#define PAGE_BYTES UINT64_C(4096)
#define MOST_BYTES (UINT64_C(64) << 20)

static uint64_t page_up(uint64_t address)
{
	return (address + PAGE_BYTES - 1) & -PAGE_BYTES;
}

void *agent_file_at(const struct agent_file *file, uint64_t offset, size_t n_bytes)
{
	return offset <= file->n_bytes && n_bytes <= file->n_bytes - offset ? file->bytes + offset
									    : NULL;
}

static int prot_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

/* What has to be known before there is memory: how much of it, and its parts. */
static int measure(const Elf64_Phdr *headers, size_t n, struct agent_file *file)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = page_up(headers[i].p_vaddr + headers[i].p_memsz);

		if (headers[i].p_type != PT_LOAD)
			continue;
		if (file->n_segments == AGENT_MAX_SEGMENTS || end > MOST_BYTES)
			return -ENOEXEC;
		file->segments[file->n_segments++] = (struct agent_segment){
			.start = headers[i].p_vaddr & -PAGE_BYTES,
			.end = end,
			.offset = headers[i].p_offset & -PAGE_BYTES,
			.prot = prot_of(headers[i].p_flags),
		};
		if (end > file->n_bytes)
			file->n_bytes = end;
		if (headers[i].p_vaddr + headers[i].p_filesz > file->n_filled)
			file->n_filled = headers[i].p_vaddr + headers[i].p_filesz;
	}
	file->bytes = calloc(1, file->n_bytes ? file->n_bytes : 1);
	return file->bytes ? 0 : -ENOMEM;
}

static int fill(const uint8_t *bytes, size_t n_bytes, const Elf64_Phdr *headers, size_t n,
		struct agent_file *file)
{
	for (size_t i = 0; i < n; i++) {
		if (headers[i].p_type != PT_LOAD)
			continue;
		if (headers[i].p_offset > n_bytes ||
		    headers[i].p_filesz > n_bytes - headers[i].p_offset)
			return -ENOEXEC;
		memcpy(file->bytes + headers[i].p_vaddr, bytes + headers[i].p_offset,
		       headers[i].p_filesz);
	}
	return 0;
}

uint64_t agent_file_symbol(const struct agent_file *file, const char *name)
{
	for (uint64_t i = 1; i < file->n_symbols; i++) {
		const Elf64_Sym *symbol =
			agent_file_at(file, file->symbols + i * sizeof(*symbol), sizeof(*symbol));
		const char *found = symbol ? agent_file_at(file, file->strings + symbol->st_name,
							   strlen(name) + 1)
					   : NULL;

		if (found && memcmp(found, name, strlen(name) + 1) == 0)
			return symbol->st_value;
	}
	return 0;
}

/* Its tables: symbols and relocations. */
static int read_dynamic(const Elf64_Phdr *header, struct agent_file *file)
{
	const Elf64_Dyn *entry = agent_file_at(file, header->p_vaddr, header->p_memsz);
	const uint32_t *hash = NULL; /* the number of buckets, that of symbols ... */

	for (size_t i = 0; entry && i < header->p_memsz / sizeof(*entry); i++) {
		if (entry[i].d_tag == DT_SYMTAB)
			file->symbols = entry[i].d_un.d_ptr;
		if (entry[i].d_tag == DT_STRTAB)
			file->strings = entry[i].d_un.d_ptr;
		if (entry[i].d_tag == DT_HASH)
			hash = agent_file_at(file, entry[i].d_un.d_ptr, 2 * sizeof(*hash));
		if (entry[i].d_tag == DT_RELA)
			file->relocations = entry[i].d_un.d_ptr;
		if (entry[i].d_tag == DT_RELASZ)
			file->n_relocations = entry[i].d_un.d_val / sizeof(Elf64_Rela);
	}
	file->n_symbols = hash ? hash[1] : 0;
	file->agent = agent_file_symbol(file, AGENT_SYMBOL);
	return file->agent ? 0 : -ENOEXEC;
}

/* All of them add where the file lies; the compiler and linker were told so (meson.build). */
static int check_relocations(const struct agent_file *file)
{
	const Elf64_Rela *rela =
		agent_file_at(file, file->relocations, file->n_relocations * sizeof(*rela));

	for (uint64_t i = 0; rela && i < file->n_relocations; i++)
		if (ELF64_R_TYPE(rela[i].r_info) != R_X86_64_RELATIVE ||
		    !agent_file_at(file, rela[i].r_offset, sizeof(uint64_t)))
			return -ENOEXEC;
	return rela ? 0 : -ENOEXEC;
}

static int read_bytes(const uint8_t *bytes, size_t n_bytes, struct agent_file *file)
{
	const Elf64_Ehdr *head = (const void *)bytes;
	const struct agent *agent;
	const Elf64_Phdr *headers;

	if (n_bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_machine != EM_X86_64 || head->e_phoff > n_bytes ||
	    head->e_phnum > (n_bytes - head->e_phoff) / sizeof(*headers))
		return -ENOEXEC;
	headers = (const void *)(bytes + head->e_phoff);
	int r = measure(headers, head->e_phnum, file);
	r = r ?: fill(bytes, n_bytes, headers, head->e_phnum, file);
	for (size_t i = 0; r == 0 && i < head->e_phnum; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			r = read_dynamic(&headers[i], file);
	r = r ?: check_relocations(file);
	agent = r == 0 ? agent_file_at(file, file->agent, sizeof(*agent)) : NULL;
	if (r == 0 && (!agent || agent->magic != AGENT_MAGIC || agent->version != RING_VERSION))
		r = -ENOEXEC;
	return r;
}

int agent_file_read(const char *path, struct agent_file *ret_file)
{
	auto_agent_file struct agent_file file = { 0 };
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size <= 0)
		return -ENOEXEC;
	void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	int r = read_bytes(bytes, (size_t)status.st_size, &file);
	munmap(bytes, (size_t)status.st_size);
	if (r < 0)
		return r;
	*ret_file = file;
	file.bytes = NULL;
	return 0;
}

void agent_file_move(struct agent_file *file, uint64_t base)
{
	const Elf64_Rela *rela =
		agent_file_at(file, file->relocations, file->n_relocations * sizeof(*rela));

	for (uint64_t i = 0; rela && i < file->n_relocations; i++) {
		uint64_t value = base + (uint64_t)rela[i].r_addend;

		memcpy(file->bytes + rela[i].r_offset, &value, sizeof(value));
	}
}

void agent_file_finish(struct agent_file *file)
{
	free(file->bytes);
	file->bytes = NULL;
}
