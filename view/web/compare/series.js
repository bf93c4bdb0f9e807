/**
 * The page "Series": repetitions of each program and mode as box plots, a metric at a time or all
 * of them, and what recording costs against natural runs. State: series.program, series.metric (""
 * the first few).
 */
import { framed, h, select } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { boxPlot, ratioPlot } from "memsight/box-plot";
import { count, plural } from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { createPane } from "memsight/pane";
import { valueText } from "memsight/units";

const HELP = "Each row is a mode of a program, each point a run. The box goes from the first to "
	+ "the third quartile, the line in it is the median, the bar below it the median's 95 % "
	+ "interval (from 6 values on), and whiskers reach to the outermost values within 1.5 box "
	+ "lengths; rings beyond them are outliers. A cross is a run that failed: it is shown, "
	+ "and in no statistic.";
const OVERHEAD_HELP = "Each run against the natural run (without memsight) of the same program "
	+ "and block, so that a drift of the machine is in both: the median of these ratios with "
	+ "its 95 % interval. 1 means no cost.";
const NO_VALUES = "This database holds no values of runs. `memsight run SERIES.ini` repeats "
	+ "programs in several modes and measures them.";
const NO_NATURAL = "No natural runs (without memsight) of the same blocks to compare with. "
	+ "A series whose mode records nothing gives them: it has `dry = yes` (docs/series.md).";
const FIRST = ["wall time", "user time", "max rss", "peak bytes"];

/** Values and statistics of the answer, by metric: [{ metric, unit, boxes }]. */
export function plotsOf(answer, program, runs) {
	const names = new Map(runs.map(({ id, program: of, mode, repetition }) => [
		id, `${of}.${mode}.${repetition}`]));
	const plots = new Map();
	/* What is kept under a key; made anew where there is none. */
	const kept = (map, key, fresh) => {
		if (!map.has(key))
			map.set(key, fresh);
		return map.get(key);
	};
	const boxOf = ({ metric, unit, program: of, mode }) => {
		const plot = kept(plots, metric, { metric, unit, boxes: new Map() });
		const name = program ? mode : `${of}.${mode}`;
		const box = { name, program: of, mode, statistics: null, values: [] };
		return kept(plot.boxes, name, box);
	};
	const isWanted = (row) => !program || row.program === program;
	for (const row of rowsOf(answer.statistics).filter(isWanted))
		boxOf(row).statistics = row;
	for (const row of rowsOf(answer.values).filter(isWanted)) {
		const name = names.get(row.run) ?? String(row.run);
		if (row.value !== null)
			boxOf(row).values.push({
				name, value: row.value, isGood: Boolean(row.is_good) });
	}
	return [...plots.values()].map((plot) => ({ ...plot, boxes: [...plot.boxes.values()] }));
}

/* "12.3 - 14.5", of two ends as `text` writes them */
function endsText({ low, high }, text) {
	return low === null ? "-" : `${text(low)} - ${text(high)}`;
}

function statisticsGrid() {
	const value = (key, title) =>
		numberColumn(key, title, (row) => valueText(row[key], row.unit));
	const nameOf = (row) => `${row.program}.${row.mode}`;
	const failed = (row) => (row.n_failed
		? h("span", { class: "alarm" }, `✕ ${count(row.n_failed)}`) : "0");
	const caption = "The same as numbers, as `memsight report --stat` prints them";
	return createGrid({ caption, part: 100, columns: [
		{ key: "run", title: "Program and mode", order: nameOf, cell: nameOf },
		{ key: "metric", title: "Metric" },
		{ key: "n", title: "n", isNumber: true, help: "Runs that the statistics are of" },
		numberColumn("n_failed", "Failed", failed, {
			help: "Runs that failed or were cut off: in no statistic" }),
		value("median", "Median"),
		numberColumn("low", "95 % of the median",
			(row) => endsText(row, (end) => valueText(end, row.unit))),
		value("q1", "1st quartile"), value("q3", "3rd quartile"),
		value("least", "Least"), value("most", "Most"),
	] });
}

