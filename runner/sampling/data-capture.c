#include "runner/sampling/data-capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "decode/decode.h"
#include "runner/sampling/process-read.h"

#define PAGE_BYTES	 4096u
#define WORD_BYTES	 8u
#define MAX_PAGES	 4096u /* some 4.2 KiB each, made when they are wanted */
#define MAX_INSTRUCTIONS 4096u
#define MAX_RANGES	 64u /* of a sample */
#define RANGE_BYTES	 (TRACE_HELD_WORDS * WORD_BYTES)
#define MAX_LOADS	 64u /* of a window, that are told apart */
#define MAX_TRIES	 12u /* of an instruction before it is left alone */
#define TRY_AGAIN	 256u /* samples after which it is looked at once more */
#define LEARN_AGAIN	 512u /* samples after which it is found out anew what is of use */
#define MAX_IN_ROUND	 2048u /* samples that are decoded */
#define MAX_BYTES	 (UINT64_C(128) << 20) /* of the whole recording */
#define MAX_HELD_BYTES	 (256u << 10) /* before they are handed on */
#define TICK_NS		 (UINT64_C(1) << 20) /* of times, which take less room so */
#define STACK_BELOW	 (UINT64_C(64) << 10)
#define STACK_ABOVE	 (UINT64_C(1) << 20)

/* A page as the last reading saw it, and what had changed since the one in an earlier round. */
struct page {
	uint64_t address;
	uint32_t process_id;
	uint32_t round;
	uint64_t before_ns; /* end of the reading before; 0: there was none */
	uint64_t end_ns; /* of the last one */
	uint64_t changed[PAGE_BYTES / WORD_BYTES / 64];
	uint8_t bytes[PAGE_BYTES];
};

/*
 * Whether it was of use at an instruction, and which of its window's loads were: a bit for each in
 * their order.
 */
struct tried {
	uint64_t ip;
	uint32_t process_id;
	uint64_t useful;
	uint32_t n_samples;
	uint32_t next; /* of these, the one that is looked at */
	uint8_t n; /* tries that were of no use */
};

/* Only where many of a program's samples are: to find out costs some 30 us. */
#define MIN_SAMPLES   4u
#define ONE_IN	      200u
#define MAX_PROCESSES 256u

struct seen {
	uint32_t process_id;
	uint32_t n_samples;
};

/* Where something lies that is kept: most of what comes and goes is elsewhere. */
struct bounds {
	uint64_t start;
	uint64_t end; /* 0: there is nothing */
};

/* What the window of a sample loads. */
struct held {
	struct trace_held head;
	struct {
		uint64_t address;
		uint32_t n_words;
		const struct page *page;
	} ranges[MAX_RANGES];
	uint64_t allowed; /* loads that are answered */
	uint32_t n_loads;
	struct {
		uint64_t address;
		size_t n_bytes;
	} loads[MAX_LOADS];
};

struct run_data {
	struct code_changing_sink sink;
	struct run_code *code;
	struct decoder *decoder;
	struct page *pages[MAX_PAGES];
	struct bounds read, decoded; /* pages and code, of all processes */
	struct tried tried[MAX_INSTRUCTIONS];
	struct seen seen[MAX_PROCESSES]; /* direct-mapped */
	const struct image *image; /* of the sample that is decoded */
	const struct decode_sample *sample;
	bool is_forbidden; /* the kernel does not let us, and may log each attempt: that process */
	pid_t forbidden_pid;
	int pagemap_fd;
	pid_t pagemap_pid;
	uint32_t round;
	uint64_t begin_ns; /* of this round's first reading; 0: there was none */
	uint32_t n_in_round;
	uint32_t held_process; /* whose bytes wait to be handed on */
	size_t n_held;
	uint8_t *held; /* MAX_HELD_BYTES */
	uint64_t ticks;
	struct held window_held;
	struct decode_window window;
	struct run_data_counts counts;
};

struct run_data_counts run_data_counts(const struct run_data *data)
{
	return data->counts;
}

