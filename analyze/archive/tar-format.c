#include "analyze/archive/tar-format.h"

#include <stdio.h>
#include <string.h>

#define MAX_OCTAL ((UINT64_C(1) << 33) - 1)

/* The sum of all bytes, those of the checksum as spaces. */
static unsigned sum_of(const struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	size_t first = offsetof(struct tar_head, checksum);
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(*head); i++)
		sum += i - first < sizeof(head->checksum) ? ' ' : bytes[i];
	return sum;
}

static void fill_size(char size[12], uint64_t n_bytes)
{
	if (n_bytes <= MAX_OCTAL) {
		snprintf(size, 12, "%011llo", (unsigned long long)n_bytes);
		return;
	}
	memset(size, 0, 12);
	size[0] = (char)0x80;
	for (int i = 11; i > 3; i--, n_bytes >>= 8)
		size[i] = (char)(n_bytes & 0xff);
}

static void fill_text(char *text, size_t n_bytes, const char *value)
{
	size_t n = strlen(value);

	memcpy(text, value, n < n_bytes ? n : n_bytes);
}

void tar_head_fill(struct tar_head *head, const struct tar_entry *entry)
{
	memset(head, 0, sizeof(*head));
	fill_text(head->name, sizeof(head->name), entry->name);
	if (entry->target)
		fill_text(head->target, sizeof(head->target), entry->target);
	fill_text(head->mode, sizeof(head->mode), "0000644");
	fill_text(head->uid, sizeof(head->uid), "0000000");
	fill_text(head->gid, sizeof(head->gid), "0000000");
	fill_size(head->size, entry->n_bytes);
	fill_text(head->time, sizeof(head->time), "00000000000");
	head->type = entry->type;
	fill_text(head->magic, sizeof(head->magic), "ustar");
	memcpy(head->version, "00", 2);
	snprintf(head->checksum, sizeof(head->checksum), "%06o", sum_of(head));
	head->checksum[7] = ' ';
}

static bool parse_octal(const char *text, size_t n_bytes, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t i = 0;

	while (i < n_bytes && text[i] == ' ')
		i++;
	size_t first = i;
	for (; i < n_bytes && text[i] >= '0' && text[i] <= '7'; i++)
		value = value * 8 + (uint64_t)(text[i] - '0');
	if (i == first || (i < n_bytes && text[i] != ' ' && text[i] != '\0'))
		return false;
	*ret_value = value;
	return true;
}

bool tar_head_is_valid(const struct tar_head *head)
{
	uint64_t sum;

	return memcmp(head->magic, "ustar", 5) == 0 &&
	       parse_octal(head->checksum, sizeof(head->checksum), &sum) && sum == sum_of(head);
}

bool tar_head_size(const struct tar_head *head, uint64_t *ret_bytes)
{
	uint64_t value = 0;

	if (!((unsigned char)head->size[0] & 0x80))
		return parse_octal(head->size, sizeof(head->size), ret_bytes);
	for (int i = 4; i < 12; i++)
		value = value << 8 | (unsigned char)head->size[i];
	*ret_bytes = value;
	return value <= INT64_MAX;
}
