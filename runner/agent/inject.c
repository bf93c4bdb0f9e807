#include "runner/agent/inject.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "runner/agent/agent-file.h"
#include "runner/agent/api-sites.h"
#include "runner/agent/slots.h"
#include "runner/agent/unwind-table.h"
#include "runner/processes/image-proc.h"
#include "schemas/recording.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define CALL_STOP	(SIGTRAP | 0x80) /* at the entry or exit of a system call */
#define STOP_EVENT(s)	((s) >> 16)
#define PAGE_BYTES	UINT64_C(4096)
#define WAIT_MS		1
#define STEP_BYTES	UINT64_C(0x10000) /* mmap_min_addr is a multiple of it, too */
#define REACH_BYTES	(UINT64_C(2000) << 20) /* of jmp rel32 are 2 GiB */
#define FAR_BYTES	(UINT64_C(1500) << 20) /* behind a program: room for its heap is left */
#define MAX_SLOTS	64u
#define MAX_AUXILIARY	64u
#define MAX_JUMPS	(2u * MAX_SLOTS)
#define VDSO_BYTES	8192u
#define MAX_STACK_WORDS (UINT64_C(1) << 20)

/* A program that stands at its first instruction. */
struct guest {
	pid_t pid;
	const struct inject_order *order;
	int memory_fd; /* /proc/PID/mem */
	struct user_regs_struct registers; /* as the kernel has left them */
	uint64_t call_at; /* an instruction `syscall' */
	uint64_t headers; /* AT_PHDR */
	uint64_t n_headers;
	uint64_t vdso;
	uint64_t bias;
	uint64_t start; /* of the program in memory */
	uint64_t end;
	char path[32]; /* of its file */
	struct agent_file file;
	struct allocator_entries entries;
	bool is_led[ENTRY_OTHERS];
	uint8_t *table; /* for unwinding */
	size_t table_bytes;
	uint64_t base; /* where the agent lies */
	uint64_t slots_at; /* behind it, offsets */
	uint64_t table_at;
	uint64_t n_bytes; /* of all */
	struct slot_jump jumps[MAX_JUMPS];
	size_t n_jumps;
	char *message;
};

static int fail(struct guest *guest, int err, const char *what)
{
	snprintf(guest->message, INJECT_MESSAGE_BYTES, "%s: %s", what, strerror(-err));
	return err;
}

/* ---- Stops ---- */

static int wait_stop(pid_t pid, int *ret_status)
{
	pid_t r;

	do {
		r = waitpid(pid, ret_status, __WALL);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return WIFSTOPPED(*ret_status) ? 0 : -ESRCH;
}

int inject_begin(struct inject *inject, pid_t tid)
{
	long options =
		PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD |
		(inject->is_spawn ? PTRACE_O_TRACEVFORK | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE
				  : 0);

	inject->pid = tid;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options) < 0)
		return -errno;
	inject->is_seized = true;
	return 0;
}

/* Has who asks said that there will be no exec? A spawn is over, too, when the connection ends. */
static bool is_off(const struct inject *inject)
{
	struct pollfd poll_fd = { .fd = inject->asks_fd, .events = POLLIN };
	char byte = 0;

	if (poll(&poll_fd, 1, WAIT_MS) <= 0)
		return false;
	ssize_t n = recv(inject->asks_fd, &byte, 1, MSG_DONTWAIT);
	if (n == 0 && !inject->is_spawn)
		usleep(WAIT_MS * 1000); /* it can be read for ever */
	return n == 1 ? byte == RECORDING_STATIC_FAILED : n == 0 && inject->is_spawn;
}

static void let_go(struct inject *inject)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, inject->pid, NULL, NULL) == 0 &&
	    wait_stop(inject->pid, &status) == 0)
		ptrace(PTRACE_DETACH, inject->pid, NULL,
		       (void *)(long)(STOP_EVENT(status) ? 0 : WSTOPSIG(status)));
	inject->is_seized = false;
}

