#include "runner/host/plugins.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/parse.h"
#include "common/text.h"
#include "include/memsight-plugin.h"

#define REGISTER     "memsight_register_"
#define PATIENCE_MS  5000
#define MAX_NAME     47u
#define MAX_UNIT     15u
#define MAX_IN_CHAIN 16

/* What a child says of a component: the fields, parted by tabs, and a newline. */
enum field {
	FIELD_PLUGIN,
	FIELD_NAME,
	FIELD_UNIT,
	FIELD_KIND,
	FIELD_ABOUT,
	FIELD_MISSING,
	FIELD_INSTEAD,
	FIELD_WHERE,
	N_FIELDS
};

struct component {
	char *line; /* owned: the fields point into it */
	const char *fields[N_FIELDS];
	bool is_chosen;
};

struct plugins {
	const struct run_options *options;
	struct component *components;
	size_t n;
	size_t n_allocated;
	char *load; /* of RING_LOAD_BYTES */
	size_t n_load;
	char *message;
};

#define refuse(plugins, ...)                                                                       \
	text_refuse(-EINVAL, (plugins)->message, PLUGIN_MESSAGE_BYTES, __VA_ARGS__)

/* One more entry of ring_control.load; its last byte stays 0. */
static int add_entry(struct plugins *plugins, char what, const char *text)
{
	size_t n = strlen(text) + 2;

	if (n > RING_LOAD_BYTES - 2 - plugins->n_load)
		return refuse(plugins, "--load: names of libraries and components take more than "
				       "4 KiB: give fewer --components");
	plugins->load[plugins->n_load] = what;
	memcpy(plugins->load + plugins->n_load + 1, text, n - 1);
	plugins->n_load += n;
	return 0;
}

/* ---- The file ---- */

/* The symbols that a library exports, to be closed by elf_end(); NULL: it has none. */
static Elf_Data *open_symbols(Elf *elf, GElf_Shdr *ret_header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		if (gelf_getshdr(section, ret_header) && ret_header->sh_type == SHT_DYNSYM)
			return elf_getdata(section, NULL);
	}
	return NULL;
}

