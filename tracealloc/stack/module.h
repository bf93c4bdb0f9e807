#pragma once
/*
 * Loaded modules: telling the collector about them, and finding the one that holds an address.
 *
 * dlopen is not hooked: glibc takes RUNPATH and $ORIGIN from the module of dlopen's caller, which
 * would be us, and dl_iterate_phdr takes a lock that other threads may hold while they call into
 * user code, so it must not run inside malloc. Instead a module is looked up, by glibc's lock-free
 * _dl_find_object, when a call stack reaches an address of it for the first time, and told before
 * the stack's node. Modules that never call us are seen by perf's map records. dlclose has no such
 * trouble with its caller: it is hooked, and what has vanished after it is told as unloaded.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/thread.h"

#define TA_MODULE_RANGES  3u
#define TA_BUILD_ID_BYTES 64u

struct ta_module {
	uintptr_t bias;
	uintptr_t start;
	uintptr_t end;
	uintptr_t eh_frame_hdr; /* 0: none */
	uintptr_t eh_frame_hdr_end;
	struct {
		uintptr_t start;
		uintptr_t end;
	} code[TA_MODULE_RANGES]; /* executable segments */
	const void *link_map; /* of _dl_find_object; NULL: not asked */
	const char *path; /* in memory of our own */
	uint8_t build_id[TA_BUILD_ID_BYTES];
	uint16_t build_id_bytes;
	uint16_t path_bytes;
	bool is_system; /* libc, libpthread or the loader: they start main and threads */
	bool is_loader;
	_Atomic bool announced;
	_Atomic bool was_asked_for; /* ta_module_is_first() */
	_Atomic bool gone;
	bool gone_told;
};

/* List what is loaded now. Once in an image, before it records. Takes the loader's lock. */
void ta_module_list(void);

/* Was the file with this bias loaded then? Of those a new one has taken the place of, no matter. */
bool ta_module_is_initial(uintptr_t bias);

/*
 * Is this the first time that it is asked of the library whose code holds pc, since it was loaded?
 * False of those that were there before us, and where nobody knows which one it is.
 */
bool ta_module_is_first(uintptr_t pc);

/* Let ta_module_is_first() be true once more. */
void ta_module_ask_again(uintptr_t pc);

/* Whether there are modules that the collector does not know, or does not know to be gone. */
bool ta_module_has_news(void);

/*
 * To tell it: false when there is nothing to tell, or somebody else is at it. Then each module is
 * looked at, what was told is counted, one by one, and the news are ended. ta_module_at() is NULL
 * behind the last one.
 */
bool ta_module_begin_news(void);
struct ta_module *ta_module_at(uint32_t i);
void ta_module_count_told(void);
void ta_module_end_news(void);

/*
 * The module whose code holds pc, NULL when none does. A module that was not known is added to the
 * list. Lock-free towards the loader. The result stays valid for the life of the image.
 */
const struct ta_module *ta_module_find(uintptr_t pc);

/* After a dlclose: see what is no longer there. It is told by ta_chunk_announce(). */
void ta_module_check_gone(void);

/* In a forked child: nothing is told yet, and nobody holds the list. */
void ta_module_forked(void);
