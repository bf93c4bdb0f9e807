#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "runner/attach/attach-internal.h"
#include "schemas/ring.h"

#define STEP_NS	 UINT64_C(60000000000) /* a call that takes longer hangs */
#define STUCK_NS UINT64_C(100000000) /* one that may wait for a thread that stands */

int entry_fail(struct entry *entry, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(entry->outcome->message, sizeof(entry->outcome->message), format, arguments);
	va_end(arguments);
	entry->outcome->error = error;
	return error;
}

int entry_call(struct entry *entry, uintptr_t function, const uint64_t arguments[6],
	       uint64_t *ret_result)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + STEP_NS;
	int r = remote_call_begin(&entry->loan, function, arguments);

	if (r < 0)
		return r;
	while ((r = remote_call_end(&entry->loan, clock_ns(CLOCK_MONOTONIC) + STUCK_NS,
				    ret_result)) == -ETIMEDOUT &&
	       clock_ns(CLOCK_MONOTONIC) < until_ns)
		if (remote_call_waits(&entry->loan))
			crowd_release(&entry->crowd);
	if (r == -ETIMEDOUT) {
		/* It holds who knows what: it is broken off only since it would never end. */
		remote_call_break(&entry->loan);
		r = -EDEADLK;
	}
	return r;
}

/* Is something of it another one than ours: "mnt", "net" ... */
static bool is_other_namespace(pid_t pid, const char *name)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	if (stat(path, &theirs) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return stat(path, &ours) == 0 && ours.st_ino != theirs.st_ino;
}

static void explain_step(struct entry *entry, int error)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{ -ENOTCONN, "is not being recorded: there is nothing to take back" },
		{ -EBUSY, "is being recorded already; `memsight detach PID' ends that" },
		{ -EPROTO, "has the recording library of another version of memsight: it must be "
			   "started anew" },
		{ -ENOMEM, "has no address space for the shared memory (ulimit -v)" },
		{ -ECONNREFUSED, "was refused by the recorder" },
		{ -EACCES, "cannot reach the recorder's socket" },
		{ -ENOENT, "cannot reach the recorder's socket (another mount namespace)" },
		{ -EDEADLK, "does not come back from a call of ours" },
		{ -EFAULT, "had a fault in a call of ours; it goes on as it was" },
	};
	const char *text = NULL;

	if (error == -ECONNREFUSED && is_other_namespace(entry->pid, "net"))
		text = "is in a container with a network of its own, from which it does not reach "
		       "the recorder: run memsight in there";
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts) && !text; i++)
		if (texts[i].error == error)
			text = texts[i].text;
	entry_fail(entry, error, "process %d %s%s", (int)entry->pid,
		   text ? text : "cannot be recorded: ", text ? "" : strerror(-error));
}

int entry_step(struct entry *entry, struct attach_call *request)
{
	uint64_t at = entry->loan.stack, unused;

	request->magic = ATTACH_MAGIC;
	request->version = RING_VERSION;
	int r = remote_write(entry->pid, at, request, sizeof(*request));
	if (r == 0)
		r = entry_call(entry, entry->function, (const uint64_t[6]){ at }, &unused);
	r = r ?: remote_read(entry->pid, at, request, sizeof(*request));
	r = r ?: request->result;
	if (r < 0)
		explain_step(entry, r);
	return r;
}
