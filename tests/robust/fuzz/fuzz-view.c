/*
 * Opens a database that somebody changed (hostile.h) as memsight view and plot do, and asks for
 * what a page asks for. The first byte: whether the base is compact, a page is written, figures
 * are drawn. The second: how many changes follow. Behind them, a
 * line for each question (request.h, from "NAME?" on); without any all answers are asked for.
 */
#include <string.h>

#include "common/cleanup.h"
#include "report/plot/plot.h"
#include "report/report.h"
#include "store/database.h"
#include "tests/robust/fuzz/fuzz.h"
#include "tests/robust/fuzz/hostile.h"
#include "view/answers/answers.h"
#include "view/server/export.h"

#define MAX_CHANGES   7u
#define MAX_QUESTIONS 8u

enum { IS_COMPACT = 1, IS_EXPORTED = 4, IS_PLOTTED = 8 };

static struct hostile_base bases[2] = {
	{ .is_compact = false, .are_accesses = true },
	{ .is_compact = true, .are_accesses = true },
};

static const char *const questions[] = {
	"runs",
	"run?run=1",
	"bands?run=1",
	"picture?run=1&width=64&height=32",
	"picture?run=1&by=thread&width=64&height=32",
	"picture?run=1&by=level&width=1&height=1",
	"picture?run=1&by=latency&width=2048&height=3&low=4096&high=9223372036854775807",
	"picture?run=1&by=source&from=100&to=9223372036854775807",
	"at?run=1&address=140737488355328&from=0&to=9223372036854775807",
	"timeline?run=1&width=7",
	"timeline?run=1&from=1&to=9223372036854775807",
	"flame?run=1&by=bytes",
	"flame?run=1&by=latency&inverse=1",
	"flame?run=1&by=time&from=1000&to=9000",
	"objects?run=1&sort=latency&descending=1",
	"objects?run=1&from=1000&to=9000&filter=a",
	"object?run=1&site=1",
	"object?run=1&block=1&from=5&to=9223372036854775807",
	"object?run=1&site=2&from=1000&to=9000",
	"series",
	"diff?a=1&b=1&by=bytes",
	"source?run=1&filter=a.c:1",
};

static void ask(struct view_context *context, const char *question)
{
	auto_free struct view_request *request = malloc(sizeof(*request));
	auto_free char *text = NULL;
	size_t n_bytes = 0;

	FUZZ_REQUIRE(request);
	if (view_request_parse_api(question, request) != 200)
		return;
	context->message[0] = '\0';
	unsigned status =
		view_answer_make(context, request->answer, &request->values, &text, &n_bytes);
	FUZZ_REQUIRE(status == 200 || status == 400 || status == 404 || status == 500 ||
		     status == 503);
	FUZZ_REQUIRE(text && strlen(text) == n_bytes && text[0] == '{');
	FUZZ_REQUIRE(status == 200 || strncmp(text, "{\"error\"", 8) == 0);
}

static void ask_all(const struct view_files *files, const uint8_t *bytes, size_t n_bytes)
{
	auto_view_context struct view_context *context = NULL;
	auto_free char *lines = strndup((const char *)bytes, n_bytes);
	char *rest = lines;

	FUZZ_REQUIRE(lines);
	if (view_context_open(files, &context) < 0)
		return;
	for (size_t i = 0; n_bytes == 0 && i < sizeof(questions) / sizeof(questions[0]); i++)
		ask(context, questions[i]);
	for (unsigned i = 0; n_bytes > 0 && i < MAX_QUESTIONS; i++) {
		const char *line = strsep(&rest, "\n");
		if (!line)
			break;
		ask(context, line);
	}
}

static void export_page(const struct view_files *files)
{
	const struct view_export export = {
		.files = *files, .run_id = 1, .output = hostile_beside("p.html"), .force = true
	};
	char message[VIEW_MESSAGE_BYTES] = "";

	view_export_write(&export, message);
}

static void draw(const char *path)
{
	auto_db struct db *db = NULL;
	auto_fclose FILE *out = fopen("/dev/null", "w");

	FUZZ_REQUIRE(out);
	if (db_open(path, &db) < 0 || report_functions_register(db_handle(db)) != SQLITE_OK)
		return;
	for (int kind = 0; kind < PLOT_KIND_COUNT; kind++) {
		struct plot_result result = { 0 };
		struct plot_request request = {
			.kind = (enum plot_kind)kind,
			.format = CANVAS_SVG,
			.size = { .width = 400, .height = 300, .dpi = 72 },
			.font = 8,
			.run_id = 1,
			.heat = { .run_id = 1, .to_ns = INT64_MAX, .width = 40, .height = 20 },
			.metric = "duration",
		};
		plot_write(out, db_handle(db), &request, &result);
		free(result.losses);
		free(result.detail);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	uint8_t mode = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
	unsigned n_changes = (unsigned)fuzz_take(&bytes, &n_bytes, 1) % (MAX_CHANGES + 1);
	const char *path = hostile_write(&bases[mode & IS_COMPACT], n_changes, &bytes, &n_bytes);
	const struct view_files files = { .database = path };

	ask_all(&files, bytes, n_bytes);
	if ((mode & ~IS_COMPACT) == IS_EXPORTED) /* seconds */
		export_page(&files);
	if (mode & IS_PLOTTED)
		draw(path);
	return 0;
}
