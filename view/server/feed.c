#include "view/server/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "report/text/json.h"
#include "view/answers/answers.h"

#define LOOK_NS	      UINT64_C(500000000)
#define NS_PER_SECOND UINT64_C(1000000000)
#define BLOCK_BYTES   ((size_t)16 << 10)
#define GONE	      499u

/* One event. Whoever holds it last frees it. */
struct event {
	unsigned n_holders;
	size_t n_bytes;
	char text[];
};

struct listener {
	struct view_feed *feed;
	struct MHD_Connection *connection;
	struct event *event; /* that is being sent, or was */
	size_t n_sent;
	bool is_suspended;
	struct listener *next;
};

struct view_feed {
	struct view_live live;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t looker, answerer;
	bool has_looker, has_answerer;
	bool is_stopping;
	struct event *newest;
	struct listener *listeners;
	unsigned n_listeners;
	struct view_job *first, **last_next;
};

/* ---- Events; all of it under the lock ---- */

static void let_go(struct event *event)
{
	if (event && --event->n_holders == 0)
		free(event);
}

/* "data: TEXT" and an empty line; NULL without memory. */
static struct event *make_event(const char *text, size_t n_bytes)
{
	static const char head[] = "data: ", tail[] = "\n\n";
	size_t n = sizeof(head) - 1 + n_bytes + sizeof(tail) - 1;
	struct event *event = malloc(sizeof(*event) + n);

	if (!event)
		return NULL;
	event->n_holders = 1;
	event->n_bytes = n;
	memcpy(event->text, head, sizeof(head) - 1);
	memcpy(event->text + sizeof(head) - 1, text, n_bytes);
	memcpy(event->text + n - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
	return event;
}

static void wake_all(struct view_feed *feed)
{
	for (struct listener *at = feed->listeners; at; at = at->next) {
		if (at->is_suspended)
			MHD_resume_connection(at->connection);
		at->is_suspended = false;
	}
}

/* ---- Listeners ---- */

/* Called by the daemon when there is room for more: from where it stands, else from the newest. */
static ssize_t read_events(void *user, uint64_t position, char *buffer, size_t n_most)
{
	struct listener *listener = user;
	struct view_feed *feed = listener->feed;
	ssize_t n = 0;

	(void)position;
	pthread_mutex_lock(&feed->lock);
	if (listener->event && listener->n_sent == listener->event->n_bytes &&
	    listener->event != feed->newest) {
		let_go(listener->event);
		listener->event = NULL;
	}
	if (!listener->event && feed->newest) {
		listener->event = feed->newest;
		listener->event->n_holders++;
		listener->n_sent = 0;
	}
	if (feed->is_stopping) {
		n = MHD_CONTENT_READER_END_OF_STREAM;
	} else if (!listener->event || listener->n_sent == listener->event->n_bytes) {
		listener->is_suspended = true;
		MHD_suspend_connection(listener->connection);
	} else {
		size_t left = listener->event->n_bytes - listener->n_sent;

		n = (ssize_t)(left < n_most ? left : n_most);
		memcpy(buffer, listener->event->text + listener->n_sent, (size_t)n);
		listener->n_sent += (size_t)n;
	}
	pthread_mutex_unlock(&feed->lock);
	return n;
}

static void end_listener(void *user)
{
	struct listener *listener = user;
	struct view_feed *feed = listener->feed;

	pthread_mutex_lock(&feed->lock);
	for (struct listener **at = &feed->listeners; *at; at = &(*at)->next)
		if (*at == listener) {
			*at = listener->next;
			feed->n_listeners--;
			break;
		}
	let_go(listener->event);
	pthread_mutex_unlock(&feed->lock);
	free(listener);
}

struct MHD_Response *view_feed_listen(struct view_feed *feed, struct MHD_Connection *connection)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct MHD_Response *response = NULL;

	if (!listener)
		return NULL;
	listener->feed = feed;
	listener->connection = connection;
	pthread_mutex_lock(&feed->lock);
	if (feed->n_listeners < VIEW_FEED_LISTENERS) {
		response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
							     read_events, listener, end_listener);
		if (response) {
			listener->next = feed->listeners;
			feed->listeners = listener;
			feed->n_listeners++;
		}
	}
	pthread_mutex_unlock(&feed->lock);
	if (!response)
		free(listener);
	return response;
}

/* ---- Looking ---- */

/* One look. Returns whether there will be others. */
static bool look(struct view_feed *feed, bool is_heard)
{
	auto_json struct json json = { 0 };
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	int r = feed->live.look(feed->live.user, is_heard ? &json : NULL);

	if (r < 0 || !is_heard || json_finish(&json, &text, &n_bytes) < 0)
		return r <= 0 || !is_heard; /* the last one is for who comes later */
	struct event *event = make_event(text, n_bytes);
	pthread_mutex_lock(&feed->lock);
	if (event) {
		let_go(feed->newest);
		feed->newest = event;
		wake_all(feed);
	}
	pthread_mutex_unlock(&feed->lock);
	return r == 0 || !event;
}

