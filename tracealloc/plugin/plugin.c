#include "tracealloc/plugin/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "include/memsight-plugin.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/own-time.h"
#include "tracealloc/plugin/note.h"
#include "tracealloc/sampler.h"
#include "tracealloc/sandbox.h"

#define MAX_PLUGINS    16u
#define MAX_COMPONENTS 64u
#define TEXT_BYTES     128u
/* Whoever needs a ms three times in a row was not interrupted, but is slow. */
#define SLOW_MS	  1u
#define SLOW_ASKS 3u
#define END_MS	  2000u /* for who is asked when a program is left */
#define LOOK_ASKS 64u /* handlers that were set past our hooks are found after so many */

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
#define N_FAULTS (sizeof(faults) / sizeof(faults[0]))

struct plugin {
	char name[TEXT_BYTES];
	void (*deregister)(void);
	_Atomic bool is_out; /* it is not called any more */
};

struct component {
	char text[TEXT_BYTES]; /* as TRACE_CALL_COMPONENT has it */
	struct ta_name name; /* of that text */
	int (*read)(void *user, int64_t *ret_value);
	void *user;
	struct plugin *plugin;
	bool is_at_samples;
	_Atomic uint32_t n_slow; /* asks in a row */
};

bool ta_plugins_are_on;
_Atomic bool ta_plugins_must_look = true;

/* Pages of zeros in a program without plug-ins. */
static TA_LARGE struct {
	struct plugin plugins[MAX_PLUGINS];
	struct component components[MAX_COMPONENTS];
	uint32_t n_plugins;
	uint32_t n_components;
	struct sigaction own[N_FAULTS]; /* the program's */
	_Atomic uint32_t n_asks;
	_Atomic uint32_t n_inside; /* threads that run a plug-in */
	_Atomic bool is_over;
	void (*fini[MAX_PLUGINS])(void);
	uint32_t n_fini;
	char load[RING_LOAD_BYTES];
} all;

/* ---- Calls into a plug-in ---- */

/*
 * A fault inside a plug-in ends its call. One of the program's own meets what the program has set:
 * that is put back, and the instruction runs again, or the signal is sent again.
 */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	struct ta_asking *asking = ta_tls.thread ? ta_tls.thread->asking : NULL;
	size_t i = 0;

	(void)context;
	if (asking && asking->may_jump && (info->si_code > 0 || signal == SIGABRT)) {
		asking->signal = signal;
		longjmp(asking->back, 1);
	}
	while (i + 1 < N_FAULTS && faults[i] != signal)
		i++;
	ta_real.sigaction(signal, &all.own[i], NULL);
	atomic_store(&ta_plugins_must_look, true);
	if (info->si_code <= 0)
		ta_syscall(SYS_rt_tgsigqueueinfo, ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
			   ta_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), signal, (long)info, 0, 0);
}

/*
 * Have faults come to us, whoever had them: the program may have set a handler since. To ask takes
 * five system calls: so that is done where one of our hooks has seen it, and now and then.
 */
static void catch_faults(void)
{
	bool is_due =
		atomic_fetch_add_explicit(&all.n_asks, 1, memory_order_relaxed) % LOOK_ASKS == 0;

	if (!atomic_load_explicit(&ta_plugins_must_look, memory_order_relaxed) && !is_due)
		return;
	atomic_store(&ta_plugins_must_look, false);
	struct sigaction ours = { .sa_sigaction = on_fault,
				  .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	for (size_t i = 0; i < N_FAULTS; i++) {
		struct sigaction now;

		if (ta_real.sigaction(faults[i], NULL, &now) < 0 ||
		    ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault))
			continue;
		all.own[i] = now;
		ta_real.sigaction(faults[i], &ours, NULL);
	}
}

