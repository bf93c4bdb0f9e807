#include "common/trace-names.h"

#include "schemas/trace-format.h"

static const char *const why_not_names[] = {
	[TRACE_TRACED] = "traced",
	[TRACE_NOT_STATIC] = "static",
	[TRACE_NOT_SETUID] = "setuid",
	[TRACE_NOT_32BIT] = "32-bit",
	[TRACE_NOT_CHROOT] = "chroot",
	[TRACE_NOT_ENVIRONMENT] = "environment cleaned",
	[TRACE_NOT_FOLLOWED] = "not followed",
	[TRACE_NOT_ATTACHED] = "said no hello",
};

const char *trace_why_not_name(unsigned why_not)
{
	if (why_not >= sizeof(why_not_names) / sizeof(why_not_names[0]))
		return "unknown"; /* from a newer writer */
	return why_not_names[why_not];
}
