/* A plug-in that is asked at samples: how often its thread was. PLUGIN_DOES: what goes wrong. */
#include <stdlib.h>
#include <string.h>

#include "include/memsight-plugin.h"

static volatile int *volatile nowhere;
static _Thread_local int64_t n_asked;
static int crashes;

static int read_asked(void *user, int64_t *ret_value)
{
	(void)user;
	if (crashes && n_asked == 10)
		*nowhere = 1;
	*ret_value = ++n_asked;
	return 0;
}

int memsight_register_sampled(struct memsight_plugin *plugin);

int memsight_register_sampled(struct memsight_plugin *plugin)
{
	const struct memsight_component asked = {
		.name = "asked",
		.unit = "asks",
		.kind = MEMSIGHT_COUNTER,
		.read = read_asked,
		.where = MEMSIGHT_AT_SAMPLES,
	};
	const char *does = getenv("PLUGIN_DOES");

	crashes = does && strcmp(does, "crash") == 0;
	return memsight_add(plugin, &asked);
}
