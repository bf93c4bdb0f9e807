/**
 * The panel "Over time": live bytes and RSS, rates of allocations, accesses and page faults,
 * regions and marks, below each other. A drag selects time (state from, to) and every panel
 * follows; so do two fields and the keyboard. State of its own: timeline.zoom=1 shows the selected
 * time only.
 */
import { framed, h } from "memsight/dom";
import { count, interval, plural } from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { createPane } from "memsight/pane";
import { createBrush } from "memsight/timeline-brush";
import { createChart, createLanes } from "memsight/timeline-chart";
import { lanesOf } from "memsight/timeline-lanes";
import { curvesOf, levelsOf, rssOf, stacked, sumsIn } from "memsight/timeline-series";
import { parseDuration, shortMoment, valueText } from "memsight/units";

const HELP = "Each strip is drawn over the time of the run. Live bytes are what the program has "
	+ "asked for and not given back: the most within each interval and what is live at its end "
	+ "(a process that ends gives all of it back); RSS is what the kernel says is resident, of "
	+ "all processes. Rates are counts per second. Drag over any strip to select a time: all "
	+ "other panels then show that time only. Arrow keys move the selection, with Shift its "
	+ "end; Escape clears it.";
const LABEL = "Timeline. Arrow keys move the selected time, with Shift its end; Escape clears it.";
const NOTHING = "Nothing was recorded over time: the run has neither allocations nor samples nor "
	+ "readings of its memory.";

const NO_BLOCKS = "no allocations were recorded";
const NOT_DRAWN = ["busy", "empty", "fault"]; // states of the panel
const LINES = ["filled", "dashed", "dotted"]; // as seriesOf of memsight/timeline-chart draws them

/* What stands above a strip; a bare one has no legend, so its curves are told there. */
function titleOf({ title, curves, isBare }) {
	const isOne = curves.length === 1;
	const names = curves.map(({ name }, i) => (isOne ? name : `${name} (${LINES[i]})`));
	return isBare ? `${title}: ${names.join(", ")}` : title;
}

/* Strips are higher where there is room. */
const stretch = () => Math.min(Math.max(innerHeight / 900, 1), 3);

/* A strip whose curves have its unit. */
function stripOf(id, title, unit, least, curves) {
	const height = Math.round(least * stretch());
	return { id, title, unit, height, curves: curves.map((curve) => ({ unit, ...curve })) };
}

function rateStrip(id, title, height, curves) {
	return stripOf(id, title, "/s", height, curves);
}

/* Live bytes where blocks were recorded, RSS where it was read. */
function memoryStrips(answer, { totals, most, live, times }) {
	const curves = [];
	if (totals.blocks > 0 || Math.max(...most, 0) > 0)
		curves.push({ name: "most live", values: most, isFilled: true },
			{ name: "live at interval's end", values: live });
	if (answer.rss.n > 0)
		curves.push({ name: "RSS", values: rssOf(answer, times) });
	return curves.length === 0 ? [] : [stripOf("memory", "Memory", "bytes", 130, curves)];
}

/** The strips that an answer fills, and what could not be drawn, in words. */
function stripsOf(answer, span) {
	const curves = curvesOf(answer);
	const { times, totals } = curves;
	const absent = [];
	const strips = memoryStrips(answer, curves);
	if (totals.blocks + totals.frees > 0)
		strips.push(rateStrip("rate", "Allocations per second", 80, [
			{ name: "allocations", values: curves.allocations, isFilled: true },
			{ name: "frees", values: curves.frees }]));
	else
		absent.push(NO_BLOCKS);
	strips.push(...accessStrip(answer, curves, absent));
	if (totals.faults > 0)
		strips.push(rateStrip("faults", "Page faults per second", 60, [
			{ name: "page faults", values: curves.faults, isFilled: true }]));
	else
		absent.push("no page faults were sampled");
	const lanes = lanesOf(answer, span[1]);
	if (lanes.n > 0)
		strips.push({ id: "lanes", title: "Regions and marks", unit: "", height: 0,
			curves: [], lanes });
	return { strips: strips.map((strip) => ({ ...strip, times, span })), absent };
}