static void widen(struct bounds *bounds, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(PAGE_BYTES - 1), end = start + 2 * PAGE_BYTES;

	if (bounds->end == 0 || start < bounds->start)
		bounds->start = start;
	if (end > bounds->end)
		bounds->end = end;
}

/* ---- Pages ---- */

static bool is_present(struct run_data *data, pid_t pid, uint64_t address)
{
	uint64_t entry = 0;
	char path[64];

	if (data->pagemap_fd < 0 || data->pagemap_pid != pid) {
		snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
		if (data->pagemap_fd >= 0)
			close(data->pagemap_fd);
		data->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
		data->pagemap_pid = pid;
	}
	if (data->pagemap_fd < 0)
		return false;
	if (pread(data->pagemap_fd, &entry, sizeof(entry),
		  (off_t)(address / PAGE_BYTES * sizeof(entry))) != sizeof(entry))
		return false;
	return entry >> 63;
}

static struct page **page_slot(struct run_data *data, uint32_t process_id, uint64_t address)
{
	uint64_t hash =
		(address / PAGE_BYTES ^ (uint64_t)process_id << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return &data->pages[(hash >> 32) % MAX_PAGES];
}

/* Most pages are as they were. */
static void compare(struct page *page, const uint8_t *now)
{
	memset(page->changed, 0, sizeof(page->changed));
	if (memcmp(page->bytes, now, PAGE_BYTES) == 0)
		return;
	for (size_t i = 0; i < PAGE_BYTES / WORD_BYTES; i++)
		if (memcmp(page->bytes + i * WORD_BYTES, now + i * WORD_BYTES, WORD_BYTES) != 0)
			page->changed[i / 64] |= UINT64_C(1) << i % 64;
}

/* False: it cannot be read. */
static bool read_page(struct run_data *data, struct page *page)
{
	uint8_t now[PAGE_BYTES];
	pid_t pid = data->image->pid;

	if (data->begin_ns == 0)
		data->begin_ns = clock_raw_ns();
	/* What was there some ms ago may be gone: then it cannot be read. */
	if ((page->end_ns == 0 && !is_present(data, pid, page->address)) ||
	    process_read(pid, &data->is_forbidden, page->address, now, PAGE_BYTES, READ_WANTED) <
		    PAGE_BYTES)
		return false;
	page->before_ns = page->end_ns;
	compare(page, now);
	memcpy(page->bytes, now, PAGE_BYTES);
	page->end_ns = (clock_raw_ns() | (TICK_NS - 1)) + 1;
	page->round = data->round;
	return true;
}

/* The page as it is in this round; NULL: not to be had. */
static const struct page *find_page(struct run_data *data, uint64_t address)
{
	uint32_t process_id = data->image->id;
	struct page **slot = page_slot(data, process_id, address);
	struct page *page = *slot;

	if (!page && !(page = *slot = calloc(1, sizeof(*page))))
		return NULL;
	if (page->address != address || page->process_id != process_id) {
		/* What this round has read of the other may be wanted for this very sample. */
		if (page->round == data->round)
			return NULL;
		widen(&data->read, address);
		page->address = address;
		page->process_id = process_id;
		page->round = 0;
		page->end_ns = 0;
	}
	if (page->round != data->round && !read_page(data, page)) {
		page->end_ns = 0;
		return NULL;
	}
	return page;
}

static void forget_pages(struct run_data *data, uint32_t process_id, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < MAX_PAGES; i++) {
		struct page *page = data->pages[i];

		if (page && page->process_id == process_id && page->address < end &&
		    page->address + PAGE_BYTES > start)
			page->end_ns = page->round = 0;
	}
}

/* ---- What the decoder asks for ---- */

/* Code that may change is not decoded here. */
static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	struct run_data *data = user;
	size_t in_page = PAGE_BYTES - (size_t)(address % PAGE_BYTES);
	size_t n = n_bytes < in_page ? n_bytes : in_page;

	(void)time;
	if (!run_code_is_fixed(data->code, process, data->image->pid, address))
		return 0;
	size_t n_read =
		process_read(data->image->pid, &data->is_forbidden, address, bytes, n, READ_WANTED);
	if (n_read < n || n == n_bytes ||
	    !run_code_is_fixed(data->code, process, data->image->pid, address + n))
		return n_read;
	return n + process_read(data->image->pid, &data->is_forbidden, address + n,
				(uint8_t *)bytes + n, n_bytes - n, READ_WANTED);
}

