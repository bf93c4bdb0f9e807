/* Conditions of --trigger. */
#include <signal.h>

#include <check.h>
#include <stdlib.h>

#include "runner/control/triggers.h"
#include "tests/support/suite.h"

#define MS UINT64_C(1000000)

static int read_one(const char *text, struct triggers *ret_triggers, char *message)
{
	const char *const texts[] = { text, NULL };

	return triggers_read(texts, ret_triggers, message);
}

static const struct {
	const char *text;
	enum trigger_kind kind;
	double bound;
	uint64_t span_ms;
} good[] = {
	{ "live>2G", TRIGGER_LIVE, 2147483648.0, 0 },
	{ "rss>80%", TRIGGER_RSS, 0.8, 0 },
	{ "rss>512MiB", TRIGGER_RSS, 536870912, 0 },
	{ "rate>1M/s", TRIGGER_RATE, 1e6, 1000 },
	{ "rate>2.5k/10s", TRIGGER_RATE, 2500, 10000 },
	{ "leaked>100M", TRIGGER_LEAKED, 104857600, 0 },
	{ "growth>10M/min", TRIGGER_GROWTH, 10485760, 60000 },
	{ "growth>1G/h", TRIGGER_GROWTH, 1073741824, 3600000 },
	{ "idle>5s", TRIGGER_IDLE, 5e9, 0 },
};

START_TEST(conditions_are_read)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct triggers triggers;
		char message[TRIGGER_MESSAGE];

		ck_assert_msg(read_one(good[i].text, &triggers, message) == 0, "%s", good[i].text);
		ck_assert_uint_eq(triggers.n, 1);
		ck_assert_int_eq(triggers.items[0].kind, good[i].kind);
		ck_assert_double_eq(triggers.items[0].bound, good[i].bound);
		ck_assert_uint_eq(triggers.items[0].span_ns, good[i].span_ms * MS);
	}
}
END_TEST

START_TEST(what_is_none_is_refused)
{
	static const char *const bad[] = {
		"",	     "live",	   "live>",	"live<2G",   "live>0",
		"live>2G/s", "live>80%",   "rss>0%",	"rss>101%",  "rss>x",
		"rate>1M",   "rate>1M/ms", "rate>-1/s", "growth>1M", "growth>1M/x",
		"idle>5",    "idle>0s",	   "faults>3",	"exit>1",    "crash>",
		"LIVE>2G",   "live >2G",   "rate>1X/s", "growth>/s", "leaked>1G/h",
		"idle>1s/s",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct triggers triggers;
		char message[TRIGGER_MESSAGE] = "";

		ck_assert_msg(read_one(bad[i], &triggers, message) < 0, "%s", bad[i]);
		ck_assert_msg(message[0] != '\0', "%s", bad[i]);
	}
}
END_TEST

static bool holds(struct triggers *triggers, struct trigger_measures now)
{
	char value[32];

	return trigger_holds(&triggers->items[0], &now, value);
}

START_TEST(a_bound_holds_above_it)
{
	struct triggers triggers;
	char message[TRIGGER_MESSAGE];

	read_one("live>1k", &triggers, message);
	ck_assert(!holds(&triggers, (struct trigger_measures){ .now_ns = 1, .live_bytes = 1024 }));
	ck_assert(holds(&triggers, (struct trigger_measures){ .now_ns = 1, .live_bytes = 1025 }));
	read_one("rss>50%", &triggers, message);
	ck_assert(!holds(&triggers,
			 (struct trigger_measures){ .rss_bytes = 50, .limit_bytes = 100 }));
	ck_assert(
		holds(&triggers, (struct trigger_measures){ .rss_bytes = 51, .limit_bytes = 100 }));
	read_one("leaked>1k", &triggers, message);
	ck_assert(holds(&triggers, (struct trigger_measures){ .old_bytes = 2000 }));
}
END_TEST

START_TEST(growth_is_that_of_the_last_span)
{
	struct triggers triggers;
	char message[TRIGGER_MESSAGE];
	struct trigger_measures now = { .live_bytes = 1000000 };

	read_one("growth>1000/s", &triggers, message);
	/* What is there at the start is no growth; 90 bytes in 100 ms are too few. */
	for (unsigned i = 0; i < 50; i++, now.now_ns += 100 * MS, now.live_bytes += 90)
		ck_assert(!holds(&triggers, now));
	/* 1001 bytes above what there was a second ago. */
	now.live_bytes += 101 + 90;
	ck_assert(holds(&triggers, now));
	for (unsigned i = 0; i < 10; i++, now.now_ns += 100 * MS)
		holds(&triggers, now);
	ck_assert(!holds(&triggers, now));
	now.live_bytes = 0;
	ck_assert(!holds(&triggers, now));
}
END_TEST

START_TEST(a_rate_is_counted_in_its_span)
{
	struct triggers triggers;
	char message[TRIGGER_MESSAGE];
	struct trigger_measures now = { 0 };

	read_one("rate>100/10s", &triggers, message);
	for (unsigned i = 0; i < 300; i++, now.now_ns += 100 * MS, now.n_allocations++)
		ck_assert_msg(!holds(&triggers, now), "after %u looks", i);
	now.n_allocations += 10;
	ck_assert(holds(&triggers, now));
}
END_TEST

START_TEST(an_end_is_told_by_its_status)
{
	static const struct {
		const char *text;
		int status;
		bool was_oom;
		bool holds;
	} cases[] = {
		{ "exit", 0, false, true },	   { "exit", SIGSEGV, false, true },
		{ "exit", -1, false, true },	   { "crash", SIGSEGV | 0x80, false, true },
		{ "crash", SIGABRT, false, true }, { "crash", 3 << 8, false, false },
		{ "crash", SIGKILL, true, false }, { "crash", -1, false, false },
		{ "oom", SIGKILL, true, true },	   { "oom", SIGKILL, false, false },
		{ "oom", 137 << 8, true, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct triggers triggers;
		char message[TRIGGER_MESSAGE], value[32];

		ck_assert_int_eq(read_one(cases[i].text, &triggers, message), 0);
		ck_assert(!holds(&triggers, (struct trigger_measures){ .now_ns = 1 }));
		ck_assert_msg(trigger_is_end(&triggers.items[0], cases[i].status, cases[i].was_oom,
					     value) == cases[i].holds,
			      "case %zu", i);
	}
}
END_TEST

START_TEST(idle_begins_at_the_last_event)
{
	struct triggers triggers;
	char message[TRIGGER_MESSAGE];
	struct trigger_measures now = { .now_ns = 5000 * MS };

	read_one("idle>2s", &triggers, message);
	ck_assert(!holds(&triggers, now));
	now.now_ns += 2000 * MS;
	ck_assert(!holds(&triggers, now));
	now.now_ns += MS;
	ck_assert(holds(&triggers, now));
	now.n_events++;
	ck_assert(!holds(&triggers, now));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("triggers");
	TCase *tcase = tcase_create("all");

	tcase_add_test(tcase, conditions_are_read);
	tcase_add_test(tcase, what_is_none_is_refused);
	tcase_add_test(tcase, a_bound_holds_above_it);
	tcase_add_test(tcase, growth_is_that_of_the_last_span);
	tcase_add_test(tcase, a_rate_is_counted_in_its_span);
	tcase_add_test(tcase, an_end_is_told_by_its_status);
	tcase_add_test(tcase, idle_begins_at_the_last_event);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
