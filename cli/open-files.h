#pragma once
/*
 * The files that recorded processes have loaded, kept open while they are recorded: a container's
 * are gone with it, and a program may be replaced while it runs. One thread at a time.
 */
#include "analyze/symbols/search-paths.h"
#include "runner/run.h"

struct live_files;

struct live_files *live_files_create(void); /* NULL: no memory */
struct live_files *live_files_destroy(struct live_files *files); /* accepts NULL, returns NULL */

/* For run_observer.loaded; user is the struct live_files. */
void live_files_add(void *user, const struct run_file *file);

/* For symbol_places.open_loaded. */
int live_files_open(void *files, const char *path, const char *build_id);

static inline void live_files_cleanup(struct live_files **files)
{
	*files = live_files_destroy(*files);
}
#define auto_live_files __attribute__((cleanup(live_files_cleanup)))
