#include "heap/placement.h"

#include <errno.h>
#include <string.h>

/* The digits at *text; *text moves behind them and one separator. False: there are none. */
static bool take_number(const char **text, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *at = *text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
			return false;
	}
	if (at == *text || (*at != ' ' && *at != ','))
		return false;
	*ret_number = number;
	*text = at + 1;
	return true;
}

/* "0,2 " or "- ". */
static bool take_nodes(const char **text, uint64_t nodes[PLACEMENT_NODE_WORDS])
{
	uint64_t node;

	if ((*text)[0] == '-' && (*text)[1] == ' ') {
		*text += 2;
		return true;
	}
	do {
		if (!take_number(text, &node) || node >= RECORDING_MAX_NODES)
			return false;
		nodes[node / 64] |= UINT64_C(1) << node % 64;
	} while ((*text)[-1] == ',');
	return true;
}

int placement_parse(const char *text, struct placement *ret_placement)
{
	struct placement placement = { 0 };
	size_t kind_bytes = strcspn(text, " ");
	uint64_t numbers[4]; /* size, min, spill, mode */

	if (kind_bytes == 0 || kind_bytes >= sizeof(placement.kind) || text[kind_bytes] == '\0')
		return -EINVAL;
	memcpy(placement.kind, text, kind_bytes);
	text += kind_bytes + 1;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!take_number(&text, &numbers[i]))
			return -EINVAL;
	}
	if (!take_nodes(&text, placement.nodes) || (*text && *text != '/'))
		return -EINVAL;
	placement.size = numbers[0];
	placement.min_bytes = numbers[1];
	placement.spills = numbers[2] != 0;
	placement.mode = (int)numbers[3];
	placement.dir = text;
	*ret_placement = placement;
	return 0;
}