static bool is_on_stack(const struct decode_sample *sample, uint64_t address)
{
	return address - (sample->regs[DECODE_SP] - STACK_BELOW) < STACK_BELOW + STACK_ABOVE;
}

static bool has_changed(const struct page *page, uint64_t address)
{
	size_t word = address % PAGE_BYTES / WORD_BYTES;

	return page->changed[word / 64] >> word % 64 & 1;
}

/* Note the words of [address, end) of one page. False: no room, or it is not to be had. */
static bool hold(struct run_data *data, uint64_t address, uint64_t end, const struct page *page)
{
	struct held *held = &data->window_held;
	uint32_t n_words = (uint32_t)((end - address) / WORD_BYTES);

	for (uint32_t i = 0; i < held->head.n_ranges; i++)
		if (held->ranges[i].address == address && held->ranges[i].n_words >= n_words)
			return true;
	if (held->head.n_ranges == MAX_RANGES)
		return false;
	held->ranges[held->head.n_ranges].address = address;
	held->ranges[held->head.n_ranges].n_words = n_words;
	held->ranges[held->head.n_ranges++].page = page;
	for (uint64_t at = address; at < end; at += WORD_BYTES)
		held->head.has_changed |= page->before_ns && has_changed(page, at);
	if (page->before_ns == 0 || held->head.before_raw_ns == 0)
		held->head.before_raw_ns = 0;
	else if (page->before_ns > held->head.before_raw_ns)
		held->head.before_raw_ns = page->before_ns;
	return true;
}

/* Whether the window's load is one that is answered. */
static bool is_allowed(struct held *held, uint64_t address, size_t n_bytes)
{
	uint32_t i = 0;

	while (i < held->n_loads &&
	       (held->loads[i].address != address || held->loads[i].n_bytes != n_bytes))
		i++;
	if (i == MAX_LOADS)
		return false;
	held->loads[i].address = address;
	held->loads[i].n_bytes = n_bytes;
	if (i == held->n_loads)
		held->n_loads++;
	return held->allowed >> i & 1;
}

static size_t read_data(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	struct run_data *data = user;
	uint64_t last = address + n_bytes - 1, at = address & ~UINT64_C(7);
	size_t n = 0;

	(void)process;
	(void)time;
	if (!data->window_held.allowed || last < address || is_on_stack(data->sample, address) ||
	    !is_allowed(&data->window_held, address, n_bytes))
		return 0;
	while (n < n_bytes) {
		uint64_t start = at & ~(uint64_t)(PAGE_BYTES - 1);
		uint64_t end = (last | (WORD_BYTES - 1)) + 1;
		const struct page *page = find_page(data, start);

		if (end > start + PAGE_BYTES)
			end = start + PAGE_BYTES;
		if (end > at + RANGE_BYTES)
			end = at + RANGE_BYTES;
		if (!page || !hold(data, at, end, page))
			break;
		size_t part = (size_t)(end - (address + n));
		part = part < n_bytes - n ? part : n_bytes - n;
		memcpy((uint8_t *)bytes + n, page->bytes + (address + n - start), part);
		n += part;
		at = end;
	}
	return n;
}

/* ---- Samples ---- */

static bool take_registers(const struct pmu_sample *sample, struct decode_sample *ret_input)
{
	unsigned n = 0;

	if (!pmu_sample_is_x86(sample))
		return false;
	for (unsigned bit = 0; n < DECODE_N_REGS; bit++)
		if ((DECODE_REGS_MASK >> bit & 1) &&
		    !pmu_sample_register(sample, bit, &ret_input->regs[n++]))
			return false;
	return true;
}

/* What the window leaves open with these loads answered. */
static float unresolved(struct run_data *data, uint64_t allowed)
{
	struct decode_charge charge;

	data->window_held.allowed = allowed;
	data->window_held.n_loads = 0;
	data->window_held.head = (struct trace_held){ .ip = data->sample->ip, .before_raw_ns = 1 };
	if (decode_window(data->decoder, data->sample, DECODE_MAX_INSTRUCTIONS, &data->window) < 0)
		return 1;
	decode_charge(&data->window, &charge);
	return charge.unresolved_share;
}

