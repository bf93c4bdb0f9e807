#include "analyze/live/components.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "store/database.h"
#include "store/row-writer.h"

#define MAX_THREAD (1u << 24)
#define OF_PROCESS 1u
#define OF_WINDOW  2u
#define AT_SAMPLES UINT32_MAX /* value.window: -1 in the table */

struct component {
	uint32_t text;
	uint64_t n_asked;
	int64_t asked_ns;
	bool is_counter;
};

/* Of a component in a path of regions; path 0: in processes as a whole, or in a window. */
struct value {
	uint32_t component; /* number */
	uint32_t path;
	uint32_t window;
	uint64_t n;
	int64_t total; /* counters */
	int64_t own;
	double sum; /* others */
	int64_t least, most;
};

/* What a component was when a region, or process, began. */
struct begun {
	uint32_t component;
	uint32_t path;
	uint32_t window;
	uint64_t trip; /* of a process OF_PROCESS or OF_WINDOW */
	int64_t value;
	int64_t inside; /* what it grew in regions inside it that have ended */
};

/* What one was before the note that comes now, and ends regions. */
struct ending {
	uint32_t component;
	int64_t value;
};

struct place {
	struct begun *begun;
	size_t n_begun, n_begun_allocated;
	struct ending *endings;
	size_t n_endings, n_endings_allocated;
	struct ending *sampled; /* what counters were at the last sample */
	size_t n_sampled, n_sampled_allocated;
	int64_t sample_ns; /* the last one; 0: none yet */
};

struct places {
	struct place *items;
	size_t n, n_allocated;
};

struct components {
	const struct texts *texts;
	struct db *db;
	int64_t run_id;
	struct rows *samples;
	struct component *items; /* number - 1 */
	size_t n, n_allocated;
	struct value *values;
	size_t n_values, n_values_allocated;
	struct key_map by_text; /* (text, 0) -> number */
	struct key_map by_path; /* (component, path) -> number of the value */
	struct places threads;
	struct places processes;
};

static const struct rows_table sample_table = {
	.name = "component_sample",
	.columns = "run_id, component_id, thread_id, time_ns, value",
	.types = "nnnnn",
};

struct components *components_create(const struct texts *texts, struct db *db, int64_t run_id)
{
	struct components *components = calloc(1, sizeof(*components));

	if (!components || rows_open(db, &sample_table, &components->samples) < 0)
		return free(components), NULL;
	components->texts = texts;
	components->db = db;
	components->run_id = run_id;
	return components;
}

static void finish_places(struct places *places)
{
	array_free(places->items, places->n, it, free(it->begun), free(it->endings),
		   free(it->sampled));
}

struct components *components_destroy(struct components *components)
{
	if (!components)
		return NULL;
	finish_places(&components->threads);
	finish_places(&components->processes);
	key_map_finish(&components->by_text);
	key_map_finish(&components->by_path);
	rows_close(components->samples);
	free_all(components->items, components->values, components);
	return NULL;
}

static struct place *place_of(struct places *places, uint32_t number)
{
	if (number >= MAX_THREAD)
		return NULL;
	while (places->n <= number) {
		if (grow_one(&places->items, places->n, &places->n_allocated) < 0)
			return NULL;
		places->items[places->n++] = (struct place){ 0 };
	}
	return &places->items[number];
}

/* The fields of a component's text, in a copy of it: name, unit, kind, plug-in. */
static void split(char *text, const char *fields[4])
{
	for (int i = 0; i < 4; i++) {
		char *field = strsep(&text, "\t");
		fields[i] = field ? field : "";
	}
}

/* The number of a component; 0: no memory. */
static uint32_t number_of(struct components *components, uint32_t text)
{
	uint32_t number = (uint32_t)key_map_get(&components->by_text, text, 0);
	auto_free char *copy = NULL;
	const char *fields[4];

	if (number)
		return number;
	copy = strdup(texts_get(components->texts, text));
	if (!copy || grow_one(&components->items, components->n, &components->n_allocated) < 0 ||
	    key_map_put(&components->by_text, text, 0, components->n + 1) < 0)
		return 0;
	split(copy, fields);
	components->items[components->n] = (struct component){
		.text = text,
		.is_counter = strcmp(fields[2], "counter") == 0,
	};
	return (uint32_t)++components->n;
}

static struct value *value_of(struct components *components, const struct begun *at)
{
	uint64_t place = (uint64_t)at->window << 32 | at->path;

	return key_map_item(&components->by_path, at->component, place, components->values,
			    components->n_values, components->n_values_allocated,
			    (struct value){ at->component, at->path, at->window });
}

