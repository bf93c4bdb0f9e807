#include "runner/sampling/decode-live.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "common/array.h"
#include "decode/hardware/sample-input.h"
#include "runner/sampling/code-maps.h"
#include "runner/sampling/mapped-file.h"

/* The most that one sample gives: its window in three roles, what lies before it, and its stall. */
#define MAX_ACCESSES (3 * DECODE_MAX_ACCESSES + 2 * DECODE_MAX_BEHIND + DECODE_MAX_STALLED)

#define MAX_RENEWED 256u

/*
 * Where other code was mapped, or code was changed: samples from before are not of what is there
 * now.
 */
struct renewed {
	uint32_t process_id;
	uint64_t start;
	uint64_t end;
	uint64_t raw_ns;
};

/* Head of a record that waits for its code. */
struct kept {
	const void *stream;
	size_t n_bytes;
};

struct samples_private {
	struct trace_writer *writer;
	struct decoder *decoder;
	pid_t pid; /* of the sample being decoded; 0: its process is not known */
	/* whose memory the kernel lets us not read (Yama), and logs each attempt */
	pid_t forbidden_pid;
	struct mapped_pages pages; /* of such */
	struct run_code *code; /* NULL: code is taken for what it is now */
	uint32_t round;
	struct code_spans spans; /* of code that was asked for */
	uint64_t n_reads; /* of code that is fixed, out of the process */
	bool is_last; /* what was read before is all that counts */
	/*
	 * Of this round and the one before, in a ring when there are more: a sample may be read in
	 * the round behind that in which a later map was.
	 */
	struct renewed renewed[MAX_RENEWED];
	size_t n_renewed;
	size_t n_renewed_before; /* of these, of the round before */
	uint8_t *kept; /* struct kept, then the record, each a multiple of 8 bytes */
	size_t kept_bytes;
	size_t kept_room;
	uint32_t n_samples;
	struct decode_window window;
	struct trace_access accesses[MAX_ACCESSES];
	size_t n_accesses;
};

/* Whether other code came to the page since; when more came than was noted, whether any did. */
static bool is_renewed(const struct samples_private *private_samples, uint32_t process,
		       uint64_t address, uint64_t time)
{
	if (private_samples->n_renewed > MAX_RENEWED)
		return true;
	for (size_t i = 0; i < private_samples->n_renewed; i++) {
		const struct renewed *renewed = &private_samples->renewed[i];

		if (renewed->process_id == process && renewed->raw_ns >= time &&
		    address < renewed->end && address + 4096 > renewed->start)
			return true;
	}
	return false;
}

/* Of code that may change what is certain is so for one round of samples only. */
static uint32_t version_of(void *user, uint32_t process, uint64_t address, uint64_t time)
{
	const struct samples_private *private_samples = user;

	if (!private_samples->code || private_samples->pid == 0)
		return 0;
	if (is_renewed(private_samples, process, address, time))
		return UINT32_MAX;
	return run_code_is_fixed(private_samples->code, process, private_samples->pid, address)
		       ? 0
		       : private_samples->round;
}

static bool is_code_now(const struct samples_private *private_samples, uint64_t address, size_t n)
{
	uint64_t last = address + n - 1;

	return code_maps_is_code_now(private_samples->pid, address) &&
	       (address / 4096 == last / 4096 || code_maps_is_code_now(private_samples->pid, last));
}

/* The page after the one wanted may not be mapped: then less is known. */
static size_t read_code(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	struct samples_private *private_samples = user;
	size_t in_page = 4096 - (size_t)(address % 4096);
	size_t n_pages = 1;

	code_spans_add(&private_samples->spans, process, address, address + n_bytes);
	if (private_samples->pid == 0 || is_renewed(private_samples, process, address, time))
		return 0;
	if (private_samples->code &&
	    !run_code_is_fixed(private_samples->code, process, private_samples->pid, address))
		return run_code_live(private_samples->code, process, address, bytes, n_bytes);
	if (private_samples->code && n_bytes > in_page &&
	    !run_code_is_fixed(private_samples->code, process, private_samples->pid,
			       address + in_page))
		n_bytes = in_page;
	struct iovec local = { bytes, n_bytes };
	struct iovec remote[2] = { { (void *)(uintptr_t)address, n_bytes } };
	private_samples->n_reads++;
	if (private_samples->pid == private_samples->forbidden_pid)
		return mapped_pages_read(&private_samples->pages, private_samples->pid, address,
					 bytes, n_bytes);
	if (n_bytes > in_page) {
		remote[0].iov_len = in_page;
		remote[1] =
			(struct iovec){ (void *)(uintptr_t)(address + in_page), n_bytes - in_page };
		n_pages = 2;
	}
	ssize_t n = process_vm_readv(private_samples->pid, &local, 1, remote, n_pages, 0);
	if (n > 0 && private_samples->code && !is_code_now(private_samples, address, (size_t)n))
		return 0;
	if (n >= 0 || errno != EPERM)
		return n > 0 ? (size_t)n : 0;
	private_samples->forbidden_pid = private_samples->pid;
	return mapped_pages_read(&private_samples->pages, private_samples->pid, address, bytes,
				 n_bytes);
}