/* Put back what the program had, but where it has set another meanwhile. */
static void leave_faults(void)
{
	for (size_t i = 0; i < N_FAULTS; i++) {
		struct sigaction now;

		if (ta_real.sigaction(faults[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
		    now.sa_sigaction == on_fault)
			ta_real.sigaction(faults[i], &all.own[i], NULL);
	}
}

/* Hooks of the thread record nothing from here on. False: it runs a plug-in already. */
static bool enter(struct ta_asking *asking)
{
	if (!ta_tls.thread || ta_tls.thread->asking)
		return false;
	*asking = (struct ta_asking){ 0 };
	atomic_fetch_add(&all.n_inside, 1);
	ta_tls.seen = (uint32_t)TA_SEEN_PAUSED;
	ta_compiler_barrier();
	ta_tls.thread->asking = asking;
	return true;
}

static void leave(void)
{
	ta_tls.thread->asking = NULL;
	ta_compiler_barrier();
	ta_tls.seen = ta_tls.pause_depth ? (uint32_t)TA_SEEN_PAUSED : ta_tls.known;
	atomic_fetch_sub(&all.n_inside, 1);
}

/* What is run with faults caught. */
struct call {
	struct component *component;
	int64_t value;
	void (*function)(void);
	int (*registers)(struct memsight_plugin *plugin);
	struct memsight_plugin *plugin;
	int result;
};

static __attribute__((noinline)) void run_call(struct call *call)
{
	if (call->component)
		call->result = call->component->read(call->component->user, &call->value);
	else if (call->registers)
		call->result = call->registers(call->plugin);
	else
		call->function();
}

/* The signal that ended it; 0: it has returned. */
static __attribute__((noinline)) int guarded(struct call *call)
{
	struct ta_asking *asking = ta_tls.thread->asking;

	if (_setjmp(asking->back)) {
		asking->may_jump = false;
		return asking->signal;
	}
	asking->may_jump = true;
	run_call(call);
	asking->may_jump = false;
	return 0;
}

static void leave_out(struct plugin *plugin, const char *what, const char *why)
{
	char text[2 * TEXT_BYTES];

	if (atomic_exchange(&plugin->is_out, true))
		return;
	snprintf(text, sizeof(text), "%.60s left out: %.100s %.80s", plugin->name, what, why);
	struct ta_name name = ta_name_of(text);
	ta_note_plugin(TRACE_CALL_PLUGIN_LOST, &name, 0, 0);
}

static const char *signal_text(int signal)
{
	switch (signal) {
	case SIGABRT:
		return "ended by abort (SIGABRT), as by an exception that nobody catches";
	case SIGBUS:
		return "crashed (SIGBUS)";
	case SIGFPE:
		return "crashed (SIGFPE)";
	case SIGILL:
		return "crashed (SIGILL)";
	default:
		return "crashed (SIGSEGV)";
	}
}

/* ---- Asking ---- */

/* A component as its text names it: up to the first tab. */
static void leave_out_component(struct component *component, const char *why)
{
	char name[TEXT_BYTES];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(component->text, "\t"), component->text);
	leave_out(component->plugin, name, why);
}

struct answer {
	uint64_t ticks; /* that asking took */
	int64_t value;
	int signal;
	bool is_known;
	bool is_slow;
};

static struct answer ask(struct component *component)
{
	struct call call = { .component = component };
	struct answer answer = { .ticks = ta_ticks_begin() };

	answer.signal = guarded(&call);
	answer.ticks = ta_ticks_begin() - answer.ticks;
	answer.value = call.value;
	answer.is_known = answer.signal == 0 && call.result == 0;
	return answer;
}

static void tell(struct component *component, const struct answer *answer, enum trace_asked when)
{
	enum trace_call call = when == TRACE_ASKED_SAMPLE	  ? TRACE_CALL_COMPONENT_SAMPLE
			       : when >= TRACE_ASKED_WINDOW_BEGIN ? TRACE_CALL_COMPONENT_WINDOW
								  : TRACE_CALL_COMPONENT;

	if (answer->is_known)
		ta_note_plugin(call, &component->name, answer->ticks << 2 | ((uint64_t)when & 3),
			       answer->value);
	if (answer->signal)
		leave_out_component(component, signal_text(answer->signal));
	else if (!answer->is_slow)
		atomic_store_explicit(&component->n_slow, 0, memory_order_relaxed);
	else if (atomic_fetch_add(&component->n_slow, 1) + 1 >= SLOW_ASKS)
		leave_out_component(component, "took more than 1 ms three times in a row");
}

/* A filter of the program's own may forbid what a plug-in calls, and kill. */
static bool is_confined(void)
{
	if (!ta_sandbox_is_on)
		return false;
	for (uint32_t i = 0; i < all.n_plugins; i++)
		leave_out(&all.plugins[i], "", "the program is confined by seccomp");
	return true;
}

/* Times that the thread was taken off its processor: a sample comes where that is near. */
static long n_preempted(void)
{
	struct rusage usage = { 0 };

	ta_syscall(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0, 0, 0);
	return usage.ru_nivcsw;
}

static bool is_asked(const struct component *component, enum trace_asked when)
{
	return (when != TRACE_ASKED_SAMPLE || component->is_at_samples) &&
	       !atomic_load(&component->plugin->is_out);
}

static void ask_each(enum trace_asked when)
{
	struct answer answers[MAX_COMPONENTS];
	struct ta_asking asking;

	if (is_confined() || !enter(&asking))
		return;
	/* Who ends them waits for those that are inside by now. */
	if (when != TRACE_ASKED_PROCESS_END && atomic_load(&all.is_over)) {
		leave();
		return;
	}
	catch_faults();
	long before = when == TRACE_ASKED_SAMPLE ? n_preempted() : 0;
	for (uint32_t i = 0; i < all.n_components; i++) {
		answers[i] = (struct answer){ 0 };
		if (is_asked(&all.components[i], when))
			answers[i] = ask(&all.components[i]);
		answers[i].is_slow = answers[i].ticks > ta_image.ticks_per_ms * SLOW_MS &&
				     (when != TRACE_ASKED_SAMPLE || n_preempted() == before);
		if (answers[i].signal)
			break;
	}
	leave();
	for (uint32_t i = 0; i < all.n_components; i++) {
		if (is_asked(&all.components[i], when))
			tell(&all.components[i], &answers[i], when);
		if (answers[i].signal)
			break;
	}
}

void ta_plugins_ask_all(enum trace_asked when)
{
	bool is_measured = ta_image.is_measured && ta_tls.thread;
	uint64_t since = is_measured ? ta_own_now(ta_tls.thread) : 0;
	int saved = errno;
	struct ta_hook hook;

	if (!atomic_load(&all.is_over) && ta_image_is_own())
		ask_each(when);
	if (is_measured && ta_hook_enter_kept(&hook, TA_FRAME(), RING_EVENTS_REGIONS)) {
		ta_own_tell(hook.thread, hook.bits, TRACE_OWN_PLUGIN,
			    ta_own_now(hook.thread) - since);
		ta_hook_leave(&hook);
	}
	errno = saved;
}

/*
 * In the handler of a sample, which has all signals blocked: a fault of a plug-in that is blocked
 * would end the program. What a hook was about to note stays.
 */
static void hear_sample(const void *frame)
{
	struct ta_thread *thread = ta_tls.thread;
	uintptr_t guard_pc = ta_tls.guard_pc;
	uint64_t set = 0, old = 0;

	if (ta_tls.guard || thread->asking || !ta_plugins_have_room(thread, frame))
		return;
	for (size_t i = 0; i < N_FAULTS; i++)
		set |= UINT64_C(1) << (faults[i] - 1);
	ta_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&set, (long)&old, sizeof(set), 0, 0);
	ta_plugins_ask_all(TRACE_ASKED_SAMPLE);
	ta_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof(old), 0, 0);
	ta_tls.guard_pc = guard_pc;
}

