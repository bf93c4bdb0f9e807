/*
 * Probes at returns are probes as all others: those that the kernel would put there by itself
 * (uretprobes) change the return address, and a C++ exception that comes by ends the program.
 *
 * What meeting one takes depends on its instruction: the kernel does what some of them do itself,
 * and lets the program step over the others, which is a trap more (6.18 in Firecracker: 0.7 us and
 * 15 us). So it is measured for each kind, and told with each probe.
 */
#include "pmu/uprobes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"
#include "perf/record.h"
#include "pmu/stream.h"
#include "schemas/functions-plan.h"
#include "schemas/trace-perf.h"

#define RING_BYTES	   (4u << 20) /* of 80 bytes a record, 400,000 a second: 130 ms */
#define MEASURE_PAGES_LOG2 5u
#define N_CALLS		   64u /* of each kind that are measured */
#define GROUP_PREFIX	   "memsight_" /* then the pid of the recorder */
#define GROUP_BYTES	   64
#define LIST_MAX_BYTES	   (64u << 20)

struct uprobes_stream {
	struct event_stream events;
	int tracefs;
	char group[GROUP_BYTES];
};

/* Of instructions, by what the kernel does with them. */
enum kind { KIND_PUSH, KIND_ENDBR, KIND_OTHER, KIND_JUMP, KIND_RETURN, KIND_COUNT };

/* ---- tracefs ---- */

/* fsopen(2) and its kin: linux/mount.h, numbers that are alike on all machines. */
#define FSCONFIG_CREATE 6

/* Where nobody has mounted it, a mount of our own that is nowhere to be seen. */
static int mount_tracefs(void)
{
	auto_close int fs = (int)syscall(SYS_fsopen, "tracefs", 1 /* FSOPEN_CLOEXEC */);

	if (fs < 0)
		return -errno;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int fd = (int)syscall(SYS_fsmount, fs, 1 /* FSMOUNT_CLOEXEC */, 0);
	return fd < 0 ? -errno : fd;
}

static int open_tracefs(int *ret_fd)
{
	static const char *const paths[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	int refused = 0, r;

	for (size_t i = 0; i < COUNT_OF(paths); i++) {
		auto_close int fd = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || faccessat(fd, "uprobe_events", F_OK, 0) < 0)
			continue;
		if (faccessat(fd, "uprobe_events", W_OK, AT_EACCESS) == 0) {
			*ret_fd = steal_fd(&fd);
			return 0;
		}
		refused = -errno;
	}
	r = refused ? refused : mount_tracefs();
	if (r < 0)
		return r;
	auto_close int fd = r;
	if (faccessat(fd, "uprobe_events", W_OK, AT_EACCESS) < 0)
		return -errno;
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int refuse(int error, struct pmu_refusal *ret_refusal)
{
	if (error == -EACCES || error == -EPERM)
		return pmu_refuse(ret_refusal, error,
				  "uprobes are for root\nrun memsight by sudo, or leave "
				  "--function-method uprobe out: jumps need no rights");
	if (error == -EOPNOTSUPP)
		return pmu_refuse(ret_refusal, error,
				  "returns are found in code of x86-64 alone\nleave "
				  "--function-method uprobe out");
	if (error == -ENOENT || error == -ENODEV || error == -ENOSYS)
		return pmu_refuse(ret_refusal, error,
				  "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)\nleave "
				  "--function-method uprobe out: jumps need none");
	return pmu_refuse(ret_refusal, error, "uprobes cannot be made: %s\nLinux 5.5 is needed",
			  strerrordesc_np(-error));
}

/* One line at a time: what is wrong in one says nothing of the others. */
static int tell(int events_fd, const char *line)
{
	ssize_t n = write(events_fd, line, strlen(line));

	return n < 0 ? -errno : 0;
}

/* Intel SDM volume 2: PUSH r64, ENDBR64, JMP rel8 and rel32, RET with its prefixes. */
static enum kind kind_of(int file_fd, uint64_t offset)
{
	uint8_t bytes[4] = { 0 };

	if (io_read_at(file_fd, bytes, sizeof(bytes), offset) <= 0)
		return KIND_OTHER;
	if (memcmp(bytes, "\xf3\x0f\x1e\xfa", sizeof(bytes)) == 0)
		return KIND_ENDBR;
	unsigned first =
		bytes[0] == 0x41 || bytes[0] == 0xf2 || bytes[0] == 0xf3 ? bytes[1] : bytes[0];
	if (first >= 0x50 && first <= 0x57)
		return KIND_PUSH;
	if (first == 0xe9 || first == 0xeb)
		return KIND_JUMP;
	return first == 0xc2 || first == 0xc3 ? KIND_RETURN : KIND_OTHER;
}

/* /proc/self/fd leads to the file, whatever its name is, and wherever that lies. */
static int add_probe(int events_fd, const char *group, int file_fd, const struct plan_uprobe *probe,
		     const uint32_t *costs_ns)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "p:%s/call /proc/self/fd/%d:0x%" PRIx64 " f=\\0x%" PRIx64
		 ":u64 sp=%%sp:u64 k=\\%" PRIu32 ":u32\n",
		 group, file_fd, probe->offset, probe->name_id,
		 probe->what | costs_ns[kind_of(file_fd, probe->offset)] << 2);
	return tell(events_fd, line);
}

