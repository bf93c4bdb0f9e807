#include "analyze/symbols/debug-file.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/clock.h"

bool debug_server_is_named(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && *urls;
}

#ifdef HAVE_DEBUGINFOD
#define LIBRARY	    "libdebuginfod.so.1"
#define PATIENCE_NS INT64_C(20000000000) /* without an answer, or without a byte */

/* As in elfutils/debuginfod.h. */
typedef int (*progress_function)(debuginfod_client *client, long n_bytes, long n_all_bytes);
typedef void (*set_progress_function)(debuginfod_client *client, progress_function progress);
typedef void (*set_user_function)(debuginfod_client *client, void *user);
typedef void *(*get_user_function)(debuginfod_client *client);
typedef int (*find_function)(debuginfod_client *client, const unsigned char *build_id,
			     int build_id_bytes, char **ret_path);

/* A function of the library, which libdw has loaded if it has a client at all. */
static void *function_of(const char *name)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL); /* and stays */

	return library ? dlsym(library, name) : NULL;
}

/* ISO C has no cast from an object's address to a function's. */
#define LOAD(variable, name)                                                                       \
	do {                                                                                       \
		void *symbol_ = function_of(name);                                                 \
		memcpy(&(variable), &symbol_, sizeof(variable));                                   \
	} while (0)

/* Called a few times in a second while a server is waited for; other than 0 ends it. */
static int on_progress(debuginfod_client *client, long n_bytes, long n_all_bytes)
{
	get_user_function get_user;
	LOAD(get_user, "debuginfod_get_user_data");
	struct debug_server *server = get_user ? get_user(client) : NULL;

	if (!server || server->has_given_up)
		return 1;
	/* Before a server has answered, n_bytes only counts how often it was looked. */
	if (n_all_bytes > 0 && n_bytes != server->n_bytes)
		server->began_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
	server->n_bytes = n_bytes;
	if ((int64_t)clock_ns(CLOCK_MONOTONIC) - server->began_ns > PATIENCE_NS)
		server->has_given_up = true;
	if (server->places->fetching && n_all_bytes > 0)
		server->places->fetching(server->places->context, server->path, n_bytes,
					 n_all_bytes);
	return server->has_given_up;
}

static debuginfod_client *client_of(struct debug_server *server, Dwfl *dwfl)
{
	debuginfod_client *client =
		debug_server_is_named() && dwfl ? dwfl_get_debuginfod_client(dwfl) : NULL;
	set_progress_function set_progress;
	set_user_function set_user;

	if (!client)
		return NULL;
	LOAD(set_progress, "debuginfod_set_progressfn");
	LOAD(set_user, "debuginfod_set_user_data");
	if (!set_progress || !set_user)
		return NULL;
	set_user(client, server);
	set_progress(client, on_progress);
	return client;
}

void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path)
{
	server->path = path;
	server->n_bytes = 0;
	server->began_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
	client_of(server, dwfl);
}

int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path)
{
	debuginfod_client *client = server->has_given_up ? NULL : client_of(server, dwfl);
	find_function find;

	if (!client)
		return -1;
	LOAD(find, "debuginfod_find_executable");
	return find ? find(client, (const unsigned char *)build_id, 0, ret_path) : -1;
}
#else
void debug_server_expect(struct debug_server *server, Dwfl *dwfl, const char *path)
{
	(void)dwfl;
	server->path = path;
}

int debug_server_fetch(struct debug_server *server, Dwfl *dwfl, const char *build_id,
		       char **ret_path)
{
	(void)server;
	(void)dwfl;
	(void)build_id;
	(void)ret_path;
	return -1;
}
#endif

void debug_server_init(struct debug_server *server, const struct symbol_places *places)
{
	*server = (struct debug_server){ .places = places };
}

