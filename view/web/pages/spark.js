/**
 * Small drawings in the rows of tables: live bytes over the time of the run, and shares as bars.
 */
import { h } from "memsight/dom";
import { bytes, isKnown } from "memsight/format";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 96;
const HEIGHT = 22;

export function svg(name, attributes, ...children) {
	const element = document.createElementNS(SVG, name);
	for (const [key, value] of Object.entries(attributes)) {
		if (value !== null && value !== undefined)
			element.setAttribute(key, value);
	}
	element.append(...children);
	return element;
}
/** A line from (x1, y1) to (x2, y2). */
export function svgLine(name, [x1, y1], [x2, y2]) {
	return svg("line", { class: name, x1, y1, x2, y2 });
}

export function svgRect(name, [x, y], width, height) {
	return svg("rect", { class: name, x, y, width, height });
}

/** A drawing of that size, in its own pixels. */
export function drawing(attributes, width, height, ...children) {
	const viewBox = `0 0 ${width} ${height}`;
	return svg("svg", { ...attributes, width, height, viewBox }, ...children);
}
/** Points of the outline of steps that are `most` high at the top, as an SVG path. */
export function stepsPath(values, width = WIDTH, height = HEIGHT) {
	const most = Math.max(...values, 1);
	const step = width / values.length;
	const y = (value) => (height - 1 - value / most * (height - 3)).toFixed(1);
	const x = (i) => (i * step).toFixed(1);
	const tops = values.map((value, i) => `L${x(i)} ${y(value)}L${x(i + 1)} ${y(value)}`);
	return `M0 ${height - 1}${tops.join("")}L${width} ${height - 1}Z`;
}

/**
 * @param {number[]} values  bytes that were live
 * @param {{ from: number, to: number }|null} part  of the run, 0 to 1, to mark
 */
export function spark(values, part = null) {
	if (!values?.length || values.every((value) => !value))
		return h("span", { class: "muted" }, "-");
	const name = `live bytes over the run, at most ${bytes(Math.max(...values))}`;
	const marked = part ? [svgRect("spark-part", [part.from * WIDTH, 0],
		Math.max((part.to - part.from) * WIDTH, 1), HEIGHT)] : [];
	return drawing({ class: "spark", role: "img", "aria-label": name }, WIDTH, HEIGHT,
		...marked, svg("path", { d: stepsPath(values) }));
}

/**
 * The share of a row of objects as a bar with the ends of its 95 % interval; `most` is as long as
 * the bar can be.
 */
export function shareBar({ share, share_low: low, share_high: high }, most) {
	const place = (value) => Math.min(Math.max(value / most, 0), 1) * (WIDTH - 2) + 1;
	const line = (from, to) => svgLine("whisker", from, to);
	const [left, right] = [place(low), place(high)];
	const whisker = isKnown(low) ? [line([left, 7], [right, 7]),
		line([left, 4], [left, 10]), line([right, 4], [right, 10])] : [];
	return drawing({ class: "share-bar", "aria-hidden": "true" }, WIDTH, 14,
		svgRect("share-ground", [0, 2], WIDTH, 10),
		svgRect("share-value", [0, 2], place(share ?? low ?? 0), 10), ...whisker);
}
