/**
 * By what a flame graph can be: a line for each, what it shows, and why a run may not have it.
 */
import { rowsOf } from "memsight/data";

function sourcesOf(run) {
	return rowsOf(run.sources);
}

function hasBlocks(run) {
	return run.totals?.allocations > 0 ? null : "no allocation was recorded in this run";
}

/* A source that measures one of these gave samples; or why not. */
function hasSource(kinds, otherwise) {
	return (run) => {
		const sources = sourcesOf(run).filter(({ measures }) => kinds.includes(measures));
		if (sources.some((source) => source.n_samples > 0))
			return null;
		const failed = sources.find((source) => source.error);
		if (!failed)
			return otherwise;
		return `${failed.name} was not opened: ${failed.remedy || `error ${failed.error}`}`;
	};
}

/**
 * id: `by` of the request; unit: of its values (memsight/units); missing(run): null, or why it is
 * not there.
 */
export const METRICS = [
	{ id: "bytes", title: "bytes asked for", unit: "bytes", missing: hasBlocks },
	{ id: "blocks", title: "blocks", unit: "blocks", missing: hasBlocks },
	{ id: "peak", title: "bytes at the peak", unit: "bytes", missing: hasBlocks },
	{ id: "leaked", title: "bytes not freed", unit: "bytes", missing: hasBlocks },
	{ id: "time", title: "CPU time", unit: "ns", isOfTouches: true,
		missing: hasSource(["time"], "no CPU time was sampled in this run") },
	{ id: "faults", title: "page faults", unit: "page faults",
		isOfTouches: true,
		missing: hasSource(["fault"], "no page fault was sampled in this run") },
	{ id: "accesses", title: "sampled accesses", unit: "accesses",
		isOfTouches: true,
		missing: hasSource(["access", "watch"],
			"no source of this run samples accesses (pebs, ibs, spe, marked, watch)") },
	{ id: "latency", title: "latency of accesses", unit: "cycles",
		isOfTouches: true,
		missing: ({ has_latency: has }) =>
			(has ? null : "no source of this run measures latencies") },
];

/* What is shown by the stacks of samples where they have some (--sample-stacks). */
const BY_SAMPLES = ["time", "faults"];

/** What a metric is called in a run: touches belong to who allocated what was touched. */
export function titleOf({ id, title, isOfTouches }, { has_stacks: hasStacks }) {
	const isOfBlocks = isOfTouches && !(hasStacks && BY_SAMPLES.includes(id));
	return isOfBlocks ? `${title} at blocks allocated here` : title;
}

/**
 * The metric that a state names, or the first that is there; null: none is. whyNot(metric): null,
 * or why it is not there.
 */
export function pickMetric(whyNot, wanted) {
	const there = METRICS.filter((metric) => whyNot(metric) === null);
	return there.find(({ id }) => id === wanted) ?? there[0] ?? null;
}
