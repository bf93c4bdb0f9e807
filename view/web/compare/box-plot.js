/**
 * Box plots of repetitions, and ratios with their intervals, as SVG: a row for each box, with every
 * value as a point.
 */
import { axisOf, spread, whiskersOf } from "memsight/box-statistics";
import { svg } from "memsight/spark";
import { niceSteps, stepTexts, valueText } from "memsight/units";

const ROW = 44;
const TOP = 8;
const BOTTOM = 30;
const RIGHT = 28;

/** Text that is cut to about `width` pixels; the whole of it on pointing. */
function label(text, x, y, width, attributes = {}) {
	const most = Math.max(4, Math.floor(width / 6.6));
	const shown = text.length > most ? text.slice(0, most - 1) + "…" : text;
	const element = svg("text", { x, y, ...attributes }, shown);
	if (shown !== text)
		element.append(svg("title", {}, text));
	return element;
}

function axis(low, high, place, height, unit, width) {
	const steps = niceSteps(low, high, Math.max(2, Math.floor(width / 72)), unit);
	const texts = stepTexts(steps, unit);
	return steps.flatMap((step, i) => [
		svg("line", { class: "plot-grid", x1: place(step), x2: place(step), y1: TOP, y2: height - BOTTOM }),
		svg("text", { class: "plot-tick", x: place(step), y: height - BOTTOM + 16, "text-anchor": "middle" }, texts[i])]);
}

function titled(element, text) {
	element.append(svg("title", {}, text));
	return element;
}

function whisker(x1, x2, y) {
	return [svg("line", { class: "box-whisker", x1, x2, y1: y, y2: y }), svg("line", { class: "box-whisker", x1: x2, x2, y1: y - 5, y2: y + 5 })];
}

/* A value as a circle; of a run that failed as a cross. */
function point(value, x, y, unit) {
	const text = `${value.name}: ${valueText(value.value, unit)}${value.isGood ? "" : ", failed: in no statistic"}${value.isOutlier ? ", beyond the whiskers" : ""}`;
	const mark = value.isGood ? svg("circle", { class: `box-point${value.isOutlier ? " outlier" : ""}`, cx: x, cy: y, r: value.isOutlier ? 3.5 : 2.8 })
		: svg("path", { class: "box-failed", d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x - 4} ${y + 4}L${x + 4} ${y - 4}` });
	return titled(mark, text);
}

function boxOf(box, y, place, unit) {
	const parts = [];
	const { statistics } = box;
	if (statistics && statistics.n > 0) {
		const good = box.values.filter(({ isGood }) => isGood);
		const whiskers = whiskersOf(good.map(({ value }) => value), statistics.q1, statistics.q3);
		whiskers.outliers.forEach((i) => { good[i].isOutlier = true; });
		parts.push(...whisker(place(statistics.q1), place(whiskers.low), y), ...whisker(place(statistics.q3), place(whiskers.high), y),
			titled(svg("rect", { class: "box", x: place(statistics.q1), y: y - 10, width: Math.max(place(statistics.q3) - place(statistics.q1), 1), height: 20 }), boxText(box, unit)));
		if (statistics.low !== null)
			parts.push(svg("rect", { class: "box-interval", x: place(statistics.low), y: y + 12, width: Math.max(place(statistics.high) - place(statistics.low), 1), height: 3 }));
		parts.push(svg("line", { class: "box-median", x1: place(statistics.median), x2: place(statistics.median), y1: y - 11, y2: y + 11 }));
	}
	const offsets = spread(box.values.length);
	return [...parts, ...box.values.map((value, i) => point(value, place(value.value), y + offsets[i] * 7, unit))];
}

/** The numbers of a box in one line. */
export function boxText({ name, statistics: s }, unit) {
	const text = (value) => valueText(value, unit);
	return `${name}: n = ${s.n}, median ${text(s.median)}${s.low === null ? " (no 95 % interval below 6 values)" : ` (95 %: ${text(s.low)} to ${text(s.high)})`}, quartiles ${
		text(s.q1)} and ${text(s.q3)}, ${text(s.least)} to ${text(s.most)}`;
}

/**
 * @param {Object[]} boxes  { name, statistics: row of the answer or null, values: [{ name, value, isGood }] }
 * @returns {SVGElement}
 */
export function boxPlot(boxes, unit, title, width) {
	const left = Math.min(190, Math.max(90, width * 0.28));
	const height = TOP + boxes.length * ROW + BOTTOM;
	const [low, high] = axisOf(boxes.flatMap(({ values, statistics: s }) => [...values.map(({ value }) => value), ...(s?.low !== null && s ? [s.low, s.high] : [])]));
	const place = (value) => left + (value - low) / (high - low || 1) * (width - left - RIGHT);
	const rows = boxes.flatMap((box, i) => {
		const y = TOP + i * ROW + ROW / 2;
		const nFailed = box.values.filter(({ isGood }) => !isGood).length;
		return [label(box.name, left - 10, y, left - 12, { class: "plot-label", "text-anchor": "end" }),
			svg("text", { class: "plot-note", x: left - 10, y: y + 14, "text-anchor": "end" }, `n = ${box.statistics?.n ?? 0}${nFailed ? `, ✕ ${nFailed} failed` : ""}`),
			...boxOf(box, y, place, unit)];
	});
	return svg("svg", { class: "box-plot", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
		"aria-label": `${title}. ${boxes.filter(({ statistics: s }) => s).map((box) => boxText(box, unit)).join(". ")}` },
	...axis(low, high, place, height, unit, width - left), ...rows);
}

/**
 * Ratios against a base with their 95 % intervals, and the line at 1.
 *
 * @param {Object[]} rows { name, ratio, low, high, n }
 */
export function ratioPlot(rows, title, width) {
	const left = Math.min(260, Math.max(110, width * 0.34));
	const row = 26;
	const height = TOP + rows.length * row + BOTTOM;
	const values = rows.flatMap(({ ratio, low, high }) => [ratio, low, high]).filter((value) => value !== null && value !== undefined);
	const [low, high] = [Math.min(1, ...values), Math.max(1, ...values)];
	const air = (high - low || 0.1) * 0.08;
	const place = (value) => left + (value - low + air) / (high - low + 2 * air) * (width - left - RIGHT);
	const lines = rows.flatMap((one, i) => {
		const y = TOP + i * row + row / 2;
		return [label(one.name, left - 10, y + 4, left - 12, { class: "plot-label", "text-anchor": "end" }),
			...(one.low === null ? [] : [svg("line", { class: "ratio-interval", x1: place(one.low), x2: place(one.high), y1: y, y2: y })]),
			titled(svg("circle", { class: "ratio-point", cx: place(one.ratio), cy: y, r: 4.5 }), `${one.name}: ${ratioText(one)}`)];
	});
	return svg("svg", { class: "ratio-plot", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}. ${rows.map((one) =>
		`${one.name}: ${ratioText(one)}`).join(". ")}` }, ...axis(low - air, high + air, place, height, "", width - left),
	svg("line", { class: "ratio-one", x1: place(1), x2: place(1), y1: TOP - 4, y2: height - BOTTOM }), ...lines);
}

/** "1.034 (95 %: 1.021 - 1.049), n = 12 pairs" */
export function ratioText({ ratio, low, high, n }) {
	return `${ratio.toFixed(3)}${low === null ? " (no 95 % interval below 6 pairs)" : ` (95 %: ${low.toFixed(3)} - ${high.toFixed(3)})`}, n = ${n} pairs`;
}
