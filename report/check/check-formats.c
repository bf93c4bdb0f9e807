/*
 * Results of `memsight check` for people and for servers of continuous integration. Numbers of JSON
 * are raw; the rest has them as text.
 */
#include "report/check/check.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/text-stream.h"
#include "common/utf8.h"
#include "report/text/json.h"

static int stream_verdict(FILE *out)
{
	return ferror(out) ? -EIO : 0;
}

static size_t count(const struct check_results *results, enum check_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < results->n; i++)
		n += results->items[i].verdict == verdict;
	return n;
}

/* "16.5 MiB", or "16.5 MiB, +12.1 % of 14.7 MiB" */
static void write_value(FILE *out, const struct check_result *result)
{
	fputs(check_rule_text(result->rule, result->value).text, out);
	if (!result->is_change)
		return;
	fprintf(out, " (%s before", check_rule_text(result->rule, result->before).text);
	if (result->before > 0)
		fprintf(out, ", %+.1f %%", 100 * (result->value / result->before - 1));
	if (result->half > 0 && result->before > 0)
		fprintf(out, " \u00b1%.1f", 100 * result->half / result->before);
	fputs(")", out);
}

static void write_most(FILE *out, const struct check_result *result)
{
	fprintf(out, "at most %s", check_rule_text(result->rule, result->most).text);
}

/* ---- Text ---- */

static void write_line(FILE *out, const struct check_result *result)
{
	fprintf(out, "%-9s  %-11s  ", check_verdict_name(result->verdict),
		check_rule_name(result->rule));
	write_value(out, result);
	fputs(", ", out);
	write_most(out, result);
	if (result->why)
		fprintf(out, ": not known, %s", result->why);
	fputc('\n', out);
	for (size_t i = 0; i < result->n_places; i++)
		fprintf(out, "           %s%-10s %s\n", result->is_change ? "+" : "",
			check_rule_text(result->rule, (double)result->places[i].value).text,
			result->places[i].text);
}

int check_write_text(FILE *out, const struct check_results *results, const char *name)
{
	size_t n_exceeded = count(results, CHECK_EXCEEDED);
	size_t n_unknown = count(results, CHECK_NOT_KNOWN);

	for (size_t i = 0; i < results->n; i++)
		write_line(out, &results->items[i]);
	fprintf(out, "%s: %zu of %zu limits kept", name, results->n - n_exceeded - n_unknown,
		results->n);
	if (n_exceeded)
		fprintf(out, ", %zu exceeded", n_exceeded);
	if (n_unknown)
		fprintf(out, ", %zu not known (--allow-losses judges what was recorded)",
			n_unknown);
	fputc('\n', out);
	return stream_verdict(out);
}

/* ---- JSON ---- */

