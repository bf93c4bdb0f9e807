/**
 * One strip of the timeline: a chart of uPlot over the time of the run, with the page's colours,
 * and lanes of regions and marks drawn the same way. All strips share their cursor and left edge.
 */
import uPlot from "memsight/vendor/uplot";
import { gutter, MARGIN } from "memsight/axis";
import { isKnown, moment } from "memsight/format";
import { categorical } from "memsight/palette";
import { valueText } from "memsight/units";

const SYNC = "memsight-time";
const LANE = 16;
const DASHES = [[], [6, 4], [2, 3]];
const BINARY = Array.from({ length: 60 }, (_, i) => 2 ** i);
const DECIMAL = Array.from({ length: 40 }, (_, i) =>
	[1, 2, 5][i % 3] * 10 ** (Math.floor(i / 3) - 3));

/** The unit that a run of this many ns is told in: [name, ns]. */
export function timeUnit(span) {
	const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3]];
	return units.find(([, ns]) => span >= ns) ?? ["ns", 1];
}

/* Moments as the picture of time x address has them, which stands above it. */
function timeAxis(theme, ns, isLast) {
	return { show: isLast, stroke: theme.muted, grid: { stroke: theme.grid, width: 1 },
		ticks: { stroke: theme.line, size: 4 }, size: isLast ? 32 : 0, space: 64,
		values: (_, splits, _axis, _space, step) =>
			splits.map((split) => moment(split * ns, step * ns)) };
}

function valueAxis(theme, unit) {
	const text = (split) => (split === null ? "" : valueText(split, unit));
	return { stroke: theme.muted, size: gutter(), gap: 4, space: 22,
		grid: { stroke: theme.grid, width: 1 }, ticks: { show: false },
		incrs: unit === "bytes" ? BINARY : DECIMAL,
		values: (_, splits) => splits.map(text) };
}

/*
 * A curve of a strip as uPlot wants it; the i-th has a colour and, so that colour is not all, a
 * dash of its own.
 */
function seriesOf(curve, i, theme) {
	const colour = curve.colour ?? categorical(i, theme.dark);
	const { name, unit, isFilled, isStacked, isSmooth } = curve;
	const values = curve.own ?? curve.values;
	const opacity = isStacked ? "b0" : "30";
	return { label: name, stroke: colour, width: 1.5, points: { show: false },
		dash: isStacked ? [] : DASHES[i % DASHES.length],
		fill: isFilled || isStacked ? colour + opacity : undefined, spanGaps: false,
		paths: isSmooth ? undefined : uPlot.paths.stepped({ align: 1 }),
		value: (_, __, ___, at) => (isKnown(at) ? valueText(values[at], unit) : "") };
}

function common(strip, theme, width) {
	const ignored = ["mousedown", "mouseup", "click", "dblclick"];
	const bind = Object.fromEntries(ignored.map((name) => [name, () => null]));
	return {
		width, height: strip.height + (strip.isLast ? 32 : 0),
		padding: [6, MARGIN, strip.isLast ? 0 : 6, 0],
		cursor: { sync: { key: SYNC, setSeries: false }, drag: { x: false, y: false },
			y: false, points: { size: 6 }, bind },
		legend: { show: strip.curves.length > 0 && !strip.isBare, live: true },
		select: { show: true, left: 0, top: 0, width: 0, height: 0 },
	};
}

/**
 * @param {Element} root
 * @param {Object} strip  { title, unit, height, isLast, isBare, times (ns), span: [from, to] ns,
 *                          curves: [{ name, unit, values, own, colour, isFilled, isStacked }] }
 * @returns {uPlot}
 */
export function createChart(root, strip, theme, width) {
	const [name, size] = timeUnit(strip.span[1] - strip.span[0]);
	const curves = strip.curves;
	const n = curves.length;
	const timeText = (_, value) =>
		(value === null ? "" : `${Number(value.toPrecision(6))} ${name}`);
	const bands = Array.from({ length: Math.max(n - 1, 0) }, (_, i) => ({
		series: [i + 2, i + 1] }));
	const options = {
		...common(strip, theme, width),
		scales: { x: { time: false, range: () => strip.span.map((ns) => ns / size) },
			y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
		axes: [timeAxis(theme, size, strip.isLast), valueAxis(theme, strip.unit)],
		series: [{ label: "time", value: timeText },
			...curves.map((curve, i) => seriesOf(curve, i, theme))],
		bands: curves.some(({ isStacked }) => isStacked) ? bands : [],
	};
	const data = [strip.times.map((ns) => ns / size), ...curves.map(({ values }) => values)];
	return new uPlot(options, data, root);
}

function drawLane(chart, row, { name, start, end, i }, theme) {
	const { ctx: context } = chart;
	const ratio = devicePixelRatio || 1;
	const left = chart.valToPos(start, "x", true);
	const right = Math.max(chart.valToPos(end, "x", true), left + ratio);
	const top = chart.bbox.top + row * LANE * ratio;
	context.fillStyle = categorical(i, theme.dark) + "90";
	context.fillRect(left, top + ratio, right - left, (LANE - 2) * ratio);
	context.fillStyle = theme.ink;
	const visible = Math.max(left, chart.bbox.left);
	if (right - visible > context.measureText(name).width + 8 * ratio)
		context.fillText(name, visible + 4 * ratio, top + LANE / 2 * ratio);
}

function drawMark(chart, row, { name, time }, theme) {
	const { ctx: context } = chart;
	const ratio = devicePixelRatio || 1;
	const at = chart.valToPos(time, "x", true);
	const top = chart.bbox.top + row * LANE * ratio;
	context.fillStyle = theme.ink;
	context.fillRect(at, chart.bbox.top, ratio, chart.bbox.height);
	context.fillText(name, at + 3 * ratio, top + LANE / 2 * ratio);
}

/**
 * Lanes: { rows: [{ name, start, end, row, i }], marks: [{ name, time, row }], n } in ns; drawn on
 * a chart that has no curve.
 *
 * @returns {uPlot}
 */
export function createLanes(root, strip, theme, width) {
	const [, size] = timeUnit(strip.span[1] - strip.span[0]);
	const scaled = strip.lanes.rows.map((lane) => ({
		...lane, start: lane.start / size, end: lane.end / size }));
	const marks = strip.lanes.marks.map((mark) => ({ ...mark, time: mark.time / size }));
	const draw = (chart) => {
		const { ctx: context, bbox } = chart;
		context.save();
		context.beginPath();
		context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
		context.clip();
		context.font = `${11 * (devicePixelRatio || 1)}px system-ui, sans-serif`;
		context.textBaseline = "middle";
		context.textAlign = "left";
		scaled.forEach((lane) => drawLane(chart, lane.row, lane, theme));
		marks.forEach((mark) => drawMark(chart, mark.row, mark, theme));
		context.restore();
	};
	const options = {
		...common({ ...strip, height: strip.lanes.n * LANE + 12 }, theme, width),
		scales: { y: { range: [0, 1] },
			x: { time: false, range: () => strip.span.map((ns) => ns / size) } },
		axes: [timeAxis(theme, size, strip.isLast), {
			...valueAxis(theme, ""), grid: { show: false },
			values: (_, splits) => splits.map(() => "") }],
		series: [{ label: "time" }, { show: false }],
		hooks: { draw: [draw] },
	};
	return new uPlot(options, [strip.span.map((ns) => ns / size), [0, 0]], root);
}
