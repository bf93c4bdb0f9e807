#include "cli/cmd-archive.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/archive/archive.h"
#include "cli/cmd-analyze.h"
#include "cli/cmd.h"
#include "cli/options/symbol-options.h"
#include "common/cleanup.h"
#include "common/human-number.h"

int cmd_archive_trace(const char *trace, const char *output, const struct symbol_places *places,
		      bool is_quiet)
{
	auto_free char *beside = archive_default_path(trace);
	struct archive_result result;
	bool is_output;

	if (!beside)
		return cmd_fail("out of memory");
	output = output ? output : beside;
	int r = archive_write(trace, output, places, &result, &is_output);
	if (r == -EBADMSG && !is_output)
		return cmd_fail("%s is no trace of memsight; for a perf.data `perf archive' does "
				"this",
				trace);
	if (r < 0)
		return is_output ? cmd_fail("cannot write %s: %s", output, strerror(-r))
				 : cmd_fail_trace(trace, r);
	if (!is_quiet)
		cmd_warn("%s: symbols of %" PRIu64 " files, %" PRIu64 " debug files, %s", output,
			 result.n_files, result.n_debug_files,
			 format_bytes((int64_t)result.n_bytes).text);
	if (result.n_missing)
		cmd_warn("%" PRIu64
			 " file%s gone or rebuilt since the recording, and not in the archive: "
			 "%s%s",
			 result.n_missing, result.n_missing == 1 ? " is" : "s are", result.missing,
			 result.n_missing == 1 ? "" : " ...");
	return CMD_DONE;
}

int cmd_archive(const struct option_set *options)
{
	struct symbol_places places;
	int status = symbol_options_read(options, &places);

	if (status != CMD_DONE)
		return status;
	const char *output = option_text(options, OPTION_ARCHIVE_OUTPUT);
	auto_free char *beside = archive_default_path(options->operands[0]);
	if (!beside)
		return cmd_fail("out of memory");
	status = cmd_check_new(output ? output : beside, options);
	if (status != CMD_DONE)
		return status;
	cmd_survive_size_limit();
	return cmd_archive_trace(options->operands[0], output, &places, false);
}