static void *keep_looking(void *user)
{
	struct view_feed *feed = user;
	uint64_t next_ns = clock_ns(CLOCK_MONOTONIC);
	bool goes_on = true;

	while (goes_on) {
		struct timespec at = { .tv_sec = (time_t)(next_ns / NS_PER_SECOND),
				       .tv_nsec = (long)(next_ns % NS_PER_SECOND) };
		int r = 0;

		pthread_mutex_lock(&feed->lock);
		while (!feed->is_stopping && r != ETIMEDOUT)
			r = pthread_cond_timedwait(&feed->changed, &feed->lock, &at);
		bool is_stopping = feed->is_stopping;
		bool is_heard = feed->n_listeners > 0;
		pthread_mutex_unlock(&feed->lock);
		goes_on = !is_stopping && look(feed, is_heard);
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		next_ns += LOOK_NS;
		if (next_ns < now_ns) /* it was stopped, or had no CPU: nothing is caught up with */
			next_ns = now_ns + LOOK_NS / 2;
	}
	return NULL;
}

/* ---- Answers ---- */

bool view_feed_has(enum view_answer answer)
{
	return answer == VIEW_CURVE || answer == VIEW_STACK || answer == VIEW_CONTROL;
}

static unsigned status_of(int r)
{
	switch (r) {
	case 0:
		return MHD_HTTP_OK;
	case -EINVAL:
		return MHD_HTTP_BAD_REQUEST;
	case -ENOENT:
		return MHD_HTTP_NOT_FOUND;
	case -ENOMEM:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	default:
		return MHD_HTTP_CONFLICT;
	}
}

static void answer(struct view_feed *feed, struct view_job *job)
{
	char message[VIEW_MESSAGE_BYTES] = "";
	struct json json = { 0 };
	int r = feed->live.answer(feed->live.user, job->answer, job->values, &json, message);

	r = r ?: json_finish(&json, &job->text, &job->n_bytes);
	if (r < 0)
		job->text = view_error_text(message[0] ? message : strerror(-r), &job->n_bytes);
	job->status = status_of(r);
	json_drop(&json);
}

static void *keep_answering(void *user)
{
	struct view_feed *feed = user;

	pthread_mutex_lock(&feed->lock);
	while (!feed->is_stopping || feed->first) {
		struct view_job *job = feed->first;
		bool is_stopping = feed->is_stopping;

		if (!job) {
			pthread_cond_wait(&feed->changed, &feed->lock);
			continue;
		}
		feed->first = job->next;
		if (!feed->first)
			feed->last_next = &feed->first;
		pthread_mutex_unlock(&feed->lock);
		if (!is_stopping)
			answer(feed, job);
		job->done(job);
		pthread_mutex_lock(&feed->lock);
	}
	pthread_mutex_unlock(&feed->lock);
	return NULL;
}

void view_feed_add(struct view_feed *feed, struct view_job *job)
{
	job->next = NULL;
	job->text = NULL;
	job->n_bytes = 0;
	job->status = GONE;
	pthread_mutex_lock(&feed->lock);
	bool is_ended = feed->is_stopping;
	if (!is_ended) {
		*feed->last_next = job;
		feed->last_next = &job->next;
		pthread_cond_broadcast(&feed->changed);
	}
	pthread_mutex_unlock(&feed->lock);
	if (is_ended)
		job->done(job);
}

/* ---- Begin and end ---- */

int view_feed_start(const struct view_live *live, struct view_feed **ret_feed)
{
	struct view_feed *feed = calloc(1, sizeof(*feed));
	pthread_condattr_t attributes;

	if (!feed)
		return -ENOMEM;
	feed->live = *live;
	feed->last_next = &feed->first;
	pthread_mutex_init(&feed->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&feed->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	int r = -pthread_create(&feed->looker, NULL, keep_looking, feed);
	feed->has_looker = r == 0;
	r = r ?: -pthread_create(&feed->answerer, NULL, keep_answering, feed);
	feed->has_answerer = feed->has_looker && r == 0;
	if (r < 0)
		view_feed_free(feed);
	else
		*ret_feed = feed;
	return r;
}

void view_feed_end(struct view_feed *feed)
{
	pthread_mutex_lock(&feed->lock);
	feed->is_stopping = true;
	pthread_cond_broadcast(&feed->changed);
	wake_all(feed);
	pthread_mutex_unlock(&feed->lock);
	if (feed->has_looker)
		pthread_join(feed->looker, NULL);
	if (feed->has_answerer)
		pthread_join(feed->answerer, NULL);
	feed->has_looker = feed->has_answerer = false;
}

struct view_feed *view_feed_free(struct view_feed *feed)
{
	if (!feed)
		return NULL;
	view_feed_end(feed);
	free(feed->newest);
	pthread_cond_destroy(&feed->changed);
	pthread_mutex_destroy(&feed->lock);
	free(feed);
	return NULL;
}
