/**
 * The panel "Over time": live bytes and RSS, rates of allocations, accesses and page faults,
 * regions and marks, below each other. A drag selects time (state from, to) and every panel
 * follows; so do two fields and the keyboard. State of its own: timeline.zoom=1 shows the selected
 * time only.
 */
import { framed, h } from "memsight/dom";
import { count, interval } from "memsight/format";
import { createGrid } from "memsight/grid";
import { createPane } from "memsight/pane";
import { createBrush } from "memsight/timeline-brush";
import { createChart, createLanes } from "memsight/timeline-chart";
import { lanesOf } from "memsight/timeline-lanes";
import { curvesOf, levelsOf, rssOf, stacked, sumsIn } from "memsight/timeline-series";
import { parseDuration, valueText } from "memsight/units";

const HELP = "Each strip is drawn over the time of the run. Live bytes are what the program has asked for and not given back: the most within "
	+ "each interval and what is live at its end (a process that ends gives all of it back); RSS is what the kernel says is resident, of all processes. Rates are counts per second. "
	+ "Drag over any strip to select a time: all other panels then show that time only. Arrow keys move the selection, with Shift its end; "
	+ "Escape clears it.";

const NO_BLOCKS = "no allocations were recorded";
const LINES = ["filled", "dashed", "dotted"]; // as seriesOf of memsight/timeline-chart draws them

/* What stands above a strip; a bare one has no legend, so its curves are told there. */
function titleOf({ title, curves, isBare }) {
	return isBare ? `${title}: ${curves.map(({ name }, i) => (curves.length > 1 ? `${name} (${LINES[i]})` : name)).join(", ")}` : title;
}

/** The strips that an answer fills, and what could not be drawn, in words. */
function stripsOf(answer, span) {
	const curves = curvesOf(answer);
	const { times, totals } = curves;
	const strips = [];
	const absent = [];
	const rss = rssOf(answer, times);
	const memory = [{ name: "most live", unit: "bytes", values: curves.most, isFilled: true }, { name: "live at interval's end", unit: "bytes", values: curves.live },
		...(answer.rss.n ? [{ name: "RSS", unit: "bytes", values: rss }] : [])];
	const hasLive = totals.blocks > 0 || Math.max(...curves.most, 0) > 0;
	if (hasLive || answer.rss.n > 0)
		strips.push({ id: "memory", title: "Memory", unit: "bytes", height: 130, curves: memory.slice(hasLive ? 0 : 2) });
	if (totals.blocks + totals.frees > 0)
		strips.push({ id: "rate", title: "Allocations per second", unit: "/s", height: 80, curves: [{ name: "allocations", unit: "/s", values: curves.allocations,
			isFilled: true }, { name: "frees", unit: "/s", values: curves.frees }] });
	else
		absent.push(NO_BLOCKS);
	strips.push(...accessStrip(answer, curves, absent));
	if (totals.faults > 0)
		strips.push({ id: "faults", title: "Page faults per second", unit: "/s", height: 60, curves: [{ name: "page faults", unit: "/s", values: curves.faults,
			isFilled: true }] });
	else
		absent.push("no page faults were sampled");
	const lanes = lanesOf(answer, span[1]);
	if (lanes.n > 0)
		strips.push({ id: "lanes", title: "Regions and marks", unit: "", height: 0, curves: [], lanes });
	return { strips: strips.map((strip) => ({ ...strip, times, span })), absent };
}

function accessStrip(answer, curves, absent) {
	const levels = levelsOf(answer, curves.times);
	const isTold = levels.some(({ name }) => name !== "");
	if (isTold) {
		const sums = stacked(levels.map(({ rates }) => rates));
		return [{ id: "accesses", title: "Sampled accesses per second, by memory level", unit: "/s", height: 90,
			curves: levels.map(({ name, rates }, i) => ({ name: name || "level not known", unit: "/s", values: sums[i], own: rates, isStacked: true })) }];
	}
	if (curves.totals.samples > 0)
		return [{ id: "accesses", title: "Samples per second (their source does not know the memory level)", unit: "/s", height: 80,
			curves: [{ name: "samples", unit: "/s", values: curves.samples, isFilled: true }] }];
	absent.push("no accesses were sampled");
	return [];
}