static void add_places(struct json *json, const struct check_result *result)
{
	json_set_open(json, "places", '[');
	for (size_t i = 0; i < result->n_places; i++) {
		const struct check_place *place = &result->places[i];

		json_open(json, '{');
		json_set_integer(json, "value", place->value);
		json_set_text(json, "text", place->text);
		json_set_text(json, "file", place->file);
		json_name(json, "line");
		if (place->file)
			json_integer(json, place->line);
		else
			json_null(json);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void add_result(struct json *json, const struct check_result *result)
{
	json_open(json, '{');
	json_set_text(json, "rule", check_rule_name(result->rule));
	json_set_text(json, "against", result->is_change ? "runs" : "limit");
	json_set_text(json, "verdict", check_verdict_name(result->verdict));
	json_set_real(json, "value", result->value);
	json_set_real(json, "at_most", result->most);
	json_set_real(json, "before", result->is_change ? result->before : NAN);
	json_set_real(json, "half", result->half >= 0 ? result->half : NAN);
	json_set_text(json, "why_not_known", result->why);
	add_places(json, result);
	json_close(json, '}');
}

int check_write_json(FILE *out, const struct check_results *results, const char *name)
{
	auto_json struct json json = { .is_plain = true };
	auto_free char *bytes = NULL;
	size_t n_bytes = 0;

	json_open(&json, '{');
	json_set_text(&json, "name", name);
	json_set_text(&json, "verdict", check_verdict_name(check_worst(results)));
	json_set_open(&json, "checks", '[');
	for (size_t i = 0; i < results->n; i++)
		add_result(&json, &results->items[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	int r = json_finish(&json, &bytes, &n_bytes);
	if (r < 0)
		return r;
	fprintf(out, "%s\n", bytes);
	return stream_verdict(out);
}

/* ---- Servers ---- */

/* What stands for bytes that a format gives a meaning to; others stay. */
struct escape {
	char byte;
	const char *text;
};

static void write_escaped(FILE *out, const char *text, const struct escape *escapes)
{
	for (; *text; text++) {
		const struct escape *escape = escapes;

		while (escape->text && escape->byte != *text)
			escape++;
		if (escape->text)
			fputs(escape->text, out);
		else if ((unsigned char)*text < 0x20 && *text != '\t' && *text != '\n')
			fputc('?', out);
		else
			fputc(*text, out);
	}
}

/* https://www.w3.org/TR/xml/#syntax */
static const struct escape xml_escapes[] = {
	{ '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
	{ '"', "&quot;" }, { '\n', "&#10;" }, { 0, NULL },
};

/* Commands of a workflow: https://github.com/actions/toolkit (packages/core/src/command.ts) */
static const struct escape data_escapes[] = {
	{ '%', "%25" },
	{ '\r', "%0D" },
	{ '\n', "%0A" },
	{ 0, NULL },
};
static const struct escape property_escapes[] = {
	{ '%', "%25" }, { '\r', "%0D" }, { '\n', "%0A" },
	{ ':', "%3A" }, { ',', "%2C" },	 { 0, NULL },
};

/*
 * What is wrong, in one line; behind it, if wanted, who has it, a line each. Valid UTF-8,
 * allocated; NULL: no memory.
 */
static char *text_of(const struct check_result *result, bool has_places)
{
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	FILE *out = text_stream_open(&text, &n_bytes);

	if (!out)
		return NULL;
	fprintf(out, "%s ", check_rule_name(result->rule));
	write_value(out, result);
	fputs(", ", out);
	write_most(out, result);
	if (result->why)
		fprintf(out, ": not known, %s", result->why);
	for (size_t i = 0; has_places && i < result->n_places; i++)
		fprintf(out, "\n%s %s",
			check_rule_text(result->rule, (double)result->places[i].value).text,
			result->places[i].text);
	return text_stream_close(out, &text) == 0 ? utf8_copy(text) : NULL;
}

static int write_case(FILE *out, const struct check_result *result)
{
	auto_free char *line = text_of(result, false);
	auto_free char *all = text_of(result, true);

	if (!line || !all)
		return -ENOMEM;
	fprintf(out, "  <testcase classname=\"memsight\" name=\"%s%s\"",
		check_rule_name(result->rule), result->is_change ? " against" : "");
	if (result->verdict == CHECK_KEPT) {
		fputs("/>\n", out);
		return 0;
	}
	fprintf(out, ">\n    <failure type=\"%s\" message=\"", check_verdict_name(result->verdict));
	write_escaped(out, line, xml_escapes);
	fputs("\">", out);
	write_escaped(out, all, xml_escapes);
	fputs("</failure>\n  </testcase>\n", out);
	return 0;
}

int check_write_junit(FILE *out, const struct check_results *results, const char *name)
{
	auto_free char *shown = utf8_copy(name);
	int r = 0;

	if (!shown)
		return -ENOMEM;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", out);
	write_escaped(out, shown, xml_escapes);
	fprintf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"0\">\n", results->n,
		results->n - count(results, CHECK_KEPT));
	for (size_t i = 0; r == 0 && i < results->n; i++)
		r = write_case(out, &results->items[i]);
	fputs("</testsuite>\n", out);
	return r < 0 ? r : stream_verdict(out);
}

/* "/src/build/../app.c" is "/src/app.c": ninja's compilers name files from the build folder. */
static void drop_detours(char *path)
{
	char *to = path;

	for (const char *from = path; *from;) {
		size_t n = 1 + strcspn(from + 1, "/");
		bool is_up = n == 3 && strncmp(from, "/..", n) == 0;

		if (is_up)
			while (to > path && *--to != '/')
				;
		else if (n != 2 || strncmp(from, "/.", n) != 0) {
			memmove(to, from, n);
			to += n;
		}
		from += n;
	}
	*to = '\0';
}

/* Files are named from the folder of the checkout, where the command runs. Allocated. */
static char *name_from_here(const char *file, const char *here)
{
	size_t n = here ? strlen(here) : 0;
	char *name = strdup(file);

	if (name && *name == '/')
		drop_detours(name);
	if (name && n > 1 && strncmp(name, here, n) == 0 && name[n] == '/')
		memmove(name, name + n + 1, strlen(name + n + 1) + 1);
	return name;
}

static int write_annotation(FILE *out, const struct check_result *result, const char *name,
			    const char *here)
{
	auto_free char *text = text_of(result, true);
	const struct check_place *place = NULL;

	if (!text)
		return -ENOMEM;
	for (size_t i = result->n_places; i-- > 0;)
		if (result->places[i].file)
			place = &result->places[i];
	fputs("::error ", out);
	auto_free char *file = place ? name_from_here(place->file, here) : NULL;
	if (place && !file)
		return -ENOMEM;
	if (file) {
		fputs("file=", out);
		write_escaped(out, file, property_escapes);
		fprintf(out, ",line=%" PRId64 ",", place->line);
	}
	fputs("title=memsight check ", out);
	write_escaped(out, name, property_escapes);
	fputs("::", out);
	write_escaped(out, text, data_escapes);
	fputc('\n', out);
	return 0;
}

int check_write_github(FILE *out, const struct check_results *results, const char *name)
{
	auto_free char *here = getcwd(NULL, 0);
	int r = 0;

	for (size_t i = 0; r == 0 && i < results->n; i++)
		if (results->items[i].verdict != CHECK_KEPT)
			r = write_annotation(out, &results->items[i], name, here);
	return r < 0 ? r : stream_verdict(out);
}
