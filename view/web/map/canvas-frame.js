/**
 * Where a plot lies on a canvas, and how its time and addresses become pixels.
 */
import { gutter, MARGIN } from "memsight/axis";

/**
 * @typedef {{ from: number, to: number, low: number, high: number }} View ns and bytes of the
 * squeezed axis
 */

/** Pixels of the plot within a canvas of this size, of which `below` are left for the time. */
export function frameOf(width, height, below = 30) {
	const [left, top] = [gutter(), 8];
	const [right, bottom] = [width - MARGIN, height - below];
	return { left, top, right, bottom, width: right - left, height: bottom - top };
}

/** From a view's units to pixels and back. */
export function scaleOf(frame, view) {
	const xUnit = frame.width / (view.to - view.from);
	const yUnit = frame.height / (view.high - view.low);
	return {
		x: (ns) => frame.left + (ns - view.from) * xUnit,
		y: (at) => frame.bottom - (at - view.low) * yUnit,
		time: (x) => view.from + (x - frame.left) / xUnit,
		at: (y) => view.low + (frame.bottom - y) / yUnit,
		xUnit, yUnit,
	};
}

/** The canvas in device pixels, its context in those of the page. */
export function contextOf(canvas, width, height) {
	const ratio = window.devicePixelRatio || 1;
	const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
	if (canvas.width !== wide || canvas.height !== high) {
		canvas.width = wide;
		canvas.height = high;
	}
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, width, height);
	return context;
}