/* Call take() with each function that the library exports. */
static void each_function(int fd, void (*take)(void *user, const char *name), void *user)
{
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	GElf_Shdr header = { 0 };
	Elf_Data *data = elf ? open_symbols(elf, &header) : NULL;
	size_t n = data && header.sh_entsize ? header.sh_size / header.sh_entsize : 0;

	for (size_t i = 0; i < n && i < INT_MAX; i++) {
		GElf_Sym symbol;
		const char *name = gelf_getsym(data, (int)i, &symbol)
					   ? elf_strptr(elf, header.sh_link, symbol.st_name)
					   : NULL;

		if (name && symbol.st_shndx != SHN_UNDEF &&
		    GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
			take(user, name);
	}
	elf_end(elf);
}

/* Names of plug-ins in a library, and the symbol that is most like the one that is looked for. */
struct names {
	struct plugins *plugins;
	size_t n;
	struct parse_nearest nearest;
	char near[PLUGIN_TEXT_BYTES];
	int result;
};

static void take_function(void *user, const char *name)
{
	struct names *names = user;
	const char *before = names->nearest.name;

	if (strncmp(name, REGISTER, sizeof(REGISTER) - 1) == 0 &&
	    strlen(name) - (sizeof(REGISTER) - 1) <= MAX_NAME) {
		names->n++;
		if (names->result == 0)
			names->result = add_entry(names->plugins, RING_LOAD_REGISTER,
						  name + sizeof(REGISTER) - 1);
	}
	parse_nearest_offer(&names->nearest, name);
	if (names->nearest.name != before) { /* it goes with the file */
		snprintf(names->near, sizeof(names->near), "%s", name);
		names->nearest.name = names->near;
	}
}

static int add_plugins(struct plugins *plugins, int fd, const char *path)
{
	const char *base = text_base_name(path);
	char wanted[PLUGIN_TEXT_BYTES];
	struct names names = { .plugins = plugins };

	base += strncmp(base, "lib", 3) == 0 ? 3 : 0;
	snprintf(wanted, sizeof(wanted), REGISTER "%.*s", (int)strcspn(base, "."), base);
	names.nearest.word = wanted;
	each_function(fd, take_function, &names);
	if (names.result < 0 || names.n > 0)
		return names.result;
	return refuse(plugins, "--load %s: no function %sNAME is exported%s%s%s", path, REGISTER,
		      names.nearest.name ? "; the nearest is " : "",
		      names.nearest.name ? names.near : "",
		      names.nearest.name ? "" : " (include/memsight-plugin.h)");
}

static int check_file(struct plugins *plugins, int fd, const char *path)
{
	Elf64_Ehdr header = { 0 }, own = { 0 };
	auto_close int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (read(fd, &header, sizeof(header)) < (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(plugins, "--load %s: this is no shared library", path);
	if (self < 0 || read(self, &own, sizeof(own)) < (ssize_t)sizeof(own))
		return refuse(plugins, "--load: /proc/self/exe cannot be read");
	if (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header.e_machine != own.e_machine)
		return refuse(plugins,
			      "--load %s: it is for another processor (ELF machine %u, "
			      "this is %u)",
			      path, header.e_machine, own.e_machine);
	if (header.e_type != ET_DYN)
		return refuse(plugins, "--load %s: this is no shared library", path);
	return 0;
}

/* ---- In a process of its own ---- */

/* Where add_component() writes to, and which plug-in adds. */
static FILE *answers;
static const char *adding;

/* Tabs and newlines part fields. */
static void put_field(const char *text)
{
	for (; text && *text; text++)
		fputc((unsigned char)*text < ' ' ? ' ' : *text, answers);
	fputc('\t', answers);
}

static _Noreturn void fail_child(const char *format, const char *a, const char *b)
{
	fputc('!', answers);
	fprintf(answers, format, a, b);
	fputc('\n', answers);
	fflush(answers);
	_exit(1);
}

static bool is_name(const char *name)
{
	size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789-_.")
			: 0;

	return n > 0 && n <= MAX_NAME && !name[n];
}

static int add_component(struct memsight_plugin *plugin, uint32_t abi,
			 const struct memsight_component *component)
{
	static const char *const kinds[] = { NULL, "counter", "gauge", "max" };
	char number[16];

	(void)plugin;
	snprintf(number, sizeof(number), "%u", abi);
	if (abi == 0 || abi > MEMSIGHT_PLUGIN_ABI)
		fail_child(
			"plug-in %s is built for version %s of memsight-plugin.h, which is newer "
			"than this memsight: build it again with its own",
			adding, number);
	if (!is_name(component->name))
		fail_child("plug-in %s: '%s' is no name of a component: letters, digits and -_., "
			   "at most 47",
			   adding, component->name ? component->name : "");
	if ((unsigned)component->kind >= COUNT_OF(kinds) || !kinds[component->kind] ||
	    !component->read || !component->unit || strlen(component->unit) > MAX_UNIT)
		fail_child("plug-in %s: component %s has no kind, no read, or no unit of at most "
			   "15 bytes",
			   adding, component->name);
	put_field(adding);
	put_field(component->name);
	put_field(component->unit);
	put_field(kinds[component->kind]);
	put_field(component->about);
	put_field(component->missing);
	put_field(component->instead);
	put_field(abi > 1 && component->where & MEMSIGHT_AT_SAMPLES ? "at samples" : "");
	fputc('\n', answers);
	return fflush(answers) == 0 ? 0 : -EIO;
}

/* Do as the program will, from entry on; the library comes first. */
static _Noreturn void try_entries(const char *entry)
{
	struct memsight_plugin plugin = { .add = add_component };
	void *library = dlopen(entry + 1, RTLD_NOW | RTLD_LOCAL);
	char symbol[PLUGIN_TEXT_BYTES], number[16];

	if (!library)
		fail_child("it cannot be loaded: %s%s", dlerror(), "");
	for (entry += strlen(entry) + 1; *entry; entry += strlen(entry) + 1) {
		bool is_plugin = entry[0] == RING_LOAD_REGISTER;
		snprintf(symbol, sizeof(symbol), "%s%s", is_plugin ? REGISTER : "", entry + 1);
		void *function = dlsym(library, symbol);

		adding = symbol;
		if (!function)
			fail_child("it has no function %s%s", symbol, "");
		if (entry[0] == RING_LOAD_INIT)
			((void (*)(void))function)();
		if (!is_plugin)
			continue;
		adding = entry + 1;
		int r = ((int (*)(struct memsight_plugin *))function)(&plugin);
		snprintf(number, sizeof(number), "%d", r);
		if (r != 0)
			fail_child("%s has failed: it returned %s", symbol, number);
	}
	fputs(".\n", answers); /* all of it */
	fflush(answers);
	_exit(0);
}

static _Noreturn void be_child(int fd, const char *entry)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	for (int i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	answers = fdopen(fd, "w");
	if (!answers)
		_exit(1);
	try_entries(entry);
}

/* All that a child writes, up to its end or the end of patience; NULL: no memory. */
static char *read_answers(int fd, bool *ret_is_late)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * UINT64_C(1000000);
	char *text = NULL;
	size_t n = 0, n_allocated = 0;

	*ret_is_late = false;
	for (;;) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) + 1 : 0;

		if (grow_array_by(&text, n, 4096, &n_allocated, 1) < 0)
			return free(text), NULL;
		if (poll(&wait, 1, left_ms) == 0) {
			*ret_is_late = true;
			break;
		}
		ssize_t got = read(fd, text + n, 4095);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	return text;
}

/* One line of a child's. 1: it was the last one. */
static int take_line(struct plugins *plugins, const char *path, const char *line)
{
	if (line[0] == '.')
		return 1;
	if (line[0] == '!')
		return refuse(plugins, "--load %s: %s", path, line + 1);
	if (grow_one(&plugins->components, plugins->n, &plugins->n_allocated) < 0)
		return -ENOMEM;
	struct component component = { .line = strdup(line) };
	if (!component.line)
		return -ENOMEM;
	char *at = component.line;
	for (int i = 0; i < N_FIELDS; i++) {
		char *field = strsep(&at, "\t");
		component.fields[i] = field ? field : "";
	}
	for (size_t i = 0; i < plugins->n; i++) {
		const struct component *other = &plugins->components[i];
		if (strcmp(other->fields[FIELD_NAME], component.fields[FIELD_NAME]) != 0)
			continue;
		refuse(plugins, "--load %s: component %s is there already, of plug-in %s", path,
		       other->fields[FIELD_NAME], other->fields[FIELD_PLUGIN]);
		free(component.line);
		return -EINVAL;
	}
	plugins->components[plugins->n++] = component;
	return 0;
}

static int take_answers(struct plugins *plugins, const char *path, char *text, int status,
			bool is_late)
{
	int r = 0;

	for (char *line; r == 0 && (line = strsep(&text, "\n")) && *line;)
		r = take_line(plugins, path, line);
	if (r != 0)
		return r < 0 ? r : 0;
	if (is_late)
		return refuse(plugins, "--load %s: it does not come to an end within 5 s", path);
	if (WIFSIGNALED(status))
		return refuse(plugins,
			      "--load %s: it crashes when it is loaded and registered "
			      "(SIG%s)",
			      path, sigabbrev_np(WTERMSIG(status)));
	return refuse(plugins, "--load %s: it ends the process that loads it", path);
}

static int try_library(struct plugins *plugins, const char *path, const char *entry)
{
	auto_close int from = -1;
	bool is_late = false;
	int fds[2], status = 0;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	from = fds[0];
	pid_t child = fork();
	if (child == 0)
		be_child(fds[1], entry);
	close(fds[1]);
	if (child < 0)
		return -errno;
	auto_free char *text = read_answers(from, &is_late);
	if (is_late || !text)
		kill(child, SIGKILL);
	TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
	return text ? take_answers(plugins, path, text, status, is_late) : -ENOMEM;
}

/* ---- Which components ---- */

static struct component *find(struct plugins *plugins, const char *name)
{
	return array_find(plugins->components, plugins->n, it,
			  strcmp(it->fields[FIELD_NAME], name) == 0);
}

/* What is tried for a component: it, what stands in for it, and so on. */
static void write_chain(struct plugins *plugins, const struct component *component, char *text,
			size_t n_bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; component && i < MAX_IN_CHAIN && n < n_bytes; i++) {
		n += (size_t)snprintf(text + n, n_bytes - n, "%s%s", i ? "|" : "",
				      component->fields[FIELD_NAME]);
		component = find(plugins, component->fields[FIELD_INSTEAD]);
	}
}