struct probes {
	const struct plan_uprobe *items;
	size_t n;
	const uint32_t *costs_ns; /* by kind */
};

static int add_probes(int tracefs, const char *group, const struct probes *probes)
{
	auto_close int events = openat(tracefs, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	const struct plan_uprobe *last = NULL;
	int file = -1, r = events < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < probes->n; i++) {
		const struct plan_uprobe *probe = &probes->items[i];

		if (!last || strcmp(probe->path, last->path) != 0) {
			if (file >= 0)
				close(file);
			file = open(probe->path, O_RDONLY | O_CLOEXEC);
		}
		last = probe;
		r = file < 0 ? -errno : add_probe(events, group, file, probe, probes->costs_ns);
	}
	if (file >= 0)
		close(file);
	return r;
}

static void remove_group(int tracefs, const char *group)
{
	auto_close int events = openat(tracefs, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);
	char line[GROUP_BYTES + 16];

	snprintf(line, sizeof(line), "-:%s/call\n", group);
	if (events >= 0)
		tell(events, line);
}

/* The number of the event that all probes of a group are. */
static int id_of(int tracefs, const char *group, uint64_t *ret_id)
{
	char path[GROUP_BYTES + 32], text[32] = "";

	snprintf(path, sizeof(path), "events/%s/call/id", group);
	auto_close int fd = openat(tracefs, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || io_read_full(fd, text, sizeof(text) - 1) <= 0)
		return -ENOENT;
	*ret_id = strtoull(text, NULL, 10);
	return 0;
}

/* Those of recorders that were killed. What is in use the kernel does not remove. */
static void remove_old(int tracefs)
{
	char path[32], group[GROUP_BYTES], last[GROUP_BYTES] = "";
	auto_close int fd = openat(tracefs, "uprobe_events", O_RDONLY | O_CLOEXEC);
	auto_free char *text = NULL;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || io_read_file(path, LIST_MAX_BYTES, &text, NULL) < 0)
		return;
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "p:%63[^/]", group) != 1 || strcmp(group, last) == 0 ||
		    sscanf(group, GROUP_PREFIX "%d", &pid) != 1)
			continue;
		strcpy(last, group);
		snprintf(path, sizeof(path), "/proc/%d", pid);
		if (access(path, F_OK) < 0)
			remove_group(tracefs, group);
	}
}

static void name_group(char group[GROUP_BYTES])
{
	snprintf(group, GROUP_BYTES, GROUP_PREFIX "%d_%" PRIx64, (int)getpid(), clock_raw_ns());
}

static void configure(const struct access_options *options, struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_TRACEPOINT;
	attr->config = options->tracepoint;
	attr->sample_period = 1;
	/*
	 * READ is for its side effect: events of parent and child are not exchanged when the kernel
	 * switches from one to the other. Exchanged ones end with the wrong process, and take the
	 * probes of the other along.
	 */
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW |
			    PERF_SAMPLE_READ;
}

/* ---- What a probe takes ---- */

/* Functions that begin by each kind of instruction, and end by a return, or by a jump to one. */
static const struct {
	enum kind first;
	enum kind last;
} own_functions[] = {
	{ KIND_PUSH, KIND_RETURN },
	{ KIND_ENDBR, KIND_RETURN },
	{ KIND_OTHER, KIND_RETURN },
	{ KIND_PUSH, KIND_JUMP },
};
#define N_OWN COUNT_OF(own_functions)