function accessStrip(answer, curves, absent) {
	const levels = levelsOf(answer, curves.times);
	const isTold = levels.some(({ name }) => name !== "");
	if (isTold) {
		const sums = stacked(levels.map(({ rates }) => rates));
		return [rateStrip("accesses", "Sampled accesses per second, by memory level", 90,
			levels.map(({ name, rates }, i) => ({ name: name || "level not known",
				values: sums[i], own: rates, isStacked: true })))];
	}
	if (curves.totals.samples > 0)
		return [rateStrip("accesses",
			"Samples per second (their source does not know the memory level)", 80,
			[{ name: "samples", values: curves.samples, isFilled: true }])];
	absent.push("no accesses were sampled");
	return [];
}

export function create(root, app, { isOverview = false } = {}) {
	const title = isOverview ? "Selected time" : "Over time";
	const pane = createPane(root, title, HELP, () => load(app.state));
	const now = { answer: null, asked: "", drawn: "", charts: [] };
	const strips = h("div", {
		class: "strips", tabindex: "0", role: "group", "aria-label": LABEL });
	const again = framed(() => now.answer && !root.closest("[hidden]") && redraw());
	const brush = createBrush(strips, app, now, again);
	const form = selectionForm(app, isOverview);
	const numbers = numbersGrid();
	pane.tools.append(form.element);
	pane.body.append(strips);
	if (!isOverview)
		pane.body.append(h("details", { class: "as-table" },
			h("summary", {}, "Numbers as a table"), numbers.element));
	new ResizeObserver(again).observe(strips);

	function isZoomed(state) {
		return !isOverview && state["timeline.zoom"] === "1" && !app.span().isAll;
	}

	function requestOf(state) {
		const { from, to } = app.span();
		const part = isZoomed(state) ? { from: Math.round(from), to: Math.round(to) } : {};
		return { run: app.runId, width: 1000, ...part };
	}

	function load(state) {
		const request = requestOf(state);
		now.asked = JSON.stringify(request);
		now.view = [request.from ?? 0, request.to ?? app.duration];
		pane.show(app.ask("timeline", request, pane), (answer) => {
			now.answer = answer;
			now.drawn = "";
			if (stripsOf(answer, now.view).strips.length === 0)
				pane.empty(NOTHING);
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
			const bare = (strip) => ({ ...strip, height: 64, isBare: true });
			const list = isOverview ? found.strips.slice(0, 1).map(bare) : found.strips;
			draw(list, theme, width);
			now.absent = found.absent;
		}
		brush.show();
		numbers.show(now.answer, now.view);
		tellSelection();
	}

	function draw(list, theme, width) {
		now.charts = list.map((strip, i) => {
			const { id, lanes } = strip;
			const place = h("figure", { class: `strip strip-${id}`, "data-strip": id },
				h("figcaption", {}, titleOf(strip)));
			strips.append(place);
			const last = { ...strip, isLast: i === list.length - 1 };
			const create = lanes ? createLanes : createChart;
			const chart = create(place, last, theme, width);
			chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
			brush.attach(chart);
			return chart;
		});
	}

	function tellSelection() {
		const { from, to, isAll } = app.span();
		const sums = sumsIn(now.answer, from, to);
		const absent = now.absent ?? [];
		const met = `in the ${count(sums.intervals)} intervals that it meets`;
		const blocks = absent.includes(NO_BLOCKS) ? [NO_BLOCKS] : [
			`most live ${valueText(sums.most, "bytes")}`,
			plural(sums.allocations, "allocation"), plural(sums.frees, "free")];
		pane.foot.textContent = [
			isAll ? "Whole run" : `Selected ${interval(from, to)}, ${met}`,
			...(app.processes.length > 1 ? ["all processes"] : []),
			...blocks,
			plural(sums.samples, "sample"), plural(sums.faults, "page fault"),
			...(isOverview ? [] : absent.filter((text) => text !== NO_BLOCKS)),
		].join(" · ");
	}

	return {
		update(state) {
			form.show(state);
			if (now.asked !== JSON.stringify(requestOf(state)))
				load(state);
			else if (now.answer && !NOT_DRAWN.includes(pane.element.dataset.state))
				redraw();
		},
	};
}

/* Two fields and buttons: what the brush does, typed. */
function selectionForm(app, isOverview) {
	const field = (name, placeholder) => h("input", {
		type: "text", size: 9, "aria-label": `Selected time ${name}`,
		placeholder: `${name}, ${placeholder}`, class: `time-${name}` });
	const from = field("from", "1.5 ms");
	const to = field("to", "0.2 s");
	const wrong = h("span", { class: "fault", role: "alert" });
	const showAll = () => app.set({ from: null, to: null, "timeline.zoom": null });
	const clear = h("button", {
		type: "button", class: "time-clear", onclick: showAll }, "Whole run");
	const turnZoom = () =>
		app.set({ "timeline.zoom": app.state["timeline.zoom"] === "1" ? null : 1 });
	const zoom = h("button", {
		type: "button", class: "time-zoom", onclick: turnZoom,
		title: "Show the selected time only in these strips" }, "Zoom in");

	function whatIsWrong(first, last) {
		if (first >= 0 && last > first && first < app.duration)
			return "";
		if (Number.isNaN(first) || Number.isNaN(last))
			return "Write times like 0.5 s, 12 ms or 300 us";
		const end = valueText(app.duration, "ns");
		return `The start must lie before the end, and in the run (${end})`;
	}

	/* What was shown shortly and is left as it is stays exact. */
	function timeOf(field, exact, otherwise) {
		if (!field.value.trim())
			return otherwise;
		return field.value === text(exact) ? exact : parseDuration(field.value);
	}

	function submit(event) {
		event.preventDefault();
		const span = app.span();
		const first = timeOf(from, span.from, 0);
		const last = timeOf(to, span.to, app.duration);
		wrong.textContent = whatIsWrong(first, last);
		if (!wrong.textContent)
			app.set({ from: first || null, to: last < app.duration ? last : null });
	}

	const text = (ns) => shortMoment(ns, app.duration);
	return {
		element: h("form", { class: "time-form", onsubmit: submit },
			from, h("span", {}, "to"), to, h("button", { type: "submit" }, "Select"),
			clear, isOverview ? null : zoom, wrong),
		show(state) {
			const span = app.span();
			const isTyping = [from, to].includes(document.activeElement);
			if (!isTyping || !wrong.textContent) {
				from.value = span.isAll ? "" : text(span.from);
				to.value = span.isAll ? "" : text(span.to);
			}
			clear.disabled = span.isAll;
			zoom.disabled = span.isAll;
			const isZoomed = state["timeline.zoom"] === "1" && !span.isAll;
			zoom.setAttribute("aria-pressed", String(isZoomed));
		},
	};
}

/* Twenty parts of the time as rows, for those who cannot see curves. */
function numbersGrid() {
	const isFixed = true;
	const counted = (key) => numberColumn(key, key[0].toUpperCase() + key.slice(1),
		(row) => count(row[key]), { isFixed });
	const caption = "Twenty equal parts of the time shown; "
		+ "counts are of the intervals that begin in a part";
	const grid = createGrid({ caption, columns: [
		{ key: "from", title: "Time", isFixed, cell: (row) => interval(row.from, row.to) },
		numberColumn("most", "Most live", (row) => valueText(row.most, "bytes"),
			{ isFixed }),
		...["allocations", "frees", "samples", "faults"].map(counted),
	] });
	return {
		element: grid.element,
		show(answer, [from, to]) {
			const part = (to - from) / 20;
			const row = (_, i) => {
				const [first, last] = [from + i * part, from + (i + 1) * part];
				const sums = sumsIn(answer, first, last, true);
				return { from: first, to: last, ...sums };
			};
			grid.show(Array.from({ length: 20 }, row));
		},
	};
}
