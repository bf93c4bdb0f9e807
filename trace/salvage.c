#include "trace/salvage.h"

#include <errno.h>
#include <string.h>

#include "trace/frame.h"

void trace_salvage_finish(struct trace_salvage *salvage)
{
	trace_output_finish(&salvage->definitions);
	trace_output_finish(&salvage->data);
	trace_output_finish(&salvage->left);
	*salvage = (struct trace_salvage){ 0 };
}

/* The frame at an offset of an output, as an output of its own that owns nothing. */
static struct trace_output frame_at(const struct trace_output *output, size_t offset,
				    struct trace_frame *ret_head)
{
	memcpy(ret_head, output->bytes + offset, sizeof(*ret_head));
	return (struct trace_output){
		.bytes = output->bytes + offset,
		.n_bytes = sizeof(*ret_head) + trace_padded(ret_head->body_bytes),
	};
}

static bool take(size_t *room, size_t n_bytes)
{
	if (n_bytes > *room)
		return false;
	*room -= n_bytes;
	return true;
}

static int fit_definitions(struct trace_salvage *salvage, const struct trace_output *from,
			   size_t *room)
{
	bool is_full = false;
	int r = 0;

	for (size_t at = 0; at < from->n_bytes && r == 0;) {
		struct trace_frame head;
		struct trace_output frame = frame_at(from, at, &head);

		at += frame.n_bytes;
		if (head.type == TRACE_FRAME_CODE) {
			salvage->n_dropped_bytes += head.body_bytes;
			continue;
		}
		/* In order: what comes later may name what came before. */
		is_full = is_full || !take(room, frame.n_bytes);
		r = trace_output_append(is_full ? &salvage->left : &salvage->definitions, &frame);
	}
	return r;
}

static int fit_data(struct trace_salvage *salvage, const struct trace_output *from, size_t *room)
{
	struct trace_output frame = { 0 };
	bool is_full = false;
	int r = 0;

	for (size_t at = 0; at < from->n_bytes && r == 0; at += frame.n_bytes) {
		struct trace_frame head;

		frame = frame_at(from, at, &head);
		if (head.type == TRACE_FRAME_COMMIT) {
			r = trace_output_append(&salvage->data, &frame);
			continue;
		}
		is_full = is_full || !take(room, frame.n_bytes);
		if (is_full)
			continue;
		if (head.type == TRACE_FRAME_EVENTS)
			salvage->n_events += head.n_items;
		else
			salvage->n_samples += head.n_items;
		r = trace_output_append(&salvage->data, &frame);
	}
	return r;
}

int trace_salvage(const struct trace_output *definitions, const struct trace_output *data,
		  size_t room, struct trace_salvage *ret_salvage)
{
	const size_t commit_bytes =
		sizeof(struct trace_frame) + trace_padded(sizeof(struct trace_commit));
	struct trace_salvage salvage = { 0 };
	bool has_data = data->n_bytes > commit_bytes;

	if (!take(&room, commit_bytes))
		return -ENOSPC;
	int r = fit_definitions(&salvage, definitions, &room) ?: fit_data(&salvage, data, &room);
	if (r == 0 &&
	    (has_data ? salvage.data.n_bytes <= commit_bytes : salvage.definitions.n_bytes == 0))
		r = -ENOSPC;
	if (r < 0)
		return trace_salvage_finish(&salvage), r;
	*ret_salvage = salvage;
	return 0;
}