int samples_private_create(struct trace_writer *writer, struct run_code *code,
			   struct samples_private **ret_private)
{
	struct samples_private *private_samples = calloc(1, sizeof(*private_samples));
	struct decode_memory memory = { .code = read_code,
					.version = code ? version_of : NULL,
					.user = private_samples };

	if (!private_samples)
		return -ENOMEM;
	private_samples->writer = writer;
	private_samples->code = code;
	private_samples->round = 1;
	int err = decode_create(DECODE_MACHINE_X86_64, &memory, 0, &private_samples->decoder);
	if (err < 0)
		return free(private_samples), err;
	*ret_private = private_samples;
	return 0;
}

struct samples_private *samples_private_destroy(struct samples_private *private_samples)
{
	if (private_samples) {
		decode_destroy(private_samples->decoder);
		free(private_samples->kept);
		free(private_samples);
	}
	return NULL;
}

static bool decode(struct samples_private *private_samples, const struct pmu_record *record,
		   const struct image *image, struct decode_charge *ret_charge)
{
	const struct pmu_sample *sample = &record->sample;
	struct decode_sample input;
	bool has_registers = decode_take_sample(sample, &input);

	input.fs_base = image ? image_fs_base(image, record->origin.tid) : 0;
	input.process = image ? image->id : 0;
	input.time = record->origin.time_ns;
	private_samples->pid = image ? image->pid : 0;
	if (!has_registers || decode_window(private_samples->decoder, &input,
					    DECODE_MAX_INSTRUCTIONS, &private_samples->window) < 0)
		return false;
	decode_charge(&private_samples->window, ret_charge);
	return true;
}

static void add(struct samples_private *private_samples, const struct pmu_record *record,
		const struct decode_access *from, enum trace_role role, double share)
{
	struct trace_access *to = &private_samples->accesses[private_samples->n_accesses];

	if (private_samples->n_accesses == MAX_ACCESSES)
		return;
	*to = (struct trace_access){
		.raw_ns = record->origin.time_ns,
		.sample_ip = record->sample.ip,
		.ip = record->sample.ip,
		.sample = private_samples->n_samples,
		.pid = record->origin.pid,
		.tid = record->origin.tid,
		.share = (float)share,
		.role = (uint8_t)role,
	};
	if (from) {
		to->ip = from->ip;
		to->address = from->address;
		to->size = from->size * from->count;
		to->is_write = from->is_write;
	}
	private_samples->n_accesses++;
}

/* Shares of n accesses, of what they have in all. */
static void add_shares(struct samples_private *private_samples, const struct pmu_record *record,
		       const struct decode_access *accesses, uint32_t n, enum trace_role role)
{
	for (uint32_t i = 0; i < n; i++)
		if (decode_state_has_address(accesses[i].state) && accesses[i].share > 0)
			add(private_samples, record, &accesses[i], role, (double)accesses[i].share);
}

/*
 * What has no address is left out: what its role lacks to 1 is the share that is not resolved. The
 * shares of a window with those before it add up to 1, as those of a stall do.
 */
static void add_window(struct samples_private *private_samples, const struct pmu_record *record,
		       const struct decode_charge *charge)
{
	const struct decode_window *window = &private_samples->window;

	for (uint32_t i = 0; i < charge->n_exact; i++) {
		if (decode_state_has_address(window->accesses[i].state))
			add(private_samples, record, &window->accesses[i], TRACE_ROLE_EXACT,
			    1.0 / charge->n_exact);
	}
	add_shares(private_samples, record, window->accesses, charge->n_charged, TRACE_ROLE_WINDOW);
	add_shares(private_samples, record, window->behind, charge->n_behind, TRACE_ROLE_WINDOW);
	add_shares(private_samples, record, window->stalled, window->n_stalled, TRACE_ROLE_STALL);
	if (charge->basis == DECODE_BASIS_LOOP)
		add_shares(private_samples, record, window->accesses, charge->n_charged,
			   TRACE_ROLE_MIX);
}

static void add_stack_pointer(struct samples_private *private_samples,
			      const struct pmu_record *record)
{
	struct decode_access at = { .ip = record->sample.ip };

	if (pmu_sample_stack_pointer(&record->sample, &at.address))
		add(private_samples, record, &at, TRACE_ROLE_STACK_POINTER, 0);
}