/* Each has 16 bytes, and the instruction that it ends by at the 8th. */
#define OWN_BYTES 16u
#define OWN_LAST  8u
#if defined(__x86_64__)
#define HAS_OWN_CODE true
#else
#define HAS_OWN_CODE false
#endif
extern const char pmu_probed[] __attribute__((visibility("hidden")));
__asm__(".text\n"
	".p2align 4\n"
	".hidden pmu_probed\n"
	".globl pmu_probed\n"
	"pmu_probed:\n"
#if defined(__x86_64__)
	"	push %rbp\n"
	"	pop %rbp\n"
	"	.skip 6, 0x90\n"
	"	ret\n"
	"	.p2align 4\n"
	"	.byte 0xf3, 0x0f, 0x1e, 0xfa\n"
	"	.skip 4, 0x90\n"
	"	ret\n"
	"	.p2align 4\n"
	"	mov %eax, %eax\n"
	"	.skip 6, 0x90\n"
	"	ret\n"
	"	.p2align 4\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	.skip 6, 0x90\n"
	"	jmp 1f\n"
	"	nop\n"
	"1:	ret\n"
#endif
	"	.p2align 4\n");

struct own_code {
	uint64_t address;
	uint64_t offset; /* 0: not found */
	char path[PATH_MAX];
};

static int find_own(struct dl_phdr_info *info, size_t size, void *user)
{
	struct own_code *own = user;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *head = &info->dlpi_phdr[i];
		uint64_t at = own->address - info->dlpi_addr - head->p_vaddr;

		if (head->p_type != PT_LOAD || at >= head->p_filesz)
			continue;
		own->offset = at + head->p_offset;
		snprintf(own->path, sizeof(own->path), "%s",
			 info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe");
		return 1;
	}
	return 0;
}

struct measured {
	struct pmu_format format;
	struct {
		uint64_t id; /* number of the function */
		uint32_t what;
		uint64_t ns;
	} last;
	uint64_t ns[KIND_COUNT][N_CALLS];
	size_t n[KIND_COUNT];
};

/* From the stamp of a probe to that of the next one it takes what it takes. */
static void take_stamp(struct measured *measured, const struct trace_probed *probed, uint64_t ns)
{
	bool is_next = measured->last.ns && measured->last.id == probed->name_id &&
		       measured->last.what != probed->what && probed->name_id < N_OWN;
	enum kind kind = !is_next			      ? KIND_COUNT
			 : probed->what == TRACE_PROBED_LEAVE ? own_functions[probed->name_id].first
							      : own_functions[probed->name_id].last;

	if (is_next && measured->n[kind] < N_CALLS)
		measured->ns[kind][measured->n[kind]++] = ns - measured->last.ns;
	measured->last.id = probed->name_id;
	measured->last.what = probed->what;
	measured->last.ns = ns;
}

static int take_call(void *user, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct measured *measured = user;
	struct pmu_record record;
	struct trace_probed probed = { 0 };
	int n;

	(void)n_samples;
	for (const uint8_t *at = records;
	     (n = pmu_record_parse(&measured->format, at, n_bytes, &record)) > 0;
	     at += n, n_bytes -= (size_t)n) {
		if (record.type != PERF_RECORD_SAMPLE ||
		    record.sample.raw_bytes < TRACE_PROBED_BYTES)
			continue;
		memcpy(&probed, record.sample.raw, TRACE_PROBED_BYTES);
		take_stamp(measured, &probed, record.origin.time_ns);
	}
	return 0;
}

DEFINE_ORDER(compare_ns, uint64_t, ORDER(*a, *b));

static uint32_t middle(uint64_t *ns, size_t n)
{
	if (n > 0)
		qsort(ns, n, sizeof(*ns), compare_ns);
	return n && ns[n / 2] <= TRACE_PROBED_NS_MAX ? (uint32_t)ns[n / 2] : 0;
}

/* Calls of a function of our own. The event is for this thread alone. */
static int call_probed(uint64_t tracepoint, struct measured *measured)
{
	const struct access_options options = { .tracepoint = tracepoint };
	struct perf_event_attr attr = { 0 };
	struct pmu_losses losses = { 0 };
	struct pmu_ring ring = { 0 };
	auto_close int fd = -1;

	configure(&options, &attr);
	pmu_event_fill_common(&attr);
	attr.inherit = 0;
	measured->format = (struct pmu_format){ .sample_type = attr.sample_type,
						.read_format = attr.read_format };
	int r = pmu_event_open(&attr, 0, -1, &fd);
	r = r ?: pmu_ring_init(&ring, fd, MEASURE_PAGES_LOG2);
	if (r < 0)
		return r;
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (unsigned i = 0; i < N_OWN * N_CALLS; i++)
		((void (*)(void))(pmu_probed + i / N_CALLS * OWN_BYTES))();
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	pmu_ring_drain(&ring, take_call, measured, &losses);
	pmu_ring_finish(&ring);
	return 0;
}