static int64_t saturated(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static int64_t difference(int64_t a, int64_t b)
{
	int64_t result;

	if (__builtin_sub_overflow(a, b, &result))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return result;
}

/*
 * One more number of a component in a path: a reading, or what a trip has grown it by, of which so
 * much is new in the total.
 */
static int add(struct components *components, const struct begun *at, int64_t number, int64_t more,
	       int64_t own)
{
	struct value *value = value_of(components, at);

	if (!value)
		return -ENOMEM;
	if (value->n == 0 || number < value->least)
		value->least = number;
	if (value->n == 0 || number > value->most)
		value->most = number;
	value->n++;
	value->total = saturated(value->total, more);
	value->own = saturated(value->own, own);
	value->sum += (double)number;
	return 0;
}

/* The last one up to a trip; trip 0: none. */
static struct begun *find_begun(struct place *place, uint32_t component, uint64_t trip)
{
	for (size_t i = trip ? place->n_begun : 0; i-- > 0;)
		if (place->begun[i].trip <= trip && place->begun[i].component == component)
			return &place->begun[i];
	return NULL;
}

static int begin(struct components *components, struct place *place, const struct begun *begun)
{
	const struct begun *last = find_begun(place, begun->component, begun->trip);

	if (last && last->trip == begun->trip)
		return 0; /* of one whose own record is lost */
	if (array_add(place->begun, place->n_begun, place->n_begun_allocated, *begun) < 0)
		return -ENOMEM;
	/* Of a window that is not known nothing counts yet. */
	if (components->items[begun->component - 1].is_counter ||
	    (!begun->path && begun->trip == OF_WINDOW && !begun->window))
		return 0;
	return add(components, begun, begun->value, 0, 0);
}

/* It began with one value, and ends with the other. */
static int end(struct components *components, const struct begun *ended, int64_t value,
	       bool is_inner)
{
	int64_t grown = difference(value, ended->value);

	if (!components->items[ended->component - 1].is_counter)
		return add(components, ended, value, 0, 0);
	return add(components, ended, grown, is_inner ? 0 : grown,
		   difference(grown, ended->inside));
}

static const struct ending *find_ending(const struct place *place, uint32_t component)
{
	return array_find(place->endings, place->n_endings, it, it->component == component);
}

int components_end(struct components *components, const struct component_trip *trip)
{
	struct place *place = trip->thread < components->threads.n
				      ? &components->threads.items[trip->thread]
				      : NULL;
	int r = 0;

	for (size_t i = place ? place->n_begun : 0;
	     i-- > 0 && place->begun[i].trip >= trip->trip && r == 0;) {
		struct begun ended = place->begun[i];
		const struct ending *ending = find_ending(place, ended.component);
		struct begun *around = find_begun(place, ended.component, trip->around);

		if (ended.trip != trip->trip)
			continue;
		if (around)
			around->inside = saturated(around->inside,
						   ending ? difference(ending->value, ended.value)
							  : ended.inside);
		memmove(&place->begun[i], &place->begun[i + 1],
			(--place->n_begun - i) * sizeof(ended));
		if (ending)
			r = end(components, &ended, ending->value, trip->is_inner);
	}
	return r;
}

void components_ended(struct components *components, uint32_t thread)
{
	if (thread < components->threads.n)
		components->threads.items[thread].n_endings = 0;
}

static int remember_ending(struct place *place, uint32_t component, int64_t value)
{
	struct ending *known = (struct ending *)find_ending(place, component);

	if (known) {
		known->value = value; /* the note that it came before is lost */
		return 0;
	}
	return array_add(place->endings, place->n_endings, place->n_endings_allocated,
			 (struct ending){ component, value });
}

/* The run has begun in it, so nobody knew then. */
static int end_first_window(struct components *components, struct begun *ended,
			    const struct component_reading *reading)
{
	bool is_counter = components->items[ended->component - 1].is_counter;

	ended->window = reading->window;
	if (!ended->window)
		return 0;
	int r = is_counter ? 0 : add(components, ended, ended->value, 0, 0);
	return r < 0 ? r : end(components, ended, reading->value, false);
}

/* Nothing pops a process or window: each component has its end by itself. */
static int end_whole(struct components *components, struct place *place,
		     const struct component_reading *reading, uint32_t number, uint64_t trip)
{
	for (size_t i = 0; i < place->n_begun; i++) {
		struct begun ended = place->begun[i];

		if (ended.component != number || ended.trip != trip)
			continue;
		memmove(&place->begun[i], &place->begun[i + 1],
			(--place->n_begun - i) * sizeof(ended));
		if (trip == OF_WINDOW && !ended.window)
			return end_first_window(components, &ended, reading);
		return end(components, &ended, reading->value, false);
	}
	return 0;
}

/* What a process is in when it begins is a window for it. */
static int begin_whole(struct components *components, struct place *place,
		       const struct component_reading *reading, uint32_t number)
{
	struct begun begun = { .component = number, .trip = OF_PROCESS, .value = reading->value };
	int r = reading->when == TRACE_ASKED_PROCESS_BEGIN ? begin(components, place, &begun) : 0;

	for (size_t i = 0; i < place->n_begun; i++)
		if (place->begun[i].component == number && place->begun[i].trip == OF_WINDOW)
			place->begun[i--] = place->begun[--place->n_begun];
	begun.trip = OF_WINDOW;
	begun.window = reading->window;
	return r < 0 ? r : begin(components, place, &begun);
}

static int take_whole(struct components *components, const struct component_reading *reading,
		      uint32_t number)
{
	struct place *place = place_of(&components->processes, reading->process);
	int r = 0;

	if (!place)
		return -ENOMEM;
	switch (reading->when) {
	case TRACE_ASKED_PROCESS_BEGIN:
	case TRACE_ASKED_WINDOW_BEGIN:
		return begin_whole(components, place, reading, number);
	case TRACE_ASKED_PROCESS_END:
		r = end_whole(components, place, reading, number, OF_PROCESS);
		break;
	default:
		break;
	}
	return r < 0 ? r : end_whole(components, place, reading, number, OF_WINDOW);
}

/* Where nothing was asked yet nobody is asked at samples either. */
void components_sampled(struct components *components, uint32_t thread, int64_t time_ns)
{
	struct place *place = components->n ? place_of(&components->threads, thread) : NULL;

	if (place)
		place->sample_ns = time_ns;
}

/* A counter has grown since the sample before of the thread, wherever that was. */
static int take_sampled(struct components *components, struct place *place,
			const struct component_reading *reading, uint32_t number)
{
	const struct begun at = { .component = number,
				  .path = reading->path,
				  .window = AT_SAMPLES };
	struct ending *last;
	int r = 0;

	if (place->sample_ns && reading->thread_row)
		r = rows_put(components->samples, CELL(components->run_id), CELL((int64_t)number),
			     CELL(reading->thread_row), CELL(place->sample_ns),
			     CELL(reading->value));
	if (r < 0 || !components->items[number - 1].is_counter)
		return r < 0 ? r : add(components, &at, reading->value, 0, 0);
	last = array_find(place->sampled, place->n_sampled, it, it->component == number);
	if (!last)
		return array_add(place->sampled, place->n_sampled, place->n_sampled_allocated,
				 (struct ending){ number, reading->value });
	int64_t grown = difference(reading->value, last->value);
	last->value = reading->value;
	return add(components, &at, grown, grown, grown);
}

int components_take(struct components *components, const struct component_reading *reading)
{
	uint32_t number = number_of(components, reading->text);
	struct component *component = number ? &components->items[number - 1] : NULL;
	struct begun begun = {
		.component = number,
		.path = reading->path,
		.trip = reading->trip,
		.value = reading->value,
	};

	if (!component)
		return -ENOMEM;
	component->n_asked++;
	component->asked_ns = saturated(component->asked_ns, reading->asked_ns);
	if (reading->when >= TRACE_ASKED_PROCESS_BEGIN && reading->when != TRACE_ASKED_SAMPLE)
		return take_whole(components, reading, number);
	struct place *place = place_of(&components->threads, reading->thread);
	if (!place)
		return 0;
	if (reading->when == TRACE_ASKED_SAMPLE)
		return take_sampled(components, place, reading, number);
	if (reading->when == TRACE_ASKED_REGION_BEGIN)
		return begun.trip ? begin(components, place, &begun) : 0;
	return remember_ending(place, number, reading->value);
}

static int write_component(const struct components *components, size_t i)
{
	const struct component *component = &components->items[i];
	auto_free char *copy = strdup(texts_get(components->texts, component->text));
	const char *fields[4];

	if (!copy)
		return -ENOMEM;
	split(copy, fields);
	return db_insert(components->db,
			 "component(run_id, id, name, unit, kind, plugin, n_asked, asked_ns)",
			 "nnttttnn", components->run_id, (int64_t)i + 1, fields[0], fields[1],
			 fields[2], fields[3], (int64_t)component->n_asked, component->asked_ns);
}

static int write_value(const struct components *components, const struct value *value)
{
	bool is_counter = components->items[value->component - 1].is_counter;

	return db_insert(
		components->db,
		"component_value(run_id, component_id, path_id, window, n, total, own,"
		" mean, least, most)",
		"nnnnniirnn", components->run_id, (int64_t)value->component, (int64_t)value->path,
		value->window == AT_SAMPLES ? -1 : (int64_t)value->window, (int64_t)value->n,
		is_counter ? value->total : INT64_MIN, is_counter ? value->own : INT64_MIN,
		value->sum / (double)value->n, value->least, value->most);
}

int components_write(const struct components *components)
{
	int r = 0;

	for (size_t i = 0; i < components->n && r == 0; i++)
		r = write_component(components, i);
	for (size_t i = 0; i < components->n_values && r == 0; i++)
		r = write_value(components, &components->values[i]);
	return r < 0 ? r : rows_flush(components->samples);
}
