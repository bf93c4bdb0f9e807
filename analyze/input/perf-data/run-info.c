#include "analyze/input/perf-data/run-info.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "decode/decode.h"

/* ---- Events ---- */

/* What the samples of software events say, by perf_config. */
static const struct {
	uint64_t config;
	const char *name; /* NULL: as perf calls it */
	const char *unit;
	enum trace_sample_kind kind;
} software[] = {
	{ PERF_COUNT_SW_CPU_CLOCK, "clock", "ns of CPU time", TRACE_SAMPLE_TIME },
	{ PERF_COUNT_SW_TASK_CLOCK, "clock", "ns of CPU time", TRACE_SAMPLE_TIME },
	{ PERF_COUNT_SW_PAGE_FAULTS, "faults", "page faults", TRACE_SAMPLE_FAULT },
	{ PERF_COUNT_SW_PAGE_FAULTS_MIN, "faults", "page faults without reading from disk",
	  TRACE_SAMPLE_FAULT },
	{ PERF_COUNT_SW_PAGE_FAULTS_MAJ, "faults", "page faults that read from disk",
	  TRACE_SAMPLE_FAULT },
	{ PERF_COUNT_SW_DUMMY, "tasks", "records", TRACE_SAMPLE_TASKS },
};

/*
 * Events that sample either loads or stores whatever data_src says (kernels before August 2022 call
 * a store of STORE_SAMPLE a load): codes of libpfm4 and of the kernel's tables, and sysfs's names.
 */
static const struct {
	uint64_t config; /* of type RAW; 0: by name */
	const char *word;
	enum trace_direction direction;
} directions[] = {
	{ 0x1cd, NULL, TRACE_DIRECTION_LOADS },
	{ 0x100b, NULL, TRACE_DIRECTION_LOADS },
	{ 0x5d0, NULL, TRACE_DIRECTION_LOADS },
	{ 0x81d0, NULL, TRACE_DIRECTION_LOADS },
	{ 0x4004, NULL, TRACE_DIRECTION_LOADS },
	{ 0x20d1, NULL, TRACE_DIRECTION_LOADS },
	{ 0x10cb, NULL, TRACE_DIRECTION_LOADS },
	{ 0x82d0, NULL, TRACE_DIRECTION_STORES },
	{ 0x2cd, NULL, TRACE_DIRECTION_STORES },
	{ 0x6d0, NULL, TRACE_DIRECTION_STORES },
	{ 0x8004, NULL, TRACE_DIRECTION_STORES },
	{ 0x34340401e0, NULL, TRACE_DIRECTION_LOADS },
	{ 0x343c0401e0, NULL, TRACE_DIRECTION_STORES },
	{ 0, "mem-loads", TRACE_DIRECTION_LOADS },
	{ 0, "mem-stores", TRACE_DIRECTION_STORES },
};

/* Events whose config1 is the least latency of the loads that they sample, in cycles. */
static const uint64_t latency_events[] = { 0x1cd, 0x100b, 0x5d0 };

static enum trace_direction direction_of(const struct perf_data_event *event)
{
	for (size_t i = 0; i < sizeof(directions) / sizeof(directions[0]); i++) {
		bool is_code = directions[i].config && event->type != PERF_TYPE_HARDWARE &&
			       event->config == directions[i].config;
		bool is_word = directions[i].word && event->name &&
			       strstr(event->name, directions[i].word);

		if (is_code || is_word)
			return directions[i].direction;
	}
	return TRACE_DIRECTION_EACH;
}

static uint32_t min_latency_of(const struct perf_data_event *event)
{
	for (size_t i = 0; i < sizeof(latency_events) / sizeof(latency_events[0]); i++) {
		if (event->type != PERF_TYPE_HARDWARE && event->config == latency_events[i])
			return (uint32_t)event->config1;
	}
	return 0;
}

/* A name for what perf left without. */
static const char *name_of(const struct perf_data_event *event)
{
	if (event->name && *event->name)
		return event->name;
	return event->type == PERF_TYPE_HARDWARE && event->config == 0 ? "cycles" : "event";
}

/* What an event is: what a source record says of it. */
struct meaning {
	const char *name;
	const char *unit;
	enum trace_sample_kind kind;
	enum trace_direction direction;
};

