#include "runner/attach/attach.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"
#include "runner/attach/attach-internal.h"
#include "runner/attach/contents.h"
#include "runner/attach/crowd.h"
#include "runner/attach/filters.h"
#include "runner/attach/modules.h"
#include "schemas/attach.h"
#include "schemas/recording.h"

#define STACK_BYTES  (512u << 10)
#define PRIVATE_OPEN 0x80000000u /* __RTLD_DLOPEN of __libc_dlopen_mode */

static int fail_crowd(struct entry *entry, int error)
{
	const struct crowd *crowd = &entry->crowd;

	if (error == -EPERM || error == -EACCES) {
		attach_explain(entry->pid, error, entry->outcome->message);
		return entry->outcome->error = error;
	}
	if (error == -ESRCH)
		return entry_fail(entry, error, "process %d has ended", (int)entry->pid);
	if (error != -ETIMEDOUT)
		return entry_fail(entry, error, "cannot stop process %d: %s", (int)entry->pid,
				  strerror(-error));
	return entry_fail(entry, error,
			  "thread %d of process %d was %s for too long: nothing was changed; "
			  "--timeout gives it more time",
			  (int)crowd->culprit, (int)entry->pid,
			  crowd->verdict == SAFETY_GOOD ? "in the kernel (state D)"
							: safety_text(crowd->verdict));
}

/* ---- Looking at it ---- */

static uintptr_t function_in(const struct remote_modules *modules, const char *name)
{
	static const char *const files[] = { "libc.so", "libc-2.", "libdl.so", "libdl-2." };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		const struct remote_module *module = remote_modules_find(modules, files[i]);
		struct module_range range = { 0, 0 };

		if (module)
			range = remote_module_function(modules, module, name);
		if (range.start)
			return range.start;
	}
	return 0;
}

/*
 * Where errno is, from what __errno_location does: it adds a word of its file to the thread
 * pointer, in one of two orders. INT64_MIN: it is none of both.
 */
static int64_t errno_offset(const struct remote_modules *modules)
{
	static const uint8_t take_word[] = { 0x48, 0x8b, 0x05 }, add_word[] = { 0x48, 0x03, 0x05 };
	uintptr_t at = function_in(modules, "__errno_location");
	int64_t offset = INT64_MIN;
	int32_t distance;
	uint8_t code[32];

	if (!at || remote_read(modules->pid, at, code, sizeof(code)) < 0)
		return INT64_MIN;
	for (size_t i = 0; i < sizeof(code) - 7; i++) {
		if (memcmp(code + i, take_word, sizeof(take_word)) != 0 &&
		    memcmp(code + i, add_word, sizeof(add_word)) != 0)
			continue;
		memcpy(&distance, code + i + 3, sizeof(distance));
		if (remote_read(modules->pid, at + i + 7 + (uintptr_t)(intptr_t)distance, &offset,
				sizeof(offset)) == 0)
			break;
	}
	return offset;
}

static int find_place(const struct remote_modules *modules, struct remote_place *ret_place)
{
	/* mov $15,%rax; syscall: where handlers return to. */
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const struct remote_module *libc = remote_modules_find(modules, "libc.so");

	if (!libc)
		libc = remote_modules_find(modules, "libc-2.");
	if (!libc)
		return -ENOSYS;
	*ret_place = (struct remote_place){
		.return_at = remote_module_bytes(modules, libc, code, sizeof(code)),
		.map = function_in(modules, "mmap"),
		.unmap = function_in(modules, "munmap"),
		.errno_offset = errno_offset(modules),
	};
	return ret_place->return_at && ret_place->map && ret_place->unmap &&
			       ret_place->errno_offset != INT64_MIN
		       ? 0
		       : -ENOSYS;
}

static int look(struct entry *entry)
{
	int r = remote_modules_read(entry->pid, &entry->modules);

	r = r ?: find_place(&entry->modules, &entry->place);
	r = r ?: safety_create(&entry->modules, entry->place.return_at, &entry->safety);
	if (r == -EPERM || r == -EACCES) {
		attach_explain(entry->pid, r, entry->outcome->message);
		return entry->outcome->error = r;
	}
	return r < 0 ? entry_fail(entry, r, "process %d has no C library that could be used: %s",
				  (int)entry->pid, strerror(-r))
		     : 0;
}