/* The next stop of what is seized; it may have got another number by its exec. */
static int next_stop(struct inject *inject, pid_t *ret_pid, int *ret_status)
{
	for (;;) {
		*ret_pid = waitpid(-1, ret_status, __WALL | (inject->asks_fd >= 0 ? WNOHANG : 0));
		if (*ret_pid < 0 && errno != EINTR)
			return -errno;
		if (*ret_pid > 0 && WIFSTOPPED(*ret_status))
			return 0;
		if (*ret_pid == inject->pid)
			return -ESRCH;
		if (*ret_pid == 0 && is_off(inject)) {
			let_go(inject);
			return -ECANCELED;
		}
	}
}

/* Who has spawned goes on alone; its child is traced since it began. */
static void follow_child(struct inject *inject, pid_t parent)
{
	unsigned long child = 0;

	ptrace(PTRACE_GETEVENTMSG, parent, NULL, &child);
	ptrace(PTRACE_DETACH, parent, NULL, NULL);
	inject->pid = (pid_t)child;
	inject->is_spawn = false;
}

/* Signals that come first are the program's. */
static int wait_exec(struct inject *inject)
{
	pid_t pid;
	int status, r;

	while ((r = next_stop(inject, &pid, &status)) == 0) {
		int event = STOP_EVENT(status);
		bool is_frozen = event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
		long number = event ? 0 : WSTOPSIG(status);

		if (event == PTRACE_EVENT_EXEC) {
			inject->pid = pid;
			return 0;
		}
		if (event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_FORK ||
		    event == PTRACE_EVENT_CLONE) {
			follow_child(inject, pid);
			continue;
		}
		/* Stopped by a signal to stop it stays so until one lets it go on. */
		ptrace(is_frozen ? PTRACE_LISTEN : PTRACE_CONT, pid, NULL, (void *)number);
	}
	inject->is_seized = false;
	return r;
}

/* On to the next entry or exit of a system call; all signals are blocked. */
static int go_to_call(pid_t pid)
{
	int status, r;

	do {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0)
			return -errno;
		r = wait_stop(pid, &status);
	} while (r == 0 && WSTOPSIG(status) != CALL_STOP);
	return r;
}

/* Have the guest make a system call. */
static int call(struct guest *guest, long number, const uint64_t arguments[6], long *ret_result)
{
	struct user_regs_struct registers = guest->registers;

	registers.rip = guest->call_at;
	registers.rax = (uint64_t)number;
	registers.orig_rax = UINT64_MAX;
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r10 = arguments[3];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	if (ptrace(PTRACE_SETREGS, guest->pid, NULL, &registers) < 0)
		return -errno;
	int r = go_to_call(guest->pid) ?: go_to_call(guest->pid);
	if (r == 0 && ptrace(PTRACE_GETREGS, guest->pid, NULL, &registers) < 0)
		r = -errno;
	if (r == 0)
		*ret_result = (long)registers.rax;
	return r;
}

/* ---- Its memory ---- */

static int read_memory(const struct guest *guest, uint64_t from, void *to, size_t n_bytes)
{
	return pread(guest->memory_fd, to, n_bytes, (off_t)from) == (ssize_t)n_bytes ? 0 : -EFAULT;
}

static int write_memory(const struct guest *guest, uint64_t to, const void *from, size_t n_bytes)
{
	return pwrite(guest->memory_fd, from, n_bytes, (off_t)to) == (ssize_t)n_bytes ? 0 : -EFAULT;
}

/* Behind the arguments and the environment, at the end of what the kernel has put there. */
static int read_auxiliary(struct guest *guest)
{
	uint64_t at = guest->registers.rsp + 8, word = 1;
	Elf64_auxv_t items[MAX_AUXILIARY];
	unsigned n_zeros = 0;

	for (uint64_t i = 0; n_zeros < 2 && i < MAX_STACK_WORDS; i++, at += sizeof(word)) {
		if (read_memory(guest, at, &word, sizeof(word)) < 0)
			return -EFAULT;
		n_zeros += word == 0;
	}
	ssize_t n = pread(guest->memory_fd, items, sizeof(items), (off_t)at);
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(*items); i++) {
		if (items[i].a_type == AT_NULL)
			break;
		if (items[i].a_type == AT_PHDR)
			guest->headers = items[i].a_un.a_val;
		if (items[i].a_type == AT_PHNUM)
			guest->n_headers = items[i].a_un.a_val;
		if (items[i].a_type == AT_SYSINFO_EHDR)
			guest->vdso = items[i].a_un.a_val;
	}
	return guest->headers && guest->n_headers ? 0 : -ENOEXEC;
}