/*
 * The loads that are of use, all of which are answered now; 0: none is. Only of loops that close
 * with them: what else there is costs more than it tells.
 */
static uint64_t find_useful(struct run_data *data)
{
	float without = unresolved(data, 0);
	float with = without > 0 ? unresolved(data, UINT64_MAX) : without;
	uint32_t n_loads = data->window_held.n_loads;
	uint64_t useful = n_loads ? UINT64_MAX >> (MAX_LOADS - n_loads) : 0;

	if (with >= without || data->window.end != DECODE_END_LOOP)
		return 0;
	for (uint32_t i = n_loads; i-- > 0;)
		if (unresolved(data, useful & ~(UINT64_C(1) << i)) <= with)
			useful &= ~(UINT64_C(1) << i);
	return useful;
}

static size_t held_bytes(const struct held *held)
{
	size_t n = sizeof(held->head);

	for (uint32_t i = 0; !held->head.has_changed && i < held->head.n_ranges; i++)
		n += sizeof(uint64_t) + held->ranges[i].n_words * WORD_BYTES;
	return n;
}

static int flush(struct run_data *data)
{
	const struct trace_code head = { .ticks = data->ticks,
					 .n_bytes = (uint32_t)data->n_held,
					 .kind = TRACE_CODE_HELD };
	int r = 0;

	if (data->n_held)
		r = data->sink.lines(data->sink.context, data->held_process, &head, data->held);
	data->counts.n_bytes += data->n_held;
	data->n_held = 0;
	return r < 0 ? r : 0;
}

static void put(struct run_data *data, const void *bytes, size_t n_bytes)
{
	memcpy(data->held + data->n_held, bytes, n_bytes);
	data->n_held += n_bytes;
}

/* What has changed is only told to have. */
static int keep(struct run_data *data)
{
	struct held *held = &data->window_held;
	size_t n = held_bytes(held);
	int r = 0;

	if (data->n_held + n > MAX_HELD_BYTES || data->held_process != data->image->id)
		r = flush(data);
	if (held->head.has_changed)
		held->head.n_ranges = 0;
	held->head.after_raw_ns = data->begin_ns;
	held->head.loop = data->window.head_ip;
	data->held_process = data->image->id;
	put(data, &held->head, sizeof(held->head));
	for (uint32_t i = 0; i < held->head.n_ranges; i++) {
		uint64_t address = held->ranges[i].address;
		uint64_t word = address | (held->ranges[i].n_words - 1);

		put(data, &word, sizeof(word));
		put(data, held->ranges[i].page->bytes + address % PAGE_BYTES,
		    held->ranges[i].n_words * WORD_BYTES);
	}
	data->counts.n_samples++;
	return r;
}

