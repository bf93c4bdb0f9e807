/*
 * Parses whatever words as the command line of a command: the first byte says which, words end with
 * a newline. What is understood is then read as a selection, and each word as the texts that
 * options take.
 */
#include <errno.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/database.h"
#include "cli/options/selection-options.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "runner/watch/target.h"
#include "tests/robust/fuzz/fuzz.h"

#define MAX_WORDS 64

/* In place of cmd.c and database.c: nothing is printed, and there is no database. */
int cmd_say(int status, const char *format, ...)
{
	(void)format;
	return status;
}

int database_find_run(sqlite3 *db, const char *path, const char *selector, int64_t *ret_run_id)
{
	FUZZ_REQUIRE(!db && path);
	*ret_run_id = selector ? (int64_t)strlen(selector) : 1;
	return CMD_DONE;
}

static void read_texts(const char *word)
{
	struct watch_target target;
	struct parse_nearest nearest = { .word = word };
	char message[256] = "";
	auto_free char *copy = strdup(word);
	char *words[8];
	uint64_t number;
	int64_t ns;
	size_t n;

	FUZZ_REQUIRE(copy);
	if (parse_number(word, &number) == 0)
		FUZZ_REQUIRE(strspn(word, "0123456789") == strlen(word));
	parse_size(word, &number);
	if (parse_duration(word, &ns) == 0)
		FUZZ_REQUIRE(ns >= 0);
	parse_nearest_offer(&nearest, "memory");
	parse_words(copy, words, 8, &n);
	int r = watch_target_parse(word, &target, message, sizeof(message));
	FUZZ_REQUIRE(r == 0 || (message[0] && !strchr(message, '\n')));
}

static void read_selection(const struct option_set *options)
{
	struct selection selection = { 0 };

	if (options->command != COMMAND_REPORT || options->n_operands == 0)
		return;
	if (selection_options_read(options, NULL, &selection) == CMD_DONE)
		FUZZ_REQUIRE(selection.from_ns < selection.to_ns &&
			     selection.low <= selection.high && selection.n_runs > 0);
	free((void *)selection.runs);
}

static void parse(enum command_id command, int n_words, char **words)
{
	auto_options struct option_set options = { 0 };
	int r = option_parse(command, n_words, words, &options);

	FUZZ_REQUIRE(r == 0 || r == -EINVAL);
	if (r < 0) {
		FUZZ_REQUIRE(options.message[0]);
		return;
	}
	FUZZ_REQUIRE(options.n_operands <= n_words);
	read_selection(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	enum command_id command = (enum command_id)(fuzz_take(&bytes, &n_bytes, 1) % COMMAND_COUNT);
	auto_free char *text = strndup((const char *)bytes, n_bytes);
	char *words[MAX_WORDS + 1] = { NULL };
	int n_words = 0;

	FUZZ_REQUIRE(text);
	for (char *rest = text; rest && n_words < MAX_WORDS;) {
		words[n_words] = strsep(&rest, "\n");
		read_texts(words[n_words++]);
	}
	words[n_words] = NULL;
	parse(command, n_words, words);
	return 0;
}
