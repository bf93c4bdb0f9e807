/**
 * The two axes of a picture: time with round ticks, and addresses with the holes between what is
 * used left out.
 */
import { address, bytes, fileName, moment } from "memsight/format";

/**
 * Pixels left of everything that stands over time, so that moments stand below each other (--gutter
 * of the style sheet).
 */
export function gutter() {
	return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--gutter"));
}

const LEAST_TICKS = 3; // on a phone, too: one moment alone is no scale

/** Pixels right of it. */
export const MARGIN = 24;

/** The round step (1, 2 or 5 times a power of ten) of which at most n fit into a span. */
function roundStep(span, n) {
	const least = span / Math.max(n, 1);
	const power = 10 ** Math.floor(Math.log10(least));
	return power * [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9));
}

/** @returns {{ at: number, text: string }[]} moments of a span that `width` pixels show */
export function timeTicks(from, to, width) {
	const wanted = Math.max(LEAST_TICKS, Math.floor(width / 90));
	const step = Math.max(1, roundStep(to - from, wanted));
	const ticks = [];
	const last = to + 1e-9 * (to - from); // as axis_make() of report/chart/axis.c
	for (let i = Math.ceil(from / step - 1e-9); i * step <= last; i++)
		ticks.push({ at: i * step, text: moment(i * step, step) });
	return ticks;
}

/**
 * @typedef {{ start: number, end: number, y: number, size: number, kind: string,
 *   name: string }} Band
 * @param {Object[]} rows  of the answer `bands`, lowest first
 */
export function createAxis(rows) {
	/** @type {Band[]} */
	const bands = rows.map((row) => ({ ...row, size: row.end - row.start }));
	const last = bands[bands.length - 1];
	const height = last ? last.y + last.size : 0;

	/** The band that a byte of the axis lies in, or the last one below it. */
	function bandAt(y) {
		let low = 0;
		let high = bands.length - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (bands[middle].y <= y)
				low = middle;
			else
				high = middle - 1;
		}
		return bands[low];
	}
	return {
		bands, height, bandAt,
		/** Where an address stands on the axis, or null where nothing lies. */
		placeOf(at) {
			const band = bands.find(({ start, end }) => start <= at && at < end);
			return band ? band.y + at - band.start : null;
		},
		addressOf(y) {
			const band = bandAt(Math.min(Math.max(y, 0), height - 1));
			const offset = Math.min(Math.max(y - band.y, 0), band.size - 1);
			return band.start + Math.floor(offset);
		},
	};
}

/** What has no file: by its kind, or as the kernel calls the mapping. */
const NAMES = {
	"[heap]": "heap (brk)", "[stack]": "stack", global: "globals", tool: "memsight itself",
};

/** "heap", "heap (brk)", "libc.so.6" */
export function bandName(band) {
	return NAMES[band.name || band.kind] ?? (band.name ? fileName(band.name) : band.kind);
}

/** With its addresses and its size. */
export function bandText(band) {
	const addresses = `${address(band.start)}-${address(band.end)}`;
	return `${bandName(band)}, ${addresses}, ${bytes(band.size)}`;
}

/**
 * Bands that stand side by side as one label where there is no room for each: pixels of each piece
 * of the axis that is `least` or more high get their own.
 *
 * @returns {{ bands: Band[], top: number, bottom: number }[]} pixels, top < bottom
 */
export function bandPieces(axis, place, span, least) {
	const pieces = [];
	for (const band of axis.bands) {
		if (band.y + band.size <= span.low || band.y >= span.high)
			continue;
		const bottom = place(Math.max(band.y, span.low));
		const top = place(Math.min(band.y + band.size, span.high));
		const previous = pieces[pieces.length - 1];
		const isSmall = bottom - top < least;
		if (previous && previous.isSmall && isSmall) {
			previous.bands.push(band);
			previous.top = top;
			previous.isSmall = previous.bottom - top < least;
		} else {
			pieces.push({ bands: [band], top, bottom, isSmall });
		}
	}
	return pieces;
}
