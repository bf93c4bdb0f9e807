#include "report/export/pseudonyms.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/hash-map.h"

struct pseudonyms {
	struct key_map numbers; /* 128-bit hash of kind and text -> number */
	uint64_t n;
};

static void destroy(void *user)
{
	struct pseudonyms *pseudonyms = user;

	key_map_finish(&pseudonyms->numbers);
	free(pseudonyms);
}

/* The number of a text, from 1; 0: no memory. */
static uint64_t number_of(struct pseudonyms *pseudonyms, const char *kind, const char *text,
			  size_t n_bytes)
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(text, n_bytes, XXH3_64bits(kind, strlen(kind)));
	uint64_t number = key_map_get(&pseudonyms->numbers, hash.low64, hash.high64);

	if (number)
		return number;
	number = pseudonyms->n + 1;
	if (key_map_put(&pseudonyms->numbers, hash.low64, hash.high64, number) < 0)
		return 0;
	return pseudonyms->n = number;
}

static void give(sqlite3_context *context, sqlite3_str *text)
{
	int n_bytes = sqlite3_str_length(text);
	int result = sqlite3_str_errcode(text);
	char *bytes = sqlite3_str_finish(text);

	if (result != SQLITE_OK)
		sqlite3_result_error_code(context, result);
	else
		sqlite3_result_text(context, bytes ? bytes : sqlite3_mprintf(""), n_bytes,
				    sqlite3_free);
}

static bool append(struct pseudonyms *pseudonyms, sqlite3_str *out, const char *kind,
		   const char *text, size_t n_bytes)
{
	uint64_t number = number_of(pseudonyms, kind, text, n_bytes);

	sqlite3_str_appendf(out, "%s_%llu", kind, (unsigned long long)number);
	return number;
}

/* Whether there is nothing to replace: then the value itself is the result. */
static bool is_nothing(sqlite3_context *context, sqlite3_value *value)
{
	if (sqlite3_value_type(value) == SQLITE_NULL || sqlite3_value_bytes(value) == 0) {
		sqlite3_result_value(context, value);
		return true;
	}
	return false;
}

static void of_text(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);

	(void)n;
	if (is_nothing(context, values[1]))
		return;
	sqlite3_str *out = sqlite3_str_new(NULL);
	const char *text = (const char *)sqlite3_value_text(values[1]);

	if (append(pseudonyms, out, (const char *)sqlite3_value_text(values[0]), text,
		   (size_t)sqlite3_value_bytes(values[1]))) {
		give(context, out);
		return;
	}
	sqlite3_free(sqlite3_str_finish(out));
	sqlite3_result_error_nomem(context);
}

static void give_path(sqlite3_context *context, const char *path)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);
	sqlite3_str *out = sqlite3_str_new(NULL);
	bool is_whole = true;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n)
			is_whole &= append(pseudonyms, out, "name", path, n);
		path += n;
		if (*path == '/') {
			sqlite3_str_appendchar(out, 1, '/');
			path++;
		}
	}
	if (is_whole) {
		give(context, out);
		return;
	}
	sqlite3_free(sqlite3_str_finish(out));
	sqlite3_result_error_nomem(context);
}

static void of_path(sqlite3_context *context, int n, sqlite3_value **values)
{
	(void)n;
	if (!is_nothing(context, values[0]))
		give_path(context, (const char *)sqlite3_value_text(values[0]));
}

static void of_object(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct pseudonyms *pseudonyms = sqlite3_user_data(context);

	(void)n;
	if (is_nothing(context, values[0]))
		return;
	const char *text = (const char *)sqlite3_value_text(values[0]);
	if (text[strspn(text, "0123456789abcdef")]) {
		give_path(context, text);
		return;
	}
	uint64_t number = number_of(pseudonyms, "object", text, strlen(text));
	char hex[48];
	snprintf(hex, sizeof(hex), "%040llx", (unsigned long long)number);
	if (number)
		sqlite3_result_text(context, hex, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_error_nomem(context);
}

int pseudonyms_register(sqlite3 *db)
{
	struct pseudonyms *pseudonyms = calloc(1, sizeof(*pseudonyms));
	int flags = SQLITE_UTF8;

	if (!pseudonyms)
		return SQLITE_NOMEM;
	/* On failure SQLite calls the destructor, too. */
	int r = sqlite3_create_function_v2(db, "pseudonym", 2, flags, pseudonyms, of_text, NULL,
					   NULL, destroy);
	if (r == SQLITE_OK)
		r = sqlite3_create_function_v2(db, "pseudonym_path", 1, flags, pseudonyms, of_path,
					       NULL, NULL, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_create_function_v2(db, "pseudonym_object", 1, flags, pseudonyms,
					       of_object, NULL, NULL, NULL);
	return r;
}
