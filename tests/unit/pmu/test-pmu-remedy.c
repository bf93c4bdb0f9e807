#include <check.h>
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pmu/choice.h"
#include "pmu/cpus.h"
#include "pmu/source.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define ROOT  .has_perfmon = true, .has_sys_admin = true, .has_ipc_lock = true
#define PLAIN .mlock_kb = 516, .memlock_bytes = 8 << 20

static const struct {
	enum pmu_step step;
	int error;
	struct pmu_permissions permissions;
	const char *why; /* words that must stand in each */
	const char *fix;
} cases[] = {
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 3, PLAIN },
	  "perf_event_paranoid is 3",
	  "sudo sysctl kernel.perf_event_paranoid=2" },
	{ PMU_STEP_OPEN,
	  EPERM,
	  { .paranoid = 4, PLAIN },
	  "perf_event_paranoid is 4",
	  "sudo sysctl kernel.perf_event_paranoid=2" },
	/* Debian's kernel refuses CAP_PERFMON there: it must not be what is told to get. */
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 3, PLAIN, .has_perfmon = true },
	  "perf_event_paranoid is 3: only root",
	  "kernel.perf_event_paranoid=2" },
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 3, PLAIN, .has_seccomp = true },
	  "perf_event_paranoid is 3",
	  "kernel.perf_event_paranoid=2" },
	/* root of a container: its capabilities do not count */
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 3, ROOT, .in_user_namespace = true },
	  "perf_event_paranoid is 3",
	  "kernel.perf_event_paranoid=2" },
	{ PMU_STEP_OPEN,
	  EPERM,
	  { .paranoid = 2, PLAIN, .has_seccomp = true },
	  "seccomp",
	  "--cap-add PERFMON" },
	{ PMU_STEP_OPEN,
	  ENOSYS,
	  { .paranoid = 2, PLAIN, .has_seccomp = true },
	  "seccomp",
	  "--security-opt seccomp=" },
	{ PMU_STEP_OPEN,
	  EPERM,
	  { .paranoid = 3, ROOT, .has_seccomp = true },
	  "seccomp",
	  "--cap-add PERFMON" },
	{ PMU_STEP_OPEN, EACCES, { .paranoid = 2, PLAIN }, "another user", "setcap cap_perfmon" },
	/* --count kernel: 2 allows samples of users' code only. */
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 2, PLAIN, .wants_kernel = true },
	  "samples of kernel code need 1",
	  "kernel.perf_event_paranoid=1" },
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 1, PLAIN, .wants_kernel = true },
	  "another user",
	  "setcap cap_perfmon" },
	{ PMU_STEP_OPEN,
	  EACCES,
	  { .paranoid = 2, PLAIN, .wants_kernel = true, .has_perfmon = true },
	  "another user",
	  "setcap cap_perfmon" },
	{ PMU_STEP_OPEN,
	  ENOSYS,
	  { .paranoid = INT_MIN },
	  "without perf events",
	  "CONFIG_PERF_EVENTS=y" },
	{ PMU_STEP_OPEN,
	  ENOENT,
	  { .paranoid = INT_MIN },
	  "no perf events",
	  "CONFIG_PERF_EVENTS=y" },
	{ PMU_STEP_OPEN, ENOENT, { .paranoid = 2 }, "no PMU", "--source clock" },
	{ PMU_STEP_OPEN, EMFILE, { .paranoid = 2 }, "file descriptors", "ulimit -n" },
	{ PMU_STEP_OPEN, EBUSY, { .paranoid = 2 }, "holds the counters", "nmi_watchdog=0" },
	{ PMU_STEP_OPEN, ESRCH, { .paranoid = 2 }, "already ended", "memsight record" },
	{ PMU_STEP_OPEN, EINVAL, { .paranoid = 2 }, "does not know", "newer kernel" },
	{ PMU_STEP_MAP,
	  EPERM,
	  { .paranoid = 2, PLAIN },
	  "perf_event_mlock_kb is 516",
	  "ulimit -l unlimited" },
	{ PMU_STEP_MAP,
	  EPERM,
	  { .paranoid = 2, PLAIN },
	  "ulimit -l is 8192 KiB",
	  "kernel.perf_event_mlock_kb=" },
	{ PMU_STEP_MAP, ENOMEM, { .paranoid = 2 }, "memory", "free memory" },
	{ PMU_STEP_OPEN, EIO, { .paranoid = 2 }, "Input/output error", "--source" },
	{ PMU_STEP_MAP, ENODEV, { .paranoid = 2 }, "No such device", "--source" },
};

START_TEST(each_refusal_says_why_and_what_helps)
{
	struct pmu_refusal refusal;

	pmu_remedy(cases[_i].step, cases[_i].error, &cases[_i].permissions, &refusal);
	ck_assert_int_eq(refusal.error, cases[_i].error);
	ck_assert_msg(strstr(refusal.why, cases[_i].why), "'%s' says nothing of '%s'", refusal.why,
		      cases[_i].why);
	ck_assert_msg(strstr(refusal.fix, cases[_i].fix), "'%s' says nothing of '%s'", refusal.fix,
		      cases[_i].fix);
	/* One line each, whole: a text that was cut has no room left. */
	ck_assert_ptr_null(strpbrk(refusal.why, "\n%"));
	ck_assert_ptr_null(strpbrk(refusal.fix, "\n%"));
	ck_assert_uint_lt(strlen(refusal.why), sizeof(refusal.why) - 1);
	ck_assert_uint_lt(strlen(refusal.fix), sizeof(refusal.fix) - 1);
}
END_TEST

