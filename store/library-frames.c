#include "store/library-frames.h"

#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/text.h"

/* Of what allocates, and of what is silent, there is a name only. */
static const struct rule {
	enum { IS_LIBRARY, DOES_ALLOCATE, IS_SILENT } says;
	const char *name, *file, *source;
} rules[] = {
#define LIBRARY(file, source, function) { IS_LIBRARY, function, file, source },
#define ALLOCATES(part)			{ DOES_ALLOCATE, part, NULL, NULL },
#define SILENT(name)			{ IS_SILENT, name, NULL, NULL },
#include "schemas/library-frames.def"
#undef LIBRARY
#undef ALLOCATES
#undef SILENT
};

/* ---- Names ---- */

struct plain {
	const char *at;
	const char *between;
	char *name; /* FRAME_NAME_BYTES */
	size_t n;
	bool has_parameters;
	bool is_first_open; /* within the "<T as Trait>" that a name of Rust begins with */
};

static void put(struct plain *plain, const char *text, size_t n)
{
	for (size_t i = 0; i < n && plain->n + 1 < FRAME_NAME_BYTES; i++)
		plain->name[plain->n++] = text[i];
	plain->name[plain->n] = '\0';
}

static bool ends_in(const struct plain *plain, const char *end)
{
	size_t n = strlen(end);

	return plain->n >= n && memcmp(plain->name + plain->n - n, end, n) == 0;
}

/* The word "operator" stands right before: what follows is its name. */
static bool is_operator(const struct plain *plain)
{
	static const char word[] = "operator";
	size_t n = strlen(word);

	return ends_in(plain, word) &&
	       (plain->n == n || strchr(": >", plain->name[plain->n - n - 1]));
}

static void take_arguments(struct plain *plain);