static const struct remote_module *library_of(const struct remote_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		if (strstr(modules->items[i].path, RECORDING_LIBRARY) && modules->items[i].symbols)
			return &modules->items[i];
	return NULL;
}

bool attach_has_library(pid_t pid)
{
	struct remote_modules modules;

	if (remote_modules_read(pid, &modules) < 0)
		return false;
	bool has = library_of(&modules) != NULL;
	remote_modules_finish(&modules);
	return has;
}

/* ---- The guest ---- */

static int borrow(struct entry *entry)
{
	int r = remote_borrow(&entry->guest, &entry->place, STACK_BYTES, &entry->loan);

	entry->has_loan = true;
	if (r == -ENOMEM)
		return entry_fail(
			entry, r,
			"process %d has no room for a stack of %u KiB (ulimit -v, or too many "
			"mappings)",
			(int)entry->pid, STACK_BYTES / 1024);
	return r < 0 ? entry_fail(entry, r, "cannot use thread %d: %s", (int)entry->guest.tid,
				  strerror(-r))
		     : 0;
}

static uintptr_t libc_function(const struct entry *entry, const char *name)
{
	return function_in(&entry->modules, name);
}

/* ---- Stray signals ---- */

/* As the C library's struct sigaction on x86-64. */
struct action {
	uint64_t handler;
	uint8_t mask[128];
	int32_t flags;
	uint64_t restorer;
};

/* Ask for an action, and set another one. False: it could not be had. */
static bool change_action(struct entry *entry, const struct action *fresh, struct action *ret_old)
{
	uint64_t at = entry->loan.stack, old_at = at + sizeof(*fresh), unused;
	uintptr_t function = function_in(&entry->modules, "sigaction");

	return function && (!fresh || remote_write(entry->pid, at, fresh, sizeof(*fresh)) == 0) &&
	       entry_call(entry, function, (const uint64_t[6]){ SIGTRAP, fresh ? at : 0, old_at },
			  &unused) == 0 &&
	       entry->loan.failed_call < 0 &&
	       remote_read(entry->pid, old_at, ret_old, sizeof(*ret_old)) == 0;
}

/*
 * Threads that come out of malloc are trapped. If we are killed before we have seen a trap its
 * signal would end the program: for the time it has a handler that does nothing. Where the program
 * has one of its own there are no traps.
 */
static void begin_traps(struct entry *entry)
{
	const struct action nothing = { .handler = function_in(&entry->modules, "getpid"),
					.flags = SA_RESTART };
	struct action old;

	if (!nothing.handler || !change_action(entry, NULL, &old) ||
	    (old.handler != (uint64_t)(uintptr_t)SIG_DFL && old.handler != nothing.handler))
		return;
	entry->crowd.may_trap = change_action(entry, &nothing, &old);
}

static void end_traps(struct entry *entry)
{
	const struct action none = { .handler = (uint64_t)(uintptr_t)SIG_DFL };
	uint64_t ours = function_in(&entry->modules, "getpid");
	struct action old;

	if (!entry->crowd.may_trap)
		return;
	entry->crowd.may_trap = false;
	/* It may have been given one meanwhile. */
	if (change_action(entry, &none, &old) && old.handler != ours)
		change_action(entry, &old, &old);
}

static int give_back(struct entry *entry)
{
	if (!entry->has_loan)
		return 0;
	end_traps(entry);
	entry->has_loan = false;
	return remote_give_back(&entry->loan);
}

/* All but the guest, which is at a good place and works for us. */
static int stop_all(struct entry *entry, uint64_t deadline_ns)
{
	begin_traps(entry);
	int r = crowd_stop(&entry->crowd, entry->pid, entry->safety, &entry->guest, deadline_ns);
	if (r < 0)
		return fail_crowd(entry, r);
	entry->outcome->n_threads = (uint32_t)entry->crowd.n + 1;
	return 0;
}

