#include "analyze/input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/input/heimdallr/input.h"
#include "analyze/input/perf-data/input.h"
#include "common/cleanup.h"
#include "common/io.h"

/* ---- A trace of memsight ---- */

static int next_item(void *self, struct trace_item *ret_item)
{
	return trace_reader_next(self, ret_item);
}

static const struct trace_file_header *header_of(const void *self)
{
	return trace_reader_header(self);
}

static const struct trace_damage *damage_of(const void *self)
{
	return trace_reader_damage(self);
}

static uint64_t offset_of(const void *self)
{
	return trace_reader_offset(self);
}

static void close_trace(void *self)
{
	trace_reader_close(self);
}

static const struct feed_class trace_class = { next_item, header_of, damage_of, offset_of,
					       close_trace };

static int open_trace(const char *path, struct feed *feed)
{
	struct trace_reader *reader;
	int r = trace_reader_open(path, &reader);

	if (r == 0) {
		trace_reader_count(reader, &feed->n_events, &feed->n_samples);
		trace_reader_keep_columns(reader);
		feed->class = &trace_class;
		feed->self = reader;
	}
	return r;
}

int feed_open_growing(const struct feed_growing *growing, struct feed *ret_feed)
{
	struct feed feed = { 0 };
	int r = open_trace(growing->path, &feed);

	if (r < 0)
		return r;
	trace_reader_grows(feed.self, growing->wait, growing->context);
	*ret_feed = feed;
	return 0;
}

/* ---- By the first bytes ---- */

static const struct {
	char magic[9];
	int (*open)(const char *path, struct feed *feed);
} kinds[] = {
	{ TRACE_FILE_MAGIC, open_trace },
	{ PERF_DATA_MAGIC, perf_feed_open },
	{ PERF_DATA_MAGIC_SWAPPED, perf_feed_open },
};

static int open_folder(const char *path, struct feed *ret_feed)
{
	struct feed feed = { 0 };
	int r = heimdallr_open(path, &feed);

	if (r == 0)
		*ret_feed = feed;
	return r == -ENOENT ? -EISDIR : r;
}

/* Index in kinds; -EISDIR: a folder; -EBADMSG: none of them; else errno. */
static int find_kind(const char *path, uint64_t *ret_bytes)
{
	char magic[8];
	struct stat st;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	ssize_t n = io_read_full(fd, magic, sizeof(magic));
	if (n < 0)
		return (int)n;
	*ret_bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	for (size_t i = 0; n == sizeof(magic) && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (memcmp(magic, kinds[i].magic, sizeof(magic)) == 0)
			return (int)i;
	}
	return -EBADMSG;
}

bool feed_is_known(const char *path)
{
	uint64_t n_bytes;

	return find_kind(path, &n_bytes) >= 0;
}

int feed_open(const char *path, struct feed *ret_feed)
{
	struct feed feed = { 0 };
	int kind = find_kind(path, &feed.file_bytes);
	if (kind == -EISDIR)
		return open_folder(path, ret_feed);
	int r = kind < 0 ? kind : kinds[kind].open(path, &feed);

	if (r == 0)
		*ret_feed = feed;
	return r;
}