static bool hear_window(bool begins)
{
	if (!ta_tls.thread || !ta_plugins_have_room(ta_tls.thread, TA_FRAME()))
		return false;
	ta_plugins_ask(begins ? TRACE_ASKED_WINDOW_BEGIN : TRACE_ASKED_WINDOW_END);
	return true;
}

/* ---- Loading ---- */

static bool is_wanted(const char *name)
{
	for (const char *at = all.load; *at; at += strlen(at) + 1) {
		if (at[0] == RING_LOAD_COMPONENT && strcmp(at + 1, name) == 0)
			return true;
	}
	return false;
}

static int add_component(struct memsight_plugin *plugin, uint32_t abi,
			 const struct memsight_component *given)
{
	static const char *const kinds[] = { "", "counter", "gauge", "max" };
	struct component *component = &all.components[all.n_components];

	(void)plugin;
	if (abi == 0 || abi > MEMSIGHT_PLUGIN_ABI || (unsigned)given->kind >= 4)
		return -EINVAL;
	if (!is_wanted(given->name) || given->missing)
		return 0;
	if (all.n_components == MAX_COMPONENTS)
		return -ENOSPC;
	char name[TEXT_BYTES];

	component->plugin = &all.plugins[all.n_plugins - 1];
	memcpy(name, component->plugin->name, sizeof(name));
	snprintf(component->text, sizeof(component->text), "%.47s\t%.15s\t%s\t%.40s", given->name,
		 given->unit, kinds[given->kind], name);
	component->name = ta_name_of(component->text);
	component->read = given->read;
	component->user = given->user;
	component->is_at_samples = abi > 1 && given->where & MEMSIGHT_AT_SAMPLES;
	if (component->is_at_samples)
		ta_sampler_heard = hear_sample;
	all.n_components++;
	return 0;
}

