#pragma once
/*
 * Puts the freestanding agent (tracealloc/agent/) into a program that is linked statically, at its
 * first instruction, and leaves it: no tracer stays. The child is seized while it waits at its
 * gate, stops behind its exec, gets the agent and jumps at the entries of its allocator, and runs
 * on in the agent, which says hello as the library does. If who traces is killed meanwhile the
 * child ends: it has not run one instruction of the program yet. x86-64; elsewhere -ENOTSUP.
 */
#include <stdbool.h>
#include <sys/types.h>

struct allocator_entries;

#define INJECT_MESSAGE_BYTES 512

/* How the entries of a file are found; see allocator_entries_find(). */
typedef int (*inject_find_fn)(const char *path, struct allocator_entries *ret_entries);
typedef void (*inject_forget_fn)(struct allocator_entries *entries);

struct inject_order {
	const char *agent; /* the agent's file */
	const char *socket; /* of the recording */
	inject_find_fn find;
	inject_forget_fn forget;
};

/* The agent could not be put into a program. */
struct inject_news {
	char name[64]; /* of its file */
	char why[INJECT_MESSAGE_BYTES]; /* for a person */
};

struct inject {
	pid_t pid;
	bool is_seized;
	bool is_spawn; /* it will have a child that becomes the program */
	int news_fd; /* to the recorder: why a program does not get it, one struct inject_news */
	int asks_fd; /* who asks says here that its exec has failed; -1: nobody does */
};

/* Send news of a process; the rest than its name is filled in. What it is now is looked up. */
void inject_say(const struct inject *inject, pid_t pid, struct inject_news *news);

/*
 * Seize a thread that waits to become a program. 0 or a negative errno: -EPERM, ptrace is refused.
 * The caller has filled in the rest. Nothing else may be traced by this process, nor be a child of
 * it.
 */
int inject_begin(struct inject *inject, pid_t tid);

/*
 * It was let go. Wait until it has become a program, or has ended, and put the agent in where that
 * is linked statically; it runs on in any case. 0, or a negative errno: what a person should know
 * of it was sent to news_fd before it ran on.
 */
int inject_end(struct inject *inject, const struct inject_order *order);
