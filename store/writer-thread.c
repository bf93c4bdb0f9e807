#include "store/writer-thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/worker-thread.h"

struct db_writer {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct db_job *job; /* to be taken, or being done */
	int first_error;
	bool ends;
};

static void execute(struct db_writer *writer, struct db_job *job)
{
	pthread_mutex_unlock(&writer->mutex);
	int result = job->work(job->context);
	pthread_mutex_lock(&writer->mutex);
	job->result = result;
	if (writer->first_error == 0)
		writer->first_error = result;
	job->is_going = false;
	writer->job = NULL;
	pthread_cond_broadcast(&writer->changed);
}

static void *run(void *context)
{
	struct db_writer *writer = context;

	pthread_mutex_lock(&writer->mutex);
	while (writer->job || !writer->ends) {
		if (writer->job)
			execute(writer, writer->job);
		else
			pthread_cond_wait(&writer->changed, &writer->mutex);
	}
	pthread_mutex_unlock(&writer->mutex);
	return NULL;
}

int db_writer_open(struct db_writer **ret_writer)
{
	struct db_writer *writer = calloc(1, sizeof(*writer));
	if (!writer)
		return -ENOMEM;
	pthread_mutex_init(&writer->mutex, NULL);
	pthread_cond_init(&writer->changed, NULL);
	int r = quiet_thread_start(&writer->thread, run, writer);
	if (r < 0)
		return free(writer), r;
	*ret_writer = writer;
	return 0;
}

struct db_writer *db_writer_close(struct db_writer *writer)
{
	if (!writer)
		return NULL;
	pthread_mutex_lock(&writer->mutex);
	writer->ends = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->mutex);
	pthread_join(writer->thread, NULL);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->mutex);
	free(writer);
	return NULL;
}

void db_writer_give(struct db_writer *writer, struct db_job *job)
{
	pthread_mutex_lock(&writer->mutex);
	while (writer->job)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	job->is_going = true;
	writer->job = job;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->mutex);
}

void db_writer_wait(struct db_writer *writer, struct db_job *job)
{
	pthread_mutex_lock(&writer->mutex);
	while (job->is_going)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	pthread_mutex_unlock(&writer->mutex);
}

int db_writer_take_error(struct db_writer *writer)
{
	pthread_mutex_lock(&writer->mutex);
	while (writer->job)
		pthread_cond_wait(&writer->changed, &writer->mutex);
	int error = writer->first_error;
	writer->first_error = 0;
	pthread_mutex_unlock(&writer->mutex);
	return error;
}
