#include "runner/attach/entries.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "runner/attach/remote.h"
#include "runner/processes/image-proc.h"

#define JUMP_BYTES  5u
#define MAX_FAR	    INT64_C(0x7fff0000) /* of 32 bits, with some room */
#define GAP_BYTES   (256u << 10) /* of nothing that a page of ours is put into */
#define BELOW_BYTES (64u << 10) /* of it, that stay free above us */
#define MAX_BYTES   (32u << 10) /* of a function whose branches are looked at */

/* ---- Moving ---- */

static bool put_distance(uint8_t *to, int64_t distance)
{
	int32_t word = (int32_t)distance;

	memcpy(to, &word, sizeof(word));
	return distance >= -MAX_FAR && distance <= MAX_FAR;
}

/* A jump: with or without a condition, and not into what is moved itself. Returns its bytes. */
static int move_jump(const ZydisDecodedInstruction *head, const uint8_t *bytes,
		     const struct entries_code *at, uint8_t to[6])
{
	uintptr_t behind = at->from + head->length;
	uintptr_t target = behind + (uintptr_t)head->raw.imm[0].value.s;
	uint8_t opcode = bytes[head->raw.imm[0].offset - 1];
	int n = 0;

	if (head->meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
		to[n++] = 0xe9;
	} else if (head->meta.category == ZYDIS_CATEGORY_COND_BR &&
		   ((opcode & 0xf0) == 0x70 || (opcode & 0xf0) == 0x80)) {
		to[n++] = 0x0f;
		to[n++] = 0x80 | (opcode & 0x0f);
	} else {
		return -EINVAL; /* loop, jrcxz, a call, whose return address would be ours */
	}
	n += 4;
	return put_distance(to + n - 4, (int64_t)(target - (at->to + (uintptr_t)n))) ? n : -ERANGE;
}

/* One instruction. Returns how many bytes it has there, or a negative errno. */
static int move_one(const ZydisDecodedInstruction *head, const struct entries_code *at, uint8_t *to,
		    size_t room)
{
	bool is_relative = head->attributes & ZYDIS_ATTRIB_IS_RELATIVE;

	if (room < 16)
		return -EINVAL;
	if (head->meta.category == ZYDIS_CATEGORY_CALL || head->meta.category == ZYDIS_CATEGORY_RET)
		return -EINVAL;
	if (is_relative && head->raw.imm[0].is_relative)
		return move_jump(head, at->bytes, at, to);
	memcpy(to, at->bytes, head->length);
	if (is_relative && (head->raw.disp.size != 32 ||
			    !put_distance(to + head->raw.disp.offset,
					  head->raw.disp.value + (int64_t)(at->from - at->to))))
		return -ERANGE;
	return head->length;
}

int entries_move(const struct entries_code *code, uint8_t *ret_moved, size_t room, size_t *ret_n)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction head;
	ZydisDecoder decoder;
	size_t n_from = 0, n_to = 0;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (n_from < JUMP_BYTES) {
		const struct entries_code at = { code->bytes + n_from, code->n_bytes - n_from,
						 code->from + n_from, code->to + n_to };

		if (at.n_bytes == 0 || !ZYAN_SUCCESS(ZydisDecoderDecodeFull(
					       &decoder, at.bytes, at.n_bytes, &head, operands)))
			return -E2BIG;
		int n = move_one(&head, &at, ret_moved + n_to, room - n_to);
		if (n < 0)
			return n;
		n_from += head.length;
		n_to += (size_t)n;
		if (head.meta.category == ZYDIS_CATEGORY_UNCOND_BR && n_from < JUMP_BYTES)
			return -E2BIG;
	}
	*ret_n = n_to;
	return (int)n_from;
}

/* ---- Branches ---- */

/*
 * Does a short branch of the function lead behind its entry, into the first n bytes? Long ones are
 * looked for in all code of the file.
 */
static bool has_short_branch(const uint8_t *bytes, size_t n_bytes, size_t n)
{
	ZydisDecodedInstruction head;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < n_bytes; at += head.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + at,
								n_bytes - at, &head)))
			return true;
		if (!(head.attributes & ZYDIS_ATTRIB_IS_RELATIVE) || !head.raw.imm[0].is_relative)
			continue;
		if (at + head.length + (size_t)head.raw.imm[0].value.s - 1 < n - 1)
			return true;
	}
	return false;
}

static bool is_long_branch(const uint8_t *distance)
{
	return distance[-1] == 0xe8 || distance[-1] == 0xe9 ||
	       (distance[-2] == 0x0f && (distance[-1] & 0xf0) == 0x80);
}

