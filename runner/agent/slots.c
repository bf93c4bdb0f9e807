#include "runner/agent/slots.h"

#include <errno.h>
#include <string.h>

/* Where the parts of a slot lie. */
enum {
	AT_CODE = 32,
	AT_START = SLOT_BYTES - 24,
	AT_LENGTH = SLOT_BYTES - 16,
	AT_HOOK = SLOT_BYTES - 8,
};
_Static_assert(AT_CODE + PLAN_CODE_BYTES <= AT_START, "there is room");

static int put_near(uint8_t *at, uint64_t behind, uint64_t target)
{
	int64_t distance = (int64_t)(target - behind);
	int32_t word = (int32_t)distance;

	memcpy(at, &word, sizeof(word));
	return distance == word ? 0 : -ERANGE;
}

static void put_code(uint8_t *slot, size_t *n, const uint8_t *code, size_t n_code, size_t target)
{
	int32_t distance = (int32_t)(target - (*n + n_code + sizeof(distance)));

	memcpy(slot + *n, code, n_code);
	memcpy(slot + *n + n_code, &distance, sizeof(distance));
	*n += n_code + sizeof(distance);
}

/* Who calls? r11 belongs to nobody at the entry of a function (psABI, figure 3.4). */
static void fill_head(const struct slots *slots, uint8_t *slot, uint64_t hook)
{
	const uint64_t words[3] = { slots->own_start, slots->own_end - slots->own_start, hook };
	size_t n = 4;

	memcpy(slot, (const uint8_t[]){ 0x4c, 0x8b, 0x1c, 0x24 }, n); /* mov (%rsp), %r11 */
	put_code(slot, &n, (const uint8_t[]){ 0x4c, 0x2b, 0x1d }, 3, AT_START); /* sub, %r11 */
	put_code(slot, &n, (const uint8_t[]){ 0x4c, 0x3b, 0x1d }, 3, AT_LENGTH); /* cmp, %r11 */
	put_code(slot, &n, (const uint8_t[]){ 0x0f, 0x82 }, 2, AT_CODE); /* jb */
	put_code(slot, &n, (const uint8_t[]){ 0xff, 0x25 }, 2, AT_HOOK); /* jmp * */
	memcpy(slot + AT_START, words, sizeof(words));
}

static int fill_code(const struct slots *slots, const struct plan_function *plan, uint8_t *code,
		     uint64_t at)
{
	int r = plan->n_code <= PLAN_CODE_BYTES && plan->n_fixes <= PLAN_MAX_FIXES ? 0 : -EINVAL;

	if (r == 0)
		memcpy(code, plan->code, plan->n_code);
	for (size_t i = 0; r == 0 && i < plan->n_fixes; i++) {
		const struct plan_fix *fix = &plan->fixes[i];
		uint64_t target = slots->bias + fix->target;

		if (fix->kind == PLAN_FIX_ADDRESS && fix->at + sizeof(target) <= plan->n_code)
			memcpy(code + fix->at, &target, sizeof(target));
		else if (fix->kind == PLAN_FIX_NEAR && fix->at + 4u <= plan->n_code)
			r = put_near(code + fix->at, at + fix->behind, target);
		else
			r = -EINVAL;
	}
	return r;
}

/* A long jump to the slot; where that has no room, a short one to it. */
static int make_jumps(const struct plan_function *plan, uint64_t entry, uint64_t at,
		      struct slot *slot)
{
	uint64_t from = entry + (plan->is_short ? (uint64_t)(int64_t)plan->long_at : 0u);
	struct slot_jump *jump = slot->jumps;

	if (plan->n_before < (plan->is_short ? PLAN_SHORT_BYTES : PLAN_JUMP_BYTES))
		return -EINVAL;
	slot->n_jumps = 1;
	jump->address = from;
	memcpy(jump->before, plan->is_short ? plan->filling : plan->before, PLAN_JUMP_BYTES);
	jump->after[0] = 0xe9;
	if (plan->is_short) {
		slot->n_jumps = 2;
		jump[1] = (struct slot_jump){ .address = entry };
		memcpy(jump[1].before, plan->before, PLAN_JUMP_BYTES);
		memcpy(jump[1].after, plan->before, PLAN_JUMP_BYTES);
		jump[1].after[0] = 0xeb;
		jump[1].after[1] = (uint8_t)(from - (entry + PLAN_SHORT_BYTES));
	}
	return put_near(jump->after + 1, from + PLAN_JUMP_BYTES, at);
}

int slots_add(struct slots *slots, const struct allocator_entry *entry, uint64_t hook,
	      struct slot *ret_slot)
{
	uint8_t *bytes = slots->bytes + slots->n_used * SLOT_BYTES;
	uint64_t at = slots->address + slots->n_used * SLOT_BYTES;
	struct slot slot = { .moved = at + AT_CODE };

	if (slots->n_used == slots->n || !entry->can_patch)
		return -EINVAL;
	memset(bytes, 0xcc, SLOT_BYTES);
	fill_head(slots, bytes, hook);
	int r = fill_code(slots, &entry->patch, bytes + AT_CODE, at + AT_CODE);
	r = r ?: make_jumps(&entry->patch, slots->bias + entry->patch.address, at, &slot);
	if (r < 0)
		return r;
	*ret_slot = slot;
	slots->n_used++;
	return 0;
}
