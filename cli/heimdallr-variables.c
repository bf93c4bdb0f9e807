#include "cli/heimdallr-variables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/ring.h"

#define DEFAULT_BYTES	 (UINT64_C(4) << 30) /* of a PMEM file whose size is empty or 0 */
#define MAX_BUFFER_BYTES ((uint64_t)RING_MAX_CHUNKS * RING_CHUNK_BYTES)

/* A variable that is set to something; NULL: it is not. */
static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* A number as those programs read it: decimal, or hexadecimal with 0x. Empty: 0. */
static int read_number(struct option_set *options, const char *name, uint64_t *ret_number)
{
	const char *value = value_of(name);
	char *end;

	if (!value) {
		*ret_number = 0;
		return 0;
	}
	errno = 0;
	*ret_number = strtoull(value, &end, strncmp(value, "0x", 2) == 0 ? 16 : 10);
	if (errno == 0 && *end == '\0' && *value != '-')
		return 0;
	snprintf(options->message, OPTION_MESSAGE_BYTES,
		 "%s: '%s' is not a number (such as 4096 or 0x1000)", name, value);
	return -EINVAL;
}

static void note(struct heimdallr *heimdallr, const char *name)
{
	size_t n = strlen(heimdallr->obeyed);

	snprintf(heimdallr->obeyed + n, sizeof(heimdallr->obeyed) - n, "%s%s", n ? ", " : "", name);
}

/* Give an option a value that is written; tell of name if nobody else has given one. */
__attribute__((format(printf, 5, 6))) static int give(struct option_set *options,
						      struct heimdallr *heimdallr, const char *name,
						      enum option_id id, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;

	if (option_origin(options, id) > OPTION_FROM_HEIMDALLR)
		return 0;
	va_start(arguments, format);
	int n = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (n < 0 || heimdallr->n == HEIMDALLR_MAX_TEXTS)
		return free(n < 0 ? NULL : text), -ENOMEM;
	heimdallr->texts[heimdallr->n++] = text;
	int r = option_assign(options, option_row(id)->name, text, OPTION_FROM_HEIMDALLR);
	if (r == 0 && name)
		note(heimdallr, name);
	return r;
}

static int read_heap(struct option_set *options, struct heimdallr *heimdallr)
{
	const char *dir = value_of("HEIMDALLR_PMEMDIR");
	uint64_t bytes;

	if (!dir)
		return 0;
	int r = read_number(options, "HEIMDALLR_PMEMSIZE", &bytes);
	if (r < 0)
		return r;
	return give(options, heimdallr, "HEIMDALLR_PMEMDIR", OPTION_HEAP, "pmem:%s,%" PRIu64, dir,
		    bytes ? bytes : DEFAULT_BYTES);
}

static int read_buffers(struct option_set *options, struct heimdallr *heimdallr)
{
	const char *dir = value_of("TRAC_PMEMDIR");
	uint64_t bytes;

	if (!dir)
		return 0;
	int r = read_number(options, "TRAC_PMEMSIZE", &bytes);
	if (r < 0)
		return r;
	if (bytes == 0 || bytes > MAX_BUFFER_BYTES)
		bytes = MAX_BUFFER_BYTES < DEFAULT_BYTES ? MAX_BUFFER_BYTES : DEFAULT_BYTES;
	return give(options, heimdallr, "TRAC_PMEMDIR", OPTION_BUFFERS, "pmem:%s,%" PRIu64, dir,
		    bytes);
}

/* The smallest block that is recorded, and that is placed. */
static int read_threshold(struct option_set *options, struct heimdallr *heimdallr)
{
	uint64_t bytes;
	int r = value_of("TRAC_THRESHOLD") ? read_number(options, "TRAC_THRESHOLD", &bytes) : 1;

	if (r != 0)
		return r < 0 ? r : 0;
	r = give(options, heimdallr, "TRAC_THRESHOLD", OPTION_MIN_SIZE, "%" PRIu64, bytes);
	return r < 0 ? r : give(options, heimdallr, NULL, OPTION_HEAP_MIN, "%" PRIu64, bytes);
}

static int read_levels(struct option_set *options, struct heimdallr *heimdallr)
{
	uint64_t n;
	int r = value_of("TRAC_STACKLEVELS") ? read_number(options, "TRAC_STACKLEVELS", &n) : 1;

	if (r != 0)
		return r < 0 ? r : 0;
	return give(options, heimdallr, "TRAC_STACKLEVELS", OPTION_STACK_DEPTH, "%" PRIu64,
		    n > RING_MAX_FRAMES ? RING_MAX_FRAMES : n);
}

/* Names of events, for hardware sources. */
static int read_events(struct option_set *options, struct heimdallr *heimdallr)
{
	const char *load = value_of("HEIMDALLR_READEVENT");
	const char *store = value_of("HEIMDALLR_WRITEEVENT");
	int r = 0;

	if (load)
		r = give(options, heimdallr, "HEIMDALLR_READEVENT", OPTION_LOAD_EVENT, "%s", load);
	if (r == 0 && store)
		r = give(options, heimdallr, "HEIMDALLR_WRITEEVENT", OPTION_STORE_EVENT, "%s",
			 store);
	return r;
}

int heimdallr_read(struct option_set *options, struct heimdallr *heimdallr)
{
	int r = read_heap(options, heimdallr) ?: read_buffers(options, heimdallr);
	r = r ?: read_threshold(options, heimdallr);
	r = r ?: read_events(options, heimdallr);
	return r == 0 ? read_levels(options, heimdallr) : r;
}

void heimdallr_finish(struct heimdallr *heimdallr)
{
	while (heimdallr->n > 0)
		free(heimdallr->texts[--heimdallr->n]);
}
