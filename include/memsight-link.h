#pragma once
/* What libmemsight.a defines: memsight.h tells what each does. */
#include <stddef.h>

void memsight_link_region_push(const char *name);
void memsight_link_region_pop(const char *name);
void memsight_link_mark(const char *name);
void memsight_link_name_range(const void *object, size_t size, const char *name);
void memsight_link_block(const void *pointer, size_t size, const void *pool);
void memsight_link_block_end(const void *pointer);
void memsight_link_pool_reset(const void *pool);
void memsight_link_pause(void);
void memsight_link_resume(void);
void memsight_link_pause_thread(void);
void memsight_link_resume_thread(void);
void memsight_link_collect_push(const char *classes);
void memsight_link_collect_pop(void);