/* Where an instruction `syscall' stands in these bytes. */
static bool look_for_call(struct guest *guest, uint64_t at, size_t n_bytes)
{
	auto_free uint8_t *bytes = malloc(n_bytes);
	ssize_t n = bytes ? pread(guest->memory_fd, bytes, n_bytes, (off_t)at) : -1;

	for (ssize_t i = 0; i + 1 < n && !guest->call_at; i++)
		if (bytes[i] == 0x0f && bytes[i + 1] == 0x05)
			guest->call_at = at + (uint64_t)i;
	return guest->call_at != 0;
}

static int read_program(struct guest *guest)
{
	uint64_t n_bytes = guest->n_headers * sizeof(Elf64_Phdr);
	auto_free Elf64_Phdr *headers = n_bytes <= (1u << 20) ? malloc(n_bytes) : NULL;
	uint64_t first = UINT64_MAX;

	if (!headers || read_memory(guest, guest->headers, headers, n_bytes) < 0)
		return -EFAULT;
	/* Their own place in the file is where its first segment begins. */
	for (size_t i = 0; i < guest->n_headers; i++) {
		if (headers[i].p_type == PT_LOAD && headers[i].p_vaddr < first) {
			first = headers[i].p_vaddr;
			guest->bias = ((guest->headers & -PAGE_BYTES) - (first & -PAGE_BYTES));
		}
	}
	guest->start = UINT64_MAX;
	for (size_t i = 0; i < guest->n_headers; i++) {
		uint64_t start = guest->bias + headers[i].p_vaddr;

		if (headers[i].p_type != PT_LOAD)
			continue;
		guest->start = start < guest->start ? start : guest->start;
		if (start + headers[i].p_memsz > guest->end)
			guest->end = start + headers[i].p_memsz;
	}
	if (guest->vdso && look_for_call(guest, guest->vdso, VDSO_BYTES))
		return 0;
	for (size_t i = 0; i < guest->n_headers; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X &&
		    look_for_call(guest, guest->bias + headers[i].p_vaddr, headers[i].p_filesz))
			return 0;
	return -ENOENT;
}

/* ---- The agent ---- */

static int try_map(struct guest *guest, uint64_t at, uint64_t *ret_base)
{
	const uint64_t arguments[6] = { at,
					guest->n_bytes,
					PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
					UINT64_MAX,
					0 };
	long found = -1, unused;
	int r = call(guest, SYS_mmap, arguments, &found);

	if (r == 0 && (uint64_t)found == at)
		*ret_base = at;
	else if (r == 0 && found > 0) /* before Linux 4.17: a mere wish */
		r = call(guest, SYS_munmap, (const uint64_t[6]){ (uint64_t)found, guest->n_bytes },
			 &unused);
	return r;
}

/* Below the program, or far behind it, so near that jumps reach it. */
static int map(struct guest *guest)
{
	uint64_t low = (guest->start - guest->n_bytes) & -STEP_BYTES;
	uint64_t high = ((guest->end + STEP_BYTES) & -STEP_BYTES) + FAR_BYTES;
	uint64_t size = guest->end - guest->start;
	int r = 0;

	if (size + guest->n_bytes > REACH_BYTES / 4)
		return -E2BIG;
	for (uint64_t by = 0; r == 0 && !guest->base && by < REACH_BYTES - size &&
			      guest->start > guest->n_bytes && by + STEP_BYTES <= low;
	     by += by < 64 * STEP_BYTES ? STEP_BYTES : 256 * STEP_BYTES)
		r = try_map(guest, low - by, &guest->base);
	for (uint64_t by = 0; r == 0 && !guest->base && by < REACH_BYTES / 4; by += 64 * STEP_BYTES)
		r = try_map(guest, high - by, &guest->base);
	return r < 0 || guest->base ? r : -ENOMEM;
}