/* Which items do branches of this code lead into? They are dropped. */
static void drop_entered(struct entries *entries, const uint8_t *code, size_t n_bytes,
			 uintptr_t address)
{
	uintptr_t low = UINTPTR_MAX, high = 0;

	for (uint32_t i = 0; i < entries->n; i++) {
		uintptr_t function = entries->items[i].function;

		low = function < low ? function : low;
		high = function > high ? function : high;
	}
	for (size_t at = 2; at + 4 <= n_bytes; at++) {
		int32_t distance;

		memcpy(&distance, code + at, sizeof(distance));
		uintptr_t target = address + at + 4 + (uintptr_t)(intptr_t)distance;
		if (target <= low || target >= high + 8 || !is_long_branch(code + at))
			continue;
		for (uint32_t i = 0; i < entries->n; i++)
			if (target - entries->items[i].function - 1 < JUMP_BYTES - 1)
				entries->items[i].moved = 0;
	}
}

static void check_branches(struct entries *entries, const struct remote_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct module_range *range = &modules->items[i].code;
		size_t n_bytes = range->end - range->start;
		bool is_concerned = false;

		for (uint32_t k = 0; k < entries->n; k++)
			is_concerned |= entries->items[k].function - range->start < n_bytes;
		if (!is_concerned)
			continue;
		auto_free uint8_t *code = malloc(n_bytes);

		if (code && remote_read(modules->pid, range->start, code, n_bytes) == 0)
			drop_entered(entries, code, n_bytes, range->start);
		else
			entries->n = 0;
	}
}

/* ---- Pages ---- */

struct gap {
	uintptr_t below; /* this address */
	uintptr_t last_end;
	uintptr_t found; /* a place for a page; 0: none */
};

static void look_for_gap(void *user, const struct image_map *map)
{
	struct gap *gap = user;

	if (map->start <= gap->below && map->start - gap->last_end >= GAP_BYTES &&
	    gap->below - map->start < (uintptr_t)MAX_FAR - GAP_BYTES)
		gap->found = map->start - BELOW_BYTES;
	gap->last_end = map->end;
}

static bool is_near(uintptr_t page, uintptr_t function)
{
	int64_t distance = (int64_t)(function - page);

	return distance > -MAX_FAR && distance < MAX_FAR;
}

/* A page with room that a function can reach; NULL: none can be had. */
static struct entries_page *find_page(struct entries *entries, pid_t pid, uintptr_t function)
{
	struct gap gap = { .below = function, .last_end = 1u << 16 };
	struct entries_page *page;

	for (size_t i = 0; i < entries->n_pages; i++) {
		page = &entries->pages[i];
		if (is_near(page->address, function) &&
		    page->n_used + ENTRIES_SLOT_BYTES <= ENTRIES_PAGE_BYTES)
			return page;
	}
	if (entries->n_pages == ENTRIES_MAX_PAGES || image_each_map(pid, look_for_gap, &gap) < 0 ||
	    !gap.found)
		return NULL;
	page = &entries->pages[entries->n_pages++];
	*page = (struct entries_page){ .address = gap.found };
	memset(page->bytes, 0xcc, sizeof(page->bytes));
	return page;
}

/* ---- Slots ---- */

/* Where its parts lie. */
enum {
	AT_MOVED = 26,
	AT_START = 104,
	AT_LENGTH = 112,
	AT_HOOK = 120,
};

/*
 * Who calls? r11 belongs to nobody at the entry of a function.
 *
 *	mov (%rsp),%r11; sub start(%rip),%r11; cmp length(%rip),%r11; jb moved; jmp *hook(%rip)
 */
static void fill_slot(uint8_t slot[ENTRIES_SLOT_BYTES], struct module_range own, uint64_t hook)
{
	/* clang-format off */
	static const uint8_t code[AT_MOVED] = {
		0x4c, 0x8b, 0x1c, 0x24, /* mov */
		0x4c, 0x2b, 0x1d, AT_START - 11, 0, 0, 0, /* sub */
		0x4c, 0x3b, 0x1d, AT_LENGTH - 18, 0, 0, 0, /* cmp */
		0x72, AT_MOVED - 20, /* jb */
		0xff, 0x25, AT_HOOK - 26, 0, 0, 0, /* jmp */
	};
	/* clang-format on */
	uint64_t start = own.start, length = own.end - own.start;

	memcpy(slot, code, sizeof(code));
	memcpy(slot + AT_START, &start, sizeof(start));
	memcpy(slot + AT_LENGTH, &length, sizeof(length));
	memcpy(slot + AT_HOOK, &hook, sizeof(hook));
}