export function create(root, app) {
	const pane = createPane(root, "Repetitions", HELP, () => load());
	const overhead = createPane(root, "Overhead against natural runs", OVERHEAD_HELP);
	const now = { answer: null, isAsked: false };
	const plots = h("div", { class: "plots" });
	const grid = statisticsGrid();
	pane.body.append(plots, h("details", { class: "as-table", id: "series-table" },
		h("summary", {}, "Statistics as a table"), grid.element));
	const redraw = framed(() => now.answer && !root.closest("[hidden]") && draw());
	new ResizeObserver(redraw).observe(plots);

	function load() {
		now.isAsked = true;
		pane.show(app.ask("series", {}, pane), (answer) => {
			now.answer = answer;
			draw();
		});
	}

	function draw() {
		const { answer } = now;
		const programs = [...new Set(rowsOf(answer.values).map(({ program }) => program))];
		const chosen = app.state["series.program"];
		const program = programs.includes(chosen) ? chosen : programs[0] ?? "";
		const all = plotsOf(answer, program, app.runs);
		if (all.length === 0) {
			pane.empty(NO_VALUES);
			overhead.empty("Nothing to compare.");
			return;
		}
		const wanted = app.state["series.metric"] ?? "";
		const isWanted = ({ metric }) => (wanted
			? wanted === "all" || metric === wanted : FIRST.includes(metric));
		const shown = all.filter(isWanted);
		showChoices(programs, program, all, wanted);
		plots.replaceChildren(...(shown.length ? shown : all).map(figureOf));
		grid.show(rowsOf(answer.statistics).filter((row) => row.program === program));
		tell(all, program);
		drawOverhead(program);
	}
	function showChoices(programs, program, all, wanted) {
		const metrics = [["", "the usual ones"], ["all", "all"],
			...all.map(({ metric, unit }) => [metric, `${metric} (${unit})`])];
		pane.tools.replaceChildren(
			select("Program", programs.map((name) => [name, name]), program,
				(value) => app.set({ "series.program": value })),
			select("Metric", metrics, wanted,
				(value) => app.set({ "series.metric": value || null })));
	}

	function figureOf({ metric, unit, boxes }) {
		const small = ` ${unit === "ns" ? "(time)" : `(${unit})`}`;
		return h("figure", { class: "plot", "data-metric": metric },
			h("figcaption", {}, metric, h("span", { class: "muted" }, small)),
			boxPlot(boxes, unit, metric, columnWidth(plots)));
	}
	function tell(all, program) {
		const runs = app.runs.filter((row) => row.program === program);
		const isSingle = ({ statistics: s }) => !s || s.n < 2;
		const isOnce = all.every(({ boxes }) => boxes.every(isSingle));
		const nFailed = runs.filter((row) => row.exit_status || !row.ended_cleanly).length;
		pane.foot.textContent = [
			`${plural(runs.length, "run")} of ${program}`,
			nFailed ? `${count(nFailed)} of them failed or were cut off (✕)` : "",
			isOnce ? "Each mode ran once: there is nothing to compare yet. "
				+ "`memsight run` repeats." : "",
		].filter(Boolean).join(" · ");
	}

	function drawOverhead(program) {
		const rows = rowsOf(now.answer.overhead).filter((row) => row.program === program);
		if (rows.length === 0) {
			overhead.empty(NO_NATURAL);
			return;
		}
		overhead.ready();
		const metrics = [...new Set(rows.map(({ metric }) => metric))];
		const figure = (metric) => {
			const list = rows.filter((row) => row.metric === metric)
				.map((row) => ({ ...row, name: `${row.mode} / ${row.base}` }));
			return h("figure", { class: "plot", "data-overhead": metric },
				h("figcaption", {}, `${metric}, times that of the natural run`),
				ratioPlot(list, metric, columnWidth(plots)));
		};
		overhead.body.replaceChildren(
			h("div", { class: "plots" }, metrics.map(figure)), ratioTable(rows));
		overhead.foot.textContent = "n is the number of pairs; failed runs are in none.";
	}

	return {
		update() {
			pane.ofWholeRuns(app);
			if (!now.isAsked)
				load();
			else if (now.answer)
				draw();
		},
	};
}

/* Two plots beside each other where there is room. */
function columnWidth({ clientWidth: width }) {
	return width >= 980 ? Math.floor((width - 24) / 2) : Math.max(280, Math.min(width, 860));
}

function ratioTable(rows) {
	const interval = (row) => endsText(row, (end) => end.toFixed(3));
	const grid = createGrid({ caption: "Overhead as numbers", columns: [
		{ key: "mode", title: "Mode" }, { key: "base", title: "Against" },
		{ key: "metric", title: "Metric" },
		{ key: "n", title: "Pairs", isNumber: true },
		numberColumn("ratio", "Ratio", (row) => row.ratio.toFixed(3)),
		numberColumn("low", "95 %", interval),
	] });
	grid.show(rows);
	return grid.element;
}
