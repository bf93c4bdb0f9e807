#include "analyze/functions/choice.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/functions/collections.h"
#include "analyze/functions/rules.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/text.h"

#define MAX_FILE_BYTES ((size_t)16 << 20)
#define N_KINDS	       (MODULE_EXCLUDE + 1)

struct expression {
	const char *text;
	regex_t regex;
	bool has_matched;
	struct nearest_name nearest;
};

struct expressions {
	struct expression *items;
	size_t n;
	size_t n_allocated;
};

/* A line of a list: MODULE!NAME, or NAME. */
struct wanted {
	const char *text;
	const char *module; /* NULL: any */
	const char *name;
	bool is_pattern;
	uint64_t address; /* that the name is; 0: it is none */
	struct nearest_name nearest; /* of that */
	bool is_shipped; /* of a collection: nobody expects all of it */
	bool is_expression; /* of --function-include */
	bool has_matched;
};

struct function_choice {
	struct expressions expressions[N_KINDS];
	struct wanted *wanted;
	size_t n_wanted;
	size_t n_allocated;
	char **texts; /* of files */
	size_t n_texts;
	struct function_rule *rules;
	size_t n_rules;
	size_t n_rules_allocated;
};

int function_choice_create(struct function_choice **ret_choice)
{
	struct function_choice *choice = calloc(1, sizeof(*choice));

	if (!choice)
		return -ENOMEM;
	*ret_choice = choice;
	return 0;
}

struct function_choice *function_choice_destroy(struct function_choice *choice)
{
	if (!choice)
		return NULL;
	for (size_t kind = 0; kind < N_KINDS; kind++) {
		array_free(choice->expressions[kind].items, choice->expressions[kind].n, it,
			   regfree(&it->regex));
	}
	array_free(choice->texts, choice->n_texts, it, free(*it));
	for (size_t i = 0; i < choice->n_wanted; i++)
		if (choice->wanted[i].module)
			free((char *)choice->wanted[i].module);
	free(choice->wanted);
	array_free(choice->rules, choice->n_rules, it, function_rule_finish(it));
	free(choice);
	return NULL;
}

/* ---- Lists and addresses ---- */

/* 0x1234; 0: it is none. */
uint64_t function_address(const char *name)
{
	char *end;

	if (strncmp(name, "0x", 2) != 0 || !isxdigit((unsigned char)name[2]))
		return 0;
	uint64_t address = strtoull(name, &end, 16);
	return *end ? 0 : address;
}

static int add_line(struct function_choice *choice, const char *text, bool is_shipped)
{
	const char *mark = strchr(text, '!');
	struct wanted wanted = {
		.text = text,
		.name = text,
		.is_shipped = is_shipped,
	};

	/* operator!= has its mark behind its begin: a module is never called so. */
	if (mark && mark != text && !strstr(text, "operator!")) {
		wanted.module = strndup(text, (size_t)(mark - text));
		wanted.name = mark + 1;
		wanted.address = function_address(wanted.name);
		if (!wanted.module)
			return -ENOMEM;
	}
	wanted.is_pattern = strpbrk(wanted.name, "*?[") != NULL;
	if (grow_array(&choice->wanted, choice->n_wanted, &choice->n_allocated,
		       sizeof(*choice->wanted)) < 0)
		return free((char *)wanted.module), -ENOMEM;
	choice->wanted[choice->n_wanted++] = wanted;
	return 0;
}

/* ---- Expressions ---- */

