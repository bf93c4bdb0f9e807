#pragma once
/*
 * The queries behind the reports that are lists, by subject. Each takes :run and :limit and needs
 * report_functions_register(). The table of report.c says what goes over and under their rows.
 */

/* Samples of CPU time in the run: what shares of time are shares of. */
#define CLOCK_SAMPLES                                                                              \
	"(SELECT nullif(sum(n_samples), 0) FROM source WHERE run_id = :run AND name IN ('clock', 'signal'))"

/* report-blocks.c: what was allocated */
extern const char report_stat_sql[];
extern const char report_stat_text_sql[];
extern const char report_peak_sql[];
extern const char report_temporary_sql[];
extern const char report_histogram_sql[];
extern const char report_threads_sql[];
extern const char report_mappings_sql[];

/* report-touches.c: what was done with it */
extern const char report_objects_sql[];
extern const char report_access_mix_sql[];
extern const char report_hot_sql[];
extern const char report_cold_sql[];
extern const char report_sharing_sql[];
extern const char report_locality_sql[];

/* report-watch.c: what --watch saw */
extern const char report_watch_sql[];

/* Of both, as text: what a person reads is drawn. */
extern const char report_histogram_text_sql[];
extern const char report_timeline_sql[];
extern const char report_timeline_text_sql[];
