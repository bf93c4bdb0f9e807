#include "report/export/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void protobuf_finish(struct protobuf *message)
{
	free(message->bytes);
	*message = (struct protobuf){ 0 };
}

static void append(struct protobuf *message, const void *bytes, size_t n)
{
	if (message->n + n > message->n_allocated) {
		size_t n_new = 2 * (message->n + n) + 64;
		uint8_t *larger = realloc(message->bytes, n_new);
		if (!larger) {
			message->is_failed = true;
			return;
		}
		message->bytes = larger;
		message->n_allocated = n_new;
	}
	if (n)
		memcpy(message->bytes + message->n, bytes, n);
	message->n += n;
}

static void append_varint(struct protobuf *message, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	append(message, bytes, n);
}

void protobuf_number(struct protobuf *message, unsigned field, int64_t value)
{
	if (value == 0)
		return;
	append_varint(message, field << 3 | WIRE_VARINT);
	append_varint(message, (uint64_t)value);
}

void protobuf_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t n)
{
	append_varint(message, field << 3 | WIRE_BYTES);
	append_varint(message, n);
	append(message, bytes, n);
}

void protobuf_text(struct protobuf *message, unsigned field, const char *text)
{
	protobuf_bytes(message, field, text, strlen(text));
}

void protobuf_message(struct protobuf *message, unsigned field, const struct protobuf *inner)
{
	message->is_failed |= inner->is_failed;
	protobuf_bytes(message, field, inner->bytes, inner->n);
}

void protobuf_numbers(struct protobuf *message, unsigned field, const int64_t *values, size_t n)
{
	struct protobuf inner = { 0 };

	for (size_t i = 0; i < n; i++)
		append_varint(&inner, (uint64_t)values[i]);
	protobuf_message(message, field, &inner);
	protobuf_finish(&inner);
}
