/* memsight ctl */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "runner/control/client.h"

static const struct verb {
	const char *name;
	enum control_verb verb;
	const char *text; /* what it needs; NULL: nothing */
} verbs[] = {
	{ "status", CONTROL_STATUS, NULL },	{ "pause", CONTROL_PAUSE, NULL },
	{ "resume", CONTROL_RESUME, NULL },	{ "mark", CONTROL_MARK, "a TEXT" },
	{ "look", CONTROL_LOOK, NULL },		{ "reset", CONTROL_RESET, NULL },
	{ "snapshot", CONTROL_SNAPSHOT, NULL }, { "stop", CONTROL_STOP, NULL },
	{ "set", CONTROL_SET, "KEY=VALUE" },
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const char *state_of(const struct control_reply *status)
{
	if (status->has_stopped)
		return "stopped";
	return status->is_paused ? "paused" : "recording";
}

static void print_status(const struct control_reply *status)
{
	printf("trace       %s\n", status->output);
	printf("state       %s\n", state_of(status));
	printf("window      ");
	if (status->window)
		printf("%u\n", status->window);
	else
		printf("-\n");
	printf("time        %.1f s\n", (double)status->wall_ns / 1e9);
	printf("program     %u, %u processes live\n", status->command_pid, status->n_processes);
	printf("recorder    %u\n", status->recorder_pid);
	printf("events      %" PRIu64 "\n", status->n_events);
	printf("samples     %" PRIu64 "\n", status->n_samples);
	printf("trace bytes %" PRIu64 "\n", status->file_bytes);
}

/* One line for each recording of this user; of root: of all. */
static int list(void)
{
	auto_free struct control_recording *all = calloc(CONTROL_MAX_RECORDINGS, sizeof(*all));
	int n = all ? control_list(0, all) : -ENOMEM;

	if (n < 0)
		return cmd_fail("cannot look for recordings: %s", strerror(-n));
	if (n == 0)
		return cmd_fail("nothing is being recorded by this user");
	for (int i = 0; i < n; i++)
		printf("%-9s  pid %u  %.1f s  %s\n", state_of(&all[i].status),
		       all[i].status.command_pid, (double)all[i].status.wall_ns / 1e9,
		       all[i].status.output);
	return CMD_DONE;
}

static int fail_to_find(const char *what, int err)
{
	if (err == -ENOENT)
		return cmd_fail("%s: no recording of this user writes this trace or has this "
				"process; `memsight ctl' lists them",
				what);
	if (err == -ENOTUNIQ)
		return cmd_fail("%s: more than one recording is meant", what);
	return cmd_fail("cannot look for recordings: %s", strerror(-err));
}

/* --output as the recorder can use it, which runs in another folder. */
static int read_path(const struct option_set *options, struct control_request *request)
{
	const char *path = option_text(options, OPTION_SNAPSHOT_OUTPUT);
	auto_free char *folder = NULL;
	int n = 0;

	if (!path)
		return CMD_DONE;
	if (path[0] != '/') {
		folder = realpath(".", NULL);
		if (!folder)
			return cmd_fail("cannot tell the current folder: %s", strerror(errno));
	}
	n = snprintf(request->text, sizeof(request->text), "%s%s%s", folder ? folder : "",
		     folder ? "/" : "", path);
	if (n >= (int)sizeof(request->text))
		return cmd_usage("ctl: --output: the name is too long");
	request->is_forced = option_flag(options, OPTION_FORCE);
	return CMD_DONE;
}

static int find_verb(const char *name, const struct verb **ret_verb)
{
	struct parse_nearest nearest = { .word = name };

	for (size_t i = 0; i < N_VERBS; i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			*ret_verb = &verbs[i];
			return CMD_DONE;
		}
		parse_nearest_offer(&nearest, verbs[i].name);
	}
	if (nearest.name)
		return cmd_usage("ctl: unknown word '%s'; did you mean '%s'?", name, nearest.name);
	return cmd_usage("ctl: unknown word '%.60s'; status, pause, resume, mark, look, reset, "
			 "snapshot, set and stop are known",
			 name);
}

static int read_request(const struct option_set *options, const struct verb *verb,
			struct control_request *request)
{
	const char *text = options->n_operands > 2 ? options->operands[2] : NULL;

	request->verb = verb->verb;
	if (!text != !verb->text)
		return verb->text ? cmd_usage("ctl: %s needs %s", verb->name, verb->text)
				  : cmd_usage("ctl: %s takes nothing behind it", verb->name);
	if (verb->verb == CONTROL_SET && (text[0] == '=' || !strchr(text, '=')))
		return cmd_usage("ctl: set needs KEY=VALUE such as freq=499");
	if (text && (!*text || strlen(text) > 255))
		return cmd_usage("ctl: %s has 1 to 255 bytes",
				 verb->verb == CONTROL_SET ? "KEY=VALUE" : "a mark");
	if (text)
		snprintf(request->text, sizeof(request->text), "%s", text);
	if (verb->verb == CONTROL_SNAPSHOT)
		return read_path(options, request);
	if (option_text(options, OPTION_SNAPSHOT_OUTPUT))
		return cmd_usage("ctl: --output is for snapshot");
	return CMD_DONE;
}

static int tell_outcome(const struct verb *verb, const struct control_reply *reply)
{
	if (reply->error < 0)
		return cmd_fail("%s", reply->message);
	if (verb->verb == CONTROL_STATUS)
		print_status(reply);
	else if (verb->verb == CONTROL_SNAPSHOT)
		printf("%s\n", reply->path);
	else if (verb->verb == CONTROL_SET)
		printf("%s\n", reply->message);
	else if (verb->verb == CONTROL_RESET)
		printf("window %u\n", reply->window);
	return CMD_DONE;
}

int cmd_ctl(const struct option_set *options)
{
	struct control_recording recording;
	struct control_request request = { 0 };
	struct control_reply reply;
	const struct verb *verb = &verbs[0];

	if (options->n_operands == 0)
		return list();
	int status = options->n_operands > 1 ? find_verb(options->operands[1], &verb) : CMD_DONE;
	status = status ?: read_request(options, verb, &request);
	if (status != CMD_DONE)
		return status;
	int r = control_find(options->operands[0], &recording);
	if (r < 0)
		return fail_to_find(options->operands[0], r);
	r = control_ask(&recording, &request, &reply);
	if (r == -EPIPE)
		return cmd_fail("%s: the recording has ended", options->operands[0]);
	if (r < 0)
		return cmd_fail("%s: the recorder does not answer: %s", options->operands[0],
				strerror(-r));
	return tell_outcome(verb, &reply);
}
