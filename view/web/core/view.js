/**
 * A view of time x address is a rectangle; here it is moved, zoomed and kept within what there is.
 *
 * @typedef {import("memsight/canvas-frame").View} View
 */

const LEAST_NS = 100;
const LEAST_BYTES = 64;

/** The value, or the end that it lies beyond. */
export function within(value, low, high) {
	return Math.min(Math.max(value, low), high);
}
function clip(low, high, end, least) {
	const size = Math.min(Math.max(high - low, Math.min(least, end)), end);
	const start = Math.min(Math.max(low + (high - low - size) / 2, 0), end - size);
	return [Math.round(start), Math.round(start + size)];
}

/** Within 0 to duration and 0 to height, not smaller than can be told apart. @returns {View} */
export function clipped(view, duration, height) {
	const [from, to] = clip(view.from, view.to, duration, LEAST_NS);
	const [low, high] = clip(view.low, view.high, height, LEAST_BYTES);
	return { from, to, low, high };
}

/**
 * Zoomed about a point of it. factor: < 1 shows less.
 *
 * @param {View} view
 * @param {{ time: number, at: number }} about
 * @param {{ inTime?: boolean, inAddress?: boolean }} axes
 * @returns {View}
 */
export function zoomed(view, about, factor, { inTime = true, inAddress = true } = {}) {
	const fx = inTime ? factor : 1;
	const fy = inAddress ? factor : 1;
	return {
		from: about.time - (about.time - view.from) * fx,
		to: about.time + (view.to - about.time) * fx,
		low: about.at - (about.at - view.low) * fy,
		high: about.at + (view.high - about.at) * fy,
	};
}

/**
 * Moved by so much; as a whole, so that it stops at an end instead of shrinking. @returns {View}
 */
export function moved(view, ns, bytes, duration, height) {
	const dx = Math.min(Math.max(ns, -view.from), duration - view.to);
	const dy = Math.min(Math.max(bytes, -view.low), height - view.high);
	return { from: view.from + dx, to: view.to + dx, low: view.low + dy, high: view.high + dy };
}

export function sameView(a, b) {
	const isSame = (key) => Math.round(a[key]) === Math.round(b[key]);
	return Boolean(a && b) && ["from", "to", "low", "high"].every(isSame);
}