static struct meaning meaning_of_software(const struct perf_data_event *event)
{
	struct meaning meaning = { name_of(event), name_of(event), TRACE_SAMPLE_TIME, 0 };

	for (size_t i = 0; i < sizeof(software) / sizeof(software[0]); i++) {
		if (software[i].config == event->config)
			meaning = (struct meaning){ software[i].name, software[i].unit,
						    software[i].kind, 0 };
	}
	if (meaning.kind == TRACE_SAMPLE_FAULT && !(event->format.sample_type & PERF_SAMPLE_ADDR))
		meaning.kind = TRACE_SAMPLE_TIME;
	if (meaning.kind == TRACE_SAMPLE_TIME && strcmp(meaning.name, "clock") == 0) {
		if (event->exclude_kernel)
			meaning.unit = "ns of user CPU time";
		if ((event->format.regs_user & DECODE_REGS_MASK) == DECODE_REGS_MASK)
			meaning.kind = TRACE_SAMPLE_REGISTERS;
	}
	return meaning;
}

/*
 * Samples with the address of their own access. On x86 that is PEBS, on POWER marked instructions.
 */
static struct meaning meaning_of_access(const struct perf_data *data,
					const struct perf_data_event *event)
{
	static const char *const units[] = {
		[TRACE_DIRECTION_LOADS] = "loads",
		[TRACE_DIRECTION_STORES] = "stores",
	};
	uint16_t machine = perf_run_machine(data);
	enum trace_direction direction = direction_of(event);

	return (struct meaning){
		.name = machine == EM_X86_64 || machine == 0 ? "pebs"
			: machine == EM_PPC64		     ? "marked"
							     : "accesses",
		.unit = direction ? units[direction] : name_of(event),
		.kind = TRACE_SAMPLE_ACCESS,
		.direction = direction,
	};
}

static struct meaning meaning_of(const struct perf_data *data, const struct perf_data_event *event)
{
	const char *pmu = perf_data_pmu(data, event->type);
	bool is_spe = perf_data_info(data)->aux_type == PERF_DATA_AUX_ARM_SPE;

	if (event->type == PERF_TYPE_SOFTWARE)
		return meaning_of_software(event);
	if (pmu && strcmp(pmu, "ibs_op") == 0)
		return (struct meaning){ "ibs", "ops", TRACE_SAMPLE_IBS, 0 };
	if ((pmu && strncmp(pmu, "arm_spe", 7) == 0) || (!pmu && is_spe))
		return (struct meaning){ "spe", "operations", TRACE_SAMPLE_SPE, 0 };
	/* perf asks for addresses of every event, also where its hardware tells none. */
	if (event->format.sample_type & PERF_SAMPLE_ADDR && event->type != PERF_TYPE_TRACEPOINT &&
	    !(pmu && strcmp(pmu, "ibs_fetch") == 0) &&
	    !(event->name && strstr(event->name, "mem-loads-aux")))
		return meaning_of_access(data, event);
	return (struct meaning){ pmu && strcmp(pmu, "ibs_fetch") == 0 ? pmu : name_of(event),
				 name_of(event), TRACE_SAMPLE_TIME, 0 };
}

int perf_source_describe(const struct perf_data *data, size_t event, uint32_t source_id,
			 struct perf_source *ret_source)
{
	struct meaning meaning = meaning_of(data, perf_data_event(data, event));

	*ret_source = (struct perf_source){
		.source_id = source_id,
		.name = strdup(meaning.name),
		.kind = meaning.kind,
	};
	return ret_source->name ? 0 : -ENOMEM;
}

static int add_detail(struct record_list *list, const struct perf_data_event *event,
		      const struct meaning *meaning, uint32_t source_id)
{
	const char *name = name_of(event);
	const struct trace_source_detail detail = {
		.head.type = TRACE_RECORD_SOURCE_DETAIL,
		.source_id = source_id,
		.kind = (uint16_t)meaning->kind,
		.direction = (uint8_t)meaning->direction,
		.precise = event->precise,
		.perf_config1 = event->config1,
		.perf_config2 = event->config2,
		.read_format = event->format.read_format,
		.regs_intr = event->format.regs_intr,
		.branch_sample_type = event->format.branch_sample_type,
		.min_latency = min_latency_of(event),
	};

	return record_list_add(list, &detail, trace_text(name), trace_text(""));
}

