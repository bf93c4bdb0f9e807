#include "runner/sampling/data-capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "decode/hardware/sample-input.h"
#include "runner/sampling/data-pages.h"
#include "runner/sampling/load-plan.h"

#define PAGE_BYTES	 DATA_PAGE_BYTES
#define WORD_BYTES	 DATA_WORD_BYTES
#define MAX_INSTRUCTIONS 4096u
#define MAX_KNOWN	 1024u /* of these, where it was of use */
#define CHECK_EVERY	 16u /* samples that are told from registers; a power of two */
#define CHECK_RARELY	 64u /* where they were told right so far */
#define MAX_RANGES	 64u /* of a sample */
#define RANGE_BYTES	 (TRACE_HELD_WORDS * WORD_BYTES)
#define LEAST_OPEN	 0.001f /* of a sample's time: less is rounding */
#define MAX_LOADS	 16u /* instructions of a window that load */
#define MAX_TRIES	 4u /* of an instruction before it is left alone */
#define TRY_AGAIN	 16u /* samples after which it is looked at once more, then twice as many */
#define MAX_DOUBLED	 4u
#define LEARN_AGAIN	 512u /* samples after which it is found out anew what is of use */
#define MAX_OPEN	 2u /* windows in which it was not enough, and twice as many each time */
#define MAX_ANEW	 6u
#define MAX_IN_ROUND	 2048u /* samples that are decoded */
#define MAX_BYTES	 (UINT64_C(128) << 20) /* of the whole recording */
#define MAX_READINGS	 2048u /* before they are handed on, ... */
#define MAX_ALL_RANGES	 (4 * MAX_READINGS) /* of all of these */
#define MAX_ALL_WORDS	 (2 * MAX_ALL_RANGES)
#define ENOUGH_BYTES	 (32u << 10) /* to hand them on behind a round */
#define WAIT_NS		 (UINT64_C(500) << 20) /* as long may fewer wait */
#define BELOW_BYTES	 128u /* code may use as much below its stack pointer */
#define STACK_BELOW	 (UINT64_C(64) << 10)
#define STACK_ABOVE	 (UINT64_C(1) << 20)

/* Loads that are answered. */
struct loads {
	uint32_t n;
	/*
	 * Of code that keeps its variables below the stack pointer: words of global variables,
	 * which are loaded before the sample as well. Else instructions.
	 */
	bool is_variable;
	uint64_t at[MAX_LOADS];
};

/* Whether it was of use at an instruction. */
struct tried {
	uint64_t ip;
	uint32_t process_id;
	uint32_t n_samples;
	uint32_t next; /* of these, the one that is looked at */
	uint16_t known; /* the struct known that has it, if it still does; 0: none */
	uint8_t n; /* tries that were of no use */
	uint8_t n_anew; /* times that it was found out anew as it was not enough */
};

/* An instruction where it was. */
struct known {
	uint64_t ip;
	uint32_t process_id;
	struct loads useful; /* of its window's loads */
	struct load_plan plan;
	uint64_t loop; /* the window's lowest address */
	uint32_t n_open; /* windows that did not close with it */
};

/* Only where many of a program's samples are: to find out costs some 30 us. */
#define MIN_SAMPLES   2u
#define ONE_IN	      200u
#define MAX_PROCESSES 256u

struct seen {
	uint32_t process_id;
	uint32_t n_samples;
};

/* What the window of a sample loads. */
struct held {
	struct trace_held head;
	struct load_range ranges[MAX_RANGES];
	const struct data_page *pages[MAX_RANGES]; /* of these */
	bool is_fresh; /* a page was read for it, not only before it */
	struct loads *loads; /* NULL: none is answered */
	bool is_learning; /* all are, and noted, as far as there is room */
};

/* Those of a process that wait to be handed on, as a frame has them. */
struct readings {
	uint32_t process_id;
	uint32_t n, n_ranges, n_words; /* words are put when pages were read behind the samples */
	uint32_t n_settled, n_settled_ranges; /* of which that was done */
	uint32_t n_wanted; /* words, with those of the others */
	struct trace_held heads[MAX_READINGS];
	uint64_t ranges[MAX_ALL_RANGES];
	uint64_t words[MAX_ALL_WORDS];
};

