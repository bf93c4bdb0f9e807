#include "mini-collector.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "schemas/recording.h"
#include "tracealloc/arch/arch.h"

#define N_PROCESSES 2048u
#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			give_up(#condition);                                                       \
	} while (0)

/* Benchmarks use this file too, so not Check's assertions: an abort fails a test as well. */
static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "mini-collector: %s: %s\n", what, strerror(errno));
	abort();
}

struct collector {
	const struct mini_options *options;
	struct mini_run *run;
	struct ring_control *control;
	uint32_t n_chunks;
	_Atomic bool is_done;
	int pool_fd;
	int socket;
	int output;
	char folder[64];
	char path[96];
	uint64_t ticks_per_ms;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t measure_ticks_per_ms(void)
{
	uint64_t ns = now_ns();
	uint64_t ticks = ta_tsc_begin();

	while (now_ns() - ns < 5000000)
		;
	return (ta_tsc_begin() - ticks) / 5;
}

static void make_pool(struct collector *c)
{
	const struct mini_options *options = c->options;
	uint32_t control_bytes;
	size_t bytes;

	c->n_chunks = options->n_chunks ? options->n_chunks : 64;
	control_bytes = (uint32_t)ring_control_bytes(N_PROCESSES, c->n_chunks);
	bytes = control_bytes + (size_t)c->n_chunks * RING_CHUNK_BYTES;
	c->pool_fd = memfd_create("pool", MFD_CLOEXEC);
	must(c->pool_fd >= 0 && ftruncate(c->pool_fd, (off_t)bytes) == 0);
	c->control = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->pool_fd, 0);
	must(c->control != MAP_FAILED);
	*c->control = (struct ring_control){
		.magic = RING_MAGIC,
		.version = RING_VERSION,
		.control_bytes = control_bytes,
		.n_chunks = c->n_chunks,
		.n_shared = c->n_chunks,
		.n_processes = N_PROCESSES,
		.events = options->events ? options->events : RING_EVENTS_HEAP | RING_EVENTS_MMAP,
		.flags = options->flags,
		.stacks = options->stacks,
		.clock = RING_CLOCK_TICKS,
		.max_frames = options->max_frames ? options->max_frames : RING_MAX_FRAMES,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.min_bytes = options->min_bytes,
		.ticks_per_ms = measure_ticks_per_ms(),
	};
	c->run->pool = c->control;
	c->run->pool_bytes = bytes;
}

static void listen_at(struct collector *c)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(address);

	strcpy(c->folder, "/tmp/mini-XXXXXX");
	must(mkdtemp(c->folder) && chmod(c->folder, 0755) == 0);
	snprintf(c->path, sizeof(c->path), "%s/socket", c->folder);
	strcpy(address.sun_path + (c->options->is_abstract ? 1 : 0), c->path);
	if (c->options->is_abstract)
		length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->path));
	c->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(c->socket >= 0 && bind(c->socket, (struct sockaddr *)&address, length) == 0);
	if (!c->options->is_abstract)
		must(chmod(c->path, 0777) == 0);
	must(listen(c->socket, 128) == 0);
}

static void set_environment(const struct collector *c)
{
	char preload[1024];

	if (c->options->no_preload)
		return;
	snprintf(preload, sizeof(preload), "%s%s%s",
		 c->options->library ? c->options->library : LIBTRACEALLOC,
		 c->options->preload ? ":" : "", c->options->preload ? c->options->preload : "");
	setenv("LD_PRELOAD", preload, 1);
	if (!c->options->is_inert)
		setenv(RECORDING_ENV_SOCKET, c->path, 1);
}

static void become(uid_t uid)
{
	if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
		_exit(125);
}

/*
 * Programs for another processor: MEMSIGHT_EMULATOR has the words that come before theirs. What is
 * to be preloaded goes to the program, not to the emulator.
 */
