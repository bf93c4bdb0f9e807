/*
 * The bytes of records of type COMPRESSED and COMPRESSED2: one zstd stream over all of them, in
 * which a record may begin in one and end in the next.
 */
#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "analyze/input/perf-data/file-internal.h"

/* As much as is decompressed at once, and a record that began before it. */
#define ROOM_BYTES ((256u << 10) + (64u << 10))

/*
 * perf's records become a tenth or so; more than this of what was read is made to exhaust a reader.
 */
#define MOST_TIMES    2000u
#define ALLOWED_BYTES (UINT64_C(64) << 20)

struct perf_data_unzip {
	ZSTD_DCtx *zstd;
	uint8_t *in;
	size_t n_in;
	size_t in_at;
	size_t in_room;
	uint8_t *out; /* ROOM_BYTES, 8-byte aligned */
	size_t n_out;
	size_t out_at;
	uint64_t n_in_all;
	uint64_t n_out_all;
	bool may_have_more; /* the last output filled its room */
};

int perf_data_unzip_create(struct perf_data_unzip **ret_unzip)
{
	struct perf_data_unzip *unzip = calloc(1, sizeof(*unzip));

	if (!unzip)
		return -ENOMEM;
	unzip->zstd = ZSTD_createDCtx();
	unzip->out = malloc(ROOM_BYTES);
	if (!unzip->zstd || !unzip->out) {
		perf_data_unzip_destroy(unzip);
		return -ENOMEM;
	}
	*ret_unzip = unzip;
	return 0;
}

struct perf_data_unzip *perf_data_unzip_destroy(struct perf_data_unzip *unzip)
{
	if (!unzip)
		return NULL;
	ZSTD_freeDCtx(unzip->zstd);
	free(unzip->in);
	free(unzip->out);
	free(unzip);
	return NULL;
}

int perf_data_unzip_push(struct perf_data_unzip *unzip, const void *bytes, size_t n_bytes)
{
	if (n_bytes > unzip->in_room) {
		uint8_t *in = realloc(unzip->in, n_bytes);

		if (!in)
			return -ENOMEM;
		unzip->in = in;
		unzip->in_room = n_bytes;
	}
	if (n_bytes)
		memcpy(unzip->in, bytes, n_bytes);
	unzip->n_in = n_bytes;
	unzip->in_at = 0;
	unzip->n_in_all += n_bytes;
	return 0;
}

/*
 * Move what is left to the front: records then begin at multiples of 8 for as long as they are
 * such.
 */
static void make_room(struct perf_data_unzip *unzip)
{
	memmove(unzip->out, unzip->out + unzip->out_at, unzip->n_out - unzip->out_at);
	unzip->n_out -= unzip->out_at;
	unzip->out_at = 0;
}

static int decompress(struct perf_data_unzip *unzip)
{
	make_room(unzip);
	ZSTD_inBuffer in = { unzip->in, unzip->n_in, unzip->in_at };
	ZSTD_outBuffer out = { unzip->out, ROOM_BYTES, unzip->n_out };
	size_t left = ZSTD_decompressStream(unzip->zstd, &out, &in);

	if (ZSTD_isError(left))
		return -EBADMSG;
	bool has_moved = in.pos > unzip->in_at || out.pos > unzip->n_out;
	unzip->n_out_all += out.pos - unzip->n_out;
	unzip->in_at = in.pos;
	unzip->n_out = out.pos;
	unzip->may_have_more = out.pos == ROOM_BYTES;
	if (unzip->n_out_all > ALLOWED_BYTES + MOST_TIMES * unzip->n_in_all)
		return -EBADMSG;
	return has_moved || unzip->in_at == unzip->n_in ? 0 : -EBADMSG;
}

int perf_data_unzip_look(struct perf_data_unzip *unzip, size_t n_wanted, const uint8_t **ret_bytes,
			 size_t *ret_n)
{
	while (unzip->n_out - unzip->out_at < n_wanted &&
	       (unzip->in_at < unzip->n_in || unzip->may_have_more)) {
		int r = decompress(unzip);
		if (r < 0)
			return r;
	}
	*ret_bytes = unzip->out + unzip->out_at;
	*ret_n = unzip->n_out - unzip->out_at;
	return 0;
}

void perf_data_unzip_drop(struct perf_data_unzip *unzip, size_t n_used)
{
	unzip->out_at += n_used;
}

void perf_data_unzip_reset(struct perf_data_unzip *unzip)
{
	ZSTD_DCtx_reset(unzip->zstd, ZSTD_reset_session_only);
	unzip->n_in = unzip->in_at = 0;
	unzip->n_out = unzip->out_at = 0;
	unzip->may_have_more = false;
}