struct run_data {
	struct code_changing_sink sink;
	struct run_code *code;
	struct decoder *decoder;
	struct data_pages *pages;
	struct fixed_pages fixed;
	struct tried tried[MAX_INSTRUCTIONS];
	struct known known[MAX_KNOWN];
	uint32_t next_known;
	struct seen seen[MAX_PROCESSES]; /* direct-mapped */
	const struct image *image; /* of the sample that is decoded */
	const struct decode_sample *sample;
	bool is_forbidden; /* the kernel does not let us, and may log each attempt: that process */
	pid_t forbidden_pid;
	uint32_t n_in_round;
	struct readings readings;
	uint64_t held_since_ns;
	bool has_begun; /* who reads the trace has to know early that there are any */
	uint64_t ticks;
	struct held window_held;
	struct decode_window window;
	struct run_data_counts counts;
};

struct run_data_counts run_data_counts(const struct run_data *data)
{
	return data->counts;
}

/* ---- What the decoder asks for ---- */

static size_t read_fixed(struct run_data *data, uint64_t address, void *bytes, size_t n_bytes)
{
	const struct data_owner owner = { data->image->id, data->image->pid, &data->is_forbidden };

	return fixed_pages_read(&data->fixed, &owner, address, bytes, n_bytes);
}

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
	size_t n_read = read_fixed(data, address, bytes, n);
	if (n_read < n || n == n_bytes ||
	    !run_code_is_fixed(data->code, process, data->image->pid, address + n))
		return n_read;
	return n + read_fixed(data, address + n, (uint8_t *)bytes + n, n_bytes - n);
}

/* Jump tables: without them nothing before an instruction is known where a switch is near. */
static size_t read_constant(void *user, uint32_t process, uint64_t address, uint64_t time,
			    void *bytes, size_t n_bytes)
{
	struct run_data *data = user;
	uint64_t n = run_code_constant(data->code, process, data->image->pid, address);

	(void)time;
	return n ? read_fixed(data, address, bytes, n < n_bytes ? (size_t)n : n_bytes) : 0;
}

static bool is_on_stack(const struct decode_sample *sample, uint64_t address)
{
	return address - (sample->regs[DECODE_SP] - STACK_BELOW) < STACK_BELOW + STACK_ABOVE;
}

static uint64_t end_of(const struct load_range *range)
{
	return range->address + range->n_words * UINT64_C(8);
}

/* Note the words of [address, end) of one page. False: no room, or it is not to be had. */
static bool hold(struct run_data *data, uint64_t address, uint64_t end,
		 const struct data_page *page)
{
	struct held *held = &data->window_held;
	uint32_t n_words = (uint32_t)((end - address) / WORD_BYTES), last = held->head.n_ranges - 1;

	for (uint32_t i = 0; i < held->head.n_ranges; i++)
		if (address >= held->ranges[i].address && end <= end_of(&held->ranges[i]))
			return true;
	if (held->head.n_ranges && held->pages[last] == page &&
	    end_of(&held->ranges[last]) == address &&
	    held->ranges[last].n_words + n_words <= TRACE_HELD_WORDS) {
		held->ranges[last].n_words += n_words; /* a word more of a vector */
	} else {
		if (held->head.n_ranges == MAX_RANGES)
			return false;
		held->ranges[held->head.n_ranges] = (struct load_range){ address, n_words };
		held->pages[held->head.n_ranges++] = page;
	}
	held->is_fresh |= !page->is_due;
	if (page->before_ns == 0 || held->head.before_raw_ns == 0)
		held->head.before_raw_ns = 0;
	else if (page->before_ns > held->head.before_raw_ns)
		held->head.before_raw_ns = page->before_ns;
	return true;
}

static bool is_among(const struct loads *loads, uint64_t at)
{
	for (uint32_t i = 0; i < loads->n; i++)
		if (loads->at[i] == at)
			return true;
	return false;
}

/* Whether the load of the window's instruction at hand is one that is answered. */
static bool is_allowed(struct run_data *data, uint64_t address)
{
	struct loads *loads = data->window_held.loads;

	if (!loads || is_on_stack(data->sample, address))
		return false;
	uint64_t at = loads->is_variable ? address & ~UINT64_C(7) : data->window.end_ip;
	if (is_among(loads, at))
		return true;
	if (!data->window_held.is_learning || loads->n == MAX_LOADS)
		return false;
	loads->at[loads->n++] = at;
	return !loads->is_variable;
}