static uint64_t page_up(uint64_t address)
{
	return (address + PAGE_BYTES - 1) & -PAGE_BYTES;
}

/* One after the other: the agent, the slots, the table. */
static void lay_out(struct guest *guest)
{
	guest->slots_at = guest->file.n_bytes;
	guest->table_at = guest->slots_at + page_up(MAX_SLOTS * SLOT_BYTES);
	guest->n_bytes = guest->table_at + page_up(guest->table_bytes);
}

/*
 * The code from the first to the last of the allocator's functions. Of glibc it is one file; of
 * musl some neighbours, which call each other's names: only what they map is none of the program's.
 */
static void bound_own(const struct guest *guest, struct slots *slots)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (size_t i = 0; i < guest->entries.n; i++) {
		const struct allocator_entry *entry = &guest->entries.items[i];

		if (entry->call < TRACE_CALL_MALLOC || entry->call > TRACE_CALL_PVALLOC ||
		    entry->call == TRACE_CALL_REALLOCARRAY)
			continue;
		start = entry->address < start ? entry->address : start;
		if (entry->address + entry->n_bytes > end)
			end = entry->address + entry->n_bytes;
	}
	if (guest->entries.libc == ENTRY_LIBC_NONE || start >= end)
		return;
	slots->own_start = guest->bias + start;
	slots->own_end = guest->bias + end;
}

/* Is the code what the file has said? */
static bool is_as_planned(const struct guest *guest, const struct slot_jump *jump)
{
	uint8_t now[PLAN_JUMP_BYTES];

	return read_memory(guest, jump->address, now, sizeof(now)) == 0 &&
	       memcmp(now, jump->before, sizeof(now)) == 0;
}

/* Let an entry lead to the next of the hooks that stand for its call. False: none is left. */
static bool lead(struct guest *guest, struct slots *slots, const struct allocator_entry *entry,
		 struct agent_hook *hooks, size_t n_hooks)
{
	struct slot slot;
	uint64_t *real;

	for (size_t i = 0; i < n_hooks; i++) {
		if (hooks[i].call != entry->call || hooks[i].reserved)
			continue;
		real = agent_file_at(&guest->file, hooks[i].real - guest->base, sizeof(*real));
		if (!real || slots_add(slots, entry, hooks[i].hook, &slot) < 0)
			return false;
		for (size_t k = 0; k < slot.n_jumps; k++)
			if (!is_as_planned(guest, &slot.jumps[k]))
				return false;
		memcpy(&guest->jumps[guest->n_jumps], slot.jumps,
		       slot.n_jumps * sizeof(*slot.jumps));
		guest->n_jumps += slot.n_jumps;
		*real = slot.moved;
		hooks[i].reserved = 1; /* it is taken; the agent does not ask */
		return true;
	}
	return false;
}

/* Blocks without their ends would be worse than neither. */
static bool is_needed(const struct allocator_entry *entry)
{
	return entry->call == TRACE_CALL_MALLOC || entry->call == TRACE_CALL_CALLOC ||
	       entry->call == TRACE_CALL_REALLOC || entry->call == TRACE_CALL_FREE;
}

static bool is_of_memory(const struct allocator_entry *entry)
{
	return entry->call == TRACE_CALL_MMAP || entry->call == TRACE_CALL_MUNMAP ||
	       entry->call == TRACE_CALL_MREMAP || entry->call == TRACE_CALL_BRK ||
	       entry->call == TRACE_CALL_SBRK;
}

/* Of several functions of one kind two are led: the others are called by them. */
static bool is_led(const struct agent_hook *hooks, size_t n_hooks, uint8_t call)
{
	for (size_t i = 0; i < n_hooks; i++)
		if (hooks[i].call == call && hooks[i].reserved)
			return true;
	return false;
}

