/**
 * By what a flame graph can be: a line for each, what it shows, and why a run may not have it.
 */
import { rowsOf } from "memsight/data";

const NO_ACCESSES = new Set(["clock", "signal", "faults", "tasks"]);

function sourcesOf(run) {
	return rowsOf(run.sources);
}

function hasBlocks(run) {
	return run.totals?.allocations > 0 ? null : "no allocation was recorded in this run";
}

/* One of the sources, by name, gave samples; or why not. */
function hasSource(names, otherwise) {
	return (run) => {
		const sources = sourcesOf(run).filter(({ name }) => names(name));
		if (sources.some((source) => source.n_samples > 0))
			return null;
		const failed = sources.find((source) => source.error);
		return failed ? `${failed.name} was not opened: ${failed.remedy || `error ${failed.error}`}` : otherwise;
	};
}

const stacksOfSamples = (run) => (run.has_stacks ? "by the call stacks of the samples" : "of what was allocated there: by the call stacks "
	+ "that allocated (record --sample-stacks gives those of the code that ran)");
const stacksOfBlocks = () => "by the call stacks that asked for it";

/** id: `by` of the request; missing(run): null, or why it is not there; stacks(run): whose stacks they are. */
export const METRICS = [
	{ id: "bytes", title: "bytes asked for", missing: hasBlocks, stacks: stacksOfBlocks },
	{ id: "blocks", title: "blocks", missing: hasBlocks, stacks: stacksOfBlocks },
	{ id: "peak", title: "bytes at the peak", missing: hasBlocks, stacks: stacksOfBlocks },
	{ id: "leaked", title: "bytes not freed", missing: hasBlocks, stacks: stacksOfBlocks },
	{ id: "time", title: "CPU time", stacks: stacksOfSamples,
		missing: hasSource((name) => name === "clock" || name === "signal", "no CPU time was sampled in this run") },
	{ id: "faults", title: "page faults", stacks: stacksOfSamples,
		missing: hasSource((name) => name === "faults", "no page fault was sampled in this run") },
	{ id: "accesses", title: "sampled accesses", stacks: stacksOfSamples,
		missing: hasSource((name) => !NO_ACCESSES.has(name), "no source of this run samples accesses (pebs, ibs, spe, marked, watch)") },
	{ id: "latency", title: "latency of accesses", stacks: stacksOfSamples,
		missing: (run) => (run.has_latency ? null : "no source of this run measures latencies") },
];

/** The metric that a state names, or the first that the run has; null: it has none. */
export function pickMetric(run, wanted) {
	const there = METRICS.filter((metric) => metric.missing(run) === null);
	return there.find(({ id }) => id === wanted) ?? there[0] ?? null;
}