static size_t read_data(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	struct run_data *data = user;
	uint64_t last = address + n_bytes - 1, at = address & ~UINT64_C(7);
	size_t n = 0;

	(void)time;
	if (last < address || !is_allowed(data, address))
		return 0;
	while (n < n_bytes) {
		const struct data_owner owner = { process, data->image->pid, &data->is_forbidden };
		uint64_t start = at & ~(uint64_t)(PAGE_BYTES - 1);
		uint64_t end = (last | (WORD_BYTES - 1)) + 1;
		const struct data_page *page = data_pages_find(data->pages, &owner, at);

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

static void begin_held(struct run_data *data)
{
	data->window_held.head = (struct trace_held){ .ip = data->sample->ip, .before_raw_ns = 1 };
	data->window_held.is_fresh = false;
}

/* Of accesses of which it is known who has their memory in the next turn. */
static float sum_next_turn(const struct decode_access *accesses, uint32_t n)
{
	float sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += accesses[i].state == DECODE_NEXT_TURN ? accesses[i].share : 0;
	return sum;
}

/* What the window leaves open with these loads answered; NULL: none. */
static float unresolved(struct run_data *data, struct loads *loads)
{
	struct decode_charge charge;

	data->window_held.loads = loads;
	begin_held(data);
	if (decode_window(data->decoder, data->sample, DECODE_MAX_INSTRUCTIONS, &data->window) < 0)
		return 1;
	data->window_held.head.loop = data->window.head_ip;
	for (uint32_t i = 0; data->window.is_turn && i < data->window.n_behind; i++)
		if (data->window.behind[i].ip < data->window_held.head.loop)
			data->window_held.head.loop = data->window.behind[i].ip;
	decode_charge(&data->window, &charge);
	return charge.unresolved_share - sum_next_turn(data->window.accesses, charge.n_charged) -
	       sum_next_turn(data->window.behind, charge.n_behind);
}

static bool is_closed(const struct run_data *data)
{
	return data->window.end == DECODE_END_LOOP || data->window.is_turn;
}

/* Whether the window reads variables that no sample has: those of a function that calls none. */
static bool reads_variables(const struct run_data *data)
{
	const struct decode_window *window = &data->window;

	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].is_read &&
		    decode_state_has_address(window->accesses[i].state) &&
		    data->sample->regs[DECODE_SP] - window->accesses[i].address - 1 < BELOW_BYTES)
			return true;
	return false;
}

/*
 * The loads that are of use: none unless the loop closes with them, and did not without or left
 * more open. What else there is costs more than it tells.
 */
static void find_useful(struct run_data *data, struct loads *ret_loads)
{
	float without = unresolved(data, NULL);
	bool was_closed = is_closed(data);
	struct loads useful = { 0 };

	ret_loads->n = 0;
	if (was_closed && without < LEAST_OPEN)
		return;
	data->window_held.is_learning = true;
	float with = unresolved(data, &useful);
	data->window_held.is_learning = false;
	if (!is_closed(data) || (was_closed && with > without - LEAST_OPEN))
		return;
	for (uint32_t i = useful.n; i-- > 0;) {
		struct loads fewer = useful;

		fewer.at[i] = fewer.at[--fewer.n];
		if (unresolved(data, &fewer) < with + LEAST_OPEN && is_closed(data))
			useful = fewer;
	}
	*ret_loads = useful;
}

/*
 * The same of global variables: each that leaves less open. Other words have changed since the
 * sample, and would not agree with its registers.
 */
static void find_variables(struct run_data *data, struct loads *ret_loads)
{
	float least = unresolved(data, NULL);
	struct loads all = { .is_variable = true }, useful = all;

	if (is_closed(data) && least >= LEAST_OPEN) {
		data->window_held.is_learning = true;
		unresolved(data, &all);
		data->window_held.is_learning = false;
	}
	for (uint32_t i = 0; i < all.n; i++) {
		struct loads more = useful;

		more.at[more.n++] = all.at[i];
		float with = unresolved(data, &more);
		if (with > least - LEAST_OPEN || !is_closed(data))
			continue;
		least = with;
		useful = more;
	}
	*ret_loads = useful;
}