/* ---- Entries of ring_control.load ---- */

/* What a function of a plug-in did, other than to return 0. */
static void judge(struct plugin *plugin, const char *function, int signal, int result)
{
	if (signal)
		leave_out(plugin, function, signal_text(signal));
	else if (result != 0)
		leave_out(plugin, function, "has failed");
}

/* Run a call of a library's function, with nothing of it recorded. */
static void run_function(struct plugin *plugin, const char *name, struct call *call)
{
	struct ta_asking asking;

	if (!enter(&asking))
		return;
	catch_faults();
	int signal = guarded(call);
	leave();
	judge(plugin, name, signal, call->result);
}

/* The address of a function, which may be one that the loader chooses. */
static void *find_function(void *library, const char *name)
{
	struct ta_asking asking;

	if (!enter(&asking))
		return NULL;
	void *function = dlsym(library, name);
	if (!function)
		dlerror(); /* no error of the program's */
	leave();
	return function;
}

static void register_plugin(void *library, const char *name)
{
	struct plugin *plugin = &all.plugins[all.n_plugins];
	struct memsight_plugin given = { .add = add_component };
	struct call call = { .plugin = &given };
	char symbol[2 * TEXT_BYTES];

	if (all.n_plugins == MAX_PLUGINS)
		return;
	all.n_plugins++;
	snprintf(plugin->name, sizeof(plugin->name), "%s", name);
	snprintf(symbol, sizeof(symbol), "memsight_deregister_%s", name);
	plugin->deregister = (void (*)(void))find_function(library, symbol);
	snprintf(symbol, sizeof(symbol), "memsight_register_%s", name);
	call.registers = (int (*)(struct memsight_plugin *))find_function(library, symbol);
	if (call.registers)
		run_function(plugin, symbol, &call);
	else
		leave_out(plugin, symbol, "is not there");
}

/* A function of --init-functions and --fini-functions belongs to no plug-in. */
static void run_named(const char *name, void (*function)(void))
{
	struct plugin nobody = { .name = "--load" };
	struct call call = { .function = function };

	if (function)
		run_function(&nobody, name, &call);
}