char *object_file_hex(const uint8_t *bytes, size_t n_bytes)
{
	char *text = malloc(2 * n_bytes + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < n_bytes; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	text[2 * n_bytes] = '\0';
	return text;
}

int debug_file_open(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	return fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ? -1 : steal_fd(&fd);
}

/* NULL without memory: a path that is not there. */
static char *joined(const char *a, const char *b)
{
	char *text = NULL;

	return asprintf(&text, "%s%s", a, b) < 0 ? NULL : text;
}

char *debug_file_folder(const struct symbol_places *places, size_t i)
{
	for (const char *const *dir = places->debug_dirs; dir && *dir; dir++) {
		if (i-- == 0)
			return strdup(*dir);
	}
	if (places->sysroot && i-- == 0)
		return joined(places->sysroot, "/usr/lib/debug");
	return places->archive && i == 0 ? strdup(places->archive) : NULL;
}

char *debug_file_by_id(const char *folder, const char *build_id, const char *ending)
{
	char *path = NULL;

	if (strlen(build_id) < 3 ||
	    asprintf(&path, "%s/.build-id/%.2s/%s%s", folder, build_id, build_id + 2, ending) < 0)
		return NULL;
	return path;
}

char *debug_file_plain_path(const char *path)
{
	char *plain = malloc(strlen(path) + 2);
	size_t n = 0;

	for (const char *part = path; plain && *(part += strspn(part, "/"));
	     part += strcspn(part, "/")) {
		size_t n_part = strcspn(part, "/");

		if (n_part == 2 && memcmp(part, "..", 2) == 0) {
			while (n > 0 && plain[--n] != '/')
				;
		} else if (n_part != 1 || *part != '.') {
			plain[n++] = '/';
			memcpy(plain + n, part, n_part);
			n += n_part;
		}
	}
	if (plain)
		plain[n] = '\0';
	return plain;
}

char *debug_file_build_id(Elf *elf)
{
	const void *bits = NULL;
	ssize_t n = dwelf_elf_gnu_build_id(elf, &bits);

	return n > 0 ? object_file_hex(bits, (size_t)n) : NULL;
}

static bool has_build_id(int fd, const char *build_id)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	auto_free char *found = elf ? debug_file_build_id(elf) : NULL;

	elf_end(elf);
	return found && strcmp(found, build_id) == 0;
}

/* The checksum of .gnu_debuglink is zlib's over the whole file. */
static bool has_checksum(int fd, GElf_Word checksum)
{
	unsigned char bytes[16384];
	uLong sum = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		sum = crc32(sum, bytes, (uInt)n);
		at += n;
	}
	return n == 0 && sum == checksum;
}

/* What a debug file must be. */
struct wanted {
	const char *build_id; /* hex; NULL: not known */
	bool has_checksum;
	GElf_Word checksum;
};

/* Open path if it is the file that is wanted; a descriptor or -1. */
static int open_wanted(const char *path, const struct wanted *wanted)
{
	auto_close int fd = path ? debug_file_open(path) : -1;

	if (fd < 0 ||
	    (wanted->build_id ? !has_build_id(fd, wanted->build_id)
			      : !wanted->has_checksum || !has_checksum(fd, wanted->checksum)))
		return -1;
	return steal_fd(&fd);
}

/* FOLDER/PATH/LINK and FOLDER/LINK; without a link NAME.debug. */
static int open_by_name(const char *folder, const char *file_name, const char *link,
			const struct wanted *wanted, char **ret_path)
{
	const char *slash = strrchr(file_name, '/');
	const char *base = slash ? slash + 1 : file_name;
	int n_directory = slash ? (int)(slash - file_name) : 0;
	const char *ending = link ? "" : ".debug";

	for (int without = 0; without < 2; without++) {
		char *path = NULL;
		if (asprintf(&path, "%s%.*s/%s%s", folder, without ? 0 : n_directory, file_name,
			     link ? link : base, ending) < 0)
			return -1;
		int fd = open_wanted(path, wanted);
		if (fd >= 0) {
			*ret_path = path;
			return fd;
		}
		free(path);
	}
	return -1;
}

