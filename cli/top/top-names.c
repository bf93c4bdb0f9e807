/* Names of the return addresses that live totals are by, while the program runs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/symbols/objects.h"
#include "analyze/symbols/symbols.h"
#include "cli/top/top.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "report/text/site-name.h"
#include "runner/processes/image-proc.h"
#include "schemas/trace-format.h"
#include "store/library-frames.h"

#define MAX_CALLS	 3u /* of the program that a site is named by */
#define MAX_INLINED	 8u
#define FRAME_TEXT_BYTES 640u
#define BEFORE_NAME	 "(before the attach)"

/* A mapped part of a file. */
struct part {
	uint32_t pid;
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	char *path;
};

struct top_names {
	struct objects *objects;
	struct part *parts; /* of all processes */
	size_t n_parts, parts_allocated;
};

int top_names_create(struct top_names **ret_names)
{
	struct top_names *names = calloc(1, sizeof(*names));

	if (!names || objects_create(NULL, &names->objects) < 0)
		return free(names), -ENOMEM;
	*ret_names = names;
	return 0;
}

struct top_names *top_names_destroy(struct top_names *names)
{
	if (!names)
		return NULL;
	array_free(names->parts, names->n_parts, it, free(it->path));
	objects_destroy(names->objects);
	free(names);
	return NULL;
}

static const struct part *find_part(const struct top_names *names, uint32_t pid, uint64_t pc)
{
	for (size_t i = names->n_parts; i-- > 0;) {
		const struct part *part = &names->parts[i];

		if (part->pid == pid && part->start <= pc && pc < part->end)
			return part;
	}
	return NULL;
}

struct reading {
	struct top_names *names;
	uint32_t pid;
};

static void add_part(void *user, const struct image_map *map)
{
	const struct reading *reading = user;
	struct top_names *names = reading->names;
	const struct part *known = find_part(names, reading->pid, map->start);

	/* It is read again for each address of code that no file has. */
	if (map->path[0] != '/' || !(map->prot & PROT_EXEC) ||
	    (known && known->end == map->end && known->offset == map->file_offset &&
	     strcmp(known->path, map->path) == 0))
		return;
	char *path = strdup(map->path);
	if (!path || array_add(names->parts, names->n_parts, names->parts_allocated,
			       (struct part){ reading->pid, map->start, map->end, map->file_offset,
					      path }) < 0)
		free(path);
}

/* The file at a return address, and the address of the call in it; NULL: not known. */
static struct object *find_object(struct top_names *names, uint32_t pid, uint64_t pc,
				  uint64_t *ret_address)
{
	const struct part *part = find_part(names, pid, pc - 1);
	uint64_t offset;

	if (!part) {
		/* What a process has mapped of files now; what it had before stays known. */
		image_each_map((pid_t)pid, add_part, &(struct reading){ names, pid });
		part = find_part(names, pid, pc - 1);
	}
	if (!part)
		return NULL;
	offset = pc - 1 - part->start + part->offset;
	struct object *object =
		objects_get(names->objects, NULL, 0, part->path, strlen(part->path));
	*ret_address = offset;
	if (!object || !object_open(object))
		return object;
	for (size_t i = 0; i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];

		if (offset >= segment->file_offset &&
		    offset < segment->file_offset + segment->file_bytes)
			*ret_address = offset - segment->file_offset + segment->address;
	}
	return object;
}

/* Calls at a return address, the innermost inlined one first. At least 1. */
static size_t calls_at(struct top_names *names, uint32_t pid, uint64_t pc,
		       struct symbol_line calls[MAX_INLINED], struct object **ret_object)
{
	uint64_t address = 0;
	struct object *object = find_object(names, pid, pc, &address);
	size_t n = object ? symbols_lines(object, address, calls, MAX_INLINED) : 0;

	*ret_object = object;
	if (n > 0)
		return n;
	calls[0] = (struct symbol_line){ .function = object ? symbols_function(object, address)
							    : NULL };
	return 1;
}

