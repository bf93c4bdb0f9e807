/*
 * cut-trace FROM TO N: FROM without its first N segments, as --last would leave it. Prints the
 * ticks of the cut; without TO and N the number of segments.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/io.h"
#include "trace/cut.h"
#include "trace/reader.h"

int main(int argc, char **argv)
{
	long wanted = argc == 4 ? atol(argv[3]) : -1, n = 0;
	struct trace_cut cut = { .span = "a part" };
	struct trace_cut_result result;
	struct trace_reader *reader;
	struct trace_item item;
	uint64_t end = 0;
	int r;

	if (argc != 2 && argc != 4)
		errx(2, "usage: cut-trace FROM [TO N]");
	r = trace_reader_open(argv[1], &reader);
	if (r < 0)
		errx(1, "%s: %d", argv[1], r);
	while (trace_reader_next(reader, &item) > 0) {
		if (item.type != TRACE_FRAME_COMMIT)
			continue;
		n++;
		end = trace_reader_offset(reader);
		if (n == wanted) {
			cut.end_offset = end;
			cut.commit = *item.commit;
		}
	}
	trace_reader_close(reader);
	if (argc == 2) {
		printf("%ld\n", n);
		return 0;
	}
	cut.source_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	cut.fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int to = dup(cut.fd);
	r = cut.end_offset ? trace_cut(&cut, &result) : -1;
	if (r == 0)
		r = io_copy_range(cut.source_fd, cut.end_offset, to, result.n_bytes,
				  end - cut.end_offset);
	if (r < 0)
		errx(1, "cannot cut %s: %d", argv[1], r);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", cut.commit.ticks, result.n_dropped_events,
	       result.n_dropped_samples);
	return 0;
}
