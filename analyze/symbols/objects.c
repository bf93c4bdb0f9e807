#include "analyze/symbols/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analyze/symbols/debug-file.h"
#include "analyze/symbols/dwarf-lines.h"
#include "analyze/symbols/elf-file.h"
#include "analyze/symbols/symbol-table.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"

struct objects {
	struct object **items;
	size_t n;
	size_t n_allocated;
	struct key_map by_name; /* 128-bit hash of the name -> number + 1 */
	struct symbol_places places;
	struct debug_server server;
	char *archive; /* NULL: none; places.archive */
	char *directory; /* NULL: not known */
};

int objects_create(const struct symbol_places *places, struct objects **ret_objects)
{
	struct objects *objects = calloc(1, sizeof(*objects));

	if (!objects)
		return -ENOMEM;
	if (places)
		objects->places = *places;
	debug_server_init(&objects->server, &objects->places);
	*ret_objects = objects;
	return 0;
}

int objects_create_twins(const struct objects *objects, struct objects **ret_twins)
{
	if (objects->places.open_loaded || debug_server_is_named())
		return -ENOTSUP;
	int r = objects_create(&objects->places, ret_twins);

	if (r == 0 && objects->directory && objects_set_directory(*ret_twins, objects->directory))
		*ret_twins = objects_destroy(*ret_twins);
	return r < 0 || *ret_twins ? r : -ENOMEM;
}

/* The file and everything that was read from it. */
static void close_object(struct object *object)
{
	object->lines = lines_destroy(object->lines);
	object->symbols = symbol_table_destroy(object->symbols);
	object_file_close(object);
}

void object_forget(struct object *object)
{
	close_object(object);
	object->is_opened = false;
	object->is_file = false;
}

static void object_destroy(struct object *object)
{
	if (!object)
		return;
	close_object(object);
	free_all(object->name, object->path, object->build_id, object);
}

struct objects *objects_destroy(struct objects *objects)
{
	if (!objects)
		return NULL;
	array_free(objects->items, objects->n, it, object_destroy(*it));
	key_map_finish(&objects->by_name);
	free_all(objects->archive, objects->directory, objects);
	return NULL;
}

/* Takes over the three strings, also when it fails. */
static struct object *add(struct objects *objects, char *name, char *path, char *build_id)
{
	struct object *object = calloc(1, sizeof(*object));

	if (!object || !name || !path ||
	    grow_one(&objects->items, objects->n, &objects->n_allocated) < 0)
		return free_all(object, name, path, build_id), NULL;
	*object = (struct object){
		.name = name,
		.path = path,
		.build_id = build_id,
		.number = (uint32_t)objects->n,
		.places = &objects->places,
		.server = &objects->server,
		.directory = &objects->directory,
	};
	objects->items[objects->n++] = object;
	return object;
}

/* Programs load libraries by relative paths; the kernel tells the whole one. */
static struct object *use_absolute(struct object *object, const char *path, size_t path_bytes)
{
	if (object->path[0] == '/' || path_bytes == 0 || path[0] != '/' || !object->build_id)
		return object;

	char *copy = strndup(path, path_bytes);
	if (!copy)
		return NULL;
	free(object->path);
	object->path = copy;
	if (!object->elf)
		object->is_opened = false;
	return object;
}

static struct object *get(struct objects *objects, const char *name, const char *path,
			  size_t path_bytes)
{
	XXH128_hash_t hash = XXH3_128bits(name, strlen(name));
	uint64_t number = key_map_get(&objects->by_name, hash.low64, hash.high64);

	if (number)
		return use_absolute(objects->items[number - 1], path, path_bytes);

	/* A name that is not the path can only be a build-id. */
	bool is_path = strlen(name) == path_bytes && memcmp(name, path, path_bytes) == 0;
	struct object *object = add(objects, strdup(name), strndup(path, path_bytes),
				    is_path ? NULL : strdup(name));
	if (!object || key_map_put(&objects->by_name, hash.low64, hash.high64, objects->n) < 0)
		return NULL;
	return object;
}

struct object *objects_get(struct objects *objects, const uint8_t *build_id, size_t build_id_bytes,
			   const char *path, size_t path_bytes)
{
	char *name = build_id_bytes ? object_file_hex(build_id, build_id_bytes)
				    : strndup(path, path_bytes);

	struct object *object = name ? get(objects, name, path, path_bytes) : NULL;
	free(name);
	return object;
}

struct object *objects_get_named(struct objects *objects, const char *name, const char *path)
{
	return get(objects, name, path, strlen(path));
}

bool object_has_build_id(const struct object *object, const uint8_t *build_id, size_t n_bytes)
{
	static const char digits[] = "0123456789abcdef";
	const char *text = object->build_id;

	if (!text || strlen(text) != 2 * n_bytes)
		return false;
	/* Asked for each map and each module of its place: without a text of its own. */
	for (size_t i = 0; i < n_bytes; i++) {
		if (text[2 * i] != digits[build_id[i] >> 4] ||
		    text[2 * i + 1] != digits[build_id[i] & 15])
			return false;
	}
	return true;
}

int objects_set_directory(struct objects *objects, const char *directory)
{
	char *copy = strdup(directory);

	if (!copy)
		return -ENOMEM;
	free(objects->directory);
	objects->directory = copy;
	return 0;
}

int objects_set_archive(struct objects *objects, const char *folder)
{
	char *copy = strdup(folder);

	if (!copy)
		return -ENOMEM;
	free(objects->archive);
	objects->archive = copy;
	objects->places.archive = copy;
	return 0;
}

size_t objects_count(const struct objects *objects)
{
	return objects->n;
}

struct object *objects_at(const struct objects *objects, size_t i)
{
	return objects->items[i];
}

/* A program is marked as one where a library might look the same: System V gABI, DT_FLAGS_1. */
static bool is_marked_program(Elf *elf, const GElf_Phdr *segment)
{
	Elf_Data *data =
		elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz, ELF_T_DYN);
	GElf_Dyn row;

	for (int i = 0; data && gelf_getdyn(data, i, &row) && row.d_tag != DT_NULL; i++)
		if (row.d_tag == DT_FLAGS_1)
			return row.d_un.d_val & DF_1_PIE;
	return false;
}

bool object_is_static(struct object *object)
{
	bool is_program = false;
	GElf_Ehdr head;
	GElf_Phdr row;
	size_t n = 0;

	if (!object_open(object) || !gelf_getehdr(object->elf, &head) ||
	    elf_getphdrnum(object->elf, &n) < 0)
		return false;
	is_program = head.e_type == ET_EXEC;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(object->elf, (int)i, &row))
			continue;
		if (row.p_type == PT_INTERP)
			return false;
		is_program |= row.p_type == PT_DYNAMIC && is_marked_program(object->elf, &row);
	}
	return is_program;
}