static int open_in(const char *folder, const char *file_name, const char *link,
		   const struct wanted *wanted, char **ret_path)
{
	char *path = wanted->build_id ? debug_file_by_id(folder, wanted->build_id, ".debug") : NULL;
	int fd = open_wanted(path, wanted);

	if (fd >= 0) {
		*ret_path = path;
		return fd;
	}
	free(path);
	return file_name ? open_by_name(folder, file_name, link, wanted, ret_path) : -1;
}

/*
 * The build-id (hex, allocated) of the file with what several debug files share (dwz); NULL: none
 * is named. *ret_name points into the ELF file.
 */
static char *debug_file_shared(Elf *elf, const char **ret_name)
{
	Elf_Scn *section = NULL;
	size_t names = 0;

	if (!elf || elf_getshdrstrndx(elf, &names) < 0)
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(section, &header)
					   ? elf_strptr(elf, names, header.sh_name)
					   : NULL;
		if (!name || strcmp(name, ".gnu_debugaltlink") != 0)
			continue;
		Elf_Data *data = elf_rawdata(section, NULL);
		const char *text = data ? data->d_buf : NULL;
		size_t n = text ? strnlen(text, data->d_size) : 0;

		*ret_name = text;
		return text && n + 1 < data->d_size ? object_file_hex((const uint8_t *)text + n + 1,
								      data->d_size - n - 1)
						    : NULL;
	}
	return NULL;
}

/* Of the file's debug file if that was found by us, else of the file. */
static char *shared_build_id(const struct object *object)
{
	const char *name;
	auto_close int fd = object->debug_file ? debug_file_open(object->debug_file) : -1;
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	char *build_id = debug_file_shared(elf ? elf : object->elf, &name);

	elf_end(elf);
	return build_id;
}

static int find_in_places(struct object *object, const char *file_name, const char *link,
			  const struct wanted *wanted, char **ret_path)
{
	for (size_t i = 0;; i++) {
		auto_free char *folder = debug_file_folder(object->places, i);
		if (!folder)
			return -1;
		int fd = open_in(folder, file_name, link, wanted, ret_path);
		if (fd >= 0)
			return fd;
	}
}

/* Where gdb's manual (Separate Debug Files) has them: /usr/lib/debug, and beside the file. */
static int find_usual(const char *file_name, const char *link, const struct wanted *wanted,
		      char **ret_path)
{
	auto_free char *hidden = link ? joined(".debug/", link) : NULL;
	int fd = open_in("/usr/lib/debug", file_name, link, wanted, ret_path);

	if (fd < 0 && hidden)
		fd = open_by_name("", file_name, hidden, wanted, ret_path);
	return fd < 0 && link ? open_by_name("", file_name, link, wanted, ret_path) : fd;
}

int debug_file_find(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		    const char *file_name, const char *link, GElf_Word checksum, char **ret_path)
{
	struct object *object = *userdata;
	/* Without a file's name it is asked for the file that debug files share. */
	auto_free char *own = file_name ? debug_file_build_id(object->elf) : NULL;
	auto_free char *shared = file_name ? NULL : shared_build_id(object);
	const struct wanted wanted = {
		.build_id = file_name ? own : shared,
		.has_checksum = file_name && link,
		.checksum = checksum,
	};
	int fd = find_in_places(object, file_name ? object->path : NULL, link, &wanted, ret_path);

	if (fd >= 0 && file_name) {
		free(object->debug_file);
		object->debug_file = strdup(*ret_path);
	}
	if (fd >= 0)
		return fd;
	/* libdwfl loads the client of servers, and 20 libraries with it, before it looks. */
	if (file_name && !debug_server_is_named())
		return find_usual(file_name, link, &wanted, ret_path);
	debug_server_expect(object->server, object->dwfl, object->path);
	return dwfl_standard_find_debuginfo(module, userdata, name, base, file_name, link, checksum,
					    ret_path);
}