int perf_source_add(struct record_list *list, const struct perf_data *data, size_t event_index,
		    const struct perf_source *source)
{
	const struct perf_data_event *event = perf_data_event(data, event_index);
	struct meaning meaning = meaning_of(data, event);
	const struct trace_source record = {
		.head.type = TRACE_RECORD_SOURCE,
		.source_id = source->source_id,
		.perf_type = event->type,
		.stack_bytes = event->stack_bytes,
		.perf_config = event->config,
		.sample_type = event->format.sample_type,
		.regs_user = event->format.regs_user,
		.period = event->period,
		.frequency_hz = event->frequency_hz,
		.exclude_kernel = event->exclude_kernel,
		.clock_id = UINT32_MAX, /* whatever its clock: the feed tells pairs */
	};
	int r = record_list_add(list, &record, trace_text(source->name), trace_text(meaning.unit),
				trace_text(""));

	return r < 0 ? r : add_detail(list, event, &meaning, source->source_id);
}

/* ---- Run and host ---- */

static const struct {
	const char *arch;
	uint16_t machine;
} machines[] = {
	{ "x86_64", EM_X86_64 }, { "aarch64", EM_AARCH64 }, { "ppc64le", EM_PPC64 },
	{ "ppc64", EM_PPC64 },	 { "s390x", EM_S390 },	    { "i686", EM_386 },
	{ "i586", EM_386 },	 { "riscv64", EM_RISCV },
};

uint16_t perf_run_machine(const struct perf_data *data)
{
	const char *arch = perf_data_info(data)->arch;

	for (size_t i = 0; arch && i < sizeof(machines) / sizeof(machines[0]); i++) {
		if (strcmp(arch, machines[i].arch) == 0)
			return machines[i].machine;
	}
	return 0;
}

static int add_fact(struct record_list *list, const char *prefix, const char *key,
		    const char *value)
{
	char whole[64];

	if (!value || !*value)
		return 0;
	snprintf(whole, sizeof(whole), "%s%s", prefix, key);
	return record_list_fact(list, whole, value);
}

static int add_number(struct record_list *list, const char *prefix, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return value ? add_fact(list, prefix, key, text) : 0;
}

/* Under the names that the runner gives them, where it has some. */
int perf_run_add_facts(struct record_list *list, const struct perf_data *data, const char *prefix)
{
	const struct perf_data_info *info = perf_data_info(data);
	const struct {
		const char *key;
		const char *value;
	} facts[] = {
		{ "hostname", info->host_name },  { "kernel", info->kernel },
		{ "cpu_model", info->cpu_model }, { "cpu_id", info->cpu_id },
		{ "machine", info->arch },	  { "perf_version", info->perf_version },
		{ "numa_topology", info->numa },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(facts) / sizeof(facts[0]); i++)
		r = add_fact(list, prefix, facts[i].key, facts[i].value);
	r = r ?: add_number(list, prefix, "cpus_online", info->n_cpus);
	return r < 0 ? r : add_number(list, prefix, "mem_total_bytes", info->memory_bytes);
}

/* Wall time at start_ns, when the file tells both of one moment. */
static uint64_t wall_time(const struct perf_data *data, uint64_t start_ns)
{
	const struct perf_data_info *info = perf_data_info(data);
	const struct perf_data_event *event =
		perf_data_n_events(data) ? perf_data_event(data, 0) : NULL;

	if (!event || !info->has_clock_data || !event->has_clock_id ||
	    event->clock_id != info->clock_id)
		return 0;
	return info->wall_ns - info->clock_ns + start_ns;
}

int perf_run_add(struct record_list *list, const struct perf_data *data, const char *program,
		 uint64_t start_ns)
{
	const struct perf_data_info *info = perf_data_info(data);
	const struct trace_run run = {
		.head.type = TRACE_RECORD_RUN,
		.start_unix_ns = wall_time(data, start_ns),
		.repetition = 1,
	};
	int r = record_list_add(
		list, &run, trace_text(program ? program : "perf"), trace_text("default"),
		trace_bytes(info->command ? info->command : "", info->command_bytes),
		trace_text(""));

	r = r ?: record_list_fact(list, "recorded_by", "perf");
	return r < 0 ? r : perf_run_add_facts(list, data, "");
}