static int lead_all(struct guest *guest, struct slots *slots, struct agent_hook *hooks,
		    size_t n_hooks)
{
	const struct allocator_entries *entries = &guest->entries;
	uint64_t own_end;

	bound_own(guest, slots);
	own_end = slots->own_end;
	for (size_t i = 0; i < entries->n; i++) {
		const struct allocator_entry *entry = &entries->items[i];
		bool has_own = entries->libc != ENTRY_LIBC_MUSL || is_of_memory(entry);

		slots->own_end = has_own ? own_end : slots->own_start;
		if (lead(guest, slots, entry, hooks, n_hooks) || !is_needed(entry) ||
		    is_led(hooks, n_hooks, entry->call))
			continue;
		snprintf(guest->message, INJECT_MESSAGE_BYTES, "%s cannot be led to the agent (%s)",
			 entry->name,
			 entry->why_not ? entry->why_not : "its code is not that of the file");
		return -ENOENT;
	}
	for (size_t i = 0; i < ENTRY_OTHERS; i++)
		if (entries->others[i].address)
			guest->is_led[i] = lead(guest, slots, &entries->others[i], hooks, n_hooks);
	return 0;
}

/* What has no names may set signals behind our back: it is not sampled by one. */
static bool may_sample(const struct guest *guest)
{
	bool has_names = false;

	for (size_t i = 0; i < guest->entries.n; i++)
		has_names |= guest->entries.items[i].origin == ENTRY_BY_SYMBOL;
	for (size_t i = ENTRY_SIGACTION; i <= ENTRY_SIGALTSTACK; i++)
		if (guest->entries.others[i].address && !guest->is_led[i])
			return false;
	return has_names;
}

/* What the agent is to know, and where the entries lead. */
static int fill(struct guest *guest, struct slots *slots)
{
	struct agent *agent = agent_file_at(&guest->file, guest->file.agent, sizeof(*agent));
	struct agent_hook *hooks;

	hooks = agent_file_at(&guest->file, agent->hooks - guest->base,
			      agent->n_hooks * sizeof(*hooks));
	if (!hooks)
		return -ENOEXEC;
	agent->entry = guest->registers.rip;
	agent->base = guest->base;
	agent->n_bytes = guest->n_bytes;
	if (guest->table) {
		agent->table = guest->base + guest->table_at;
		agent->table_bytes = guest->table_bytes;
	}
	snprintf(agent->socket, sizeof(agent->socket), "%s", guest->order->socket);
	int r = lead_all(guest, slots, hooks, agent->n_hooks);
	agent->may_sample = may_sample(guest);
	agent->may_unwind = !guest->entries.has_unwinder || guest->is_led[ENTRY_FIND_FDE];
	return r;
}

static int protect(struct guest *guest, uint64_t start, uint64_t end, int prot)
{
	const uint64_t arguments[6] = { guest->base + start, end - start, (uint64_t)prot };
	long result = 0;
	int r = start < end ? call(guest, SYS_mprotect, arguments, &result) : 0;

	return r < 0 ? r : (int)result;
}

/*
 * What is not written to comes from the file: so samples in it have a name. Where it cannot be
 * opened (another root), it is written like the rest.
 */
static int map_file(struct guest *guest)
{
	const char *path = guest->order->agent;
	struct agent_file *file = &guest->file;
	long fd = -1, found = 0;
	int r = write_memory(guest, guest->base, path, strlen(path) + 1);

	if (r == 0)
		r = call(guest, SYS_openat,
			 (const uint64_t[6]){ (uint64_t)AT_FDCWD, guest->base,
					      O_RDONLY | O_CLOEXEC },
			 &fd);
	for (size_t i = 0; r == 0 && fd >= 0 && i < file->n_segments; i++) {
		struct agent_segment *segment = &file->segments[i];
		const uint64_t arguments[6] = {
			guest->base + segment->start,
			segment->end - segment->start,
			(uint64_t)segment->prot,
			MAP_PRIVATE | MAP_FIXED,
			(uint64_t)fd,
			segment->offset,
		};

		/* The path lies at the start; that is over when its place is mapped. */
		if (segment->prot & PROT_WRITE)
			continue;
		r = call(guest, SYS_mmap, arguments, &found);
		segment->is_mapped = found == (long)arguments[0];
	}
	if (r == 0 && fd >= 0)
		r = call(guest, SYS_close, (const uint64_t[6]){ (uint64_t)fd }, &found);
	return r;
}