static void exec_emulated(const char *const argv[])
{
	const char *words = getenv("MEMSIGHT_EMULATOR");
	const char *preload = getenv("LD_PRELOAD");
	static char copy[4096], setting[2048];
	char *all[64], *rest = copy;
	size_t n = 0;

	if (!words)
		return;
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word; n < 16 && (word = strtok_r(rest, " ", &rest));)
		all[n++] = word;
	if (preload) {
		snprintf(setting, sizeof(setting), "LD_PRELOAD=%s", preload);
		all[n++] = (char *)"-E";
		all[n++] = setting;
		unsetenv("LD_PRELOAD");
	}
	for (; n < 63 && *argv; argv++)
		all[n++] = (char *)*argv;
	all[n] = NULL;
	execvp(all[0], all);
}

static pid_t start(struct collector *c, const char *const argv[])
{
	pid_t pid = fork();

	must(pid >= 0);
	if (pid > 0)
		return pid;
	if (dup2(c->output, STDOUT_FILENO) < 0)
		_exit(125);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	become(c->options->uid);
	if (c->options->address_space)
		setrlimit(RLIMIT_AS,
			  &(struct rlimit){ c->options->address_space, c->options->address_space });
	if (c->options->set)
		putenv((char *)c->options->set);
	set_environment(c);
	exec_emulated(argv);
	execv(argv[0], (char **)argv);
	_exit(126);
}

/* Read a file of /proc while the program waits; returns its length. */
static size_t read_proc(pid_t pid, const char *name, char *text, size_t n_bytes)
{
	char path[64];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "r");
	must(file);
	n = fread(text, 1, n_bytes - 1, file);
	fclose(file);
	text[n] = '\0';
	return n;
}

static bool tells_command(pid_t pid, const char *told, size_t n_bytes)
{
	char text[4096];
	size_t n = read_proc(pid, "cmdline", text, sizeof(text));

	return n > 0 && n == n_bytes && memcmp(text, told, n) == 0;
}

/* Only lines of files: our library maps memory meanwhile. */
static size_t keep_files(char *text)
{
	size_t n = 0;

	for (char *line = text, *next; *line; line = next) {
		next = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
		if (!memchr(line, '/', (size_t)(next - line)))
			continue;
		memmove(text + n, line, (size_t)(next - line));
		n += (size_t)(next - line);
	}
	return n;
}

static bool tells_maps(pid_t pid, const char *told, size_t n_bytes)
{
	static char ours[RECORDING_TEXT_BYTES + 1], theirs[RECORDING_TEXT_BYTES + 1];
	size_t n;

	memcpy(theirs, told, n_bytes);
	theirs[n_bytes] = '\0';
	read_proc(pid, "maps", ours, sizeof(ours));
	n = keep_files(ours);
	return n > 0 && keep_files(theirs) == n && memcmp(ours, theirs, n) == 0;
}

static void look_at(struct collector *c, const struct recording_greeting *greeting, int fd)
{
	const struct recording_hello *hello = &greeting->hello;
	struct ucred peer;
	socklen_t n_bytes = sizeof(peer);

	must(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0);
	c->run->n_told +=
		tells_command(peer.pid, greeting->text, hello->command_bytes) &&
		tells_maps(peer.pid, greeting->text + hello->command_bytes, hello->maps_bytes);
}