static void *load_library(const char *path)
{
	struct plugin nobody = { 0 };
	struct ta_asking asking;
	void *library = NULL;

	if (enter(&asking)) {
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		leave();
	}
	snprintf(nobody.name, sizeof(nobody.name), "%.100s", path);
	if (!library)
		leave_out(&nobody, "it", "cannot be loaded into this program");
	return library;
}

static void take_entry(void **library, const char *entry)
{
	const char *text = entry + 1;

	if (entry[0] == RING_LOAD_LIBRARY)
		*library = load_library(text);
	else if (!*library)
		return;
	else if (entry[0] == RING_LOAD_INIT)
		run_named(text, (void (*)(void))find_function(*library, text));
	else if (entry[0] == RING_LOAD_REGISTER)
		register_plugin(*library, text);
	else if (entry[0] == RING_LOAD_FINI && all.n_fini < MAX_PLUGINS)
		all.fini[all.n_fini++] = (void (*)(void))find_function(*library, text);
}

/* Whoever loads them may have had no event yet. */
static bool have_thread(void)
{
	struct ta_hook hook;

	if (ta_hook_enter_kept(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		ta_hook_leave(&hook);
	return ta_tls.thread && !ta_tls.guard;
}

void ta_plugins_start(void)
{
	struct plugin nobody = { .name = "--load" };
	int saved = errno;
	void *library = NULL;

	if (!ta_image.control || !ta_image.control->load[0] || !ta_real.sigaction || !have_thread())
		return;
	if (ta_sandbox_is_on) {
		leave_out(&nobody, "", "the program is confined by seccomp");
		return;
	}
	memcpy(all.load, ta_image.control->load, sizeof(all.load) - 2);
	for (const char *at = all.load; *at; at += strlen(at) + 1)
		take_entry(&library, at);
	ta_plugins_are_on = all.n_components > 0;
	if (ta_plugins_are_on)
		ta_pause_listen(hear_window);
	ta_plugins_ask(TRACE_ASKED_PROCESS_BEGIN);
	errno = saved;
}

static void end_all(void)
{
	for (uint32_t i = 0; i < all.n_fini; i++)
		run_named("a function of --fini-functions", all.fini[i]);
	for (uint32_t i = 0; i < all.n_plugins; i++)
		if (!atomic_load(&all.plugins[i].is_out))
			run_named(all.plugins[i].name, all.plugins[i].deregister);
	leave_faults();
}

/* Ask for the last time. False: there are none, or they are another's, or ended. */
static bool begin_end(void)
{
	if (all.n_plugins + all.n_fini == 0 || !ta_image_is_own() || atomic_load(&all.is_over))
		return false;
	ta_plugins_ask(TRACE_ASKED_PROCESS_END);
	return !atomic_exchange(&all.is_over, true);
}

void ta_plugins_end(void)
{
	int saved = errno;

	if (begin_end() && atomic_load(&all.n_inside) == 0)
		end_all();
	errno = saved;
}

long ta_plugins_end_late(void)
{
	const struct timespec slice = { .tv_nsec = 1000000 };
	int saved = errno;

	if (all.n_plugins + all.n_fini == 0)
		return 0;
	bool must_end = have_thread() && begin_end();
	atomic_store(&all.is_over, true);
	for (uint32_t ms = 0; atomic_load(&all.n_inside) > 0; ms++) {
		if (ms >= END_MS)
			return -ETIMEDOUT;
		ta_syscall(SYS_nanosleep, (long)&slice, 0, 0, 0, 0, 0);
	}
	if (must_end)
		end_all();
	errno = saved;
	return 0;
}

void ta_plugins_forget(void)
{
	ta_plugins_are_on = false;
	ta_sampler_heard = NULL;
	ta_pause_listen(NULL);
	memset(&all, 0, sizeof(all));
}

void ta_plugins_forked(void)
{
	if (ta_plugins_are_on)
		atomic_store(&all.n_inside, ta_tls.thread && ta_tls.thread->asking);
}
