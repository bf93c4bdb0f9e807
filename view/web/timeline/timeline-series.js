/**
 * The curves of the timeline, made from its answer: arrays over the same times, in the units that
 * are drawn. Nothing here draws.
 */
import { rowsOf } from "memsight/data";

/* Each time of `times` with the value of the last row at or before it; null before the first. */
function carried(times, rowTimes, values) {
	let at = -1;
	return times.map((time) => {
		while (at + 1 < rowTimes.length && rowTimes[at + 1] <= time)
			at++;
		return at < 0 ? null : values[at];
	});
}

/* Counts in intervals as counts per second. */
function perSecond(counts, intervals) {
	return counts.map((count, i) => (intervals[i] > 0 ? count * 1e9 / intervals[i] : 0));
}

/**
 * Steps: the value of an interval holds from its start to its end, so the last one gets an end of
 * its own.
 *
 * @returns {{ times: number[], live: Object, hasSamples: boolean, hasFaults: boolean,
 *   hasBlocks: boolean }}
 */
export function curvesOf(answer) {
	const live = answer.live.columns;
	const n = answer.live.n;
	const end = n ? live.time_ns[n - 1] + live.interval_ns[n - 1] : 0;
	const closed = (values) => (n ? [...values, values[n - 1]] : []);
	const sum = (values) => values.reduce((total, value) => total + value, 0);
	return {
		times: n ? [...live.time_ns, end] : [],
		live: closed(live.live_bytes),
		most: closed(live.max_live_bytes),
		allocations: closed(perSecond(live.n_allocations, live.interval_ns)),
		frees: closed(perSecond(live.n_frees, live.interval_ns)),
		samples: closed(perSecond(live.n_samples, live.interval_ns)),
		faults: closed(perSecond(live.n_faults, live.interval_ns)),
		totals: {
			blocks: sum(live.n_allocations), frees: sum(live.n_frees),
			samples: sum(live.n_samples), faults: sum(live.n_faults),
		},
	};
}

/** RSS at the times of the curves: as it was told last. null: not told yet, or never. */
export function rssOf(answer, times) {
	const { n, columns } = answer.rss;
	return n ? carried(times, columns.time_ns, columns.rss) : times.map(() => null);
}

/**
 * Sampled accesses per second by memory level, the most frequent level first. Samples whose source
 * does not tell the level have the name "".
 *
 * @returns {{ name: string, total: number, rates: number[] }[]}
 */
export function levelsOf(answer, times) {
	const place = new Map(times.map((time, i) => [time, i]));
	const levels = new Map();
	for (const { time_ns: time, interval_ns: interval, level, n } of rowsOf(answer.levels)) {
		const none = { name: level, total: 0, rates: times.map(() => 0) };
		const found = levels.get(level) ?? none;
		const i = place.get(time);
		found.total += n;
		if (i !== undefined && interval > 0)
			found.rates[i] += n * 1e9 / interval;
		levels.set(level, found);
	}
	for (const level of levels.values()) {
		if (times.length > 1)
			level.rates[times.length - 1] = level.rates[times.length - 2];
	}
	return [...levels.values()].sort((a, b) => b.total - a.total);
}

/** Curves upon each other: the i-th is the sum of the first i + 1. */
export function stacked(curves) {
	const sums = [];
	for (const curve of curves) {
		const below = sums.at(-1);
		sums.push(curve.map((value, i) => value + (below?.[i] ?? 0)));
	}
	return sums;
}

/**
 * What the curves say of a span of time: added up over the intervals that it meets, or (isByStart)
 * that begin in it, so that parts of a time add up to the whole.
 */
export function sumsIn(answer, from, to, isByStart = false) {
	const live = answer.live.columns;
	const sums = { allocations: 0, frees: 0, samples: 0, faults: 0, most: 0, intervals: 0 };
	for (let i = 0; i < answer.live.n; i++) {
		const start = live.time_ns[i];
		const reach = isByStart ? start >= from : start + live.interval_ns[i] > from;
		const isIn = reach && start < to;
		if (!isIn)
			continue;
		sums.intervals++;
		sums.allocations += live.n_allocations[i];
		sums.frees += live.n_frees[i];
		sums.samples += live.n_samples[i];
		sums.faults += live.n_faults[i];
		sums.most = Math.max(sums.most, live.max_live_bytes[i]);
	}
	return sums;
}
