/**
 * Regions and marks as rows: a region lies below the one that it is inside of, regions of threads
 * that overlap in time below each other. Nothing here draws.
 */
import { rowsOf } from "memsight/data";

const MOST_ROWS = 12;

/* The first row of its depth or below where nothing of another thread lies at that time. */
function rowFor(rows, region) {
	let row = region.depth;
	while (rows[row]?.some((other) => other.start < region.end && other.end > region.start))
		row++;
	return row;
}

/**
 * @param {Object} answer of the request timeline
 * @param {number} end  ns: of regions that were open when the recording ended
 * @returns {{ rows: Object[], marks: Object[], n: number, names: string[], nHidden: number }}
 */
export function lanesOf(answer, end) {
	const names = [];
	const rows = [];
	const regions = rowsOf(answer.regions).map((region) => ({
		name: region.name || "(no name)", thread: region.thread, depth: region.depth ?? 0,
		start: region.start_ns, end: region.end_ns ?? end,
	}));
	regions.sort((a, b) => a.depth - b.depth || a.start - b.start);
	const outermost = Math.min(...regions.map(({ depth }) => depth));
	for (const region of regions) {
		region.depth -= outermost;
		if (!names.includes(region.name))
			names.push(region.name);
		region.row = rowFor(rows, region);
		region.i = names.indexOf(region.name);
		(rows[region.row] ??= []).push(region);
	}
	const shown = regions.filter(({ row }) => row < MOST_ROWS);
	const first = Math.min(rows.length, MOST_ROWS);
	const marks = rowsOf(answer.marks).map(({ name, thread, time_ns: time }, i) => ({
		name, thread, time, row: first + i % 2 }));
	const n = first + Math.min(marks.length, 2);
	return { rows: shown, marks, n, names, nHidden: regions.length - shown.length };
}
