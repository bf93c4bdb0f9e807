/*
 * libmemsight.a: the functions of memsight.h as functions that can be linked, for languages that
 * cannot include it. include/memsight.f90 is their only user in here.
 */
#include "include/memsight-link.h"

#include "include/memsight.h"

void memsight_link_region_push(const char *name)
{
	memsight_region_push(name);
}

void memsight_link_region_pop(const char *name)
{
	memsight_region_pop(name);
}

void memsight_link_mark(const char *name)
{
	memsight_mark(name);
}

void memsight_link_name_range(const void *object, size_t size, const char *name)
{
	memsight_name_range(object, size, name);
}

void memsight_link_block(const void *pointer, size_t size, const void *pool)
{
	memsight_block(pointer, size, pool);
}

void memsight_link_block_end(const void *pointer)
{
	memsight_block_end(pointer);
}

void memsight_link_pool_reset(const void *pool)
{
	memsight_pool_reset(pool);
}

void memsight_link_pause(void)
{
	memsight_pause();
}

void memsight_link_resume(void)
{
	memsight_resume();
}

void memsight_link_pause_thread(void)
{
	memsight_pause_thread();
}

void memsight_link_resume_thread(void)
{
	memsight_resume_thread();
}

void memsight_link_collect_push(const char *classes)
{
	memsight_collect_push(classes);
}

void memsight_link_collect_pop(void)
{
	memsight_collect_pop();
}
