/*
 * Reads whatever bytes as what Heimdallr writes. The first byte says what: "t" time.log, "l" a log
 * by itself, else a folder: lines up to an empty one are maps.log, the rest is shared out to two
 * threads' logs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/input/heimdallr/folder.h"
#include "analyze/input/heimdallr/input.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "tests/robust/fuzz/fuzz.h"

#define MAX_ITEMS 100000u /* a feed that gives more of so few lines does not end */

static char folder[64];

static void remove_folder(void)
{
	static const char *const names[] = { "maps.log", "alloc_0_1.log", "alloc_1_2.log" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}

static void write_file(const char *name, const void *bytes, size_t n_bytes)
{
	char path[128];

	if (!folder[0]) {
		const char *home = getenv("TMPDIR");
		snprintf(folder, sizeof(folder), "%.30s/fuzz-heimdallr-XXXXXX",
			 home && strlen(home) < 30 ? home : "/tmp");
		if (!mkdtemp(folder) || atexit(remove_folder) != 0)
			abort();
	}
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || io_write_all(fd, bytes, n_bytes) < 0)
		abort();
}

/* Whatever lines there are, times of what is given do not run backwards, and frames end. */
static void read_log(const uint8_t *bytes, size_t n_bytes)
{
	struct heimdallr_log log = { .n_file_bytes = n_bytes, .end = n_bytes };
	struct heimdallr_line line;
	struct heimdallr_frame frame;
	uint64_t last_ns = 0, offset;
	auto_close int fd = memfd_create("log", MFD_CLOEXEC);

	if (fd < 0 || io_write_all(fd, bytes, n_bytes) < 0 ||
	    asprintf(&log.path, "/proc/self/fd/%d", fd) < 0)
		abort();
	while (heimdallr_log_next(&log, &line) > 0) {
		const char *text = line.frames;
		size_t n_left = line.n_frame_bytes;
		while (heimdallr_line_frame(&text, &n_left, &frame))
			;
		if (n_left > 0 || line.time_ns < last_ns)
			abort();
		last_ns = line.time_ns;
	}
	if (log.offset != n_bytes || heimdallr_log_last_allocation(&log, &offset) < 0)
		abort();
	if (offset != UINT64_MAX && (offset >= n_bytes || bytes[offset] != '+'))
		abort();
	heimdallr_log_finish(&log);
}

static void read_folder(const uint8_t *bytes, size_t n_bytes)
{
	const uint8_t *blank = n_bytes ? memmem(bytes, n_bytes, "\n\n", 2) : NULL;
	size_t n_maps = blank ? (size_t)(blank - bytes) + 1 : 0;
	size_t n_logs = n_bytes - n_maps;
	struct feed feed = { 0 };
	struct trace_item item;
	unsigned n = 0;

	write_file("maps.log", bytes, n_maps);
	write_file("alloc_0_1.log", bytes + n_maps, n_logs / 2);
	write_file("alloc_1_2.log", bytes + n_maps + n_logs / 2, n_logs - n_logs / 2);
	if (heimdallr_open(folder, &feed) < 0)
		return;
	while (feed_next(&feed, &item) > 0 && n++ < MAX_ITEMS) {
		for (size_t i = 0; item.type == TRACE_FRAME_EVENTS && i < item.n; i++) {
			if (item.events[i].address == 0)
				abort();
		}
	}
	if (n >= MAX_ITEMS || !feed_damage(&feed)->ended)
		abort();
	feed.class->close(feed.self); /* feed.c would bring every other kind of file */
}

static void read_usage(const uint8_t *bytes, size_t n_bytes)
{
	struct heimdallr_usage usage;
	auto_free char *text = strndup((const char *)bytes, n_bytes);

	if (text)
		heimdallr_usage_parse(text, &usage);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	if (n_bytes == 0)
		return 0;
	if (bytes[0] == 't')
		read_usage(bytes + 1, n_bytes - 1);
	else if (bytes[0] == 'l')
		read_log(bytes + 1, n_bytes - 1);
	else
		read_folder(bytes, n_bytes);
	return 0;
}
