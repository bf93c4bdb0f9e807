/* An auditing library (rtld-audit(7)). It lives in a namespace of its own, and allocates there. */
#include <link.h>
#include <stdlib.h>

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie);

static void *volatile block;

unsigned la_version(unsigned version)
{
	free(malloc(1960));
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)map;
	(void)namespace;
	(void)cookie;
	free(block);
	block = malloc(1961);
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
