#include "runner/host/doctor.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/catalogue/catalogue.h"
#include "runner/host/avail.h"
#include "runner/host/host-facts.h"
#include "runner/launch/library.h"
#include "runner/recording.h"
#include "runner/run-command.h"
#include "schemas/recording.h"

#define WANTED_HZ 25000 /* a rate that people ask for */

struct doctor {
	doctor_sink sink;
	void *user;
	bool has_access_source; /* of the hardware */
	char first_refusal[DOCTOR_TEXT_BYTES]; /* of a hardware source */
	char kinds[DOCTOR_TEXT_BYTES]; /* of memory that are there, with commas between */
	char nodes[DOCTOR_TEXT_BYTES];
};

static int say(const struct doctor *doctor, enum doctor_level level, const char *subject,
	       const char *text, const char *fix)
{
	return doctor->sink(doctor->user, &(struct doctor_finding){ level, subject, text, fix });
}

/* ---- The recording itself ---- */

static int look_at_library(struct doctor *doctor)
{
	char path[PATH_MAX], text[PATH_MAX + 32];

	if (library_find(NULL, path, sizeof(path)) < 0)
		return say(doctor, DOCTOR_MISSING, "allocations",
			   RECORDING_LIBRARY " is neither beside memsight nor installed",
			   "meson install -C build");
	snprintf(text, sizeof(text), "recorded by %s", path);
	return say(doctor, DOCTOR_FINE, "allocations", text, "");
}

static int look_at_folder(struct doctor *doctor)
{
	struct recording recording = RECORDING_CLOSED;
	int err = recording_init(&recording);
	char text[PATH_MAX + 64];

	if (err < 0)
		return say(doctor, DOCTOR_MISSING, "recording folder",
			   "none can be made in XDG_RUNTIME_DIR, TMPDIR or /tmp",
			   "export TMPDIR=a folder that you may write to");
	snprintf(text, sizeof(text), "made as %s", recording.folder);
	recording_finish(&recording);
	return say(doctor, DOCTOR_FINE, "recording folder", text, "");
}

static int look_at_heap(struct doctor *doctor)
{
	char path[PATH_MAX];

	if (library_find_beside(RECORDING_HEAP_LIBRARY, path, sizeof(path)) < 0)
		return say(doctor, DOCTOR_NOTE, "memory kinds",
			   "built without them: no --heap, --membind and their kind",
			   "apt-get install libmemkind-dev libnuma-dev, and build anew");
	return say(doctor, DOCTOR_FINE, "memory kinds", doctor->kinds, "");
}

static int look_at_nodes(struct doctor *doctor)
{
	return doctor->nodes[0] ? say(doctor, DOCTOR_FINE, "memory nodes", doctor->nodes, "") : 0;
}

/* Add "name (about)" to a list; one that is full ends in dots. */
static void add_to_list(char *list, const char *name, const char *about)
{
	size_t n = strlen(list), room = DOCTOR_TEXT_BYTES - n;
	int more = snprintf(list + n, room, about[0] ? "%s%s (%s)" : "%s%s", n > 0 ? ", " : "",
			    name, about);

	if (more >= (int)room)
		snprintf(list + (n < DOCTOR_TEXT_BYTES - 6 ? n : DOCTOR_TEXT_BYTES - 6), 6,
			 ", ...");
}

/* `memsight avail' lists them as well, with what speaks against the others. */
static void list_memory(struct doctor *doctor, const struct avail_item *item)
{
	if (item->is_there && strcmp(item->section, "heap kinds") == 0)
		add_to_list(doctor->kinds, item->name,
			    strncmp(item->about, "nodes", 5) == 0 ? item->about : "");
	else if (item->is_there && strcmp(item->section, "nodes") == 0)
		add_to_list(doctor->nodes, item->name, item->about);
}

static int look_at_limits(struct doctor *doctor)
{
	struct rlimit files, space;
	int err = 0;

	getrlimit(RLIMIT_FSIZE, &files);
	getrlimit(RLIMIT_AS, &space);
	if (files.rlim_max != RLIM_INFINITY)
		err = say(
			doctor, DOCTOR_NOTE, "limits",
			"the size of files is limited: traces end there, and the shared memory is "
			"made smaller",
			"ulimit -f unlimited");
	if (err == 0 && space.rlim_cur != RLIM_INFINITY)
		err = say(doctor, DOCTOR_NOTE, "limits",
			  "the address space is limited: programs may have no room for the "
			  "recording",
			  "ulimit -v unlimited");
	return err;
}

/* ---- Samples ---- */

static int look_at_item(void *user, const struct avail_item *item)
{
	struct doctor *doctor = user;

	list_memory(doctor, item);
	if (strcmp(item->section, "privileges") == 0 && !item->is_there)
		return say(doctor, DOCTOR_NOTE, item->name, item->about, item->fix);
	if (strcmp(item->section, "sources") != 0)
		return 0;
	bool is_hardware = strcmp(item->name, "clock") != 0 && strcmp(item->name, "faults") != 0 &&
			   strcmp(item->name, "watch") != 0 && strcmp(item->name, "signal") != 0;
	if (!is_hardware)
		return say(doctor, item->is_there ? DOCTOR_FINE : DOCTOR_MISSING, item->name,
			   item->about, item->fix);
	doctor->has_access_source |= item->is_there;
	/* This processor's own source tells more than those of other makers, which come first. */
	if (!item->is_there &&
	    (!doctor->first_refusal[0] || strstr(doctor->first_refusal, ": this is a")))
		snprintf(doctor->first_refusal, sizeof(doctor->first_refusal), "%s: %.400s",
			 item->name, item->about);
	return 0;
}