/* Bytes of the sign that an operator is called by, which its arguments may follow at once. */
static size_t sign_length(const char *at)
{
	static const char *const signs[] = { "<<=", ">>=", "<=>", "->*", "()", "[]", "->",
					     "<<",  ">>",  "<=",  ">=",	 "==", "!=", "&&",
					     "||",  "++",  "--",  "+=",	 "-=", "*=", "/=",
					     "%=",  "^=",  "&=",  "|=" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (strncmp(at, signs[i], strlen(signs[i])) == 0)
			return strlen(signs[i]);
	return strspn(at, "<>=-+*/%^&|~!,") ? 1 : 0;
}

/* "operator<<", "operator()", "operator new", "operator unsigned long": up to its parameters. */
static void take_operator(struct plain *plain)
{
	size_t n = sign_length(plain->at);

	n = n ?: strcspn(plain->at, "(<");
	put(plain, plain->at, n);
	plain->at += n;
	/* "operator+ <int>" */
	plain->at += strncmp(plain->at, " <", 2) == 0;
	if (*plain->at == '<')
		take_arguments(plain);
}

/* Behind the group that opens here; the end of the text, if it does not close. */
static const char *behind_group(const char *at)
{
	char open = *at, close = open == '<' ? '>' : ')';
	int depth = 0;

	for (; *at; at++) {
		bool is_arrow = *at == '>' && at[-1] == '-';
		depth += *at == open;
		depth -= *at == close && !is_arrow;
		if (depth == 0)
			return at + 1;
	}
	return at;
}

static void take_parameters(struct plain *plain)
{
	static const char nameless[] = "(anonymous namespace)";

	if (strncmp(plain->at, nameless, strlen(nameless)) == 0) {
		put(plain, nameless, strlen(nameless));
		plain->at += strlen(nameless);
		return;
	}
	plain->at = behind_group(plain->at);
	plain->has_parameters = true;
}

static void take_arguments(struct plain *plain)
{
	if (plain->n == 0) {
		put(plain, "<", 1);
		plain->at++;
		plain->is_first_open = true;
		return;
	}
	plain->at = behind_group(plain->at);
	put(plain, plain->between, strlen(plain->between));
}

/* What stood before is a type that the function returns; behind parameters the name is over. */
static bool take_space(struct plain *plain)
{
	if (plain->is_first_open) {
		put(plain, plain->at++, 1);
		return true;
	}
	if (plain->has_parameters && !ends_in(plain, "decltype"))
		return false;
	plain->has_parameters = false;
	plain->n = 0;
	plain->name[0] = '\0';
	plain->at++;
	return true;
}

static bool take_next(struct plain *plain)
{
	char c = *plain->at;

	if (is_operator(plain) && !strchr(":", c))
		take_operator(plain);
	else if (c == '>' && plain->is_first_open) {
		plain->is_first_open = false;
		put(plain, plain->at++, 1);
	} else if (c == '<')
		take_arguments(plain);
	else if (c == '(')
		take_parameters(plain);
	else if (c == ' ')
		return take_space(plain);
	else if (strncmp(plain->at, "[abi:", 5) == 0)
		plain->at += strcspn(plain->at, "]") + (strchr(plain->at, ']') != NULL);
	else {
		plain->has_parameters = false;
		put(plain, plain->at++, 1);
	}
	return true;
}

void frame_plain_name(const char *function, const char *between, char ret_name[FRAME_NAME_BYTES])
{
	static const char nameless[] = "(anonymous namespace)";
	struct plain plain = { .at = function, .between = between, .name = ret_name };

	ret_name[0] = '\0';
	if (*function == '(' && strncmp(function, nameless, strlen(nameless)) != 0) {
		put(&plain, function, strlen(function));
		return;
	}
	while (*plain.at && take_next(&plain))
		;
	if (plain.n == 0)
		put(&plain, function, strlen(function));
}

/* ---- Owners ---- */

/* Whether a text is as a pattern says, in which "*" stands for any text. */
static bool matches(const char *pattern, const char *text)
{
	const char *star = NULL, *retry = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			retry = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/* What is not known is like "any" only. */
static bool is_like(const char *pattern, const char *text)
{
	return strcmp(pattern, "*") == 0 || (text && matches(pattern, text));
}

bool frame_allocates(const char *function)
{
	return strcmp(function, "new") == 0 ||
	       array_find(rules, COUNT_OF(rules), it,
			  it->says == DOES_ALLOCATE && strcasestr(function, it->name));
}

bool frame_is_silent(const char *name)
{
	return array_find(rules, COUNT_OF(rules), it,
			  it->says == IS_SILENT && matches(it->name, name));
}

/* Whether a call is of code that a rule is about. */
static bool is_about(const struct rule *rule, const char *name, const char *source,
		     const char *file)
{
	return rule->says == IS_LIBRARY && is_like(rule->name, name) && is_like(rule->file, file) &&
	       is_like(rule->source, source);
}

enum frame_owner frame_owner(const char *function, const char *source, const char *file)
{
	const char *file_name = file ? text_base_name(file) : NULL;
	char name[FRAME_NAME_BYTES] = "";

	if (function)
		frame_plain_name(function, "", name);
	if (array_find(rules, COUNT_OF(rules), it,
		       is_about(it, function ? name : NULL, source, file_name)))
		return FRAME_LIBRARY;
	return frame_allocates(name) ? FRAME_ALLOCATES : FRAME_PROGRAM;
}

bool frame_is_initialiser(const char *name)
{
	static const char *const begins[] = { "_GLOBAL__sub_I_", "_GLOBAL__I_",
					      "__static_initialization_and_destruction_",
					      "__cxx_global_var_init" };

	return array_find(begins, COUNT_OF(begins), it, strncmp(name, *it, strlen(*it)) == 0);
}

bool frame_is_library(int depth, int user_depth, const char *function, const char *source,
		      const char *file)
{
	if (user_depth < 0 || depth < user_depth)
		return true;
	return depth > user_depth && frame_owner(function, source, file) == FRAME_LIBRARY;
}