/* ---- Loading ---- */

/* Is it the same file for the process? */
static bool sees_file(pid_t pid, const char *path)
{
	struct stat ours, theirs;
	char their_path[PATH_MAX + 32];

	snprintf(their_path, sizeof(their_path), "/proc/%d/root%s", (int)pid, path);
	return stat(path, &ours) == 0 && stat(their_path, &theirs) == 0 &&
	       ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

static int find_function(struct entry *entry)
{
	const struct remote_module *library = library_of(&entry->modules);
	struct module_range range = { 0, 0 };

	if (library)
		range = remote_module_function(&entry->modules, library, ATTACH_ENTRY);
	entry->function = range.start;
	return range.start ? 0 : -ENOENT;
}

/* What is loaded now, and our library among it? What dlopen says is not heard. */
static int find_anew(struct entry *entry)
{
	remote_modules_finish(&entry->modules);
	int r = remote_modules_read(entry->pid, &entry->modules);
	return r < 0 ? r : find_function(entry);
}

static int open_by_path(struct entry *entry, const char *path)
{
	uintptr_t function = libc_function(entry, "dlopen");
	uint64_t mode = RTLD_NOW | RTLD_LOCAL, unused;

	if (!function) {
		function = libc_function(entry, "__libc_dlopen_mode");
		mode |= PRIVATE_OPEN;
	}
	if (!function)
		return -ENOSYS;
	int r = remote_write(entry->pid, entry->loan.stack, path, strlen(path) + 1);
	if (r == 0)
		r = entry_call(entry, function, (const uint64_t[6]){ entry->loan.stack, mode },
			       &unused);
	return r < 0 ? r : find_anew(entry);
}

/* Our library into a file of the process that has no name. */
static int copy_library(struct entry *entry, int their_fd)
{
	auto_close int from = open(entry->order->library, O_RDONLY | O_CLOEXEC);
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)entry->pid, their_fd);
	auto_close int to = open(path, O_RDWR | O_CLOEXEC);

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return -errno;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		left -= n;
	}
	return 0;
}

