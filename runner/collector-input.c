/* Signals and connections. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/array.h"
#include "runner/collector.h"
#include "runner/launch/job-control.h"

#define CONNECTION_PATIENCE_NS UINT64_C(1000000000)

/* The terminal sends SIGINT to the program as well: it decides. The second one is for us. */
static void take_interrupt(struct collector *collector)
{
	collector->n_interrupts++;
	collector->interrupted_ns = collector->now_ns;
	if (collector->n_interrupts >= 2 || collector->command_has_ended)
		collector->was_let_go = true;
}

static bool is_stop(int signal_number)
{
	return signal_number == SIGTSTP || signal_number == SIGTTIN || signal_number == SIGTTOU;
}

static void pass_on(struct collector *collector, const struct signalfd_siginfo *info)
{
	int signal_number = (int)info->ssi_signo;

	if (collector->command_has_ended) {
		if (signal_number == SIGTERM || signal_number == SIGHUP)
			collector->was_let_go = true; /* what is left was not started by us */
		else if (is_stop(signal_number))
			job_control_stop(0, -1, signal_number);
	} else if (info->ssi_code == SI_QUEUE) {
		sigqueue(collector->command_pid, signal_number,
			 (union sigval){ .sival_ptr = (void *)(uintptr_t)info->ssi_ptr });
	} else {
		kill(collector->command_pid, signal_number);
	}
}

/*
 * A terminal (the kernel for it) sends to all in the foreground, kill(1) to us alone; and a limit
 * of CPU time is each process's own. Timers that were set before us are the program's.
 */
static bool reached_program(const struct signalfd_siginfo *info)
{
	static const int to_all[] = { SIGINT,  SIGQUIT,	 SIGTSTP, SIGTTIN,
				      SIGTTOU, SIGWINCH, SIGCONT, SIGXCPU };

	if (info->ssi_code != SI_KERNEL)
		return info->ssi_pid == (uint32_t)getpid(); /* by a write of ours that failed */
	return array_find(to_all, COUNT_OF(to_all), it, *it == (int)info->ssi_signo);
}

/*
 * The command may have stopped, be it by itself: so does its job. What ended is told by its pidfd.
 */
static void look_for_stop(struct collector *collector)
{
	struct image *image = images_find(&collector->tracker.images, collector->command_pid);

	if (collector->command_has_ended || collector->n_attached > 0)
		return;
	int signal_number = job_control_stopped(collector->command_pid);
	if (signal_number)
		job_control_stop(collector->command_pid, image ? image->pidfd : -1, signal_number);
}

