/* What a recording of a process that was attached to ends by. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/cleanup.h"
#include "runner/collector.h"

int collector_watch_attacher(struct collector *collector)
{
	struct epoll_event event = { .events = EPOLLIN,
				     .data.u64 = collector_tag(COLLECTOR_ATTACHER, 0) };

	if (collector->options->duration_ns)
		collector->leave_ns = collector->command_begin_ns + collector->options->duration_ns;
	return epoll_ctl(collector->epoll_fd, EPOLL_CTL_ADD, collector->attacher->fd, &event) < 0
		       ? -errno
		       : 0;
}

void collector_hear_attacher(struct collector *collector)
{
	struct attach_outcome outcome;
	int err = attacher_take(collector->attacher, &outcome);

	if (err == 0)
		cleanup_close(&outcome.blocks_fd);
	if (err < 0) {
		epoll_ctl(collector->epoll_fd, EPOLL_CTL_DEL, collector->attacher->fd, NULL);
		collector_warn(collector,
			       "the process of memsight that would leave process %d was ended: "
			       "`memsight detach %d' does that",
			       (int)collector->command_pid, (int)collector->command_pid);
		collector->was_let_go |= collector->attacher->is_asked;
	} else if (outcome.error < 0 && !collector->command_has_ended) {
		collector_warn(collector,
			       "%s; the recording ends, `memsight detach %d' tries again",
			       outcome.message, (int)collector->command_pid);
		collector->was_let_go = true;
	}
}

static void ask_to_leave(struct collector *collector)
{
	collector->wants_to_leave = false;
	collector->leave_ns = 0;
	if (collector->attacher && !collector->attacher->is_asked &&
	    attacher_leave(collector->attacher) == 0)
		return;
	/* Asked for twice, or nobody is there to do it. */
	collector->was_let_go = true;
}

static bool is_dead(const struct image *image)
{
	struct pollfd poll_fd = { .fd = image->pidfd, .events = POLLIN };

	return image->pidfd >= 0 && poll(&poll_fd, 1, 0) > 0;
}

bool collector_is_attached(struct collector *collector)
{
	const struct image *image = images_find(&collector->tracker.images, collector->command_pid);

	if (collector->wants_to_leave ||
	    (collector->leave_ns && collector->now_ns >= collector->leave_ns))
		ask_to_leave(collector);
	if (image && collector->options->no_follow && image->id != collector->tracker.command_id) {
		collector_warn(collector,
			       "process %d runs another program now (exec), so the recording ends; "
			       "--children goes on with it",
			       (int)collector->command_pid);
		collector->was_let_go = true;
		return false;
	}
	if (image && !is_dead(image) && !tracker_was_left(&collector->tracker, image))
		return true;
	collector->has_left = image && !is_dead(image);
	return false;
}