static int open_by_memory(struct entry *entry)
{
	uint64_t fd = 0, unused;
	char path[64];
	int r = remote_write(entry->pid, entry->loan.stack, RECORDING_LIBRARY,
			     sizeof(RECORDING_LIBRARY));

	uintptr_t make = libc_function(entry, "memfd_create");
	uintptr_t close = libc_function(entry, "close");

	if (r == 0 && (!make || !close))
		r = -ENOSYS;
	if (r == 0 && !filters_allow_memory_files(&entry->filters))
		return entry_fail(
			entry, -EPERM,
			"process %d has a seccomp filter that forbids memfd_create, by which the "
			"recording library would get in: make %s readable there",
			(int)entry->pid, entry->order->library);
	if (r == 0)
		r = entry_call(entry, make, (const uint64_t[6]){ entry->loan.stack, MFD_CLOEXEC },
			       &fd);
	if (r < 0 || (int)fd < 0)
		return r < 0 ? r : (int)fd;
	r = copy_library(entry, (int)fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", (int)fd);
	r = r ?: open_by_path(entry, path);
	entry_call(entry, close, (const uint64_t[6]){ fd }, &unused);
	return r;
}

static int load(struct entry *entry)
{
	int r = -ENOENT;

	if (find_function(entry) == 0)
		return 0; /* from an earlier attach */
	if (sees_file(entry->pid, entry->order->library))
		r = open_by_path(entry, entry->order->library);
	if (r == -ENOENT)
		r = open_by_memory(entry);
	if (r == -ENOENT)
		return entry_fail(
			entry, -ELIBACC,
			"process %d cannot load the recording library; `LD_PRELOAD=%s true' "
			"in its place may say why",
			(int)entry->pid, entry->order->library);
	return r < 0 ? entry_fail(entry, r, "cannot load the recording library into process %d: %s",
				  (int)entry->pid, strerror(-r))
		     : 0;
}

/* ---- The library's part ---- */

static int begin(struct entry *entry)
{
	struct attach_call request = {
		.step = ATTACH_BEGIN,
		.filters = entry->loan.stack + MAX_TEXT,
		.n_filters = entry->filters.n,
		.root = (uint32_t)entry->pid,
	};
	int r = remote_write(entry->pid, request.filters, entry->filters.words,
			     entry->filters.n_words * sizeof(*entry->filters.words));

	if (r < 0)
		return entry_fail(entry, r, "cannot write to process %d: %s", (int)entry->pid,
				  strerror(-r));
	snprintf(request.socket, sizeof(request.socket), "%s", entry->order->socket);
	r = entry_step(entry, &request);
	if (r == 0)
		family_read(entry->pid, request.root_at, &entry->outcome->family);
	else if (r == -EBUSY)
		entry->outcome->was_left_behind = attach_is_left_behind(&request.recorder);
	return r;
}

/* Thread pointers of all that stand, the first thread's first; NULL without memory. */
static uint64_t *list_pointers(const struct entry *entry, size_t *ret_n)
{
	uint64_t *pointers = calloc(entry->crowd.n + 1, sizeof(*pointers)), first;
	size_t n = 0;

	if (!pointers)
		return NULL;
	pointers[n++] = entry->guest.registers.fs_base;
	for (size_t i = 0; i < entry->crowd.n; i++) {
		const struct remote_thread *thread = &entry->crowd.threads[i];

		if (!thread->is_standing)
			continue;
		pointers[n++] = thread->registers.fs_base;
		if (thread->tid != entry->pid)
			continue;
		first = pointers[n - 1];
		pointers[n - 1] = pointers[0];
		pointers[0] = first;
	}
	*ret_n = n;
	return pointers;
}

/* The thread pointers, behind the request. */
static int tell_threads(struct entry *entry, struct attach_call *request)
{
	size_t most = (ARENA_BYTES - MAX_TEXT) / sizeof(uint64_t), n = 0;
	auto_free uint64_t *pointers = list_pointers(entry, &n);

	if (!pointers || n > most)
		return -ENOMEM;
	request->threads = entry->loan.stack + MAX_TEXT;
	request->n_threads = (uint32_t)n;
	return remote_write(entry->pid, request->threads, pointers, n * sizeof(*pointers));
}

/* What may take a lock comes first: if the others had to run on for it they must stand again. */
static int end(struct entry *entry)
{
	struct attach_call request = { .step = ATTACH_UNBIND };
	bool were_standing = entry->crowd.n > 0;
	int r = entry_take_back_functions(entry) ?: entry_take_back_jumps(entry);

	if (r < 0)
		return entry_fail(entry, r, "cannot write the code of process %d: %s",
				  (int)entry->pid, strerror(-r));
	r = entry_step(entry, &request);
	entry->outcome->n_slots = request.n_slots;
	/* From here on what fails is tried again: the library still knows the pages. */
	if (r == 0 && were_standing && entry->crowd.n == 0)
		r = stop_all(entry, clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns);
	if (r < 0)
		return r;
	request.step = ATTACH_END;
	r = tell_threads(entry, &request);
	if (r < 0)
		return entry_fail(entry, r, "process %d has too many threads: %s", (int)entry->pid,
				  strerror(-r));
	r = entry_step(entry, &request);
	entry->are_used &= r < 0;
	return r;
}

static int commit(struct entry *entry)
{
	struct attach_call request = {
		.step = ATTACH_COMMIT,
		.entries = entry->loan.stack + MAX_TEXT,
		.n_entries = entry->entries.n,
	};
	int r = remote_write(entry->pid, request.entries, entry->entries.items,
			     entry->entries.n * sizeof(*entry->entries.items));

	entry->are_used = entry->entries.n > 0;
	r = r ?: entry_step(entry, &request);
	entry->outcome->n_slots = request.n_slots;
	if (r == 0) {
		entry_write_jumps(entry);
		entry_write_functions(entry);
		return 0;
	}
	/* What it has begun is ended, and the reason stays that of the commit. */
	struct attach_outcome why = *entry->outcome;

	end(entry);
	*entry->outcome = why;
	return r;
}

/* ---- Blocks that are there already ---- */

/* For struct heap_reader: the library looks, where it sees the memory. */
static int read_heads(void *user, uint64_t first, uint64_t end,
		      const struct attach_head **ret_heads, size_t *ret_n)
{
	struct entry *entry = user;
	struct attach_call request = {
		.step = ATTACH_HEADS,
		.first = first,
		.end = end,
		.heads = entry->loan.stack + MAX_TEXT,
		.most_heads = MOST_HEADS,
	};
	int r = entry->has_failed ? -EFAULT : entry_step(entry, &request);

	if (r == 0 && request.n_heads > MOST_HEADS)
		r = -EPROTO;
	if (r == 0)
		r = remote_read(entry->pid, request.heads, entry->heads,
				request.n_heads * sizeof(*entry->heads));
	if (r < 0) {
		entry->has_failed = true;
		entry->outcome->error = 0; /* all is read from outside then */
		return r;
	}
	*ret_heads = entry->heads;
	*ret_n = request.n_heads;
	return 0;
}

/* What is not found is said, and no reason not to record. */
static void walk_heap(struct entry *entry)
{
	const struct heap_reader reader = { read_heads, entry };
	struct heap_target target = { .pid = entry->pid, .reader = &reader };
	auto_free uint64_t *pointers = list_pointers(entry, &target.n_threads);
	int r = -ENOMEM;

	target.thread_pointers = pointers;
	if (pointers)
		r = heap_walk_read(&target, &entry->walk);
	if (r < 0)
		snprintf(entry->walk.why, sizeof(entry->walk.why), "%s", strerror(-r));
	entry->outcome->walk_ns = entry->walk.ns;
}

/* When all run again. */
static void hand_over_blocks(struct entry *entry)
{
	const struct heap_walk *walk = &entry->walk;
	struct attach_outcome *outcome = entry->outcome;
	auto_close int fd = -1;

	snprintf(outcome->blocks_why, sizeof(outcome->blocks_why), "%s", walk->why);
	if (walk->n_blocks == 0)
		return;
	fd = memfd_create("memsight-blocks", MFD_CLOEXEC);
	if (fd < 0 || io_write_all(fd, walk->blocks, walk->n_blocks * sizeof(*walk->blocks)) < 0) {
		snprintf(outcome->blocks_why, sizeof(outcome->blocks_why), "no memory for them");
		return;
	}
	outcome->n_blocks = walk->n_blocks;
	outcome->blocks_fd = steal_fd(&fd);
}

/* ---- In and out ---- */

/* A call that is forbidden may end it. */
static int check_filters(struct entry *entry)
{
	int r = filters_read(&entry->guest, &entry->filters);
	const char *name = r == 0 ? filters_forbidden(&entry->filters) : NULL;

	if (r < 0)
		return entry_fail(
			entry, r,
			"process %d has a seccomp filter that cannot be read: %s (it takes "
			"CAP_SYS_ADMIN outside of containers)",
			(int)entry->pid, strerror(-r));
	if (!filters_allow_restart(&entry->filters))
		remote_begin_again(&entry->guest);
	if (name)
		return entry_fail(
			entry, -EPERM,
			"process %d has a seccomp filter that forbids %s, which attaching needs: "
			"permit it, or start it by `memsight record'",
			(int)entry->pid, name);
	if (entry->filters.n_words * sizeof(*entry->filters.words) > ARENA_BYTES - MAX_TEXT)
		return entry_fail(entry, -E2BIG, "process %d has too many seccomp filters (%u)",
				  (int)entry->pid, entry->filters.n);
	entry->place.has_filter = !filters_allow_none(&entry->filters);
	return 0;
}

static int search_guest(struct entry *entry, uint64_t deadline_ns)
{
	int r = crowd_find_guest(&entry->crowd, entry->pid, entry->safety, deadline_ns,
				 &entry->guest);

	if (r < 0 && entry->crowd.takes_no_timed && entry->crowd.verdict == SAFETY_GOOD)
		return entry_fail(
			entry, r,
			"all threads of process %d wait with a timeout, which its seccomp filter "
			"lets nobody go on with: --timeout gives it more time",
			(int)entry->pid);
	return r < 0 ? fail_crowd(entry, r) : 0;
}

/* A thread that works for us, from now on. */
static int take_guest(struct entry *entry, uint64_t deadline_ns)
{
	int r = search_guest(entry, deadline_ns) ?: check_filters(entry);

	if (r == 0 && entry->place.has_filter && remote_is_timed(&entry->guest)) {
		remote_release(&entry->guest);
		entry->crowd.takes_no_timed = true;
		r = search_guest(entry, deadline_ns);
	}
	if (r < 0)
		return r;
	if (entry->order->started && attach_started(entry->pid) != entry->order->started)
		return entry_fail(entry, -ESRCH,
				  "process %d has ended; another one has its number now",
				  (int)entry->pid);
	return borrow(entry);
}

static int find_guest(struct entry *entry, uint64_t deadline_ns)
{
	int r = look(entry);

	return r < 0 ? r : take_guest(entry, deadline_ns);
}

/*
 * It was taken before functions were known: where it stands itself may be no place to change code
 * at.
 */
static int settle_guest(struct entry *entry)
{
	if (entry->functions.n_jumps == 0)
		return 0;
	give_back(entry);
	if (safety_judge(entry->safety, &entry->guest, NULL) == SAFETY_GOOD)
		return borrow(entry);
	remote_release(&entry->guest);
	filters_finish(&entry->filters);
	return take_guest(entry, clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns);
}

/* Our library is among the loaded files now: safety must know where it is. */
static int know_library(struct entry *entry)
{
	struct safety *safety;
	int r = safety_create(&entry->modules, entry->place.return_at, &safety);

	if (r < 0)
		return entry_fail(entry, r, "cannot look at process %d: %s", (int)entry->pid,
				  strerror(-r));
	safety_destroy(entry->safety);
	entry->safety = safety;
	return 0;
}

/* All run again but the one that works for us. */
static void let_others_go(struct entry *entry)
{
	uint64_t began_ns = entry->crowd.stopped_ns;

	crowd_release(&entry->crowd);
	entry->outcome->stood_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
}

/* And that one. */
static void let_go(struct entry *entry)
{
	if (!entry->are_used)
		entry_unmap_pages(entry);
	give_back(entry);
	remote_release(&entry->guest);
}

/* Load them. What they do wrong is the end of the recording: the program goes on as it was. */
static int begin_plugins(struct entry *entry)
{
	struct attach_call request = { .step = ATTACH_PLUGINS,
				       .first = entry->guest.registers.rsp };
	int r = entry->order->has_plugins ? entry_step(entry, &request) : 0;

	if (r == -EFAULT)
		entry_fail(entry, r,
			   "process %d: a plug-in of --load crashes in it; it goes on "
			   "without memsight",
			   (int)entry->pid);
	if (r == 0)
		return 0;
	struct attach_outcome why = *entry->outcome;

	if (stop_all(entry, clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns) == 0)
		end(entry);
	crowd_release(&entry->crowd);
	*entry->outcome = why;
	return r;
}

static int end_plugins(struct entry *entry)
{
	struct attach_call request = { .step = ATTACH_PLUGINS_END };
	int r = entry_step(entry, &request);

	return r == -ETIMEDOUT
		       ? entry_fail(entry, r, "process %d is in a plug-in that does not return",
				    (int)entry->pid)
		       : r;
}

static int go_in(struct entry *entry)
{
	uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns;
	int r = find_guest(entry, deadline_ns) ?: load(entry);
	r = r ?: know_library(entry);
	r = r ?: begin(entry);
	if (r < 0)
		return r;
	entry_prepare_jumps(entry);
	r = entry_find_functions(entry);
	if (r == 0)
		entry_own_functions(entry);
	r = r ?: settle_guest(entry);
	r = r ?: stop_all(entry, clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns);
	if (r < 0) {
		/* Nothing is hooked: no other thread can have met us. */
		struct attach_outcome why = *entry->outcome;

		if (entry->has_loan) {
			end(entry);
			entry_unmap_pages(entry);
		}
		*entry->outcome = why;
		return r;
	}
	if (entry->order->wants_blocks)
		walk_heap(entry);
	r = commit(entry);
	let_others_go(entry);
	r = r ?: begin_plugins(entry);
	let_go(entry);
	memcpy(entry->outcome->entries_why, entry->entries.why, sizeof(entry->entries.why));
	if (r == 0)
		hand_over_blocks(entry);
	return r;
}

static int go_out(struct entry *entry)
{
	uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns;
	int r = find_guest(entry, deadline_ns);

	if (r == 0 && (r = find_function(entry)) < 0)
		entry_fail(entry, r, "memsight is not attached to process %d", (int)entry->pid);
	r = r ?: entry_find_jumps(entry);
	r = r ?: end_plugins(entry);
	r = r ?: entry_find_functions(entry);
	r = r ?: settle_guest(entry);
	r = r ?: stop_all(entry, clock_ns(CLOCK_MONOTONIC) + entry->order->timeout_ns);
	if (r < 0)
		return r;
	if (entry->order->wants_contents)
		walk_heap(entry);
	r = end(entry);
	let_others_go(entry);
	let_go(entry);
	if (r == 0 && entry->walk.n_blocks > 0)
		contents_read(entry->pid, &entry->walk, entry->outcome);
	return r;
}

static int run(const struct attach_order *order, struct attach_outcome *ret_outcome,
	       int (*go)(struct entry *entry))
{
	struct entry *entry = calloc(1, sizeof(*entry));

	*ret_outcome = (struct attach_outcome){ .error = -ENOMEM, .blocks_fd = -1 };
	if (!entry)
		return -ENOMEM;
	entry->order = order;
	entry->outcome = ret_outcome;
	entry->pid = order->pid;
	ret_outcome->error = 0;
	int r = go(entry);
	crowd_release(&entry->crowd);
	give_back(entry);
	remote_release(&entry->guest);
	safety_destroy(entry->safety);
	remote_modules_finish(&entry->modules);
	filters_finish(&entry->filters);
	free_all(entry->jumps, entry->places);
	heap_walk_finish(&entry->walk);
	free(entry);
	return r;
}

int attach_enter(const struct attach_order *order, struct attach_outcome *ret_outcome)
{
	const struct attach_order leave = { .pid = order->pid, .timeout_ns = order->timeout_ns };
	int r = run(order, ret_outcome, go_in);

	if (r == -EBUSY && ret_outcome->was_left_behind) {
		r = attach_leave(&leave, ret_outcome);
		r = r < 0 ? r : run(order, ret_outcome, go_in);
	}
	return r;
}

int attach_leave(const struct attach_order *order, struct attach_outcome *ret_outcome)
{
	return run(order, ret_outcome, go_out);
}

#define MAX_FAMILY   64u
#define MAX_SEARCHES 50 /* each finds so many, or those that were forked meanwhile */

size_t attach_leave_family(const struct family *family, uint64_t timeout_ns, size_t *ret_left)
{
	struct attach_order order = { .timeout_ns = timeout_ns };
	struct attach_outcome outcome;
	pid_t pids[MAX_FAMILY];
	size_t n_kept = 0, n;

	*ret_left = 0;
	for (int i = 0; i < MAX_SEARCHES; i++) {
		n = family_list(family, pids, MAX_FAMILY);
		n_kept = 0;
		for (size_t k = 0; k < n; k++) {
			order.pid = pids[k];
			n_kept += attach_leave(&order, &outcome) < 0;
		}
		*ret_left += n - n_kept;
		if (n_kept == n)
			break;
	}
	return n_kept;
}
