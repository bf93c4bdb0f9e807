/**
 * The pane "Over time" of a run that is being recorded: live and resident bytes and rates, from its
 * start or of its last minutes. A drag zooms into the past, which then stands still. State: from,
 * to (zoomed), last (s: follow that many).
 */
import { framed, h, select, table } from "memsight/dom";
import { interval } from "memsight/format";
import { createPane } from "memsight/pane";
import { createCurve } from "memsight/live-feed";
import { createBrush } from "memsight/timeline-brush";
import { createChart, timeUnit } from "memsight/timeline-chart";
import { valueText } from "memsight/units";

const HELP = "The recorder is looked at twice a second. Live bytes are what the program has asked "
	+ "for and not given back; RSS is what the kernel says is resident, of all processes. Drag "
	+ "over a strip to zoom in; Escape, a double click or \"Follow\" goes back to the growing "
	+ "end. Of a long run several looks become one point: its most, and what was live last.";
const LABEL = "Curves. Arrow keys select and move a part of the time, with Shift its end; Escape "
	+ "follows the end again.";
const SPANS = [["", "whole run"], ["600", "last 10 minutes"], ["60", "last minute"]];

const STRIPS = [
	{ id: "memory", title: "Memory", unit: "bytes", height: 150, curves: [
		{ key: "most", name: "most live", isFilled: true },
		{ key: "live", name: "live" }, { key: "rss", name: "RSS" }] },
	{ id: "rate", title: "Allocations per second", unit: "/s", height: 90, curves: [
		{ key: "rate", name: "allocations", isFilled: true },
		{ key: "freeRate", name: "frees" }] },
];

/* Steps: a point holds from its begin to its end. */
function valuesOf(points, key) {
	const values = points.map((point) => point[key]);
	return values.length ? [...values, values.at(-1)] : [];
}

function timesOf(points) {
	return points.length ? [...points.map(({ begin }) => begin), points.at(-1).end] : [];
}

/* Ten parts of the time as rows, for those who cannot see curves. */
function numbersOf(points, [from, to]) {
	const part = (to - from) / 10;
	return Array.from({ length: 10 }, (_, i) => {
		const [first, last] = [from + i * part, from + (i + 1) * part];
		const inside = points.filter(({ begin, end }) => end > first && begin < last);
		const most = (key) => (inside.length
			? Math.max(...inside.map((point) => point[key])) : null);
		return [interval(first, last), valueText(most("most"), "bytes"),
			valueText(most("rss"), "bytes"), valueText(most("rate"), "/s")];
	});
}

export function createCurves(root, app) {
	const pane = createPane(root, "Over time", HELP);
	const strips = h("div", { class: "strips", tabindex: "0", role: "group",
		"aria-label": LABEL });
	const now = { charts: [], strips: [], drawn: "", view: [0, 1] };
	const again = framed(draw);
	const curve = createCurve(app, again);
	const brush = createBrush(strips, app, now, again);
	const follow = h("button", { type: "button", class: "follow",
		onclick: () => app.set({ from: null, to: null, last: null }) }, "Follow");
	const numbers = h("details", { class: "as-table", ontoggle: () => again() },
		h("summary", {}, "Numbers as a table"));
	let shown = "";

	pane.tools.append(select("Show", SPANS, app.state.last ?? "", (last) => app.set({
		last, from: null, to: null })), follow);
	pane.body.append(strips, numbers);
	new ResizeObserver(again).observe(strips);

	function viewOf() {
		const { from, to, isAll } = app.span();
		const last = Number(app.state.last) * 1e9;
		if (!isAll)
			return [from, to];
		return [Math.max(app.since, last > 0 ? app.duration - last : 0), app.duration];
	}

	/* A part that has an end stands still. */
	const isFixed = () => Boolean(app.state.to);

	function make(width, theme) {
		now.charts.forEach((chart) => chart.destroy());
		strips.replaceChildren();
		now.strips = STRIPS.map((strip, i) => ({
			...strip, isLast: i === STRIPS.length - 1, span: [...now.view],
			times: timesOf(curve.points()),
			curves: strip.curves.map((one) => ({ ...one, unit: strip.unit,
				values: valuesOf(curve.points(), one.key) })) }));
		now.charts = now.strips.map((strip) => {
			const place = h("figure", { class: `strip strip-${strip.id}`,
				"data-strip": strip.id }, h("figcaption", {}, strip.title));
			strips.append(place);
			const chart = createChart(place, strip, theme, width);
			chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
			brush.attach(chart);
			return chart;
		});
	}

	/* The same charts with more in them: the pointer's place stays. */
	function grow(size) {
		const times = timesOf(curve.points()).map((ns) => ns / size);
		now.charts.forEach((chart, i) => {
			const strip = now.strips[i];
			strip.span.splice(0, 2, ...now.view);
			strip.curves.forEach((one) => {
				one.values.splice(0, Infinity,
					...valuesOf(curve.points(), one.key));
			});
			chart.setData([times, ...strip.curves.map(({ values }) => values)]);
		});
	}

	function draw() {
		const width = Math.floor(strips.clientWidth);
		if (brush.isDragging() || width === 0)
			return;
		now.view = viewOf();
		const theme = app.theme();
		const [name, size] = timeUnit(now.view[1] - now.view[0]);
		const key = `${width} ${theme.dark} ${name}`;
		if (key !== now.drawn)
			make(width, theme);
		else
			grow(size);
		now.drawn = key;
		brush.show();
		if (numbers.open)
			numbers.replaceChildren(numbers.firstChild, table(
				"Ten equal parts of the time shown, the most in each",
				["Time", "Most live", "RSS", "Allocations"],
				numbersOf(curve.points(), now.view), [1, 2, 3]));
		follow.disabled = app.span().isAll;
		const since = app.since > 0
			? ` · looked at since ${interval(0, app.since).split("-")[1]}` : "";
		pane.foot.textContent = `${app.span().isAll ? "Shown" : "Zoomed to"} `
			+ interval(...now.view) + since;
	}

	return {
		/** The state has changed, or the theme. */
		update() {
			const { from, to, last } = app.state;
			const wanted = [from, to, last].join(" ");
			if (wanted !== shown)
				curve.show(...viewOf());
			shown = wanted;
			again();
		},
		add(row) {
			const [from, to] = viewOf();
			if (!isFixed())
				curve.add(row, from, to);
		},
	};
}