/* Make and meet probes of our own: what each kind takes. Returns 0 or a negative errno. */
static int measure(int tracefs, uint32_t costs_ns[KIND_COUNT])
{
	auto_free struct measured *measured = calloc(1, sizeof(*measured));
	struct own_code own = { .address = (uintptr_t)pmu_probed };
	const uint32_t nothing[KIND_COUNT] = { 0 };
	struct plan_uprobe probes[2 * N_OWN];
	char group[GROUP_BYTES];
	uint64_t id = 0;

	if (!measured)
		return -ENOMEM;
	if (!HAS_OWN_CODE)
		return -EOPNOTSUPP;
	if (!dl_iterate_phdr(find_own, &own))
		return -ENOENT;
	for (unsigned i = 0; i < N_OWN; i++) {
		uint64_t offset = own.offset + (uint64_t)i * OWN_BYTES;

		probes[2 * i] = (struct plan_uprobe){ own.path, offset, i, TRACE_PROBED_ENTER };
		probes[2 * i + 1] =
			(struct plan_uprobe){ own.path, offset + OWN_LAST, i, TRACE_PROBED_LEAVE };
	}
	name_group(group);
	int r = add_probes(tracefs, group, &(struct probes){ probes, 2 * N_OWN, nothing });
	r = r ?: id_of(tracefs, group, &id) ?: call_probed(id, measured);
	remove_group(tracefs, group);
	for (unsigned kind = 0; kind < KIND_COUNT; kind++)
		costs_ns[kind] = middle(measured->ns[kind], measured->n[kind]);
	return r;
}

int pmu_uprobes_check(struct pmu_refusal *ret_refusal)
{
	uint32_t costs_ns[KIND_COUNT];
	auto_close int tracefs = -1;
	int r = open_tracefs(&tracefs);

	if (r < 0)
		return refuse(r, ret_refusal);
	remove_old(tracefs);
	r = measure(tracefs, costs_ns);
	return r < 0 ? refuse(r, ret_refusal) : 0;
}

/* ---- The stream ---- */

static struct uprobes_stream *uprobes_stream(struct access_stream *stream)
{
	return (struct uprobes_stream *)stream; /* events.base is its first member */
}

static int probe(const struct access_source *source, const struct access_options *options,
		 struct pmu_refusal *ret_refusal)
{
	(void)source;
	(void)options;
	return pmu_uprobes_check(ret_refusal);
}

static int open_uprobes(const struct access_source *source, const struct access_options *options,
			struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	auto_free struct uprobes_stream *stream = calloc(1, sizeof(*stream));
	uint32_t costs_ns[KIND_COUNT];
	struct access_options own = *options;
	auto_close int tracefs = -1;
	int r = stream ? open_tracefs(&tracefs) : -ENOMEM;

	r = r ?: measure(tracefs, costs_ns);
	if (r < 0)
		return refuse(r, ret_refusal);
	stream->events.base.source = source;
	name_group(stream->group);
	r = add_probes(tracefs, stream->group,
		       &(struct probes){ options->uprobes, options->n_uprobes, costs_ns });
	r = r ?: id_of(tracefs, stream->group, &own.tracepoint);
	if (r < 0)
		refuse(r, ret_refusal);
	own.has_call_chain = false;
	r = r ?: pmu_event_stream_init(source, &own, &stream->events, ret_refusal);
	if (r < 0) {
		remove_group(tracefs, stream->group);
		return r;
	}
	stream->tracefs = steal_fd(&tracefs);
	*ret_stream = &((struct uprobes_stream *)steal_ptr(&stream))->events.base;
	return 0;
}

static void close_uprobes(struct access_stream *base)
{
	struct uprobes_stream *stream = uprobes_stream(base);

	pmu_event_set_close(&stream->events.set);
	remove_group(stream->tracefs, stream->group);
	close(stream->tracefs);
	free(stream);
}

const struct access_source pmu_source_uprobes = {
	.name = "uprobes",
	.unit = "entries and exits of functions",
	.about = "functions by probes of the kernel: each time that one is entered or left",
	.role = ACCESS_ROLE_CALLS,
	.kind = TRACE_SAMPLE_CALLS,
	.probe = probe,
	.open = open_uprobes,
	.enable = pmu_event_stream_enable,
	.read = pmu_event_stream_read,
	.losses = pmu_event_stream_losses,
	.describe = pmu_event_stream_describe,
	.detail = pmu_event_stream_detail,
	.notes = pmu_event_stream_notes,
	.fds = pmu_event_stream_fds,
	.close = close_uprobes,
	.configure = configure,
	.ring_bytes = RING_BYTES,
	.small_ring_bytes = RING_BYTES,
};