int samples_private_take(struct samples_private *private_samples, uint32_t source_id,
			 const struct pmu_record *record, const struct image *image)
{
	uint64_t n_reads = private_samples->n_reads;
	struct decode_charge charge;

	private_samples->n_accesses = 0;
	private_samples->n_samples++;
	if (!record->is_kernel && decode(private_samples, record, image, &charge))
		add_window(private_samples, record, &charge);
	if (private_samples->n_reads > n_reads) {
		if (!private_samples->is_last) {
			private_samples->n_samples--;
			return 1;
		}
		private_samples->n_accesses = 0;
	}
	if (private_samples->n_accesses == 0)
		add(private_samples, record, NULL, TRACE_ROLE_NONE, 0);
	if (image && !image_fs_base(image, record->origin.tid))
		add_stack_pointer(private_samples, record);
	return trace_writer_accesses(private_samples->writer, source_id, private_samples->accesses,
				     private_samples->n_accesses);
}

void samples_private_look(struct samples_private *private_samples, const struct pmu_record *record,
			  const struct image *image,
			  void (*call)(void *user, uint64_t address, double share), void *user)
{
	const struct decode_access *accesses = private_samples->window.accesses;
	struct decode_charge charge;

	if (record->is_kernel || !decode(private_samples, record, image, &charge))
		return;
	for (uint32_t i = 0; i < charge.n_charged; i++) {
		if (decode_state_has_address(accesses[i].state))
			call(user, accesses[i].address, (double)accesses[i].share);
	}
}

int samples_private_keep(struct samples_private *private_samples, const void *stream,
			 const void *record, size_t n_bytes)
{
	const struct kept head = { stream, n_bytes };
	size_t n_more = sizeof(head) + ((n_bytes + 7) & ~(size_t)7);

	if (grow_array_by(&private_samples->kept, private_samples->kept_bytes, n_more,
			  &private_samples->kept_room, 1) < 0)
		return -ENOMEM;
	memcpy(private_samples->kept + private_samples->kept_bytes, &head, sizeof(head));
	memcpy(private_samples->kept + private_samples->kept_bytes + sizeof(head), record, n_bytes);
	private_samples->kept_bytes += n_more;
	return 0;
}

/* Those for which `take` returned 1 move to the front. */
static int take_kept(struct samples_private *private_samples, samples_private_taker take,
		     void *user)
{
	size_t at = 0, end = private_samples->kept_bytes;
	int r = 0;

	private_samples->kept_bytes = 0;
	while (r >= 0 && at < end) {
		uint8_t *item = private_samples->kept + at;
		struct kept head;

		memcpy(&head, item, sizeof(head));
		size_t room = sizeof(head) + ((head.n_bytes + 7) & ~(size_t)7);
		r = take(user, head.stream, item + sizeof(head), head.n_bytes);
		if (r > 0) {
			memmove(private_samples->kept + private_samples->kept_bytes, item, room);
			private_samples->kept_bytes += room;
		}
		at += room;
	}
	return r < 0 ? r : 0;
}

/* Those of the round before. Where the ring ran over, any may have been one of this round. */
static void forget_renewed(struct samples_private *private_samples)
{
	size_t first = private_samples->n_renewed_before, n = private_samples->n_renewed - first;
	struct renewed kept[MAX_RENEWED];

	for (size_t i = 0; n <= MAX_RENEWED && i < n; i++)
		kept[i] = private_samples->renewed[(first + i) % MAX_RENEWED];
	if (n <= MAX_RENEWED)
		memcpy(private_samples->renewed, kept, n * sizeof(kept[0]));
	else
		n = MAX_RENEWED + 1;
	private_samples->n_renewed = private_samples->n_renewed_before = n;
}

int samples_private_flush(struct samples_private *private_samples, samples_private_taker take,
			  int (*look_again)(void *user), void *user)
{
	int r = take_kept(private_samples, take, user);

	if (r == 0 && private_samples->kept_bytes > 0) {
		r = look_again(user);
		private_samples->is_last = true;
		if (r >= 0)
			r = take_kept(private_samples, take, user);
		private_samples->is_last = false;
	}
	private_samples->kept_bytes = 0;
	private_samples->round++;
	forget_renewed(private_samples);
	return r < 0 ? r : 0;
}

void samples_private_forget(struct samples_private *private_samples, uint32_t process_id,
			    uint64_t start, uint64_t end, uint64_t raw_ns)
{
	const struct renewed renewed = { process_id, start, end, raw_ns };

	if (raw_ns)
		private_samples->renewed[private_samples->n_renewed++ % MAX_RENEWED] = renewed;
	if (code_spans_forget(&private_samples->spans, process_id, start, end))
		decode_invalidate(private_samples->decoder, process_id, start, end);
	mapped_pages_forget(&private_samples->pages);
}
