#include "runner/watch/arming.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

#define DEFAULT_BYTES 8u

static int store(struct watches *watches, const struct watch_item *item,
		 enum trace_watch_state state, uint64_t ticks, const char *note)
{
	struct trace_watch record = {
		.head.type = TRACE_RECORD_WATCH,
		.ticks = ticks,
		.address = item->address,
		.n_bytes = item->n_bytes,
		.number = item->number,
		.process_id = item->process_id,
		.state = (uint16_t)state,
		.is_write_only = item->target.is_write_only,
		.is_hot = item->is_hot,
	};

	return trace_writer_add(watches->writer, &record, trace_text(item->target.text),
				trace_text(note));
}

static void warn(const struct watches *watches, const char *line)
{
	if (watches->warn)
		watches->warn(watches->user, line);
}

void watches_refuse(struct watches *watches, struct watch_item *item, const char *why)
{
	char line[512];

	if (item->is_over)
		return;
	item->is_over = true;
	item->number = ++watches->last_number;
	store(watches, item, TRACE_WATCH_REFUSED, clock_ticks(watches->clock), why);
	snprintf(line, sizeof(line), "--watch %s: %s", item->target.text, why);
	warn(watches, line);
}

/* Take free registers for the ranges of an item. False: they are not enough, none is taken. */
static bool take_registers(struct watches *watches, struct watch_item *item)
{
	unsigned n = 0, used = watches->used;

	for (unsigned i = 0; i < watches->n_registers && n < item->n_ranges; i++) {
		if (used >> i & 1)
			continue;
		item->registers[n++] = i;
		used |= 1u << i;
	}
	if (n < item->n_ranges || n == 0)
		return false;
	watches->used = used;
	return true;
}

static void disarm(struct watches *watches, const struct watch_item *item)
{
	for (unsigned i = 0; i < item->n_ranges; i++)
		pmu_watch_disarm(watches->stream, item->registers[i]);
}

static int arm_registers(struct watches *watches, const struct watch_item *item)
{
	int err = 0;

	for (unsigned i = 0; err == 0 && i < item->n_ranges; i++)
		err = pmu_watch_arm(watches->stream, item->registers[i], &item->ranges[i]);
	if (err < 0)
		disarm(watches, item);
	return err;
}

static void release(struct watches *watches, struct watch_item *item)
{
	for (unsigned i = 0; i < item->n_ranges; i++)
		watches->used &= ~(1u << item->registers[i]);
	item->n_ranges = 0;
	item->is_armed = false;
}

static void end_pause(struct watch_item *item, uint64_t ticks)
{
	if (!item->is_paused)
		return;
	item->is_paused = false;
	item->off_ticks += ticks - item->paused_ticks;
	item->last_off_ticks = ticks;
}

void watches_end_item(struct watches *watches, struct watch_item *item, uint64_t ticks)
{
	disarm(watches, item);
	end_pause(item, ticks);
	store(watches, item, TRACE_WATCH_ENDED, ticks, "");
	release(watches, item);
}

void watches_pause(struct watches *watches, struct watch_item *item)
{
	item->paused_ticks = clock_ticks(watches->clock);
	disarm(watches, item);
	item->is_paused = true;
	if (!item->first_off_ticks)
		item->first_off_ticks = item->paused_ticks;
	store(watches, item, TRACE_WATCH_PAUSED, item->paused_ticks, "");
}

void watches_resume(struct watches *watches, struct watch_item *item)
{
	if (arm_registers(watches, item) < 0)
		return; /* again in the next slice */
	uint64_t ticks = clock_ticks(watches->clock);
	end_pause(item, ticks);
	store(watches, item, TRACE_WATCH_RESUMED, ticks, "");
}

/*
 * How many bytes to watch: what was asked for, else the object, but no more than one register does.
 */
static uint64_t choose_bytes(const struct watch_item *item, const struct watch_found *found)
{
	if (item->target.n_bytes)
		return item->target.n_bytes;
	return found->n_bytes && found->n_bytes < DEFAULT_BYTES ? found->n_bytes : DEFAULT_BYTES;
}

static bool is_same(const struct watch_item *item, const struct watch_found *found)
{
	return item->is_armed && item->process_id == found->image->id &&
	       item->object == found->object && item->born_ticks == found->born_ticks &&
	       item->address == found->address;
}

/* The bytes are refused, or chosen and their ranges made. */
static bool choose_ranges(struct watches *watches, struct watch_item *item,
			  const struct watch_found *found)
{
	uint64_t n_bytes = choose_bytes(item, found);
	char why[160];

	item->address = found->address;
	item->n_bytes = n_bytes;
	item->process_id = found->image->id;
	if (found->n_bytes && found->n_bytes < n_bytes) {
		snprintf(why, sizeof(why), "it has %llu bytes only",
			 (unsigned long long)found->n_bytes);
		watches_refuse(watches, item, why);
		return false;
	}
	item->n_ranges = pmu_watch_cover(found->address, n_bytes, item->target.is_write_only,
					 item->ranges, PMU_WATCH_REGISTERS);
	if (item->n_ranges > 0 && take_registers(watches, item))
		return true;
	snprintf(why, sizeof(why),
		 "%llu bytes at 0x%llx need more debug registers than are free (each watches 1, 2, "
		 "4 or 8 bytes at a multiple of that)",
		 (unsigned long long)n_bytes, (unsigned long long)found->address);
	item->n_ranges = 0;
	watches_refuse(watches, item, why);
	return false;
}

void watches_arm(struct watches *watches, struct watch_item *item, const struct watch_found *found)
{
	char note[96] = "";

	if (item->is_over || is_same(item, found))
		return;
	if (item->is_armed) {
		item->n_elsewhere++;
		return;
	}
	if (!choose_ranges(watches, item, found))
		return;
	int err = arm_registers(watches, item);
	if (err < 0) {
		release(watches, item);
		watches_refuse(watches, item, strerror(-err));
		return;
	}
	item->is_armed = item->was_armed = true;
	item->object = found->object;
	item->born_ticks = found->born_ticks;
	item->slice_hits = 0;
	item->number = ++watches->last_number;
	if (found->n_bytes > item->n_bytes)
		snprintf(note, sizeof(note), "%llu of its %llu bytes",
			 (unsigned long long)item->n_bytes, (unsigned long long)found->n_bytes);
	store(watches, item, TRACE_WATCH_ARMED, clock_ticks(watches->clock), note);
}
