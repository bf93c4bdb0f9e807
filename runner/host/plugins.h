#pragma once
/*
 * Plug-ins of --load before the program starts: each library is loaded into a process of its own,
 * which registers it as the program will. So what is wrong is said before anything is recorded.
 */

#include "runner/run-options.h"

#define PLUGIN_TEXT_BYTES    256u
#define PLUGIN_MESSAGE_BYTES 512u

/* A component; the strings are valid during the call. */
struct plugin_component {
	const char *plugin;
	const char *name;
	const char *unit;
	const char *kind; /* "counter", "gauge" or "max" */
	const char *about;
	const char *missing; /* why it cannot be read here; "": it can */
	const char *chain; /* "cycles|task-time": what is tried for it, in turn */
	const char *where; /* "at samples": it is asked there, too; or "" */
	bool is_chosen;
};

/* A negative result stops, and is handed on. */
typedef int (*plugin_sink)(void *user, const struct plugin_component *component);

/*
 * Load the libraries of options->load, choose options->components (NULL: all that can be read), and
 * write what programs are to do of it as ring_control.load has it. 0 where there is no --load.
 * sink, if not NULL, gets each component. Returns 0, the sink's result, or a negative errno with
 * one line in message. Runs the libraries' code in child processes, for 5 s at most each.
 */
int plugins_prepare(const struct run_options *options, char load[RING_LOAD_BYTES], plugin_sink sink,
		    void *user, char message[PLUGIN_MESSAGE_BYTES]);
