#pragma once

/* What a report has nothing to show without; why it is missing is said. */
enum report_needs {
	REPORT_NEEDS_NOTHING,
	REPORT_NEEDS_BLOCKS,
	REPORT_NEEDS_CLOCK,
	REPORT_NEEDS_FAULTS,
	REPORT_NEEDS_DATA_SOURCE,
	REPORT_NEEDS_COUNT
};
