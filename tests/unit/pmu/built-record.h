#pragma once
/*
 * Perf records put together by hand, field by field, as linux/perf_event.h tells.
 */
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct built {
	_Alignas(8) uint8_t bytes[4096];
	size_t n_bytes;
};

static inline void built_begin(struct built *built, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = { .type = type, .misc = misc };

	memset(built, 0, sizeof(*built));
	memcpy(built->bytes, &header, sizeof(header));
	built->n_bytes = sizeof(header);
}

static inline void built_bytes(struct built *built, const void *bytes, size_t n_bytes)
{
	memcpy(built->bytes + built->n_bytes, bytes, n_bytes);
	built->n_bytes += n_bytes;
}

static inline void built_u64(struct built *built, uint64_t value)
{
	built_bytes(built, &value, sizeof(value));
}

static inline void built_u32(struct built *built, uint32_t value)
{
	built_bytes(built, &value, sizeof(value));
}

/* NUL-terminated and padded to a multiple of 8. */
static inline void built_string(struct built *built, const char *text)
{
	built_bytes(built, text, strlen(text) + 1);
	built->n_bytes = (built->n_bytes + 7) & ~(size_t)7;
}

/* Write the length into the header. */
static inline void built_end(struct built *built)
{
	uint16_t size = (uint16_t)built->n_bytes;

	memcpy(built->bytes + offsetof(struct perf_event_header, size), &size, sizeof(size));
}