START_TEST(no_error_gives_no_words)
{
	const struct pmu_permissions permissions = { .paranoid = 4 };
	struct pmu_refusal refusal;

	pmu_remedy(PMU_STEP_OPEN, 0, &permissions, &refusal);
	ck_assert_int_eq(refusal.error, 0);
	ck_assert_str_eq(refusal.why, "");
	ck_assert_str_eq(refusal.fix, "");
}
END_TEST

/* As a container does it: perf_event_open gives this errno, everything else goes on. */
static void forbid_perf(unsigned error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static const int container_errors[] = { EACCES, EPERM, ENOSYS };

/* Check runs each test in a process of its own, which the filter then binds until it ends. */
START_TEST(a_container_that_forbids_perf_is_recognised)
{
	const struct access_options options = { .pid = getpid() };
	const struct access_source *clock = pmu_source_find("clock");
	struct access_stream *stream = NULL;
	struct pmu_permissions permissions;
	struct pmu_refusal refusal = { 0 };
	int error = container_errors[_i % 3];

	watched_become(_i / 3);
	forbid_perf((unsigned)error);
	pmu_permissions_read(&permissions);
	ck_assert(permissions.has_seccomp);
	ck_assert_int_eq(pmu_stream_open(clock, &options, &stream, &refusal), -error);
	ck_assert_ptr_null(stream);
	ck_assert_int_eq(refusal.error, error);
	/* Where paranoid alone forbids it as well, that is the first thing to change. */
	if (permissions.paranoid <= 2 || permissions.has_sys_admin) {
		ck_assert_ptr_nonnull(strstr(refusal.why, "seccomp"));
		ck_assert_ptr_nonnull(strstr(refusal.fix, "--cap-add PERFMON"));
	}
	refusal = (struct pmu_refusal){ 0 };
	ck_assert_int_eq(clock->probe(clock, &options, &refusal), -error);
	ck_assert_str_ne(refusal.why, "");
}
END_TEST

START_TEST(a_refused_auto_still_names_its_sources_and_describes_them)
{
	const struct access_options options = { .pid = getpid(), .stack_bytes = 256 };
	char message[PMU_CHOICE_MESSAGE_BYTES];
	const struct pmu_chosen *clock;
	struct pmu_choice choice;
	struct trace_source source;

	forbid_perf(EACCES);
	ck_assert_int_eq(pmu_choice_parse("auto", &choice, message), 0);
	pmu_choice_resolve(&choice, &options);
	ck_assert_uint_ge(choice.n, 3);
	clock = &choice.items[choice.n - 3];
	ck_assert_str_eq(clock->source->name, "clock");
	ck_assert_int_eq(clock->error, -EACCES);
	pmu_source_describe_refused(clock->source, &options, -EACCES, &source);
	ck_assert_uint_eq(source.error, EACCES);
	ck_assert_uint_eq(source.period, UINT64_C(1000000000) / PMU_DEFAULT_FREQ_HZ);
	ck_assert_uint_eq(source.stack_bytes, 256);
}
END_TEST

static const struct {
	const char *list;
	int n;
	int cpus[8];
} lists[] = {
	{ "0\n", 1, { 0 } },
	{ "0-3\n", 4, { 0, 1, 2, 3 } },
	{ "0-1,4,6-7\n", 5, { 0, 1, 4, 6, 7 } },
	{ "2", 1, { 2 } },
	{ "", -EINVAL, { 0 } },
	{ "\n", -EINVAL, { 0 } },
	{ "3-1\n", -EINVAL, { 0 } },
	{ "0,\n", -EINVAL, { 0 } },
	{ "0-\n", -EINVAL, { 0 } },
	{ "-1\n", -EINVAL, { 0 } },
	{ "0 1\n", -EINVAL, { 0 } },
	{ "65536\n", -EINVAL, { 0 } },
	{ "99999999999999999999\n", -EINVAL, { 0 } },
	{ "0-65535,0-65535\n", -EINVAL, { 0 } },
};

START_TEST(a_list_of_cpus_is_read_or_refused)
{
	int *cpus = NULL;
	int n = pmu_cpus_parse(lists[_i].list, &cpus);

	ck_assert_int_eq(n, lists[_i].n);
	ck_assert_int_eq(cpus != NULL, n > 0);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(cpus[i], lists[_i].cpus[i]);
	free(cpus);
}
END_TEST

START_TEST(as_many_cpus_are_online_as_the_library_says)
{
	int *cpus = NULL;

	ck_assert_int_eq(pmu_cpus_online(&cpus), (int)sysconf(_SC_NPROCESSORS_ONLN));
	free(cpus);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

int main(void)
{
	Suite *suite = suite_create("pmu-remedy");
	TCase *tcase = tcase_create("refusals");
	TCase *cpus = tcase_create("cpus");

	tcase_add_loop_test(tcase, each_refusal_says_why_and_what_helps, 0, COUNT(cases));
	tcase_add_test(tcase, no_error_gives_no_words);
	tcase_add_loop_test(tcase, a_container_that_forbids_perf_is_recognised, 0, 6);
	tcase_add_test(tcase, a_refused_auto_still_names_its_sources_and_describes_them);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(cpus, a_list_of_cpus_is_read_or_refused, 0, COUNT(lists));
	tcase_add_test(cpus, as_many_cpus_are_online_as_the_library_says);
	suite_add_tcase(suite, cpus);
	return suite_run(suite);
}