static uint32_t words_of(uint64_t range)
{
	return (uint32_t)(range & (TRACE_HELD_WORDS - 1)) + 1;
}

static uint64_t address_of(uint64_t range)
{
	return range & ~(uint64_t)(TRACE_HELD_WORDS - 1);
}

/* Whether the words of a reading have changed. False: a page was not to be had again. */
static bool look_at_ranges(struct run_data *data, struct trace_held *head, const uint64_t *ranges)
{
	for (uint32_t i = 0; i < head->n_ranges; i++) {
		uint64_t address = address_of(ranges[i]);
		const struct data_page *page =
			data_pages_settled(data->pages, data->readings.process_id, address);

		if (!page)
			return false;
		for (uint32_t k = 0; page->before_ns && k < words_of(ranges[i]); k++)
			head->has_changed |= data_page_has_changed(page, address + k * WORD_BYTES);
	}
	return true;
}

/* Put ranges, and words that the trace does not have. They are as the sample saw them. */
static void put_ranges(struct run_data *data, const uint64_t *ranges, uint32_t n, uint64_t now_ns)
{
	struct readings *all = &data->readings;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t range = ranges[i], address = address_of(range);
		uint32_t n_words = words_of(range);
		struct data_page *page = data_pages_settled(data->pages, all->process_id, address);

		if (data_page_store(page, address, n_words, now_ns)) {
			range |= TRACE_HELD_SAME;
		} else {
			memcpy(all->words + all->n_words, page->bytes + address % PAGE_BYTES,
			       n_words * WORD_BYTES);
			all->n_words += n_words;
		}
		all->ranges[all->n_settled_ranges++] = range;
	}
}

/*
 * The pages of what was kept are read behind their samples, and it is told which words are the same
 * as before. What has changed is only told to have; what is gone cannot be told.
 */
static void settle(struct run_data *data)
{
	struct readings *all = &data->readings;

	if (all->n == all->n_settled)
		return;
	uint64_t after_ns = data_pages_settle(data->pages);

	for (uint32_t i = all->n_settled, at = all->n_settled_ranges; i < all->n; i++) {
		struct trace_held head = all->heads[i];
		const uint64_t *ranges = all->ranges + at;

		at += head.n_ranges;
		if (!look_at_ranges(data, &head, ranges))
			continue;
		if (head.has_changed)
			head.n_ranges = 0;
		if (head.after_raw_ns == 0)
			head.after_raw_ns = after_ns;
		put_ranges(data, ranges, head.n_ranges, after_ns);
		all->heads[all->n_settled++] = head;
		data->counts.n_samples++;
	}
	all->n = all->n_settled;
	all->n_ranges = all->n_settled_ranges;
	all->n_wanted = all->n_words;
}

static size_t n_held_bytes(const struct readings *all)
{
	return all->n * sizeof(all->heads[0]) + (all->n_ranges + all->n_wanted) * WORD_BYTES;
}

/*
 * Fewer frames of more bytes take less time and room. A round that has read nothing is the last one
 * for a while.
 */
static bool is_time(const struct run_data *data)
{
	uint64_t now_ns = data_pages_begin_ns(data->pages);

	return !data->has_begun || now_ns == 0 || n_held_bytes(&data->readings) >= ENOUGH_BYTES ||
	       now_ns > data->held_since_ns + WAIT_NS;
}

static void clear_readings(struct readings *all)
{
	all->n = all->n_ranges = all->n_words = 0;
	all->n_settled = all->n_settled_ranges = all->n_wanted = 0;
}

int run_data_flush(struct run_data *data)
{
	struct readings *all = &data->readings;

	settle(data);
	const struct trace_code head = { .address = all->n,
					 .ticks = data->ticks,
					 .n_bytes = (uint32_t)n_held_bytes(all),
					 .kind = TRACE_CODE_HELD };
	uint8_t *bytes = (uint8_t *)all + offsetof(struct readings, heads);
	uint8_t *end = bytes + all->n * sizeof(all->heads[0]);
	int r = 0;

	memmove(end, all->ranges, all->n_ranges * WORD_BYTES);
	memmove(end + all->n_ranges * WORD_BYTES, all->words, all->n_words * WORD_BYTES);
	if (all->n)
		r = data->sink.lines(data->sink.context, all->process_id, &head, bytes);
	data->has_begun |= all->n != 0;
	data->counts.n_bytes += head.n_bytes;
	clear_readings(all);
	return r < 0 ? r : 0;
}

