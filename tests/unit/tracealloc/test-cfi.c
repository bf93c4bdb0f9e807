/*
 * Rules of frames, compared with what libdw says of the same addresses: in every module that this
 * test has loaded (itself, the C library, the loader, libdw ...), at every 13th byte of code.
 */
#include <check.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tracealloc/stack/cfi.h"

#define STRIDE 13

/* How the comparison of one module went. */
struct tally {
	size_t n_same;
	size_t n_without; /* neither knows a rule */
	size_t n_expression; /* the CFA is an expression for both */
	size_t n_different;
};

static struct tally total;
static size_t n_modules;

static void take_module(const struct dl_phdr_info *info, struct ta_module *ret_module)
{
	struct ta_module module = { .bias = info->dlpi_addr, .start = UINTPTR_MAX };

	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t start = module.bias + header->p_vaddr;

		if (header->p_type == PT_GNU_EH_FRAME) {
			module.eh_frame_hdr = start;
			module.eh_frame_hdr_end = start + header->p_memsz;
		}
		if (header->p_type != PT_LOAD)
			continue;
		if (start < module.start)
			module.start = start;
		if (start + header->p_memsz > module.end)
			module.end = start + header->p_memsz;
		if (header->p_flags & PF_X) {
			module.code[0].start = start;
			module.code[0].end = start + header->p_memsz;
		}
	}
	*ret_module = module;
}

/* Is the register at CFA + offset, for libdw? */
static bool is_at_cfa(Dwarf_Frame *frame, int number, int64_t offset)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t n_ops;

	return dwarf_frame_register(frame, number, memory, &ops, &n_ops) == 0 && n_ops == 2 &&
	       ops[0].atom == DW_OP_call_frame_cfa && (int64_t)ops[1].number == offset;
}

static bool is_undefined(Dwarf_Frame *frame, int number)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t n_ops;

	return dwarf_frame_register(frame, number, memory, &ops, &n_ops) == 0 && n_ops == 0 && ops;
}

static bool is_same_value(Dwarf_Frame *frame, int number)
{
	Dwarf_Op memory[3];
	Dwarf_Op *ops;
	size_t n_ops;

	return dwarf_frame_register(frame, number, memory, &ops, &n_ops) == 0 && n_ops == 0 && !ops;
}

static bool agree_on(Dwarf_Frame *frame, int number, uint8_t place, int64_t offset)
{
	switch (place) {
	case TA_CFI_AT_CFA:
		return is_at_cfa(frame, number, offset);
	case TA_CFI_UNDEFINED:
		return is_undefined(frame, number);
	case TA_CFI_SAME:
		return is_same_value(frame, number);
	default:
		return !is_at_cfa(frame, number, offset) && !is_undefined(frame, number);
	}
}

/* Compare one address. */
static void compare(const struct ta_module *module, Dwarf_CFI *cfi, uintptr_t pc,
		    struct tally *tally)
{
	struct ta_cfi_rule rule;
	int r = ta_cfi_find(module, pc, &rule);
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t n_ops;

	if (dwarf_cfi_addrframe(cfi, pc - module->bias, &frame) != 0) {
		tally->n_without += r < 0;
		tally->n_different += r == 0;
		return;
	}
	if (r < 0 || dwarf_frame_cfa(frame, &ops, &n_ops) != 0) {
		tally->n_different++;
	} else if (rule.cfa_is_other) {
		tally->n_expression += n_ops > 1;
		tally->n_different += n_ops == 1;
	} else if (n_ops == 1 && ops[0].atom == DW_OP_bregx && ops[0].number == rule.cfa_register &&
		   (int64_t)ops[0].number2 == rule.cfa_offset &&
		   agree_on(frame, TA_CFI_RETURN, rule.return_place, rule.return_offset) &&
		   agree_on(frame, TA_CFI_RBP, rule.rbp_place, rule.rbp_offset)) {
		tally->n_same++;
	} else {
		tally->n_different++;
	}
	free(frame);
}

static int compare_module(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	Dwarf_CFI *cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	struct ta_module module;

	(void)size;
	(void)unused;
	if (cfi) {
		take_module(info, &module);
		for (uintptr_t pc = module.code[0].start; pc < module.code[0].end; pc += STRIDE)
			compare(&module, cfi, pc, &total);
		n_modules++;
	}
	if (cfi)
		dwarf_cfi_end(cfi);
	if (elf)
		elf_end(elf);
	if (fd >= 0)
		close(fd);
	return 0;
}