/* "f a.c:1", "f (in libc.so.6)", "0x7f0012345678". */
static void write_call(const struct symbol_line *call, const struct object *object, uint64_t pc,
		       char text[FRAME_TEXT_BYTES])
{
	char name[FRAME_NAME_BYTES];

	if (call->function)
		site_plain_name(call->function,
				frame_owner(call->function, call->file, object->path) ==
					FRAME_LIBRARY,
				name);
	if (call->function && call->file)
		snprintf(text, FRAME_TEXT_BYTES, "%s %s:%d", name, text_base_name(call->file),
			 call->line);
	else if (call->function)
		snprintf(text, FRAME_TEXT_BYTES, "%s (%s)", name, text_base_name(object->path));
	else if (object)
		snprintf(text, FRAME_TEXT_BYTES, "0x%" PRIx64 " (%s)", pc,
			 text_base_name(object->path));
	else
		snprintf(text, FRAME_TEXT_BYTES, "0x%" PRIx64, pc);
}

/* What a site is named by, as it is put together. */
struct naming {
	FILE *out;
	size_t n_calls; /* of the program so far */
	char library[FRAME_NAME_BYTES]; /* of the call just inside */
};

/* Take the next call outwards. False: that is enough. */
static bool name_call(struct naming *naming, const struct symbol_line *call,
		      const struct object *object, uint64_t pc)
{
	enum frame_owner owner =
		object ? frame_owner(call->function, call->file, object->path) : FRAME_PROGRAM;
	char text[FRAME_TEXT_BYTES];

	if (owner != FRAME_PROGRAM) {
		naming->library[0] = '\0';
		if (call->function && naming->n_calls == 0)
			site_plain_name(call->function, owner == FRAME_LIBRARY, naming->library);
		return true;
	}
	if (naming->n_calls == MAX_CALLS) {
		fprintf(naming->out, " < …");
		return false;
	}
	write_call(call, object, pc, text);
	fprintf(naming->out, "%s%s", naming->n_calls ? " < " : "", text);
	if (naming->n_calls == 0 && naming->library[0] && site_names_library(naming->library))
		fprintf(naming->out, " › %s", naming->library);
	naming->n_calls++;
	return true;
}

static void name_by_program(struct top_names *names, const struct live_site *site,
			    struct naming *naming)
{
	uint32_t n = top_count_frames(site);
	struct symbol_line calls[MAX_INLINED];
	struct object *object;

	for (uint32_t i = 0; i < n; i++) {
		size_t n_calls = calls_at(names, site->pid, site->pcs[i], calls, &object);

		for (size_t j = 0; j < n_calls; j++)
			if (!name_call(naming, &calls[j], object, site->pcs[i]))
				return;
	}
}

/* A stack without a call of the program. */
static void name_by_all(struct top_names *names, const struct live_site *site, FILE *out)
{
	uint32_t n = top_count_frames(site);

	for (uint32_t i = 0; i < n && i < MAX_CALLS; i++) {
		auto_free char *text = top_names_frame(names, site, i);

		fprintf(out, "%s%s", i ? " < " : "", text ? text : "");
	}
	if (n > MAX_CALLS)
		fprintf(out, " < …");
}

char *top_names_site(struct top_names *names, const struct live_site *site)
{
	struct naming naming = { 0 };
	char *text = NULL;
	size_t n_bytes = 0;

	if (top_count_frames(site) == 0)
		return strdup("(call stack not known)");
	if (site->pcs[0] == TRACE_STOP_BEFORE)
		return strdup(BEFORE_NAME);
	naming.out = open_memstream(&text, &n_bytes);
	if (!naming.out)
		return NULL;
	name_by_program(names, site, &naming);
	if (naming.n_calls == 0)
		name_by_all(names, site, naming.out);
	fclose(naming.out);
	return text_hide_controls(text); /* names may hold anything */
}

char *top_names_frame(struct top_names *names, const struct live_site *site, size_t i)
{
	struct symbol_line calls[MAX_INLINED];
	struct object *object;
	char text[FRAME_TEXT_BYTES];
	size_t n_calls, n_bytes = 0;
	char *all = NULL;

	if (site->pcs[i] == TRACE_STOP_BEFORE)
		return strdup(BEFORE_NAME);
	n_calls = calls_at(names, site->pid, site->pcs[i], calls, &object);
	FILE *out = open_memstream(&all, &n_bytes);
	if (!out)
		return NULL;
	for (size_t j = 0; j < n_calls; j++) {
		write_call(&calls[j], object, site->pcs[i], text);
		fprintf(out, "%s%s", j ? " < " : "", text);
	}
	fclose(out);
	return text_hide_controls(all);
}