void run_data_store_anew(struct run_data *data)
{
	clear_readings(&data->readings);
	data_pages_store_anew(data->pages);
}

static int keep(struct run_data *data)
{
	struct held *held = &data->window_held;
	struct readings *all = &data->readings;
	int r = 0;

	if (all->n == MAX_READINGS || all->n_ranges + MAX_RANGES > MAX_ALL_RANGES ||
	    all->n_wanted + MAX_RANGES * TRACE_HELD_WORDS > MAX_ALL_WORDS ||
	    all->process_id != data->image->id) {
		r = run_data_flush(data);
		held->is_fresh = true;
	}
	if (all->n == 0)
		data->held_since_ns = clock_raw_ns();
	held->head.after_raw_ns = held->is_fresh ? data_pages_begin_ns(data->pages) : 0;
	all->process_id = data->image->id;
	all->heads[all->n++] = held->head;
	for (uint32_t i = 0; i < held->head.n_ranges; i++) {
		all->ranges[all->n_ranges++] =
			held->ranges[i].address | (held->ranges[i].n_words - 1);
		all->n_wanted += held->ranges[i].n_words;
	}
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

static struct known *find_known(struct run_data *data, const struct tried *tried)
{
	struct known *known = tried->known ? &data->known[tried->known - 1] : NULL;

	return known && known->ip == tried->ip && known->process_id == tried->process_id ? known
											 : NULL;
}

static void know(struct run_data *data, struct tried *tried, const struct loads *useful)
{
	struct known *known = find_known(data, tried);

	if (!known) {
		tried->known = (uint16_t)(data->next_known % MAX_KNOWN + 1);
		known = &data->known[data->next_known++ % MAX_KNOWN];
	}
	*known = (struct known){ .ip = tried->ip,
				 .process_id = tried->process_id,
				 .useful = *useful };
}

static uint32_t count_sample(struct run_data *data, uint32_t process_id)
{
	struct seen *seen = &data->seen[process_id % MAX_PROCESSES];

	if (seen->process_id != process_id)
		*seen = (struct seen){ .process_id = process_id };
	return ++seen->n_samples;
}

bool run_data_wants(struct run_data *data, const struct image *image, uint64_t ip)
{
	if (image->pid == data->forbidden_pid || ip >> 63) /* the kernel's */
		return false;

	struct tried *tried = find_tried(data, image->id, ip);
	uint32_t n_all = count_sample(data, tried->process_id);

	if (++tried->n_samples < MIN_SAMPLES + n_all / ONE_IN || tried->n_samples < tried->next)
		return false;
	if (data->n_in_round >= MAX_IN_ROUND || data->counts.n_bytes >= MAX_BYTES) {
		data->counts.n_over_limit += find_known(data, tried) != NULL;
		return false;
	}
	data->n_in_round++;
	return true;
}

/*
 * Which loads of the window are of use. The first look is at what follows ip only: to look behind
 * it costs as much as a hundred samples where code is new.
 */
static bool find_out(struct run_data *data, struct tried *tried)
{
	struct loads useful;

	decode_set_ahead_only(data->decoder, true);
	find_useful(data, &useful);
	decode_set_ahead_only(data->decoder, false);
	if (useful.n == 0 && reads_variables(data))
		find_variables(data, &useful);
	if (useful.n && unresolved(data, NULL) > 0) {
		know(data, tried, &useful);
		return true;
	}
	/*
	 * What is of no use again and again is not looked at for a while: a short one at first, as
	 * other data may need it.
	 */
	if (++tried->n >= MAX_TRIES) {
		tried->next = tried->n_samples + (TRY_AGAIN << (tried->n - MAX_TRIES));
		if (tried->n == MAX_TRIES + MAX_DOUBLED)
			tried->n--;
	}
	return false;
}

/* What a sample's window loads, as its registers tell. False: they do not. */
static bool take_told(struct run_data *data, const struct known *known)
{
	const struct data_owner owner = { data->image->id, data->image->pid, &data->is_forbidden };
	struct load_range ranges[LOAD_PLAN_RANGES];
	uint32_t n = load_plan_tell(&known->plan, data->sample->regs, ranges);

	begin_held(data);
	data->window_held.head.loop = known->loop;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t address = ranges[i].address, end = end_of(&ranges[i]);

		if (end < address || is_on_stack(data->sample, address) ||
		    address / PAGE_BYTES != (end - 1) / PAGE_BYTES)
			return false;
		const struct data_page *page = data_pages_find(data->pages, &owner, address);
		if (!page || !hold(data, address, end, page))
			return false;
	}
	return n > 0;
}

