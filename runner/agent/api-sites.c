#include "runner/agent/api-sites.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

#define NOTE_NAME "memsight" /* and type 1: as the header says */
#define PREFIX	  "memsight_1_"

struct sites {
	struct api_site *items;
	size_t n;
	size_t n_allocated;
};

static int add(struct sites *sites, const char *description, size_t n_bytes)
{
	struct api_site site = { .name = "" };
	size_t n = n_bytes > sizeof(site.address) ? n_bytes - sizeof(site.address) : 0;

	if (n <= strlen(PREFIX) || n > sizeof(site.name) ||
	    memcmp(description + sizeof(site.address), PREFIX, strlen(PREFIX)) != 0)
		return 0;
	if (grow_one(&sites->items, sites->n, &sites->n_allocated) < 0)
		return -ENOMEM;
	memcpy(&site.address, description, sizeof(site.address));
	memcpy(site.name, description + sizeof(site.address), n);
	site.name[sizeof(site.name) - 1] = '\0';
	sites->items[sites->n++] = site;
	return 0;
}

static int read_notes(Elf_Data *data, struct sites *sites)
{
	size_t at = 0, name, description;
	GElf_Nhdr head;
	int r = 0;

	while (r == 0 && (at = gelf_getnote(data, at, &head, &name, &description)) > 0)
		if (head.n_type == 1 && head.n_namesz == sizeof(NOTE_NAME) &&
		    memcmp((const char *)data->d_buf + name, NOTE_NAME, sizeof(NOTE_NAME)) == 0)
			r = add(sites, (const char *)data->d_buf + description, head.n_descsz);
	return r;
}

int api_sites_read(const char *path, struct api_site **ret_sites, size_t *ret_n)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct sites sites = { 0 };
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf_Data *data;
	int r = 0;

	elf_version(EV_CURRENT);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	while (r == 0 && elf && (section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE &&
		    (data = elf_getdata(section, NULL)) && data->d_buf)
			r = read_notes(data, &sites);
	elf_end(elf);
	if (r < 0)
		return free(sites.items), r;
	*ret_sites = sites.items;
	*ret_n = sites.n;
	return 0;
}

/*
 * movq f@GOTPCREL(%rip), %r stays as it is, or becomes movq $0, %r (psABI, B.2). leaq takes as many
 * bytes as both. REX.R, bit 2, or REX.B, bit 0, is the fourth bit of the register's number.
 */
int api_site_change(uint8_t code[API_SITE_BYTES], uint64_t at, uint64_t function)
{
	int64_t distance = (int64_t)(function - (at + API_SITE_BYTES));
	int32_t word = (int32_t)distance;
	uint8_t number;
	uint32_t loaded;

	memcpy(&loaded, code + 3, sizeof(loaded));
	if ((code[0] & ~4) == 0x48 && code[1] == 0x8b && (code[2] & 0xc7) == 0x05)
		number = (uint8_t)((code[0] & 4) << 1 | (code[2] >> 3 & 7));
	else if ((code[0] & ~1) == 0x48 && code[1] == 0xc7 && (code[2] & 0xf8) == 0xc0 &&
		 loaded == 0)
		number = (uint8_t)((code[0] & 1) << 3 | (code[2] & 7));
	else
		return -EINVAL;
	if (word != distance)
		return -ERANGE;
	code[0] = (uint8_t)(0x48 | (number >> 3) << 2);
	code[1] = 0x8d;
	code[2] = (uint8_t)(0x05 | (number & 7) << 3);
	memcpy(code + 3, &word, sizeof(word));
	return 0;
}