static int make_slot(struct entries_page *page, struct attach_entry *item,
		     const struct entries_code *function, struct module_range own)
{
	uint8_t *slot = page->bytes + page->n_used;
	uintptr_t at = page->address + page->n_used;
	struct entries_code code = *function;
	size_t n_moved;

	fill_slot(slot, own, item->hook);
	code.to = at + AT_MOVED;
	int n = entries_move(&code, slot + AT_MOVED, AT_START - AT_MOVED - JUMP_BYTES, &n_moved);
	if (n < 0)
		return n;
	if (has_short_branch(function->bytes, function->n_bytes, (size_t)n))
		return -EINVAL;
	slot[AT_MOVED + n_moved] = 0xe9;
	if (!put_distance(
		    slot + AT_MOVED + n_moved + 1,
		    (int64_t)(item->function + (unsigned)n - (code.to + n_moved + JUMP_BYTES))))
		return -ERANGE;
	memcpy(item->before, function->bytes, sizeof(item->before));
	memcpy(item->jump, item->before, sizeof(item->jump));
	item->jump[0] = 0xe9;
	if (!put_distance(item->jump + 1, (int64_t)(at - (item->function + JUMP_BYTES))))
		return -ERANGE;
	item->moved = code.to;
	page->n_used += ENTRIES_SLOT_BYTES;
	return 0;
}

static int plan_one(struct entries *entries, struct attach_entry *item,
		    const struct remote_modules *modules, struct module_range own)
{
	const struct remote_module *module = remote_modules_at(modules, item->function);
	struct module_range range = { 0, 0 };

	if (module)
		range = remote_module_function(modules, module, item->name);
	if (!module || range.start != item->function || range.end - range.start > MAX_BYTES)
		return -ENOENT;
	/* Its jump must lie in one word, and end before it does. */
	if (range.start % sizeof(item->jump) != 0 || range.end - range.start < sizeof(item->jump))
		return -E2BIG;
	/* Not of glibc: all of a file that is an allocator's, nothing of a program's. */
	if (item->function - own.start >= own.end - own.start)
		own = module == modules->items ? (struct module_range){ 0, 0 } : module->code;
	struct entries_page *page = find_page(entries, modules->pid, item->function);
	auto_free uint8_t *bytes = malloc(range.end - range.start);

	if (!page || !bytes)
		return page ? -ENOMEM : -ERANGE;
	int r = remote_read(modules->pid, range.start, bytes, range.end - range.start);

	return r < 0 ? r
		     : make_slot(page, item,
				 &(struct entries_code){ bytes, range.end - range.start,
							 range.start, 0 },
				 own);
}

/* Functions of one entry (memalign, aligned_alloc) share what was made for the first of them. */
static bool takes_other(struct entries *entries, uint32_t i)
{
	struct attach_entry *item = &entries->items[i];

	for (uint32_t k = 0; k < i; k++) {
		if (entries->items[k].function != item->function)
			continue;
		char name[sizeof(item->name)];

		memcpy(name, item->name, sizeof(name));
		*item = entries->items[k];
		memcpy(item->name, name, sizeof(name));
		return true;
	}
	return false;
}

static const char *explain(int error)
{
	switch (-error) {
	case E2BIG:
		return "it is too short, or not aligned";
	case EINVAL:
		return "its first instructions cannot be moved";
	case ERANGE:
		return "there is no room near it";
	case ENOENT:
		return "its size is not known";
	default:
		return strerror(-error);
	}
}

/* Some blocks without their frees would be worse than neither. */
static void drop_parts(struct entries *entries)
{
	static const char *const needed[] = { "malloc", "calloc", "realloc", "free" };
	size_t n = 0;

	for (uint32_t i = 0; i < entries->n; i++)
		for (size_t k = 0; k < sizeof(needed) / sizeof(*needed); k++)
			n += entries->items[i].moved &&
			     strcmp(entries->items[i].name, needed[k]) == 0;
	if (n == sizeof(needed) / sizeof(*needed))
		return;
	if (!entries->why[0])
		snprintf(entries->why, sizeof(entries->why), "a branch leads into their begin");
	entries->n = 0;
	entries->n_pages = 0;
}

void entries_plan(struct entries *entries, const struct remote_modules *modules,
		  struct module_range own)
{
	for (uint32_t i = 0; i < entries->n; i++) {
		struct attach_entry *item = &entries->items[i];
		int r = takes_other(entries, i) ? 0 : plan_one(entries, item, modules, own);

		if (r < 0 && !entries->why[0])
			snprintf(entries->why, sizeof(entries->why), "%.20s: %s", item->name,
				 explain(r));
	}
	check_branches(entries, modules);
	drop_parts(entries);
}

void entries_find_pages(struct entries *entries)
{
	entries->n_pages = 0;
	for (uint32_t i = 0; i < entries->n; i++) {
		uintptr_t page = entries->items[i].moved & -(uintptr_t)ENTRIES_PAGE_BYTES;
		bool is_known = false;

		for (size_t k = 0; k < entries->n_pages; k++)
			is_known |= entries->pages[k].address == page;
		if (!is_known && page && entries->n_pages < ENTRIES_MAX_PAGES)
			entries->pages[entries->n_pages++].address = page;
	}
}