/* Zeros are there already: pages that stay untouched cost the program nothing. */
static int write_segment(struct guest *guest, const struct agent_segment *segment)
{
	const struct agent_file *file = &guest->file;
	uint64_t end = segment->end < file->n_filled ? segment->end : file->n_filled;
	int r = 0;

	if (segment->is_mapped)
		return 0;
	if (segment->start < end)
		r = write_memory(guest, guest->base + segment->start, file->bytes + segment->start,
				 end - segment->start);
	return r == 0 ? protect(guest, segment->start, segment->end, segment->prot) : r;
}

static int write_all(struct guest *guest, const struct slots *slots)
{
	const struct agent_file *file = &guest->file;
	int r = map_file(guest);

	for (size_t i = 0; r == 0 && i < file->n_segments; i++)
		r = write_segment(guest, &file->segments[i]);
	r = r ?: write_memory(guest, slots->address, slots->bytes, slots->n_used * SLOT_BYTES);
	if (r == 0 && guest->table)
		r = write_memory(guest, guest->base + guest->table_at, guest->table,
				 guest->table_bytes);
	r = r ?: protect(guest, guest->slots_at, guest->table_at, PROT_READ | PROT_EXEC);
	return r ?: protect(guest, guest->table_at, guest->n_bytes, PROT_READ);
}

/* All of them or none. */
static int write_jumps(const struct guest *guest)
{
	int r = 0;
	size_t n = 0;

	for (; r == 0 && n < guest->n_jumps; n++)
		r = write_memory(guest, guest->jumps[n].address, guest->jumps[n].after,
				 PLAN_JUMP_BYTES);
	for (; r < 0 && n > 0; n--)
		write_memory(guest, guest->jumps[n - 1].address, guest->jumps[n - 1].before,
			     PLAN_JUMP_BYTES);
	return r;
}

/* Who calls include/memsight.h calls the agent. Sites of code that was left out are nowhere. */
static int lead_api(const struct guest *guest)
{
	auto_free struct api_site *sites = NULL;
	size_t n = 0;
	int r = api_sites_read(guest->path, &sites, &n);

	for (size_t i = 0; r == 0 && i < n; i++) {
		uint64_t at = guest->bias + sites[i].address;
		uint64_t function = agent_file_symbol(&guest->file, sites[i].name);
		uint8_t code[API_SITE_BYTES];

		if (function && read_memory(guest, at, code, sizeof(code)) == 0 &&
		    api_site_change(code, at, guest->base + function) == 0)
			r = write_memory(guest, at, code, sizeof(code));
	}
	return r;
}

static int put_in(struct guest *guest)
{
	auto_free uint8_t *bytes = calloc(MAX_SLOTS, SLOT_BYTES);
	struct slots slots = { .bytes = bytes, .n = MAX_SLOTS, .bias = guest->bias };
	int r = bytes ? map(guest) : -ENOMEM;

	if (r < 0)
		return fail(guest, r, "there is no room for the agent");
	slots.address = guest->base + guest->slots_at;
	agent_file_move(&guest->file, guest->base);
	r = fill(guest, &slots);
	/* Now that its place is known. */
	if (r == 0 && guest->table) {
		free(steal_ptr(&guest->table));
		r = unwind_table_make(guest->path, guest->bias, guest->base + guest->table_at,
				      &guest->table, &guest->table_bytes);
	}
	r = r ?: write_all(guest, &slots) ?: write_jumps(guest) ?: lead_api(guest);
	return r < 0 && !guest->message[0] ? fail(guest, r, "the agent cannot be written") : r;
}