static int look_at_samples(struct doctor *doctor)
{
	int err = avail_look(look_at_item, doctor);

	if (err < 0 || doctor->has_access_source)
		return err < 0 ? err
			       : say(doctor, DOCTOR_FINE, "hardware samples",
				     "accesses with their level and latency", "");
	return say(doctor, DOCTOR_NOTE, "hardware samples",
		   doctor->first_refusal[0] ? doctor->first_refusal : "none on this processor",
		   "bare metal, or a virtual machine with a PMU; the clock serves without");
}

static int look_at_catalogue(struct doctor *doctor)
{
	if (pmu_catalogue_has_library())
		return say(doctor, DOCTOR_FINE, "names of events", "by libpfm4", "");
	return say(doctor, DOCTOR_NOTE, "names of events",
		   "without libpfm4: those of the kernel, and raw codes",
		   "apt-get install libpfm4");
}

static int look_at_symbols(struct doctor *doctor)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if ((urls && *urls) || access("/usr/lib/debug/.build-id", R_OK) == 0)
		return say(doctor, DOCTOR_FINE, "source lines of libraries",
			   urls && *urls ? "from the servers of DEBUGINFOD_URLS"
					 : "from /usr/lib/debug",
			   "");
	return say(doctor, DOCTOR_NOTE, "source lines of libraries",
		   "no debug files are installed: libraries have functions, no lines",
		   "apt-get install libc6-dbg, or export "
		   "DEBUGINFOD_URLS=https://debuginfod.debian.net");
}

/* The other way, where a container's filter forbids the first. */
static bool may_open_memory(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0;
}

/* A child's memory, as the recorder reads that of programs: Yama may forbid it, also to root. */
static bool may_read_child(void)
{
	static const char there = 'x';
	char byte = 0;
	struct iovec local = { &byte, 1 }, remote = { (void *)(uintptr_t)&there, 1 };
	pid_t pid = fork();

	if (pid < 0)
		return true; /* not known */
	if (pid == 0) {
		pause();
		_exit(0);
	}
	bool may_read =
		process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1 || may_open_memory(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return may_read;
}

static int look_at_reading(struct doctor *doctor)
{
	if (may_read_child())
		return 0;
	return say(doctor, DOCTOR_NOTE, "code of programs",
		   "their memory may not be read: code comes from the files that they mapped, and "
		   "generated code is not decoded",
		   "sudo sysctl kernel.yama.ptrace_scope=1 (where it is 3: from the next boot on)");
}

/* ---- Quiet measurements ---- */

/* A fact of the host that makes runs differ. */
static const struct noise {
	const char *key;
	const char *value; /* that is noted; NULL: compare as a number, see least */
	long least;
	const char *text;
	const char *fix;
} noises[] = {
	{ "governor", "powersave", 0, "the CPUs' clock follows the load: times vary",
	  "sudo cpupower frequency-set -g performance" },
	{ "governor", "ondemand", 0, "the CPUs' clock follows the load: times vary",
	  "sudo cpupower frequency-set -g performance" },
	{ "governor", "schedutil", 0, "the CPUs' clock follows the load: times vary",
	  "sudo cpupower frequency-set -g performance" },
	{ "turbo", "1", 0, "turbo is on: times depend on temperature and neighbours",
	  "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or .../cpufreq/boost" },
	{ "numa_balancing", "1", 0, "the kernel moves pages between nodes while a program runs",
	  "sudo sysctl kernel.numa_balancing=0" },
	{ "thp", "always", 0, "huge pages are made behind the program's back: RSS and faults vary",
	  "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" },
	{ "invariant_tsc", "no", 0,
	  "no invariant time stamp counter: stamps come from clock_gettime, and cost more", "" },
	{ "perf_event_max_sample_rate", NULL, WANTED_HZ,
	  "the kernel has lowered the highest rate of samples",
	  "sudo sysctl kernel.perf_event_max_sample_rate=100000" },
};

static int look_at_fact(void *user, const char *key, const char *value)
{
	const struct doctor *doctor = user;
	int err = 0;

	for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]) && err == 0; i++) {
		const struct noise *noise = &noises[i];

		if (strcmp(key, noise->key) != 0)
			continue;
		if (noise->value ? strcmp(value, noise->value) == 0 : atol(value) < noise->least)
			err = say(doctor, DOCTOR_NOTE, key, noise->text, noise->fix);
	}
	return err;
}

static int look_at_host(struct doctor *doctor)
{
	double load;
	int n = 1, err = run_facts(look_at_fact, doctor);
	char text[96];

	if (err == 0 && getloadavg(&load, 1) == 1) {
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
		snprintf(text, sizeof(text), "the load is %.1f on %d CPUs: others run beside you",
			 load, n);
		if (load > 0.5 * n)
			err = say(doctor, DOCTOR_NOTE, "load", text, "");
	}
	return err;
}

static int look_at_cluster(struct doctor *doctor)
{
	char path[PATH_MAX];

	if (run_command_find("sbatch", path) < 0)
		return 0;
	return say(doctor, DOCTOR_FINE, "Slurm", path, "");
}

int doctor_look(doctor_sink sink, void *user)
{
	static int (*const looks[])(struct doctor *) = {
		look_at_library,   look_at_folder,  look_at_limits, look_at_samples,
		look_at_catalogue, look_at_symbols, look_at_heap,   look_at_nodes,
		look_at_reading,   look_at_cluster, look_at_host,
	};
	struct doctor doctor = { .sink = sink, .user = user };
	int err = 0;

	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]) && err == 0; i++)
		err = looks[i](&doctor);
	return err;
}