/* The first of a chain that can be read; NULL: none. */
static struct component *first_readable(struct plugins *plugins, struct component *component)
{
	for (int i = 0; component && i < MAX_IN_CHAIN; i++) {
		if (!component->fields[FIELD_MISSING][0])
			return component;
		component = find(plugins, component->fields[FIELD_INSTEAD]);
	}
	return NULL;
}

static int refuse_name(struct plugins *plugins, const char *name)
{
	struct parse_nearest nearest = { .word = name };

	for (size_t i = 0; i < plugins->n; i++)
		parse_nearest_offer(&nearest, plugins->components[i].fields[FIELD_NAME]);
	return refuse(plugins, "--components: no plug-in of --load has '%s'%s%s%s", name,
		      nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "",
		      nearest.name ? "?" : "");
}

/* One of --components: NAME, or NAME|NAME where the first that can be read is taken. */
static int choose(struct plugins *plugins, char *names)
{
	auto_free char *shown = strdup(names);
	struct component *chosen = NULL, *last = NULL;

	if (!shown)
		return -ENOMEM;
	for (char *name; (name = strsep(&names, "|"));) {
		last = find(plugins, name);
		if (!last)
			return refuse_name(plugins, name);
		if (!chosen && !last->fields[FIELD_MISSING][0])
			chosen = last;
	}
	if (!chosen)
		chosen = first_readable(plugins, last);
	if (!chosen)
		return refuse(plugins, "--components: %s cannot be read here: %s", shown,
			      last->fields[FIELD_MISSING]);
	chosen->is_chosen = true;
	return 0;
}