static int prepare(struct guest *guest)
{
	int r = agent_file_read(guest->order->agent, &guest->file);

	if (r < 0)
		return fail(guest, r, AGENT_LIBRARY " cannot be read");
	r = read_auxiliary(guest) ?: read_program(guest);
	r = r ?: guest->order->find(guest->path, &guest->entries);
	/* How large it is; where it lies is known later. */
	if (r == 0)
		r = unwind_table_make(guest->path, guest->bias, guest->start, &guest->table,
				      &guest->table_bytes);
	if (r < 0)
		return fail(guest, r, "its file cannot be read");
	if (guest->entries.lacks_heap)
		return text_refuse(-ENOENT, guest->message, INJECT_MESSAGE_BYTES, "%s",
				   guest->entries.why);
	lay_out(guest);
	return 0;
}

/* It stands at its first instruction, all its signals blocked. */
static int enter(struct guest *guest)
{
	const struct agent *agent;
	int r = prepare(guest);
	long unused;

	r = r ?: put_in(guest);
	if (r < 0 && guest->base)
		call(guest, SYS_munmap, (const uint64_t[6]){ guest->base, guest->n_bytes },
		     &unused);
	if (r < 0)
		return r;
	agent = agent_file_at(&guest->file, guest->file.agent, sizeof(*agent));
	guest->registers.rip = agent->start;
	return 0;
}

static int inject(struct guest *guest)
{
	uint64_t mask, all = UINT64_MAX;
	int r;

	if (ptrace(PTRACE_GETSIGMASK, guest->pid, (void *)sizeof(mask), &mask) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, guest->pid, (void *)sizeof(all), &all) < 0)
		return fail(guest, -errno, "its signals cannot be blocked");
	r = go_to_call(guest->pid); /* the end of its exec */
	if (r == 0 && ptrace(PTRACE_GETREGS, guest->pid, NULL, &guest->registers) < 0)
		r = -errno;
	if (r < 0)
		return fail(guest, r, "it does not come to its first instruction");
	r = enter(guest);
	ptrace(PTRACE_SETREGS, guest->pid, NULL, &guest->registers);
	ptrace(PTRACE_SETSIGMASK, guest->pid, (void *)sizeof(mask), &mask);
	return r;
}

void inject_say(const struct inject *inject, pid_t pid, struct inject_news *news)
{
	char path[PATH_MAX], link[32];

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	snprintf(news->name, sizeof(news->name), "%.63s", text_base_name(path));
	(void)!send(inject->news_fd, news, sizeof(*news), MSG_NOSIGNAL | MSG_DONTWAIT);
}

int inject_end(struct inject *child, const struct inject_order *order)
{
	struct inject_news news = { .why = "" };
	struct guest guest = { .pid = child->pid, .order = order, .message = news.why };
	char path[32];
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
	int r = wait_exec(child);

	if (r < 0)
		return r;
	guest.pid = child->pid;
	/* Half of what is done here would be worse than its end. */
	ptrace(PTRACE_SETOPTIONS, child->pid, NULL, (void *)options);
	snprintf(guest.path, sizeof(guest.path), "/proc/%d/exe", (int)child->pid);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child->pid);
	auto_close int fd = open(path, O_RDWR | O_CLOEXEC);

	guest.memory_fd = fd;
	if (fd < 0)
		r = fail(&guest, -errno, "its memory cannot be opened");
	else if (image_file_why_not(guest.path) == TRACE_NOT_STATIC)
		r = inject(&guest);
	/* While it stands, so that the recorder still hears of it. */
	if (news.why[0])
		inject_say(child, child->pid, &news);
	ptrace(PTRACE_DETACH, child->pid, NULL, NULL);
	child->is_seized = false;
	if (order->forget)
		order->forget(&guest.entries);
	free(guest.table);
	agent_file_finish(&guest.file);
	return r;
}
#else
int inject_begin(struct inject *inject, pid_t tid)
{
	(void)inject, (void)tid;
	return -ENOTSUP;
}

int inject_end(struct inject *child, const struct inject_order *order)
{
	(void)child, (void)order;
	return -ENOTSUP;
}
#endif