static void load(struct run_data *data, struct known *known)
{
	const struct held *held = &data->window_held;

	decode_set_ahead_only(data->decoder, !known->useful.is_variable);
	unresolved(data, &known->useful);
	decode_set_ahead_only(data->decoder, false);
	known->loop = held->head.loop;
	known->n_open += !is_closed(data);
	load_plan_learn(&known->plan, data->sample->regs, held->ranges, held->head.n_ranges);
}

/*
 * What was enough for the sample that showed it was not for others, as their data takes another
 * way: what one of these needs is read as well.
 */
static void find_more(struct run_data *data, struct tried *tried, const struct known *known)
{
	const struct loads before = known->useful;

	if (!find_out(data, tried))
		return;
	struct loads *useful = &find_known(data, tried)->useful;
	for (uint32_t i = 0; i < before.n && before.is_variable == useful->is_variable; i++)
		if (!is_among(useful, before.at[i]) && useful->n < MAX_LOADS)
			useful->at[useful->n++] = before.at[i];
}

static int look(struct run_data *data, struct tried *tried)
{
	struct known *known = find_known(data, tried);

	if (known && known->n_open >= MAX_OPEN << tried->n_anew) {
		known->n_open = 0;
		tried->n_anew += tried->n_anew < MAX_ANEW;
		find_more(data, tried, known);
	} else if ((!known || tried->n_samples % LEARN_AGAIN == 0) && !find_out(data, tried)) {
		return 0;
	}
	known = find_known(data, tried);
	uint32_t every = load_plan_is_sure(&known->plan) ? CHECK_RARELY : CHECK_EVERY;
	if (tried->n_samples % every == 0 || !take_told(data, known))
		load(data, known);
	return data->window_held.head.n_ranges ? keep(data) : 0;
}

int run_data_sample(struct run_data *data, const struct pmu_record *record,
		    const struct image *image)
{
	const struct pmu_sample *sample = &record->sample;
	struct tried *tried = find_tried(data, image->id, sample->ip);
	struct decode_sample input;

	if (record->is_kernel || !decode_take_sample(sample, &input))
		return 0;
	input.fs_base = image_fs_base(image, record->origin.tid);
	input.process = image->id;
	input.time = record->origin.time_ns;
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
	int r = 0;

	data->ticks = ticks;
	settle(data);
	if (data->readings.n && is_time(data))
		r = run_data_flush(data);
	data->n_in_round = 0;
	data_pages_next_round(data->pages);
	return r;
}

void run_data_forget(struct run_data *data, uint32_t process_id, uint64_t start, uint64_t end)
{
	/* Nobody asks for an image that is gone: to look through what is kept of it costs only. */
	if (start == 0 && end == UINT64_MAX) {
		code_spans_forget(&data->fixed.spans, process_id, start, end);
		return;
	}
	if (fixed_pages_forget(&data->fixed, process_id, start, end))
		decode_invalidate(data->decoder, process_id, start, end);
	data_pages_forget(data->pages, process_id, start, end);
}

int run_data_create(const struct code_changing_sink *sink, struct run_code *code,
		    struct run_data **ret_data)
{
	struct run_data *data = calloc(1, sizeof(*data));
	const struct decode_memory memory = {
		.code = read_code, .constant = read_constant, .data = read_data, .user = data
	};

	if (!data)
		return -ENOMEM;
	data->sink = *sink;
	data->code = code;
	data->pages = data_pages_create();
	if (!data->pages || decode_create(DECODE_MACHINE_X86_64, &memory, 0, &data->decoder) < 0)
		return run_data_destroy(data), -ENOMEM;
	*ret_data = data;
	return 0;
}

struct run_data *run_data_destroy(struct run_data *data)
{
	if (!data)
		return NULL;
	data_pages_destroy(data->pages);
	fixed_pages_finish(&data->fixed);
	decode_destroy(data->decoder);
	free(data);
	return NULL;
}
