/*
 * Reads whatever bytes as a trace. The first byte says how: 0 as they are; 1 with the checksums put
 * right, so that the fuzzer gets past them; 2 as one frame, uncompressed, of the type and the
 * number of items that the next five bytes say, so that it gets at the decoders themselves.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/robust/fuzz/fuzz.h"
#include "trace/frame.h"
#include "trace/reader.h"

static uint64_t sum_bytes(const void *bytes, size_t n_bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n_bytes; i++)
		sum += ((const uint8_t *)bytes)[i];
	return sum;
}

static uint64_t sum_records(const struct trace_item *item)
{
	const struct trace_record *record = NULL;
	uint64_t sum = 0;
	size_t n = 0;

	while ((record = trace_record_next(item, record))) {
		for (unsigned i = 0; i < 5; i++) {
			size_t n_bytes;
			const char *string = trace_record_string(record, i, &n_bytes);
			sum += sum_bytes(string, n_bytes);
		}
		n++;
	}
	if (n != item->n)
		abort();
	return sum;
}

/* Look at every byte that the reader says is there. */
static uint64_t sum_item(const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_FRAME_EVENTS:
		return sum_bytes(item->events, item->n * sizeof(item->events[0]));
	case TRACE_FRAME_NODES:
		return sum_bytes(item->nodes, item->n * sizeof(item->nodes[0]));
	case TRACE_FRAME_ACCESSES:
		return sum_bytes(item->accesses, item->n * sizeof(item->accesses[0]));
	case TRACE_FRAME_PERF:
		return sum_bytes(item->perf, item->n);
	case TRACE_FRAME_CODE:
		return item->code.head->address + sum_bytes(item->code.bytes, item->n);
	case TRACE_FRAME_AUX:
		return item->aux.head->offset + sum_bytes(item->aux.bytes, item->n);
	case TRACE_FRAME_RECORDS:
		return sum_records(item);
	case TRACE_FRAME_COMMIT:
		return item->commit->ticks + item->commit->raw_ns;
	default:
		abort(); /* the reader gives no others */
	}
}

/* Put the checksums of the header and of all heads and bodies right, as far as lengths lead. */
static void repair(uint8_t *bytes, size_t n_bytes)
{
	struct trace_file_header header;
	struct trace_frame head;

	if (n_bytes < sizeof(header))
		return;
	memcpy(&header, bytes, sizeof(header));
	memcpy(header.magic, TRACE_FILE_MAGIC, sizeof(header.magic));
	header.version_minor = TRACE_VERSION_MINOR; /* those of the corpus are older */
	header.checksum = trace_header_checksum(&header);
	memcpy(bytes, &header, sizeof(header));
	for (size_t at = sizeof(header); n_bytes - at >= sizeof(head);) {
		memcpy(&head, bytes + at, sizeof(head));
		if (head.body_bytes > n_bytes - at - sizeof(head))
			return;
		trace_frame_seal(&head, bytes + at + sizeof(head));
		memcpy(bytes + at, &head, sizeof(head));
		at += sizeof(head) + trace_padded(head.body_bytes);
		if (at > n_bytes)
			return;
	}
}

static void read_trace(const char *path)
{
	volatile uint64_t sum = 0; /* the reads must not be left out */
	struct trace_reader *reader;
	struct trace_item item;

	if (trace_reader_open(path, &reader) < 0)
		return;
	while (trace_reader_next(reader, &item) == 1)
		sum = sum + sum_item(&item);
	trace_reader_close(reader);
}

/* Header and head before a body that is given. */
struct frame_file {
	struct trace_file_header header;
	struct trace_frame head;
	uint8_t body[];
};

/* The file that an input stands for; the caller frees it. */
static uint8_t *make_file(const uint8_t *data, size_t n_data, size_t *ret_bytes)
{
	uint8_t *bytes = calloc(1, n_data + sizeof(struct frame_file));
	struct frame_file *file = (void *)bytes;

	if (!bytes)
		abort();
	if (data[0] % 3 < 2 || n_data < 6) {
		memcpy(bytes, data + 1, n_data - 1);
		*ret_bytes = n_data - 1;
	} else {
		memcpy(file->body, data + 6, n_data - 6);
		memcpy(&file->head.n_items, data + 2, sizeof(file->head.n_items));
		file->head.type = data[1];
		file->head.body_bytes = file->head.raw_bytes = (uint32_t)(n_data - 6);
		file->header.version_major = TRACE_VERSION_MAJOR;
		file->header.version_minor = TRACE_VERSION_MINOR;
		file->header.header_bytes = sizeof(file->header);
		*ret_bytes = sizeof(*file) + n_data - 6;
	}
	if (data[0] % 3 > 0)
		repair(bytes, *ret_bytes);
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	char path[64];
	size_t n_bytes;

	if (n_data == 0)
		return 0;
	auto_free uint8_t *bytes = make_file(data, n_data, &n_bytes);
	auto_close int fd = memfd_create("fuzz-trace", MFD_CLOEXEC);
	if (fd < 0 || io_write_all(fd, bytes, n_bytes) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_trace(path);
	return 0;
}
