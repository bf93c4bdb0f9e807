/* Signals and connections. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runner/collector.h"

#define CONNECTION_PATIENCE_NS UINT64_C(1000000000)

void collector_warn(struct collector *collector, const char *format, ...)
{
	char line[512];
	va_list arguments;

	if (!collector->observer || !collector->observer->warn)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	collector->observer->warn(collector->observer->user, line);
}

/* The terminal sends SIGINT to the program as well: it decides. The second one is for us. */
static void take_interrupt(struct collector *collector)
{
	collector->n_interrupts++;
	collector->interrupted_ns = collector->now_ns;
	if (collector->n_interrupts >= 2 || collector->command_has_ended)
		collector->was_let_go = true;
}

static void pass_on(struct collector *collector, int signal_number)
{
	if (!collector->command_has_ended)
		kill(collector->command_pid, signal_number);
	else if (signal_number == SIGTERM || signal_number == SIGHUP)
		collector->was_let_go = true; /* what is left was not started by us */
}

/* A terminal (the kernel for it) sends to all in the foreground, kill(1) to us alone. */
static bool reached_program(const struct signalfd_siginfo *info)
{
	return info->ssi_code == SI_KERNEL && info->ssi_signo != SIGHUP;
}

void collector_take_signals(struct collector *collector)
{
	struct signalfd_siginfo info;

	while (read(collector->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGINT)
			take_interrupt(collector);
		else if (!reached_program(&info))
			pass_on(collector, (int)info.ssi_signo);
	}
}

/* Returns true when the connection is done with. */
static bool answer(struct collector *collector, int fd)
{
	struct recording_hello hello;
	struct recording_welcome welcome;
	struct tracker_slots slots;
	struct ucred peer;
	int err = recording_receive(fd, &hello, &peer);

	if (err == -EAGAIN)
		return false;
	if (err < 0)
		return true;
	/* What perf has to tell about its exec lies in the rings by now; an image may end by it,
	 * and what that has forked is known by its slot alone. */
	collector->drain.round_ticks = clock_ticks(collector->clock);
	tracker_find_slots(&collector->tracker, &slots);
	samples_read(&collector->samples, collector->drain.round_ticks, &collector->last_pair,
		     collector->ticks_per_second);
	tracker_attach_slots(&collector->tracker, &slots);
	if (recording_is_closed(fd)) {
		tracker_unattached(&collector->tracker, &hello, &peer);
		return true;
	}
	tracker_hello(&collector->tracker, &hello, &peer, &welcome);
	/* One that gives up just now leaves its slot unused: that is told at its end. */
	recording_answer(fd, &welcome,
			 welcome.verdict == RECORDING_ACCEPTED ? collector->pool->fd : -1);
	return true;
}

void collector_take_connections(struct collector *collector)
{
	size_t n_kept = 0;
	int fd;

	while (collector->n_connections < COLLECTOR_MAX_CONNECTIONS &&
	       (fd = recording_accept(collector->recording)) >= 0) {
		struct epoll_event event = { .events = EPOLLIN,
					     .data.u64 = collector_connection_tag() };

		epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD, fd, &event);
		collector->connections[collector->n_connections] = fd;
		collector->connection_ends_ns[collector->n_connections++] =
			collector->now_ns + CONNECTION_PATIENCE_NS;
	}
	for (size_t i = 0; i < collector->n_connections; i++) {
		fd = collector->connections[i];
		if (answer(collector, fd) || collector->now_ns > collector->connection_ends_ns[i]) {
			close(fd);
			continue;
		}
		collector->connections[n_kept] = fd;
		collector->connection_ends_ns[n_kept++] = collector->connection_ends_ns[i];
	}
	collector->n_connections = n_kept;
}