export function create(root, app, { isOverview = false } = {}) {
	const pane = createPane(root, isOverview ? "Selected time" : "Over time", HELP, () => load(app.state));
	const now = { answer: null, asked: "", drawn: "", charts: [] };
	const strips = h("div", { class: "strips", tabindex: "0", role: "group", "aria-label": "Timeline. Arrow keys move the selected time, with Shift its end; Escape clears it." });
	const again = framed(() => now.answer && !root.closest("[hidden]") && redraw());
	const brush = createBrush(strips, app, now, again);
	const form = selectionForm(app, isOverview);
	const numbers = numbersGrid();
	pane.tools.append(form.element);
	pane.body.append(strips, ...(isOverview ? [] : [h("details", { class: "as-table" }, h("summary", {}, "Numbers as a table"), numbers.element)]));
	new ResizeObserver(again).observe(strips);

	function isZoomed(state) {
		return !isOverview && state["timeline.zoom"] === "1" && !app.span().isAll;
	}

	function requestOf(state) {
		const { from, to } = app.span();
		return { run: app.runId, width: 1000, ...(isZoomed(state) ? { from: Math.round(from), to: Math.round(to) } : {}) };
	}

	function load(state) {
		const request = requestOf(state);
		now.asked = JSON.stringify(request);
		now.view = [request.from ?? 0, request.to ?? app.duration];
		pane.show(app.ask("timeline", request, pane), (answer) => {
			now.answer = answer;
			now.drawn = "";
			if (stripsOf(answer, now.view).strips.length === 0)
				pane.empty("Nothing was recorded over time: the run has neither allocations nor samples nor readings of its memory.");
			else
				redraw();
		});
	}

	function redraw() {
		if (brush.isDragging())
			return;
		const width = Math.floor(strips.clientWidth);
		const theme = app.theme();
		const key = `${now.asked} ${width} ${theme.dark}`;
		if (width > 0 && key !== now.drawn) {
			now.drawn = key;
			now.charts.forEach((chart) => chart.destroy());
			strips.replaceChildren();
			const found = stripsOf(now.answer, now.view);
			draw(isOverview ? found.strips.slice(0, 1).map((strip) => ({ ...strip, height: 64, isBare: true })) : found.strips, theme, width);
			now.absent = found.absent;
		}
		brush.show();
		numbers.show(now.answer, now.view);
		tellSelection();
	}

	function draw(list, theme, width) {
		now.charts = list.map((strip, i) => {
			const place = h("figure", { class: `strip strip-${strip.id}`, "data-strip": strip.id }, h("figcaption", {}, titleOf(strip)));
			strips.append(place);
			const last = { ...strip, isLast: i === list.length - 1 };
			const chart = strip.lanes ? createLanes(place, last, theme, width) : createChart(place, last, theme, width);
			chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
			brush.attach(chart);
			return chart;
		});
	}

	function tellSelection() {
		const { from, to, isAll } = app.span();
		const sums = sumsIn(now.answer, from, to);
		const hasBlocks = !(now.absent ?? []).includes(NO_BLOCKS);
		const parts = isAll ? ["Whole run"] : [`Selected ${interval(from, to)}, in the ${count(sums.intervals)} intervals that it meets`];
		parts.push(...(app.processes.length > 1 ? ["all processes"] : []), ...(hasBlocks ? [`most live ${valueText(sums.most, "bytes")}`,
			`${count(sums.allocations)} allocations`, `${count(sums.frees)} frees`] : [NO_BLOCKS]), `${count(sums.samples)} samples`,
		`${count(sums.faults)} page faults`, ...(isOverview ? [] : (now.absent ?? []).filter((text) => text !== NO_BLOCKS)));
		pane.foot.textContent = parts.join(" · ");
	}

	return {
		update(state) {
			form.show(state);
			if (now.asked !== JSON.stringify(requestOf(state)))
				load(state);
			else if (now.answer && !["busy", "empty", "fault"].includes(pane.element.dataset.state))
				redraw();
		},
	};
}

/* Two fields and buttons: what the brush does, typed. */
function selectionForm(app, isOverview) {
	const from = h("input", { type: "text", size: 9, "aria-label": "Selected time from", placeholder: "from, 1.5 ms", class: "time-from" });
	const to = h("input", { type: "text", size: 9, "aria-label": "Selected time to", placeholder: "to, 0.2 s", class: "time-to" });
	const wrong = h("span", { class: "fault", role: "alert" });
	const clear = h("button", { type: "button", class: "time-clear", onclick: () => app.set({ from: null, to: null, "timeline.zoom": null }) }, "Whole run");
	const zoom = h("button", { type: "button", class: "time-zoom", title: "Show the selected time only in these strips",
		onclick: () => app.set({ "timeline.zoom": app.state["timeline.zoom"] === "1" ? null : 1 }) }, "Zoom in");

	function submit(event) {
		event.preventDefault();
		const first = from.value.trim() ? parseDuration(from.value) : 0;
		const last = to.value.trim() ? parseDuration(to.value) : app.duration;
		const isGood = first >= 0 && last > first && first < app.duration;
		wrong.textContent = isGood ? "" : Number.isNaN(first) || Number.isNaN(last) ? "Write times like 0.5 s, 12 ms or 300 us"
			: `The start must lie before the end, and in the run (${valueText(app.duration, "ns")})`;
		if (isGood)
			app.set({ from: first || null, to: last < app.duration ? last : null });
	}

	const text = (ns) => `${Number((ns / 1e9).toFixed(9))} s`;
	return {
		element: h("form", { class: "time-form", onsubmit: submit }, from, h("span", {}, "to"), to, h("button", { type: "submit" }, "Select"), clear, isOverview ? null : zoom, wrong),
		show(state) {
			const span = app.span();
			const isTyping = [from, to].includes(document.activeElement);
			if (!isTyping || !wrong.textContent) {
				from.value = span.isAll ? "" : text(span.from);
				to.value = span.isAll ? "" : text(span.to);
			}
			clear.disabled = span.isAll;
			zoom.disabled = span.isAll;
			zoom.setAttribute("aria-pressed", String(state["timeline.zoom"] === "1" && !span.isAll));
		},
	};
}

/* Twenty parts of the time as rows, for those who cannot see curves. */
function numbersGrid() {
	const cell = (key, unit) => (row) => valueText(row[key], unit);
	const grid = createGrid({ caption: "Twenty equal parts of the time shown; counts are of the intervals that begin in a part", columns: [
		{ key: "from", title: "Time", isFixed: true, cell: (row) => interval(row.from, row.to) },
		{ key: "most", title: "Most live", isNumber: true, isFixed: true, cell: cell("most", "bytes") },
		...["allocations", "frees", "samples", "faults"].map((key) => ({ key, title: key[0].toUpperCase() + key.slice(1), isNumber: true, isFixed: true,
			cell: (row) => count(row[key]) })),
	] });
	return {
		element: grid.element,
		show(answer, [from, to]) {
			const part = (to - from) / 20;
			grid.show(Array.from({ length: 20 }, (_, i) => ({ from: from + i * part, to: from + (i + 1) * part,
				...sumsIn(answer, from + i * part, from + (i + 1) * part, true) })));
		},
	};
}