/* Claim a slot for an image that says hello, and answer it. */
static void welcome(struct collector *c, int fd)
{
	static struct recording_greeting greeting;
	struct recording_welcome answer = { .magic = RECORDING_MAGIC };
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec part = { &answer, sizeof(answer) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	uint32_t slot = 0;

	must(poll(&poll_fd, 1, 1000) == 1 &&
	     recv(fd, &greeting, sizeof(greeting), 0) >= (ssize_t)sizeof(greeting.hello));
	must(greeting.hello.magic == RECORDING_MAGIC && greeting.hello.version == RING_VERSION);
	look_at(c, &greeting, fd);
	answer.verdict = c->options->verdict;
	if (answer.verdict == RECORDING_ACCEPTED) {
		struct ring_process *processes = ring_processes(c->control);
		uint32_t expected = RING_PROCESS_FREE;

		while (!atomic_compare_exchange_strong(&processes[slot].state, &expected,
						       RING_PROCESS_CLAIMED)) {
			expected = RING_PROCESS_FREE;
			slot++;
		}
		if (atomic_load(&c->control->processes_used) <= slot)
			atomic_store(&c->control->processes_used, slot + 1);
		processes[slot].generation = 7;
		answer.pool_bytes = c->run->pool_bytes;
		answer.slot = slot;
		answer.generation = 7;
		memcpy(CMSG_DATA(&control.head), &c->pool_fd, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_LEN(sizeof(int));
	}
	must(sendmsg(fd, &message, MSG_NOSIGNAL) == sizeof(answer));
	close(fd);
}

static void accept_all(struct collector *c)
{
	int fd;

	while ((fd = accept4(c->socket, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		usleep(c->options->answer_after_ms * 1000);
		if (!c->options->is_mute)
			welcome(c, fd);
	}
}

/* Keep a copy of a chunk and give it back to the programs. */
static void take_chunk(struct collector *c, uint32_t i)
{
	_Atomic uint32_t *states = ring_chunk_states(c->control);
	uint8_t *chunks = (uint8_t *)c->control + c->control->control_bytes;
	struct ring_chunk *chunk = (struct ring_chunk *)(chunks + (size_t)i * RING_CHUNK_BYTES);
	size_t used = chunk->reserved > RING_CHUNK_BYTES ? RING_CHUNK_BYTES : chunk->reserved;

	/* used = 0: the program ended between taking the chunk and filling its header. */
	if (used && !c->options->is_discarding) {
		struct ring_chunk *copy = malloc(used + 64);

		must(copy);
		memcpy(copy, chunk, used < 64 ? 64 : used);
		c->run->chunks =
			reallocarray(c->run->chunks, c->run->n_chunks_seen + 1, sizeof(copy));
		must(c->run->chunks);
		c->run->chunks[c->run->n_chunks_seen++] = copy;
	}
	memset(chunk, 0, used < 64 ? 64 : used);
	atomic_store(&states[i], RING_CHUNK_FREE);
	atomic_fetch_add(&c->control->chunks_freed, 1);
	if (atomic_load(&c->control->n_waiters))
		syscall(SYS_futex, &c->control->chunks_freed, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

static void drain(struct collector *c, bool is_end)
{
	_Atomic uint32_t *states = ring_chunk_states(c->control);
	size_t n_owned = 0;

	for (uint32_t i = 0; i < c->n_chunks; i++) {
		uint32_t state = atomic_load(&states[i]);

		n_owned += state != RING_CHUNK_FREE;
		if (state == RING_CHUNK_FULL || (is_end && state == RING_CHUNK_OWNED))
			take_chunk(c, i);
	}
	if (n_owned > c->run->max_chunks_owned)
		c->run->max_chunks_owned = n_owned;
	atomic_fetch_add(&c->control->heartbeat, 1);
}

/* Is there still a process that records? Zombies of ours are reaped first. */
static bool is_alive(struct collector *c, pid_t child)
{
	struct ring_process *processes = ring_processes(c->control);
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == child)
			c->run->status = status;
	if (kill(child, 0) == 0)
		return true;
	for (uint32_t i = 0; i < atomic_load(&c->control->processes_used); i++)
		if (atomic_load(&processes[i].state) == RING_PROCESS_READY &&
		    kill((pid_t)processes[i].pid, 0) == 0)
			return true;
	return false;
}

/* Beats as long as the collector collects. */
static void *beat(void *pointer)
{
	struct collector *c = pointer;

	while (!atomic_load(&c->is_done)) {
		atomic_fetch_add(&c->control->pulse, 1);
		usleep(500);
	}
	return NULL;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void collect(struct collector *c, pid_t child)
{
	uint64_t begin_ms = now_ms();
	pthread_t thread;
	bool alive = true;

	if (c->options->late_ms && pthread_create(&thread, NULL, beat, c))
		abort();
	while (alive) {
		struct pollfd poll_fd = { .fd = c->socket, .events = POLLIN };

		poll(&poll_fd, 1, 1);
		alive = is_alive(c, child);
		accept_all(c);
		if (!c->options->is_stopped && now_ms() - begin_ms >= c->options->late_ms)
			drain(c, false);
	}
	drain(c, true);
	atomic_store(&c->is_done, true);
	if (c->options->late_ms)
		pthread_join(thread, NULL);
}

static int compare_chunks(const void *left, const void *right)
{
	const struct ring_chunk *a = *(struct ring_chunk *const *)left;
	const struct ring_chunk *b = *(struct ring_chunk *const *)right;

	if (a->process_slot != b->process_slot)
		return a->process_slot < b->process_slot ? -1 : 1;
	if (a->thread_serial != b->thread_serial)
		return a->thread_serial < b->thread_serial ? -1 : 1;
	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static const uint8_t fixed_slots[TRACE_OP_COUNT] = {
	[TRACE_OP_ALLOC] = 1,	     [TRACE_OP_FREE] = 1,	 [TRACE_OP_REALLOC] = 2,
	[TRACE_OP_MMAP] = 2,	     [TRACE_OP_MUNMAP] = 1,	 [TRACE_OP_MREMAP] = 2,
	[TRACE_OP_BREAK] = 2,	     [TRACE_OP_ADVISE] = 2,	 [TRACE_OP_PROTECT] = 2,
	[TRACE_OP_LOCK] = 2,	     [TRACE_OP_THREAD_NAME] = 2, [TRACE_OP_NODE] = 1,
	[TRACE_OP_THREAD_START] = 3, [TRACE_OP_THREAD_END] = 1,	 [TRACE_OP_PAUSE] = 2,
	[TRACE_OP_RESUME] = 2,	     [TRACE_OP_NOTE] = 2,
};

/* Notes of functions, and of ends of blocks and pools. */
static bool is_short_note(uint64_t head)
{
	uint8_t call = RING_HEAD_CALL(head) & 0x3f;

	return RING_HEAD_OP(head) == TRACE_OP_NOTE &&
	       (call == TRACE_CALL_FUNCTION_ENTER || call == TRACE_CALL_FUNCTION_LEAVE ||
		call == TRACE_CALL_FUNCTION_THUNK || call == TRACE_CALL_BLOCK_END ||
		call == TRACE_CALL_POOL_RESET);
}

static bool is_own_time(uint64_t head)
{
	return RING_HEAD_OP(head) == TRACE_OP_NOTE && RING_HEAD_SLOTS(head) &&
	       (RING_HEAD_CALL(head) & 0x3f) == TRACE_CALL_OWN_TIME;
}

static void copy_path(struct mini_event *event, const void *bytes, size_t length)
{
	event->path = strndup(bytes, length);
	must(event->path);
}

static void take_variable(struct mini_event *event, const void *record)
{
	const struct ring_module *module = record;
	const struct ring_exec *exec = record;
	const struct ring_text *text = record;

	if (event->op == TRACE_OP_MODULE || event->op == TRACE_OP_MODULE_UNLOAD) {
		event->module = module;
		event->address = module->start;
		event->size = module->end;
		copy_path(event, module->bytes + module->build_id_bytes, module->path_bytes);
	} else if (event->op == TRACE_OP_EXEC) {
		event->is_spawn = exec->is_spawn;
		copy_path(event, exec->bytes, exec->path_bytes);
	} else if (event->op == TRACE_OP_TEXT) {
		event->detail = text->id;
		copy_path(event, text->bytes, text->text_bytes);
	} else if (event->op == TRACE_OP_THREAD_START) {
		event->start = record;
	} else if (event->op == TRACE_OP_THREAD_NAME) {
		event->name = record;
	}
}

static void take_record(struct mini_run *run, const struct ring_chunk *chunk, const void *at,
			uint64_t head)
{
	const struct ring_record2 *record = at;
	const struct ring_node *node = at;
	struct mini_event *event;

	if ((run->n_events & (run->n_events + 1)) == 0)
		run->events = reallocarray(run->events, 2 * (run->n_events + 1), sizeof(*event));
	must(run->events);
	event = &run->events[run->n_events++];
	*event = (struct mini_event){
		.slot = chunk->process_slot,
		.thread = chunk->thread_serial,
		.op = RING_HEAD_OP(head),
		.call = RING_HEAD_CALL(head) & 0x3f,
		.flags = RING_HEAD_CALL(head) >> 6,
		.stack_id = RING_HEAD_STACK_ID(head),
		.ticks = record->base.ticks,
		.address = record->base.address,
		.size = record->base.size,
		.path = "",
	};
	if (RING_HEAD_OP(head) < TRACE_OP_COUNT && fixed_slots[RING_HEAD_OP(head)] == 2) {
		event->old_address = record->old_address;
		event->begin_ticks = record->begin_ticks;
		event->old_size = record->old_size;
		event->detail = record->detail;
	}
	if (event->op == TRACE_OP_NODE) {
		event->address = node->pc;
		event->size = node->parent_id;
	}
	take_variable(event, at);
}

static void parse_chunk(struct mini_run *run, const struct ring_chunk *chunk)
{
	uint64_t end = chunk->reserved;
	uint64_t offset = offsetof(struct ring_chunk, records);

	run->n_bad += end > RING_CHUNK_BYTES ||
		      chunk->process_generation !=
			      7 * (run->processes[chunk->process_slot].birth == RING_BIRTH_EXEC);
	while (offset < end && offset < RING_CHUNK_BYTES) {
		const uint8_t *at = (const uint8_t *)chunk + offset;
		uint64_t head = ((const struct ring_record *)at)->head;
		uint64_t bytes = RING_HEAD_SLOTS(head) * RING_RECORD_BYTES;

		if (head == 0) {
			run->n_uncommitted++;
			return;
		}
		/* Nothing of the program's, and of either size. */
		if (is_own_time(head)) {
			offset += bytes;
			continue;
		}
		if (bytes == 0 || offset + bytes > end || RING_HEAD_OP(head) >= TRACE_OP_COUNT ||
		    (fixed_slots[RING_HEAD_OP(head)] &&
		     fixed_slots[RING_HEAD_OP(head)] - is_short_note(head) !=
			     RING_HEAD_SLOTS(head))) {
			run->n_bad++;
			return;
		}
		if (RING_HEAD_OP(head) != TRACE_OP_PAD)
			take_record(run, chunk, at, head);
		offset += bytes;
	}
}

static void index_nodes(struct mini_run *run);

static void parse(struct mini_run *run)
{
	if (run->n_chunks_seen)
		qsort(run->chunks, run->n_chunks_seen, sizeof(*run->chunks), compare_chunks);
	for (size_t i = 0; i < run->n_chunks_seen; i++) {
		const struct ring_chunk *chunk = run->chunks[i];
		bool is_first = i == 0 || run->chunks[i - 1]->process_slot != chunk->process_slot ||
				run->chunks[i - 1]->thread_serial != chunk->thread_serial;

		run->n_bad += chunk->sequence != (is_first ? 0 : run->chunks[i - 1]->sequence + 1);
		parse_chunk(run, chunk);
	}
	index_nodes(run);
}

static void read_output(struct collector *c)
{
	off_t length = lseek(c->output, 0, SEEK_END);

	c->run->output = calloc(1, (size_t)length + 1);
	must(c->run->output && pread(c->output, c->run->output, (size_t)length, 0) == length);
	close(c->output);
}

void mini_run(const struct mini_options *options, const char *const argv[], struct mini_run *run)
{
	struct collector c = { .options = options, .run = run };
	uint64_t begin;
	pid_t child;

	*run = (struct mini_run){ .status = -1 };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	make_pool(&c);
	listen_at(&c);
	c.output = memfd_create("output", MFD_CLOEXEC);
	begin = now_ns();
	child = start(&c, argv);
	collect(&c, child);
	run->wall_ns = now_ns() - begin;
	run->processes = ring_processes(c.control);
	run->n_processes = atomic_load(&c.control->processes_used);
	read_output(&c);
	parse(run);
	close(c.socket);
	close(c.pool_fd);
	unlink(c.path);
	rmdir(c.folder);
}

void mini_finish(struct mini_run *run)
{
	for (size_t i = 0; i < run->n_chunks_seen; i++)
		free(run->chunks[i]);
	free(run->chunks);
	for (size_t i = 0; i < run->n_events; i++)
		if (*run->events[i].path)
			free((char *)run->events[i].path);
	free(run->events);
	free(run->node_index);
	free(run->output);
	munmap(run->pool, run->pool_bytes);
}

size_t mini_count(const struct mini_run *run, uint32_t slot, enum trace_op op, enum trace_call call)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n_events; i++) {
		const struct mini_event *event = &run->events[i];

		n += (slot == UINT32_MAX || event->slot == slot) && event->op == op &&
		     (!call || event->call == call);
	}
	return n;
}

const struct mini_event *mini_find(const struct mini_run *run, enum trace_op op, uint64_t size,
				   size_t i)
{
	for (size_t j = 0; j < run->n_events; j++)
		if (run->events[j].op == op && run->events[j].size == size && i-- == 0)
			return &run->events[j];
	return NULL;
}

static size_t hash_node(const struct mini_run *run, uint32_t slot, uint32_t thread, uint64_t id)
{
	uint64_t key = id + ((uint64_t)thread << 20) + ((uint64_t)slot << 44);

	return (key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (run->node_index_size - 1);
}

static void index_nodes(struct mini_run *run)
{
	run->node_index_size = 1024;
	while (run->node_index_size < 2 * run->n_events)
		run->node_index_size *= 2;
	run->node_index = calloc(run->node_index_size, sizeof(*run->node_index));
	must(run->node_index);
	for (size_t i = 0; i < run->n_events; i++) {
		const struct mini_event *event = &run->events[i];
		size_t at = hash_node(run, event->slot, event->thread, event->stack_id);

		if (event->op != TRACE_OP_NODE)
			continue;
		while (run->node_index[at])
			at = (at + 1) & (run->node_index_size - 1);
		run->node_index[at] = (uint32_t)i + 1;
	}
}

/* The node with this id of the event's chain, defined before the event. */
static const struct mini_event *find_node(const struct mini_run *run,
					  const struct mini_event *event, uint64_t id)
{
	size_t at = hash_node(run, event->slot, event->thread, id);

	for (; run->node_index[at]; at = (at + 1) & (run->node_index_size - 1)) {
		const struct mini_event *node = &run->events[run->node_index[at] - 1];

		if (node < event && node->slot == event->slot && node->thread == event->thread &&
		    node->stack_id == id)
			return node;
	}
	give_up("a stack node is defined before its use");
}

size_t mini_stack(const struct mini_run *run, const struct mini_event *event, uint64_t *pcs,
		  size_t max)
{
	size_t n = 0;

	for (uint64_t id = event->stack_id; id && n < max;) {
		const struct mini_event *node = find_node(run, event, id);

		pcs[n++] = node->address;
		id = node->size;
	}
	return n;
}

uint64_t mini_value(const struct mini_run *run, const char *name)
{
	size_t length = strlen(name);
	const char *at = run->output;

	while ((at = strstr(at, name))) {
		if ((at == run->output || at[-1] == '\n') && at[length] == '=')
			return strtoull(at + length + 1, NULL, 0);
		at += length;
	}
	fprintf(stderr, "output: %s\n", run->output);
	give_up(name);
}
