#pragma once
/*
 * Messages of protocol buffers, as far as writing them needs: fields are appended to a message in
 * memory. developers.google.com/protocol-buffers/docs/encoding. Errors stick: look at is_failed in
 * the end. All zero is an empty message.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
	uint8_t *bytes;
	size_t n;
	size_t n_allocated;
	bool is_failed; /* no memory */
};

void protobuf_finish(struct protobuf *message);

/* A field of a whole number; 0 is the default and is left out. */
void protobuf_number(struct protobuf *message, unsigned field, int64_t value);

/* A text, bytes, or a message that is complete. */
void protobuf_bytes(struct protobuf *message, unsigned field, const void *bytes, size_t n);
void protobuf_text(struct protobuf *message, unsigned field, const char *text);
void protobuf_message(struct protobuf *message, unsigned field, const struct protobuf *inner);

/* Numbers in a row, packed. */
void protobuf_numbers(struct protobuf *message, unsigned field, const int64_t *values, size_t n);
