#include "tests/unit/pmu/watched.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(uid_t uid)
{
	ck_assert_int_eq(setresgid(uid, uid, uid), 0);
	ck_assert_int_eq(setresuid(uid, uid, uid), 0);
	/* A change of ids makes a process undumpable, and then perf may not watch its children. */
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
}

void watched_become(int loop_index)
{
	if (loop_index != 0 && geteuid() == 0)
		become(NOBODY);
}

void watched_become_alone(void)
{
	if (geteuid() == 0)
		become(60000u + (uid_t)getpid() % 5000); /* containers map 65,536 ids */
}

void watched_start(struct watched *watched, void (*body)(void *), void *argument)
{
	int status;

	watched->pid = fork();
	ck_assert_int_ge(watched->pid, 0);
	if (watched->pid == 0) {
		/* A test that fails leaves nobody behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		body(argument);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(watched->pid, &status, WUNTRACED), watched->pid);
	ck_assert(WIFSTOPPED(status));
}

void watched_go(struct watched *watched)
{
	ck_assert_int_eq(kill(watched->pid, SIGCONT), 0);
}

void watched_wait(struct watched *watched, struct rusage *ret_usage)
{
	int status;

	ck_assert_int_eq(wait4(watched->pid, &status, 0, ret_usage), watched->pid);
	ck_assert_int_eq(status, 0);
}

struct access_stream *watched_open(const char *name, const struct access_options *options)
{
	const struct access_source *source = pmu_source_find(name);
	struct access_stream *stream = NULL;
	struct pmu_refusal refusal = { 0 };
	int r;

	ck_assert_ptr_nonnull(source);
	r = pmu_stream_open(source, options, &stream, &refusal);
	ck_assert_msg(r == 0, "%s: %s (%s)", strerror(-r), refusal.why, refusal.fix);
	return stream;
}

int kept_take(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct kept *kept = context;

	if (kept->n_bytes + n_bytes > kept->room) {
		kept->room = 2 * (kept->n_bytes + n_bytes);
		kept->bytes = realloc(kept->bytes, kept->room);
		ck_assert_ptr_nonnull(kept->bytes);
	}
	memcpy(kept->bytes + kept->n_bytes, records, n_bytes);
	kept->n_bytes += n_bytes;
	kept->n_samples += n_samples;
	return 0;
}

void kept_free(struct kept *kept)
{
	free(kept->bytes);
	*kept = (struct kept){ 0 };
}

uint8_t *untouched_pages(size_t n_pages)
{
	uint8_t *pages = mmap(NULL, n_pages * 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	madvise(pages, n_pages * 4096, MADV_NOHUGEPAGE);
	return pages;
}

void *shared_bytes(size_t n_bytes)
{
	void *bytes =
		mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	memset(bytes, 0, n_bytes);
	return bytes;
}
