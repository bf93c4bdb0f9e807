/* What a recording of processes that were attached to ends by. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "runner/collector.h"
#include "schemas/trace-contents.h"

int collector_watch_attachers(struct collector *collector)
{
	for (size_t i = 0; i < collector->n_attached; i++) {
		struct epoll_event event = {
			.events = EPOLLIN,
			.data.u64 = collector_tag(COLLECTOR_ATTACHER, (uint32_t)i),
		};

		if (epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD,
			      collector->attached[i].attacher.process.fd, &event) < 0)
			return -errno;
	}
	return 0;
}

/* Of those that were live when it was left. */
static void store_contents(struct collector *collector, pid_t pid,
			   const struct attach_outcome *outcome)
{
	size_t n_bytes = outcome->n_blocks * sizeof(struct trace_content);
	const struct trace_content *blocks = MAP_FAILED;

	if (outcome->blocks_fd >= 0)
		blocks = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, outcome->blocks_fd, 0);
	if (blocks == MAP_FAILED)
		return;
	tracker_store_contents(&collector->tracker, pid, blocks, outcome->n_blocks, outcome->n_th);
	munmap((void *)blocks, n_bytes);
}

void collector_hear_attacher(struct collector *collector, size_t i)
{
	struct attached *attached = &collector->attached[i];
	int pid = (int)attached->order.pid;
	struct attach_outcome outcome;
	int err = attacher_take(&attached->attacher, &outcome);

	attached->attacher.has_left |= attached->attacher.is_asked || err < 0;
	if (err == 0 && outcome.error == 0 && attached->attacher.is_asked)
		store_contents(collector, pid, &outcome);
	if (err == 0)
		cleanup_close(&outcome.blocks_fd);
	if (err < 0) {
		int status = side_process_status(&attached->attacher.process);

		epoll_ctl(collector->epoll_fd, EPOLL_CTL_DEL, attached->attacher.process.fd, NULL);
		collector_warn(collector,
			       "the process of memsight that would leave process %d was ended "
			       "(%s %d): `memsight detach %d' does that",
			       pid, WIFSIGNALED(status) ? "signal" : "status",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), pid);
		collector->was_let_go |= attached->attacher.is_asked;
	} else if (outcome.error < 0 && !attached->has_ended) {
		collector_warn(collector,
			       "%s; the recording ends, `memsight detach %d' tries again",
			       outcome.message, pid);
		collector->was_let_go = true;
	}
}

static void ask_to_leave(struct collector *collector)
{
	collector->wants_to_leave = false;
	collector->leave_ns = 0;
	/* Its last interval and look: when it has been left nobody may call it recorded. */
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		collector_end_touches(collector, image);
	collector_look_at_pages(collector);
	for (size_t i = 0; i < collector->n_attached; i++) {
		struct attached *attached = &collector->attached[i];

		if (attached->has_ended)
			continue;
		/* Asked for twice, or nobody is there to do it. */
		if (!attached->is_in || attached->attacher.is_asked ||
		    attacher_leave(&attached->attacher) < 0)
			collector->was_let_go = true;
	}
}

static bool is_dead(const struct image *image)
{
	struct pollfd poll_fd = { .fd = image->pidfd, .events = POLLIN };

	return image->pidfd >= 0 && poll(&poll_fd, 1, 0) > 0;
}

/* Has it ended, was it left, or does it run a program that nobody asked for? */
static bool is_over(struct collector *collector, struct attached *attached)
{
	const struct image *image = images_find(&collector->tracker.images, attached->order.pid);
	bool is_there = image && !is_dead(image);

	if (is_there && collector->options->no_follow && !image->is_wanted) {
		collector_warn(collector,
			       "process %d runs another program now (exec), so %s ends; "
			       "--children goes on with it",
			       (int)attached->order.pid,
			       collector->n_attached > 1 ? "its recording" : "the recording");
		attached->has_execed = true;
		return true;
	}
	if (is_there && !tracker_was_left(&collector->tracker, image))
		return false;
	/* What was in its blocks comes with the word that it was left. */
	if (is_there && attached->attacher.is_asked && !attached->attacher.has_left)
		return false;
	collector->has_left |= is_there;
	return true;
}

pid_t collector_next_ended(struct collector *collector)
{
	if (collector->wants_to_leave ||
	    (collector->leave_ns && collector->now_ns >= collector->leave_ns))
		ask_to_leave(collector);
	for (size_t i = 0; i < collector->n_attached; i++) {
		struct attached *attached = &collector->attached[i];

		if (attached->has_ended || !is_over(collector, attached))
			continue;
		attached->has_ended = true;
		return attached->order.pid;
	}
	return 0;
}

bool collector_is_attached(struct collector *collector)
{
	for (size_t i = 0; i < collector->n_attached; i++)
		if (!collector->attached[i].has_ended)
			return true;
	for (size_t i = 0; i < collector->n_attached; i++)
		collector->was_let_go |= collector->attached[i].has_execed;
	return false;
}