static int choose_all(struct plugins *plugins)
{
	auto_free char *list =
		plugins->options->components ? strdup(plugins->options->components) : NULL;
	char *at = list;
	int r = 0;

	if (plugins->options->components && !list)
		return -ENOMEM;
	for (size_t i = 0; !list && i < plugins->n; i++)
		plugins->components[i].is_chosen = !plugins->components[i].fields[FIELD_MISSING][0];
	for (char *names; r == 0 && at && (names = strsep(&at, ","));)
		r = choose(plugins, names);
	for (size_t i = 0; r == 0 && i < plugins->n; i++) {
		if (plugins->components[i].is_chosen)
			r = add_entry(plugins, RING_LOAD_COMPONENT,
				      plugins->components[i].fields[FIELD_NAME]);
	}
	return r;
}

static int give_all(struct plugins *plugins, plugin_sink sink, void *user)
{
	int r = 0;

	for (size_t i = 0; sink && r == 0 && i < plugins->n; i++) {
		const struct component *own = &plugins->components[i];
		char chain[4 * PLUGIN_TEXT_BYTES];

		write_chain(plugins, own, chain, sizeof(chain));
		r = sink(user, &(struct plugin_component){
				       own->fields[FIELD_PLUGIN], own->fields[FIELD_NAME],
				       own->fields[FIELD_UNIT], own->fields[FIELD_KIND],
				       own->fields[FIELD_ABOUT], own->fields[FIELD_MISSING], chain,
				       own->fields[FIELD_WHERE], own->is_chosen });
	}
	return r;
}

/* ---- All libraries ---- */

static int add_functions(struct plugins *plugins, char what, const char *list)
{
	auto_free char *copy = list ? strdup(list) : NULL;
	char *at = copy;
	int r = list && !copy ? -ENOMEM : 0;

	for (char *name; r == 0 && at && (name = strsep(&at, ","));)
		r = add_entry(plugins, what, name);
	return r;
}

static int load_one(struct plugins *plugins, const char *given, bool is_first)
{
	const char *entry = plugins->load + plugins->n_load;
	auto_free char *path = realpath(given, NULL);
	auto_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return refuse(plugins, "--load %s: %s", given, strerror(errno));
	int r = check_file(plugins, fd, given) ?: add_entry(plugins, RING_LOAD_LIBRARY, path);
	/* They are the first library's. */
	if (r == 0 && is_first)
		r = add_functions(plugins, RING_LOAD_INIT, plugins->options->init_functions);
	r = r ?: add_plugins(plugins, fd, given);
	if (r == 0 && is_first)
		r = add_functions(plugins, RING_LOAD_FINI, plugins->options->fini_functions);
	return r == 0 ? try_library(plugins, given, entry) : r;
}

int plugins_prepare(const struct run_options *options, char load[RING_LOAD_BYTES], plugin_sink sink,
		    void *user, char message[PLUGIN_MESSAGE_BYTES])
{
	struct plugins plugins = { .options = options, .load = load, .message = message };
	int r = 0;

	memset(load, 0, RING_LOAD_BYTES);
	if (!options->load)
		return !options->components && !options->init_functions && !options->fini_functions
			       ? 0
			       : refuse(&plugins, "--components, --init-functions and "
						  "--fini-functions are those of a plug-in: "
						  "name it by --load FILE.so");
	if (options->no_alloc)
		return refuse(&plugins, "--load needs the library that --no-alloc leaves out");
	elf_version(EV_CURRENT);
	for (size_t i = 0; r == 0 && options->load[i]; i++)
		r = load_one(&plugins, options->load[i], i == 0);
	r = r ?: choose_all(&plugins) ?: give_all(&plugins, sink, user);
	array_free(plugins.components, plugins.n, it, free(it->line));
	return r;
}
