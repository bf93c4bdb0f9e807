/*
 * Plug-ins whose values are known: `steps' grows by one each time that a thread is asked, and each
 * reading allocates and frees. PLUGIN_DOES says what goes wrong.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight-plugin.h"

static volatile int *volatile nowhere;
static _Thread_local int64_t n_steps;
static _Thread_local void *kept;

static int does(const char *what)
{
	const char *value = getenv("PLUGIN_DOES");

	return value && strcmp(value, what) == 0;
}

static int read_steps(void *user, int64_t *ret_value)
{
	(void)user;
	free(kept);
	kept = malloc(12345);
	if (n_steps == 4 && does("crash"))
		*nowhere = 1;
	if (n_steps == 4 && does("abort"))
		abort();
	if (does("sleep"))
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	*ret_value = ++n_steps;
	return 0;
}

static int read_level(void *user, int64_t *ret_value)
{
	*ret_value = *(const int64_t *)user;
	return 0;
}

static int read_nothing(void *user, int64_t *ret_value)
{
	(void)user, (void)ret_value;
	return -ENODATA;
}

static const int64_t level = -7;

int memsight_register_steps(struct memsight_plugin *plugin);
void memsight_deregister_steps(void);
int memsight_register_level(struct memsight_plugin *plugin);
void say_hello(void);
void say_bye(void);

int memsight_register_steps(struct memsight_plugin *plugin)
{
	const struct memsight_component steps = {
		.name = "steps", .unit = "steps", .kind = MEMSIGHT_COUNTER, .read = read_steps
	};
	const struct memsight_component gone = {
		.name = "gone",
		.unit = "steps",
		.kind = MEMSIGHT_COUNTER,
		.read = read_steps,
		.missing = "not on this machine",
		.instead = "steps",
	};

	if (does("register-crash"))
		*nowhere = 1;
	if (does("register-hang"))
		pause();
	if (does("fail"))
		return -EPERM;
	if (does("version"))
		return plugin->add(plugin, 3, &steps);
	int r = memsight_add(plugin, &steps);
	return r == 0 ? memsight_add(plugin, &gone) : r;
}

void memsight_deregister_steps(void)
{
	if (write(2, "deregister\n", 11) < 0)
		_exit(9);
}

int memsight_register_level(struct memsight_plugin *plugin)
{
	const struct memsight_component parts[] = {
		{ .name = does("twice") ? "steps" : "level",
		  .unit = "m",
		  .kind = MEMSIGHT_GAUGE,
		  .read = read_level,
		  .user = (void *)&level },
		{ .name = "peak",
		  .unit = "m",
		  .kind = MEMSIGHT_MAX,
		  .read = read_level,
		  .user = (void *)&level },
		{ .name = "nothing", .unit = "m", .kind = MEMSIGHT_GAUGE, .read = read_nothing },
	};
	int r = 0;

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]) && r == 0; i++)
		r = memsight_add(plugin, &parts[i]);
	return r;
}

void say_hello(void)
{
	if (write(2, "hello\n", 6) < 0)
		_exit(9);
}

void say_bye(void)
{
	if (write(2, "bye\n", 4) < 0)
		_exit(9);
}
