/**
 * Box plots of repetitions, and ratios with their intervals, as SVG: a row for each box, with every
 * value as a point.
 */
import { axisOf, spread, whiskersOf } from "memsight/box-statistics";
import { isKnown } from "memsight/format";
import { drawing, svg, svgLine, svgRect } from "memsight/spark";
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
	const bottom = height - BOTTOM;
	return steps.flatMap((step, i) => {
		const x = place(step);
		const tick = { class: "plot-tick", x, y: bottom + 16, "text-anchor": "middle" };
		return [svgLine("plot-grid", [x, TOP], [x, bottom]), svg("text", tick, texts[i])];
	});
}

function titled(element, text) {
	element.append(svg("title", {}, text));
	return element;
}

function whisker(x1, x2, y) {
	return [
		svgLine("box-whisker", [x1, y], [x2, y]),
		svgLine("box-whisker", [x2, y - 5], [x2, y + 5]),
	];
}

/* A value as a circle; of a run that failed as a cross. */
function point({ name, value, isGood, isOutlier }, x, y, unit) {
	const failed = isGood ? "" : ", failed: in no statistic";
	const outlier = isOutlier ? ", beyond the whiskers" : "";
	const text = `${name}: ${valueText(value, unit)}${failed}${outlier}`;
	const mark = isGood
		? svg("circle", { class: `box-point${isOutlier ? " outlier" : ""}`,
			cx: x, cy: y, r: isOutlier ? 3.5 : 2.8 })
		: svg("path", { class: "box-failed", d: `M${x - 4} ${y - 4}l8 8m-8 0l8 -8` });
	return titled(mark, text);
}

function statisticsOf(box, y, place, unit) {
	const { q1, q3, median, low, high } = box.statistics;
	const good = box.values.filter(({ isGood }) => isGood);
	const whiskers = whiskersOf(good.map(({ value }) => value), q1, q3);
	whiskers.outliers.forEach((i) => { good[i].isOutlier = true; });
	const bar = (name, from, to, top, height) => svgRect(name, [place(from), top],
		Math.max(place(to) - place(from), 1), height);
	return [
		...whisker(place(q1), place(whiskers.low), y),
		...whisker(place(q3), place(whiskers.high), y),
		titled(bar("box", q1, q3, y - 10, 20), boxText(box, unit)),
		...(low === null ? [] : [bar("box-interval", low, high, y + 12, 3)]),
		svgLine("box-median", [place(median), y - 11], [place(median), y + 11]),
	];
}

function boxOf(box, y, place, unit) {
	const parts = box.statistics?.n > 0 ? statisticsOf(box, y, place, unit) : [];
	const offsets = spread(box.values.length);
	const points = box.values.map((value, i) =>
		point(value, place(value.value), y + offsets[i] * 7, unit));
	return [...parts, ...points];
}

/** The numbers of a box in one line. */
export function boxText({ name, statistics: s }, unit) {
	const text = (value) => valueText(value, unit);
	const interval = s.low === null ? " (no 95 % interval below 6 values)"
		: ` (95 %: ${text(s.low)} to ${text(s.high)})`;
	return `${name}: n = ${s.n}, median ${text(s.median)}${interval}, `
		+ `quartiles ${text(s.q1)} and ${text(s.q3)}, ${text(s.least)} to ${text(s.most)}`;
}

/* Everything that the axis of a box has to hold. */
function valuesOf({ values, statistics: s }) {
	const ends = s && s.low !== null ? [s.low, s.high] : [];
	return [...values.map(({ value }) => value), ...ends];
}

/**
 * @param {Object[]} boxes
 *   { name, statistics: row of the answer or null, values: [{ name, value, isGood }] }
 * @returns {SVGElement}
 */
export function boxPlot(boxes, unit, title, width) {
	const left = Math.min(190, Math.max(90, width * 0.28));
	const height = TOP + boxes.length * ROW + BOTTOM;
	const [low, high] = axisOf(boxes.flatMap(valuesOf));
	const room = width - left - RIGHT;
	const place = (value) => left + (value - low) / (high - low || 1) * room;
	const rows = boxes.flatMap((box, i) => {
		const y = TOP + i * ROW + ROW / 2;
		const end = { "text-anchor": "end" };
		const nFailed = box.values.filter(({ isGood }) => !isGood).length;
		const failed = nFailed ? `, ✕ ${nFailed} failed` : "";
		return [
			label(box.name, left - 10, y, left - 12, { class: "plot-label", ...end }),
			svg("text", { class: "plot-note", x: left - 10, y: y + 14, ...end },
				`n = ${box.statistics?.n ?? 0}${failed}`),
			...boxOf(box, y, place, unit)];
	});
	const told = boxes.filter(({ statistics: s }) => s).map((box) => boxText(box, unit));
	const name = `${title}. ${told.join(". ")}`;
	return drawing({ class: "box-plot", role: "img", "aria-label": name }, width, height,
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
	const values = rows.flatMap(({ ratio, low, high }) => [ratio, low, high]).filter(isKnown);
	const [low, high] = [Math.min(1, ...values), Math.max(1, ...values)];
	const air = (high - low || 0.1) * 0.08;
	const room = width - left - RIGHT;
	const place = (value) => left + (value - low + air) / (high - low + 2 * air) * room;
	const told = (one) => `${one.name}: ${ratioText(one)}`;
	const lines = rows.flatMap((one, i) => {
		const y = TOP + i * row + row / 2;
		const name = { class: "plot-label", "text-anchor": "end" };
		const interval = one.low === null ? []
			: [svgLine("ratio-interval", [place(one.low), y], [place(one.high), y])];
		const mark = svg("circle", {
			class: "ratio-point", cx: place(one.ratio), cy: y, r: 4.5 });
		return [label(one.name, left - 10, y + 4, left - 12, name), ...interval,
			titled(mark, told(one))];
	});
	const name = `${title}. ${rows.map(told).join(". ")}`;
	return drawing({ class: "ratio-plot", role: "img", "aria-label": name }, width, height,
		...axis(low - air, high + air, place, height, "", width - left),
		svgLine("ratio-one", [place(1), TOP - 4], [place(1), height - BOTTOM]), ...lines);
}

/** "1.034 (95 %: 1.021 - 1.049), n = 12 pairs" */
export function ratioText({ ratio, low, high, n }) {
	const interval = low === null ? " (no 95 % interval below 6 pairs)"
		: ` (95 %: ${low.toFixed(3)} - ${high.toFixed(3)})`;
	return `${ratio.toFixed(3)}${interval}, n = ${n} pairs`;
}