static int compile_part(const char *text, size_t n_bytes)
{
	auto_free char *part = strndup(text, n_bytes);
	regex_t regex;
	int r = part ? regcomp(&regex, part, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;

	if (r == 0)
		regfree(&regex);
	return r;
}

/*
 * regcomp() says what is wrong, not where: behind the longest beginning that is right, at the first
 * character that makes the same mistake.
 */
static size_t find_mistake(const char *text, int mistake)
{
	size_t n = strlen(text);
	size_t good = n;

	while (good > 0 && compile_part(text, good) != 0)
		good--;
	for (size_t end = good + 1; end <= n; end++)
		if (compile_part(text, end) == mistake)
			return end - 1;
	return good;
}

int function_choice_add(struct function_choice *choice, enum function_expression kind,
			const char *text, char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	struct expressions *to = &choice->expressions[kind];
	const char *mark = strchr(text, '!');
	char why[80];
	int r;

	if (kind == FUNCTION_INCLUDE && mark && mark != text && function_address(mark + 1)) {
		r = add_line(choice, text, false);
		if (r == 0)
			choice->wanted[choice->n_wanted - 1].is_expression = true;
		return r;
	}
	if (grow_array(&to->items, to->n, &to->n_allocated, sizeof(*to->items)) < 0)
		return -ENOMEM;
	struct expression *item = &to->items[to->n];
	*item = (struct expression){ .text = text };
	r = *text ? regcomp(&item->regex, text, REG_EXTENDED | REG_NOSUB) : REG_EEND;
	if (r == REG_ESPACE)
		return -ENOMEM;
	if (r != 0) {
		regerror(r, &item->regex, why, sizeof(why));
		snprintf(ret_message, FUNCTION_MESSAGE_BYTES,
			 *text ? "'%.100s' is no expression: %s (at character %zu)"
			       : "'%s' is no expression: it is empty",
			 text, why, *text ? find_mistake(text, r) + 1 : 0);
		return -EINVAL;
	}
	nearest_name_init(&item->nearest, text);
	to->n++;
	return 0;
}

static char *trim(char *line)
{
	line += strspn(line, " \t\r");
	size_t n = strlen(line);
	while (n > 0 && strchr(" \t\r", line[n - 1]))
		line[--n] = '\0';
	return line;
}

int function_choice_add_file(struct function_choice *choice, const char *path,
			     char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	size_t before = choice->n_wanted;
	char *text = NULL;
	char *rest;
	char *line;
	size_t n_bytes;
	int r = io_read_file(path, MAX_FILE_BYTES, &text, &n_bytes);

	if (r < 0) {
		snprintf(ret_message, FUNCTION_MESSAGE_BYTES, "cannot read %.150s: %s", path,
			 strerror(-r));
		return r;
	}
	if (grow_array_of(&choice->texts, choice->n_texts, 1, sizeof(*choice->texts)) < 0)
		return free(text), -ENOMEM;
	choice->texts[choice->n_texts++] = text;
	if (memchr(text, '\0', n_bytes))
		return text_refuse(-EINVAL, ret_message, FUNCTION_MESSAGE_BYTES,
				   "%.150s is no list of functions: it holds a byte of 0", path);
	for (rest = text; r == 0 && (line = strsep(&rest, "\n"));) {
		line = trim(line);
		if (*line && *line != '#')
			r = add_line(choice, line, false);
	}
	if (r == 0 && choice->n_wanted == before)
		return text_refuse(-EINVAL, ret_message, FUNCTION_MESSAGE_BYTES,
				   "%.150s names no function: a line of it is a name", path);
	return r;
}

int function_choice_add_collection(struct function_choice *choice, const char *name,
				   char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	for (size_t i = 0; i < n_function_collections; i++) {
		const struct function_collection *set = &function_collections[i];
		int r = 0;

		if (strcmp(set->name, name) != 0)
			continue;
		for (size_t k = 0; r == 0 && set->lines[k]; k++)
			r = add_line(choice, set->lines[k], true);
		return r;
	}
	snprintf(ret_message, FUNCTION_MESSAGE_BYTES, "there is no collection '%.100s'", name);
	return -EINVAL;
}

/* ---- Functions of allocators ---- */

static int add_rule(struct function_choice *choice, const char *text, const char *allocator,
		    char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	int r = grow_array(&choice->rules, choice->n_rules, &choice->n_rules_allocated,
			   sizeof(*choice->rules));

	r = r ?: function_rule_parse(text, allocator, &choice->rules[choice->n_rules], ret_message);
	if (r < 0)
		return r;
	nearest_name_init(&choice->rules[choice->n_rules].nearest,
			  choice->rules[choice->n_rules].pattern);
	choice->n_rules++;
	return 0;
}

int function_choice_add_rule(struct function_choice *choice, const char *text,
			     char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	return add_rule(choice, text, NULL, ret_message);
}

int function_choice_add_allocator(struct function_choice *choice, const char *name,
				  char ret_message[static FUNCTION_MESSAGE_BYTES])
{
	for (size_t i = 0; i < n_function_allocators; i++) {
		const struct function_collection *set = &function_allocators[i];
		int r = 0;

		if (strcmp(set->name, name) != 0)
			continue;
		for (size_t k = 0; r == 0 && set->lines[k]; k++)
			r = add_rule(choice, set->lines[k], set->name, ret_message);
		return r;
	}
	snprintf(ret_message, FUNCTION_MESSAGE_BYTES, "there is no allocator '%.100s'", name);
	return -EINVAL;
}

/* ---- Asking ---- */

static bool matches(const struct expression *expression, const char *text)
{
	return text && regexec(&expression->regex, text, 0, NULL, 0) == 0;
}

/* All of them are asked, so that each knows whether it has ever matched. */
static bool match_names(struct expressions *expressions, const struct function_names *names)
{
	bool is_any = false;

	for (size_t i = 0; i < expressions->n; i++) {
		struct expression *item = &expressions->items[i];
		bool is_match = false;

		for (size_t k = 0; k < names->n && !is_match; k++)
			is_match =
				matches(item, names->names[k]) || matches(item, names->pretty[k]);
		item->has_matched |= is_match;
		is_any |= is_match;
		if (!item->has_matched && names->n)
			nearest_name_offer(&item->nearest,
					   names->pretty[0] ? names->pretty[0] : names->names[0]);
	}
	return is_any;
}

static bool match_module(struct expressions *expressions, const struct function_names *names)
{
	bool is_any = false;

	for (size_t i = 0; i < expressions->n; i++) {
		struct expression *item = &expressions->items[i];
		bool is_match =
			matches(item, names->source) || matches(item, text_base_name(names->file));

		item->has_matched |= is_match;
		is_any |= is_match;
	}
	return is_any;
}

/* "libfoo", "libfoo.so" and "libfoo.so.1" mean the same file; a path is all of it. */
static bool is_of_module(const char *module, const char *file)
{
	const char *base = text_base_name(file);

	if (!module || strcmp(module, file) == 0)
		return true;
	size_t n = strlen(module);
	return strncmp(base, module, n) == 0 && (!base[n] || base[n] == '.');
}

static bool is_name(const struct wanted *wanted, const char *name)
{
	return name && (strcmp(name, wanted->name) == 0 ||
			(wanted->is_pattern && fnmatch(wanted->name, name, 0) == 0));
}

static bool match_wanted(struct function_choice *choice, const struct function_names *names)
{
	bool is_any = false;

	for (size_t i = 0; i < choice->n_wanted; i++) {
		struct wanted *item = &choice->wanted[i];
		bool is_match = false;

		if (!is_of_module(item->module, names->file))
			continue;
		for (size_t k = 0; k < names->n && !is_match; k++)
			is_match =
				is_name(item, names->names[k]) || is_name(item, names->pretty[k]);
		item->has_matched |= is_match;
		is_any |= is_match;
	}
	return is_any;
}

/* The first one that the function is of; of the C library only where that is named. */
static const struct function_rule *match_rules(struct function_choice *choice,
					       const struct function_names *names)
{
	const struct function_rule *found = NULL;

	for (size_t i = 0; i < choice->n_rules; i++) {
		struct function_rule *rule = &choice->rules[i];
		bool is_match = false;

		if (!is_of_module(rule->module, names->file) || (names->is_system && !rule->module))
			continue;
		for (size_t k = 0; k < names->n && !is_match; k++)
			is_match = regexec(&rule->regex, names->names[k], 0, NULL, 0) == 0 ||
				   (names->pretty[k] &&
				    regexec(&rule->regex, names->pretty[k], 0, NULL, 0) == 0);
		rule->has_matched |= is_match;
		if (is_match && !found)
			found = rule;
		if (!rule->has_matched && names->n)
			nearest_name_offer(&rule->nearest,
					   names->pretty[0] ? names->pretty[0] : names->names[0]);
	}
	return found;
}

bool function_choice_takes_file(const struct function_choice *choice, const char *file,
				bool is_system)
{
	const struct expressions *include = &choice->expressions[MODULE_INCLUDE];

	if (!is_system)
		return true;
	for (size_t i = 0; i < include->n; i++)
		if (matches(&include->items[i], text_base_name(file)))
			return true;
	for (size_t i = 0; i < choice->n_rules; i++)
		if (choice->rules[i].module && is_of_module(choice->rules[i].module, file))
			return true;
	return choice->n_wanted > 0;
}

const char *function_choice_address(struct function_choice *choice, const char *file, size_t *at,
				    uint64_t *ret_address, struct nearest_name **ret_nearest)
{
	for (; *at < choice->n_rules; (*at)++) {
		struct function_rule *rule = &choice->rules[*at];

		*ret_address = function_address(rule->pattern);
		if (!*ret_address || !is_of_module(rule->module, file))
			continue;
		(*at)++;
		*ret_nearest = &rule->nearest;
		return rule->pattern;
	}
	for (; *at - choice->n_rules < choice->n_wanted; (*at)++) {
		struct wanted *item = &choice->wanted[*at - choice->n_rules];

		*ret_address = item->address;
		if (!*ret_address || !is_of_module(item->module, file))
			continue;
		(*at)++;
		*ret_nearest = &item->nearest;
		return item->name;
	}
	return NULL;
}

bool function_choice_needs_sources(const struct function_choice *choice)
{
	return choice->expressions[MODULE_INCLUDE].n || choice->expressions[MODULE_EXCLUDE].n;
}

bool function_choice_takes(struct function_choice *choice, const struct function_names *names,
			   const struct function_rule **ret_rule)
{
	struct expressions *of = choice->expressions;
	bool has_modules = of[MODULE_INCLUDE].n > 0;
	bool is_rest = of[FUNCTION_INCLUDE].n == 0 && choice->n_wanted == 0 &&
		       (choice->n_rules == 0 || has_modules);
	bool is_in_module = match_module(&of[MODULE_INCLUDE], names);
	bool is_wanted = match_wanted(choice, names);

	*ret_rule = match_rules(choice, names);
	if (*ret_rule)
		return true;
	/* What nobody means does not count as a match either. */
	if (has_modules ? !is_in_module : names->is_system && !is_wanted)
		return false;
	bool is_included = match_names(&of[FUNCTION_INCLUDE], names) || is_wanted || is_rest;
	return is_included && !match_names(&of[FUNCTION_EXCLUDE], names) &&
	       !match_module(&of[MODULE_EXCLUDE], names);
}

const char *function_choice_unmatched(const struct function_choice *choice, size_t *at,
				      bool *ret_is_expression, const char **ret_nearest)
{
	const struct expressions *include = &choice->expressions[FUNCTION_INCLUDE];

	for (; *at < include->n; (*at)++) {
		const struct expression *item = &include->items[*at];

		if (item->has_matched)
			continue;
		(*at)++;
		*ret_is_expression = true;
		*ret_nearest = item->nearest.name[0] ? item->nearest.name : NULL;
		return item->text;
	}
	for (; *at - include->n < choice->n_wanted; (*at)++) {
		const struct wanted *item = &choice->wanted[*at - include->n];

		if (item->has_matched || item->is_shipped)
			continue;
		(*at)++;
		*ret_is_expression = item->is_expression;
		*ret_nearest = item->nearest.name[0] ? item->nearest.name : NULL;
		return item->text;
	}
	return NULL;
}

/* Is it the first of its set, and has none of that matched? */
static bool is_set_unmatched(const struct function_choice *choice, size_t first)
{
	const char *set = choice->rules[first].set;

	for (size_t i = 0; i < choice->n_rules; i++) {
		const struct function_rule *rule = &choice->rules[i];
		if (rule->set && strcmp(rule->set, set) == 0 && (rule->has_matched || i < first))
			return false;
	}
	return true;
}

const char *function_choice_unmatched_rule(const struct function_choice *choice, size_t *at,
					   const char **ret_set, const char **ret_nearest)
{
	for (; *at < choice->n_rules; (*at)++) {
		const struct function_rule *rule = &choice->rules[*at];

		if (rule->has_matched || (rule->set && !is_set_unmatched(choice, *at)))
			continue;
		(*at)++;
		*ret_set = rule->set;
		*ret_nearest = rule->nearest.name[0] ? rule->nearest.name : NULL;
		return rule->text;
	}
	return NULL;
}

/* ---- Nearest names ---- */

void nearest_name_init(struct nearest_name *nearest, const char *pattern)
{
	size_t longest = 0;

	*nearest = (struct nearest_name){ .literal = "" };
	while (*pattern) {
		size_t n = strcspn(pattern, "\\^$.|?*+()[]{}");

		if (n > longest && n < sizeof(nearest->literal)) {
			longest = n;
			memcpy(nearest->literal, pattern, n);
			nearest->literal[n] = '\0';
		}
		pattern += n + (pattern[n] != '\0');
	}
}

/* A whole name, or its begin: "slove_" is near to solve_matrix. The struct may have been moved. */
void nearest_name_offer(struct nearest_name *nearest, const char *name)
{
	struct parse_nearest *best = &nearest->nearest;
	size_t n = strlen(nearest->literal);
	char begin[sizeof(nearest->literal)];

	if (n == 0)
		return;
	best->word = nearest->literal;
	best->name = nearest->name[0] ? nearest->name : NULL;
	parse_nearest_offer(best, name);
	bool is_nearer = best->name == name;
	if (!is_nearer && strlen(name) > n) {
		memcpy(begin, name, n);
		begin[n] = '\0';
		parse_nearest_offer(best, begin);
		is_nearer = best->name == begin;
	}
	if (is_nearer)
		snprintf(nearest->name, sizeof(nearest->name), "%s", name);
	best->name = NULL;
}
