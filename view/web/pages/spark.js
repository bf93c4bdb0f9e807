/**
 * Small drawings in the rows of tables: live bytes over the time of the run, and shares as bars.
 */
import { h } from "memsight/dom";
import { bytes } from "memsight/format";

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

/** Points of the outline of steps that are `most` high at the top, as an SVG path. */
export function stepsPath(values, width = WIDTH, height = HEIGHT) {
	const most = Math.max(...values, 1);
	const step = width / values.length;
	const y = (value) => (height - 1 - value / most * (height - 3)).toFixed(1);
	const tops = values.map((value, i) => `L${(i * step).toFixed(1)} ${y(value)}L${((i + 1) * step).toFixed(1)} ${y(value)}`);
	return `M0 ${height - 1}${tops.join("")}L${width} ${height - 1}Z`;
}

/**
 * @param {number[]} values bytes that were live @param {{ from: number, to: number }|null} part of
 * the run, 0 to 1, to mark
 */
export function spark(values, part = null) {
	if (!values?.length || values.every((value) => !value))
		return h("span", { class: "muted" }, "-");
	const most = Math.max(...values);
	const marked = part ? [svg("rect", { class: "spark-part", x: part.from * WIDTH, y: 0, width: Math.max((part.to - part.from) * WIDTH, 1), height: HEIGHT })] : [];
	return svg("svg", { class: "spark", width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
		"aria-label": `live bytes over the run, at most ${bytes(most)}` }, ...marked, svg("path", { d: stepsPath(values) }));
}

/**
 * The share of a row of objects as a bar with the ends of its 95 % interval; `most` is as long as
 * the bar can be.
 */
export function shareBar({ share, share_low: low, share_high: high }, most) {
	const place = (value) => Math.min(Math.max(value / most, 0), 1) * (WIDTH - 2) + 1;
	const line = (x1, x2, y1, y2) => svg("line", { class: "whisker", x1, x2, y1, y2 });
	const whisker = low === null || low === undefined ? []
		: [line(place(low), place(high), 7, 7), line(place(low), place(low), 4, 10), line(place(high), place(high), 4, 10)];
	return svg("svg", { class: "share-bar", width: WIDTH, height: 14, viewBox: `0 0 ${WIDTH} 14`, "aria-hidden": "true" },
		svg("rect", { class: "share-ground", x: 0, y: 2, width: WIDTH, height: 10 }),
		svg("rect", { class: "share-value", x: 0, y: 2, width: place(share ?? low ?? 0), height: 10 }), ...whisker);
}