START_TEST(rules_are_those_of_libdw)
{
	elf_version(EV_CURRENT);
	dl_iterate_phdr(compare_module, NULL);
	ck_assert_uint_ge(n_modules, 4);
	ck_assert_uint_gt(total.n_same, 50000);
	ck_assert_uint_gt(total.n_without, 0);
#if defined(__x86_64__) /* whose .plt has them */
	ck_assert_uint_gt(total.n_expression, 0);
#endif
	ck_assert_msg(total.n_different == 0, "%zu of %zu addresses differ", total.n_different,
		      total.n_same + total.n_different);
}
END_TEST

/* A copy of libelf with nothing readable behind it, to be damaged. */
struct copy {
	uint8_t *bytes;
	size_t n_bytes;
	struct ta_module module;
	uintptr_t shift; /* from the original's addresses to the copy's */
};

static int find_libelf(struct dl_phdr_info *info, size_t size, void *buffer)
{
	struct copy *copy = buffer;

	(void)size;
	if (!info->dlpi_name || !strstr(info->dlpi_name, "libelf"))
		return 0;
	take_module(info, &copy->module);
	copy->n_bytes = copy->module.eh_frame_hdr ? copy->module.end - copy->module.start : 0;
	return 1;
}

/* Between segments nothing need be mapped: they are 64 KiB apart on some processors. */
static int copy_segments(struct dl_phdr_info *info, size_t size, void *buffer)
{
	struct copy *copy = buffer;

	(void)size;
	if (!info->dlpi_name || !strstr(info->dlpi_name, "libelf"))
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;
		size_t at = start - copy->module.start;

		if (segment->p_type != PT_LOAD || at >= copy->n_bytes)
			continue;
		memcpy(copy->bytes + at, (const void *)start,
		       segment->p_memsz < copy->n_bytes - at ? segment->p_memsz
							     : copy->n_bytes - at);
	}
	return 1;
}

static void make_copy(struct copy *copy)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t map_bytes;
	uint8_t *map;

	dl_iterate_phdr(find_libelf, copy);
	ck_assert_uint_gt(copy->n_bytes, 0);
	map_bytes = (copy->n_bytes + page - 1) / page * page + page;
	map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_eq(mprotect(map + map_bytes - page, page, PROT_NONE), 0);
	copy->bytes = map + map_bytes - page - copy->n_bytes;
	dl_iterate_phdr(copy_segments, copy);
	copy->shift = (uintptr_t)copy->bytes - copy->module.start;
	copy->module.start += copy->shift;
	copy->module.end += copy->shift;
	copy->module.bias += copy->shift;
	copy->module.eh_frame_hdr += copy->shift;
	copy->module.eh_frame_hdr_end += copy->shift;
	copy->module.code[0].start += copy->shift;
	copy->module.code[0].end += copy->shift;
}

START_TEST(damaged_information_is_refused_or_stays_inside_the_module)
{
	struct copy copy = { 0 };
	struct ta_cfi_rule rule;
	uint64_t seed = 88172645463325252u;
	size_t n_found = 0;

	make_copy(&copy);
	/* In the search table and in .eh_frame, which lies next to it. */
	for (unsigned round = 0; round < 20000; round++) {
		uintptr_t span = copy.module.end - copy.module.eh_frame_hdr;
		uint8_t *victim;
		uint8_t saved;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		victim = (uint8_t *)copy.module.eh_frame_hdr + seed % (span < 30000 ? span : 30000);
		saved = *victim;
		*victim = (uint8_t)(seed >> 40);
		for (uintptr_t pc = copy.module.code[0].start; pc < copy.module.code[0].end;
		     pc += 997)
			n_found += ta_cfi_find(&copy.module, pc, &rule) == 0;
		*victim = saved;
	}
	ck_assert_uint_gt(n_found, 0);
}
END_TEST

static Suite *cfi_suite(void)
{
	Suite *suite = suite_create("cfi");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, rules_are_those_of_libdw);
	tcase_add_test(tests, damaged_information_is_refused_or_stays_inside_the_module);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(cfi_suite());
}