static struct tried *find_tried(struct run_data *data, uint32_t process_id, uint64_t ip)
{
	uint64_t hash = (ip ^ (uint64_t)process_id << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct tried *tried = &data->tried[(hash >> 40) % MAX_INSTRUCTIONS];

	if (tried->ip != ip || tried->process_id != process_id)
		*tried = (struct tried){ .ip = ip, .process_id = process_id };
	return tried;
}

static uint32_t count_sample(struct run_data *data, uint32_t process_id)
{
	struct seen *seen = &data->seen[process_id % MAX_PROCESSES];

	if (seen->process_id != process_id)
		*seen = (struct seen){ .process_id = process_id };
	return ++seen->n_samples;
}

/* Whether the sample's window is worth a look. */
static bool is_wanted(struct run_data *data, struct tried *tried)
{
	uint32_t n_all = count_sample(data, tried->process_id);

	if (++tried->n_samples < MIN_SAMPLES || tried->n_samples < n_all / ONE_IN ||
	    tried->n_samples < tried->next)
		return false;
	if (data->n_in_round >= MAX_IN_ROUND || data->counts.n_bytes >= MAX_BYTES) {
		data->counts.n_over_limit += tried->useful != 0;
		return false;
	}
	data->n_in_round++;
	return true;
}

/*
 * Which loads of the window are of use, and read them. The first look is at what follows ip only:
 * to look behind it costs as much as a hundred samples where code is new.
 */
static bool find_out(struct run_data *data, struct tried *tried)
{
	bool is_open = false;

	decode_set_ahead_only(data->decoder, true);
	uint64_t useful = find_useful(data);
	decode_set_ahead_only(data->decoder, false);
	if (useful)
		is_open = unresolved(data, 0) > 0;
	if (is_open) {
		tried->useful = useful;
		return true;
	}
	/* What is of no use again and again is not looked at for a while. */
	if (++tried->n >= MAX_TRIES)
		tried->next = tried->n_samples + TRY_AGAIN;
	return false;
}

/* As those before at this instruction: whether anything could be read. */
static bool read_again(struct run_data *data, const struct tried *tried)
{
	decode_set_ahead_only(data->decoder, true);
	unresolved(data, tried->useful);
	decode_set_ahead_only(data->decoder, false);
	return data->window_held.head.n_ranges > 0;
}

static int look(struct run_data *data, struct tried *tried)
{
	bool is_of_use = tried->useful && tried->n_samples % LEARN_AGAIN ? read_again(data, tried)
									 : find_out(data, tried);

	return is_of_use && data->window_held.head.n_ranges ? keep(data) : 0;
}

int run_data_sample(struct run_data *data, const struct pmu_record *record,
		    const struct image *image)
{
	const struct pmu_sample *sample = &record->sample;
	struct tried *tried = find_tried(data, image->id, sample->ip);
	struct decode_sample input = {
		.ip = sample->ip,
		.fs_base = image_fs_base(image, record->origin.tid),
		.stack = sample->stack,
		.stack_bytes = sample->stack_bytes > DECODE_STACK_BYTES
				       ? DECODE_STACK_BYTES
				       : (uint32_t)sample->stack_bytes,
		.process = image->id,
		.time = record->origin.time_ns,
	};

	if (record->is_kernel || image->pid == data->forbidden_pid || !is_wanted(data, tried) ||
	    !take_registers(sample, &input))
		return 0;
	data->image = image;
	data->sample = &input;
	int r = look(data, tried);
	if (data->is_forbidden)
		data->forbidden_pid = image->pid;
	data->is_forbidden = false;
	data->image = NULL;
	data->sample = NULL;
	return r;
}

int run_data_round(struct run_data *data, uint64_t ticks)
{
	int r;

	data->ticks = ticks;
	r = flush(data);
	data->n_in_round = 0;
	data->begin_ns = 0;
	data->round++;
	return r;
}

void run_data_forget(struct run_data *data, uint32_t process_id, uint64_t start, uint64_t end)
{
	if (start < data->decoded.end && end > data->decoded.start)
		decode_invalidate(data->decoder, process_id, start, end);
	if (start < data->read.end && end > data->read.start)
		forget_pages(data, process_id, start, end);
}

int run_data_create(const struct code_changing_sink *sink, struct run_code *code,
		    struct run_data **ret_data)
{
	struct run_data *data = calloc(1, sizeof(*data));
	const struct decode_memory memory = { .code = read_code, .data = read_data, .user = data };

	if (!data)
		return -ENOMEM;
	data->sink = *sink;
	data->code = code;
	data->pagemap_fd = -1;
	data->round = 1;
	data->held = malloc(MAX_HELD_BYTES);
	if (!data->held || decode_create(DECODE_MACHINE_X86_64, &memory, 0, &data->decoder) < 0) {
		run_data_destroy(data);
		return -ENOMEM;
	}
	*ret_data = data;
	return 0;
}

struct run_data *run_data_destroy(struct run_data *data)
{
	if (!data)
		return NULL;
	for (size_t i = 0; i < MAX_PAGES; i++)
		free(data->pages[i]);
	if (data->pagemap_fd >= 0)
		close(data->pagemap_fd);
	decode_destroy(data->decoder);
	free(data->held);
	free(data);
	return NULL;
}
