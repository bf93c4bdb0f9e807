/* Pools of APR: blocks of known sizes in a pool and its children. Prints a text. */
#include <apr_general.h>
#include <apr_pools.h>
#include <apr_strings.h>
#include <stdio.h>

int main(void)
{
	apr_pool_t *pool, *child;

	apr_initialize();
	apr_pool_create(&pool, NULL);
	for (int i = 0; i < 300; i++)
		apr_palloc(pool, 1016);
	for (int round = 0; round < 5; round++) {
		apr_pool_create(&child, pool);
		for (int i = 0; i < 200; i++)
			apr_pcalloc(child, 2040);
		apr_pool_clear(child);
		for (int i = 0; i < 100; i++)
			apr_palloc(child, 3064);
		if (round % 2)
			apr_pool_destroy(child);
	}
	printf("%s\n", apr_pstrdup(pool, "two words"));
	apr_pool_clear(pool); /* with three children */
	for (int i = 0; i < 7; i++)
		apr_palloc(pool, 4088);
	return 0;
}
