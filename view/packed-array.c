#include "view/packed-array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define MAX_LITERAL 128u
#define MAX_RUN	    129u
#define MIN_RUN	    3u

static size_t run_at(const uint8_t *bytes, size_t n)
{
	size_t length = 1;

	while (length < n && length < MAX_RUN && bytes[length] == bytes[0])
		length++;
	return length;
}

/* How many bytes come before the next run that is worth it. */
static size_t literal_at(const uint8_t *bytes, size_t n)
{
	size_t length = 0;

	while (length < n && length < MAX_LITERAL && run_at(bytes + length, n - length) < MIN_RUN)
		length++;
	return length;
}

/* out has room for n + n / MAX_LITERAL + 1 bytes. Returns how many it has become. */
static size_t shorten(const uint8_t *bytes, size_t n, uint8_t *out)
{
	size_t n_out = 0;

	for (size_t i = 0; i < n;) {
		size_t run = run_at(bytes + i, n - i);
		size_t literal = run < MIN_RUN ? literal_at(bytes + i, n - i) : 0;
		if (literal) {
			out[n_out++] = (uint8_t)(literal - 1);
			memcpy(out + n_out, bytes + i, literal);
			n_out += literal;
			i += literal;
		} else {
			out[n_out++] = (uint8_t)(run + 126);
			out[n_out++] = bytes[i];
			i += run;
		}
	}
	return n_out;
}

static void write_short(struct json *json, const uint8_t *bytes, size_t n)
{
	auto_free uint8_t *out = malloc(n + n / MAX_LITERAL + 2);

	if (!out) {
		json_fail(json, -ENOMEM);
		return;
	}
	json_base64_marked(json, '!', out, shorten(bytes, n, out));
}

void packed_write_u8(struct json *json, const uint8_t *numbers, size_t n, bool is_short)
{
	if (is_short)
		write_short(json, numbers, n);
	else
		json_base64(json, numbers, n);
}

void packed_write_u16(struct json *json, const uint32_t *numbers, size_t n, bool is_short)
{
	auto_free uint8_t *bytes = malloc(2 * n + 1);

	if (!bytes) {
		json_fail(json, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t number = numbers[i] < UINT16_MAX ? numbers[i] : UINT16_MAX;
		bytes[is_short ? i : 2 * i] = (uint8_t)number;
		bytes[is_short ? n + i : 2 * i + 1] = (uint8_t)(number >> 8);
	}
	packed_write_u8(json, bytes, 2 * n, is_short);
}
