#pragma once
/* Shared by modules.c, executable-maps.c and static-tls.c. */

#include "analyze/process/module-list.h"

struct modules {
	struct tasks *tasks;
	struct objects *objects;
	struct module_list **lists; /* to free them */
	size_t n_lists;
	size_t n_lists_allocated;
	uint64_t n_changes; /* modules that ended or became another */
};

/* The list of an image with what it inherited; NULL: unknown image, or no memory. */
struct module_list *modules_list(struct modules *modules, uint32_t number);

/* ---- static-tls.c ---- */

/*
 * Bytes of static TLS of the modules that were there when the image attached; 0: no memory to find
 * out.
 */
uint64_t module_tls_bytes(const struct module_list *list);
