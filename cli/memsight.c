#include <Zydis/Zydis.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>
#include <zstd.h>

#include "cli/cmd.h"
#include "cli/copy-run.h"
#include "cli/options/config-file.h"
#include "cli/options/option-help.h"
#include "common/parse.h"

/* Print the versions of memsight and of the libraries that it runs with. Returns an exit status. */
static int version_print(FILE *file)
{
	ZyanU64 zydis = ZydisGetVersion();

	fprintf(file, "memsight %s\n", MEMSIGHT_VERSION);
	fprintf(file, "libzstd %s\n", ZSTD_versionString());
	fprintf(file, "sqlite %s\n", sqlite3_libversion());
	fprintf(file, "zydis %u.%u.%u\n", (unsigned)ZYDIS_VERSION_MAJOR(zydis),
		(unsigned)ZYDIS_VERSION_MINOR(zydis), (unsigned)ZYDIS_VERSION_PATCH(zydis));
	fprintf(file, "elfutils %s\n", dwfl_version(NULL));
	return CMD_DONE;
}

#define DEFAULT_COLUMNS 80
#define MAX_COLUMNS	100
#define STACK_BYTES	(8u << 20) /* as most systems give a program */

static int (*const commands[COMMAND_COUNT])(const struct option_set *) = {
#define COMMAND(id, name, ...) [COMMAND_##id] = cmd_##name,
#include "schemas/commands.def"
#undef COMMAND
};

static unsigned terminal_columns(void)
{
	struct winsize size = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return DEFAULT_COLUMNS;
	return size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
}

static int find_command(const char *name, enum command_id *ret_command)
{
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		if (strcmp(option_command((enum command_id)i)->name, name) == 0) {
			*ret_command = (enum command_id)i;
			return 0;
		}
	}
	return -ENOENT;
}

static int unknown_command(const char *name)
{
	struct parse_nearest nearest = { .word = name };
	const char *foreign = option_foreign_hint(COMMAND_GLOBAL, name);

	if (foreign)
		return cmd_usage("unknown command '%s'; %s", name, foreign);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		parse_nearest_offer(&nearest, option_command((enum command_id)i)->name);
	if (nearest.name)
		return cmd_usage("unknown command '%s'; did you mean '%s'?", name, nearest.name);
	return cmd_usage("unknown command '%.60s'; `memsight --help' lists them", name);
}

static int print_help(enum command_id command)
{
	option_print_help(command, terminal_columns(), stdout);
	return CMD_DONE;
}

/* memsight help [COMMAND] */
static int help(const char *name)
{
	enum command_id command;

	if (!name)
		return print_help(COMMAND_GLOBAL);
	return find_command(name, &command) < 0 ? unknown_command(name) : print_help(command);
}

static int report_usage(const struct option_set *options, int r)
{
	const char *name = option_command(options->command)->name;

	if (r == -ENOMEM)
		return cmd_fail("out of memory");
	if (!name)
		return cmd_usage("%s (see memsight --help)", options->message);
	return cmd_usage("%s: %s (see memsight %s --help)", name, options->message, name);
}

/* Which options a preset stands for, of which some may have been given otherwise. */
static void print_preset(const struct option_set *options)
{
	char text[512];

	option_words_from(options, OPTION_UNSET, text, sizeof(text));
	cmd_warn("preset %s:%s", option_choice_name(option_choice(options, OPTION_PRESET)),
		 *text ? text : " all given");
}

static int run_command(enum command_id command, int n_args, char **argv)
{
	auto_options struct option_set options;
	struct config_file files[CONFIG_COUNT] = { 0 };
	int r = option_parse(command, n_args, argv, &options);

	if (r == 0 && option_flag(&options, OPTION_HELP))
		return print_help(command);
	r = r ?: copy_options_take(&options) ?: config_files_take(&options, files);
	if (r < 0)
		return copy_run_unrecorded(&options, report_usage(&options, r));
	for (int i = 0; i < CONFIG_COUNT; i++) {
		if (files[i].why_not[0])
			cmd_warn("%s is not read: %s (docs/settings.md)", files[i].path,
				 files[i].why_not);
	}
	if (options.has_preset && !option_flag(&options, OPTION_QUIET))
		print_preset(&options);
	return commands[command](&options);
}

static int dispatch(const struct option_set *global)
{
	const char *name = global->operands[0];
	enum command_id command;

	if (option_flag(global, OPTION_HELP))
		return print_help(COMMAND_GLOBAL);
	if (option_flag(global, OPTION_VERSION))
		return version_print(stdout);
	if (!name)
		return cmd_usage("which command? `memsight --help' lists them");
	if (strcmp(name, "help") == 0)
		return help(global->operands[1]);
	if (find_command(name, &command) < 0)
		return unknown_command(name);
	return run_command(command, global->n_operands - 1, global->operands + 1);
}

/* Output that did not arrive (full disk) is a failure, whatever the command thought. */
static int flush_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	int failed = cmd_fail("cannot write to standard output: %s", strerror(errno));
	return status == CMD_DONE ? failed : status;
}

static int run_words(int argc, char **argv)
{
	auto_options struct option_set global;
	int r = option_parse(COMMAND_GLOBAL, argc > 0 ? argc - 1 : 0, argv + 1, &global);

	return r < 0 ? report_usage(&global, r) : flush_output(dispatch(&global));
}

/* What a stack of our own runs. */
struct whole {
	ucontext_t before;
	ucontext_t own;
	int argc;
	char **argv;
	int status;
};

/* makecontext(3) hands numbers on. */
static void run_whole(unsigned upper, unsigned lower)
{
	struct whole *whole = (struct whole *)((uintptr_t)upper << 32 | lower);

	whole->status = run_words(whole->argc, whole->argv);
}

/*
 * The program that is recorded may need a small stack (ulimit -s); we, and libdw, and SQLite need
 * more than that. The limit is left alone, as it is the program's. Returns the exit status.
 */
static int run_on_stack(void *stack, size_t n_bytes, int argc, char **argv)
{
	struct whole whole = { .argc = argc, .argv = argv };
	uintptr_t at = (uintptr_t)&whole;
	pthread_attr_t threads;

	pthread_attr_init(&threads);
	if (pthread_attr_setstacksize(&threads, n_bytes) == 0)
		pthread_setattr_default_np(&threads);
	pthread_attr_destroy(&threads);
	getcontext(&whole.own);
	whole.own.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = n_bytes };
	whole.own.uc_link = &whole.before;
	makecontext(&whole.own, (void (*)(void))run_whole, 2, (unsigned)(at >> 32), (unsigned)at);
	swapcontext(&whole.before, &whole.own);
	return whole.status;
}

int main(int argc, char **argv)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	void *stack = MAP_FAILED;

	getrlimit(RLIMIT_STACK, &limit);
	if (limit.rlim_cur < STACK_BYTES)
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	return stack == MAP_FAILED ? run_words(argc, argv)
				   : run_on_stack(stack, STACK_BYTES, argc, argv);
}
