#include "tests/unit/common/trace-items.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/unit/common/trace-random.h"
#include "trace/records.h"

void trace_temporary_path(char *path, const char *name)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, 256, "%s/memsight-test-%d-%s", folder ? folder : "/tmp", (int)getpid(),
		 name);
}

int trace_create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

struct trace_writer *trace_create_writer(const char *path)
{
	const struct trace_file_header header = { .machine = 62,
						  .ticks_per_second = 2600000000,
						  .start_ticks = 1000 };
	struct trace_writer *writer;

	ck_assert_int_eq(trace_writer_open(trace_create(path), &header, &writer), 0);
	return writer;
}

void trace_put_file(const char *path, const void *bytes, size_t n_bytes)
{
	auto_close int fd = trace_create(path);

	ck_assert_int_eq(io_write_all(fd, bytes, n_bytes), 0);
}

uint8_t *trace_get_file(const char *path, size_t *ret_bytes)
{
	char *bytes;

	ck_assert_int_eq(io_read_file(path, 1u << 30, &bytes, ret_bytes), 0);
	return (uint8_t *)bytes;
}

const void *trace_item_bytes(const struct trace_item *item, size_t *ret_bytes)
{
	static const size_t item_bytes[] = {
		[TRACE_FRAME_EVENTS] = sizeof(struct trace_event),
		[TRACE_FRAME_NODES] = sizeof(struct trace_node),
		[TRACE_FRAME_ACCESSES] = sizeof(struct trace_access),
		[TRACE_FRAME_PERF] = 1,
		[TRACE_FRAME_COMMIT] = sizeof(struct trace_commit),
	};

	if (item->type == TRACE_FRAME_CODE) { /* the head lies before the bytes */
		*ret_bytes = sizeof(*item->code.head) + item->n;
		return item->code.head;
	}
	if (item->type == TRACE_FRAME_AUX) {
		*ret_bytes = sizeof(*item->aux.head) + item->n;
		return item->aux.head;
	}
	*ret_bytes = item->type == TRACE_FRAME_RECORDS ? item->n_bytes
						       : item->n * item_bytes[item->type];
	return item->events; /* all are pointers in one union */
}

/* FNV-1a, 64 bits. */
static uint64_t hash(const void *bytes, size_t n_bytes)
{
	uint64_t value = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n_bytes; i++)
		value = (value ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return value;
}

/* Touch all strings of an item's records, so that the sanitizers see where they lie. */
static uint64_t hash_strings(const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	uint64_t sum = 0;

	while (item->type == TRACE_FRAME_RECORDS && (record = trace_record_next(item, record))) {
		for (unsigned i = 0; i < TRACE_RECORD_MAX_STRINGS; i++) {
			size_t n_bytes;
			const char *string = trace_record_string(record, i, &n_bytes);
			sum += hash(string, n_bytes);
		}
	}
	return sum;
}

static void keep(struct trace_items *items, const struct trace_item *item)
{
	size_t n_bytes;
	const void *bytes = trace_item_bytes(item, &n_bytes);

	items->kept = reallocarray(items->kept, items->n + 1, sizeof(items->kept[0]));
	ck_assert_ptr_nonnull(items->kept);
	items->kept[items->n++] = (struct trace_kept){ item->type, item->stream_id, item->n,
						       hash(bytes, n_bytes) + hash_strings(item) };
}

struct trace_items trace_read_items(const char *path)
{
	return trace_read_growing(path, NULL, NULL);
}

struct trace_items trace_read_growing(const char *path,
				      int64_t (*wait)(void *context, uint64_t n_bytes),
				      void *context)
{
	struct trace_items items = { 0 };
	struct trace_reader *reader;
	struct trace_item item;

	items.result = trace_reader_open(path, &reader);
	if (items.result < 0)
		return items;
	if (wait)
		trace_reader_grows(reader, wait, context);
	while ((items.result = trace_reader_next(reader, &item)) == 1)
		keep(&items, &item);
	items.damage = *trace_reader_damage(reader);
	trace_reader_close(reader);
	return items;
}

void trace_items_finish(struct trace_items *items)
{
	free(items->kept);
	*items = (struct trace_items){ 0 };
}

int trace_kept_equal(const struct trace_kept *a, const struct trace_kept *b)
{
	return a->type == b->type && a->stream_id == b->stream_id && a->n == b->n &&
	       a->hash == b->hash;
}

/* One record of every known type, with random contents and strings. */
static void write_records(struct trace_writer *writer, struct trace_random *random)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz/.-_0123456789";

	for (unsigned type = 0; type < 0x100; type++) {
		const struct trace_record_shape *shape = trace_record_shape(type);
		struct trace_string strings[TRACE_RECORD_MAX_STRINGS];
		uint8_t bytes[256] __attribute__((aligned(8)));
		if (!shape)
			continue;
		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)trace_random_bits(random);
		((struct trace_record *)(void *)bytes)->type = (uint16_t)type;
		for (unsigned i = 0; i < shape->n_strings; i++) {
			uint32_t n = trace_random_below(random, sizeof(letters));
			strings[i] = (struct trace_string){ letters, n };
			memcpy(bytes + shape->length_offset[i], &n, sizeof(n));
		}
		ck_assert_int_eq(trace_writer_record(writer, bytes, shape->struct_bytes, strings,
						     shape->n_strings),
				 0);
	}
}

static void write_stream(struct trace_writer *writer, struct trace_random *random,
			 uint32_t thread_id)
{
	for (uint32_t i = 1; i <= 5; i++) {
		struct trace_node node = { i, i - 1, trace_random_number(random) };
		ck_assert_int_eq(trace_writer_node(writer, thread_id, &node), 0);
	}
	for (uint32_t i = 0; i < 20; i++) {
		struct trace_event event = trace_random_event(random);
		ck_assert_int_eq(trace_writer_event(writer, thread_id, &event), 0);
	}
}

static void write_samples(struct trace_writer *writer, struct trace_random *random)
{
	struct trace_access access = { .raw_ns = trace_random_number(random), .share = 0.5f };
	struct trace_code code = { .address = trace_random_bits(random), .n_bytes = 48 };
	struct trace_aux aux = { .raw_ns = trace_random_bits(random), .n_bytes = 47 };
	uint64_t perf[6];
	uint8_t bytes[48];

	for (unsigned i = 0; i < 6; i++)
		perf[i] = trace_random_bits(random);
	memcpy(bytes, perf, sizeof(bytes));
	ck_assert_int_eq(trace_writer_perf(writer, 1, perf, sizeof(perf), 1), 0);
	ck_assert_int_eq(trace_writer_accesses(writer, 2, &access, 1), 0);
	ck_assert_int_eq(trace_writer_code(writer, 3, &code, bytes), 0);
	ck_assert_int_eq(trace_writer_aux(writer, 4, &aux, bytes), 0);
}

void trace_write_sample(const char *path, uint64_t seed)
{
	struct trace_random random = { seed };
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_commit commit = { 0 };

	for (unsigned segment = 0; segment < 2; segment++) {
		commit.ticks += 1000;
		commit.raw_ns += 400;
		write_records(writer, &random);
		write_stream(writer, &random, 1);
		write_stream(writer, &random, 2);
		write_samples(writer, &random);
		if (segment < 1)
			ck_assert_int_eq(trace_writer_commit(writer, &commit, NULL), 0);
		else
			ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	}
	trace_writer_close(writer);
}