/* None of a process's signals are sent to us where we have not started it. */
static void take_own(struct collector *collector, int signal_number)
{
	static const int to_leave[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	if (is_stop(signal_number))
		job_control_stop(0, -1, signal_number);
	for (size_t i = 0; i < sizeof(to_leave) / sizeof(to_leave[0]); i++)
		if (to_leave[i] == signal_number)
			collector->wants_to_leave = true;
}

void collector_take_signals(struct collector *collector)
{
	struct signalfd_siginfo info;

	while (read(collector->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (collector->n_attached > 0)
			take_own(collector, (int)info.ssi_signo);
		else if (info.ssi_signo == SIGINT)
			take_interrupt(collector);
		else if (info.ssi_signo == SIGCHLD && info.ssi_code != SI_USER &&
			 info.ssi_code != SI_QUEUE)
			look_for_stop(collector);
		else if (!reached_program(&info) || collector->command_has_ended)
			pass_on(collector, &info);
	}
}

/* One that gives up just now leaves its slot unused: that is told at its end. */
static void welcome(struct collector *collector, int fd, const struct tracker_visit *visit)
{
	const struct run_functions *functions = collector->options->functions;

	recording_answer(fd, &visit->welcome,
			 visit->welcome.verdict == RECORDING_ACCEPTED ? collector->pool->fd : -1,
			 functions ? functions->plan_fd : -1);
}

/*
 * A program, or a forked child that has claimed its slot just before, lends us its memory. Where
 * the image is not known it is not watched, and that is told with its intervals.
 */
static void take_lent(struct collector *collector, int lent, pid_t pid)
{
	struct tracker *tracker = &collector->tracker;
	struct tracker_slots slots;

	tracker_find_slots(tracker, &slots);
	samples_read(&collector->samples, collector->drain.round_ticks, &collector->last_pair,
		     collector->ticks_per_second);
	tracker_attach_slots(tracker, &slots);
	struct image *image = images_find(&tracker->images, pid);
	if (image && collector->touches.is_on && !image->touches.gave_back)
		image->touches.lacks_writes = page_writes_begin(&image->writes, lent) < 0;
	else
		close(lent);
}

/* Returns true when the connection is done with. */
static bool answer(struct collector *collector, int fd)
{
	struct tracker *tracker = &collector->tracker;
	struct tracker_visit visit;
	struct tracker_slots slots;
	int lent = -1, err = collector_take_request(collector, fd);

	/* Nothing is there yet. What comes from here on must not be taken for something else. */
	if (err == 0 || err == -EAGAIN)
		return err == 0;
	err = recording_receive_lent(fd, &lent, &visit.peer);
	if (err == 0) {
		collector->drain.round_ticks = clock_ticks(collector->clock);
		take_lent(collector, lent, visit.peer.pid);
		return true;
	}
	if (err == -ENOMSG)
		err = recording_receive(fd, &visit.greeting, &visit.peer);
	if (err == -EAGAIN)
		return false;
	if (err < 0)
		return true;
	/* What perf has to tell about its exec lies in the rings by now; an image may end by it,
	 * and what that has forked is known by its slot alone. Before it is welcome: it may exec
	 * again at once, and what perf tells of that is not about who says hello here. */
	collector->drain.round_ticks = clock_ticks(collector->clock);
	tracker_find_slots(tracker, &slots);
	bool is_plain = tracker_is_plain(tracker, &visit);
	samples_read(&collector->samples, collector->drain.round_ticks, &collector->last_pair,
		     collector->ticks_per_second);
	tracker_attach_slots(tracker, &slots);
	if (recording_is_closed(fd)) {
		tracker_unattached(tracker, &visit);
		return true;
	}
	tracker_admit(tracker, &visit);
	if (is_plain)
		welcome(collector, fd, &visit);
	tracker_hello(tracker, &visit);
	if (!is_plain)
		welcome(collector, fd, &visit);
	if (visit.exe_fd >= 0)
		close(visit.exe_fd);
	return true;
}

/* Its hello comes right behind it: mostly it is there by now, and nothing has to be waited for. */
static void accept_all(struct collector *collector)
{
	int fd;

	while (collector->n_connections < COLLECTOR_MAX_CONNECTIONS &&
	       (fd = recording_accept(collector->recording)) >= 0) {
		struct epoll_event event = { .events = EPOLLIN,
					     .data.u64 = collector_tag(COLLECTOR_CONNECTION, 0) };

		if (answer(collector, fd)) {
			close(fd);
			continue;
		}
		epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD, fd, &event);
		collector->connections[collector->n_connections] = fd;
		collector->connection_ends_ns[collector->n_connections++] =
			collector->now_ns + CONNECTION_PATIENCE_NS;
	}
}

void collector_take_connections(struct collector *collector)
{
	size_t n_kept = 0;

	for (size_t i = 0; i < collector->n_connections; i++) {
		int fd = collector->connections[i];

		if (answer(collector, fd) || collector->now_ns > collector->connection_ends_ns[i]) {
			close(fd);
			continue;
		}
		collector->connections[n_kept] = fd;
		collector->connection_ends_ns[n_kept++] = collector->connection_ends_ns[i];
	}
	collector->n_connections = n_kept;
	accept_all(collector);
}
