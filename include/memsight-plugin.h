/*
 * memsight-plugin.h: components of your own for `memsight record --load FILE.so PROGRAM`. A plug-in
 * is a shared library that exports
 *
 *	int memsight_register_NAME(struct memsight_plugin *plugin);	// adds its components
 *	void memsight_deregister_NAME(void);				// may be left out
 *
 * The library is loaded into the program before its main(). Each component is asked when the
 * process begins and ends, and by each thread when it enters and leaves a region
 * (memsight_region_push() and _pop() of memsight.h) or a function of --function-include; when a
 * window begins and ends, by any thread of the process, which is then about to allocate or free;
 * and where it asks for that, at samples.
 * docs/plugins.md has an example, and how the values show. C99 and C++98; there is nothing to link.
 *
 * What a plug-in allocates while it is called is not recorded. One that crashes, throws, or is slow
 * is left out, which the recording says; what it held then (a lock, a file) stays held.
 */
#ifndef MEMSIGHT_PLUGIN_H
#define MEMSIGHT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Plug-ins of version 1 go on to work. */
#define MEMSIGHT_PLUGIN_ABI 2u

/* What a value means. */
enum memsight_component_kind {
	MEMSIGHT_COUNTER = 1, /* only grows: of a region what it grew by counts */
	MEMSIGHT_GAUGE, /* goes up and down: its mean, least and most count */
	MEMSIGHT_MAX /* the highest so far: its most counts */
};

/* Where a component is asked beside begins and ends: memsight_component.where. */
enum memsight_component_where {
	/*
	 * At each sample of `record --source signal', which is taken by a signal handler in the
	 * thread. So read must be async-signal-safe: system calls and what the thread alone uses,
	 * no locks, no malloc(3), no stdio. It is not asked where the sample lies in a call that is
	 * recorded (malloc), in a plug-in, or on another stack than the thread's own.
	 */
	MEMSIGHT_AT_SAMPLES = 1
};

struct memsight_component {
	/* Up to 47 bytes of letters, digits and "-_."; each name is there once in a recording. */
	const char *name;
	const char *unit; /* up to 15 bytes: "ns", "bytes", "faults" ... */
	const char *about; /* a line for `memsight avail --load` */
	enum memsight_component_kind kind;
	/*
	 * Give the value for the calling thread, or for the process, as you define it. Returns 0;
	 * anything else: it is not known this time. Called by any thread, by several at once.
	 */
	int (*read)(void *user, int64_t *ret_value);
	void *user; /* handed to read */
	const char *missing; /* why it cannot be read on this machine; NULL: it can */
	const char *instead; /* the component to take then; NULL: none */
	unsigned where; /* since version 2: enum memsight_component_where; 0: not at samples */
};

struct memsight_plugin {
	/*
	 * Add a component; of what is not a function all is copied. Returns 0, or a negative errno,
	 * which the plug-in should return. Call it by memsight_add().
	 */
	int (*add)(struct memsight_plugin *plugin, uint32_t abi,
		   const struct memsight_component *component);
};

static __inline__ int memsight_add(struct memsight_plugin *plugin,
				   const struct memsight_component *component)
{
	return plugin->add(plugin, MEMSIGHT_PLUGIN_ABI, component);
}

#ifdef __cplusplus
}
#endif

#endif
