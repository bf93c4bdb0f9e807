/**
 * The page "Series": repetitions of each program and mode as box plots, a metric at a time or all
 * of them, and what recording costs against natural runs. State: series.program, series.metric (""
 * the first few).
 */
import { framed, h, select } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { boxPlot, ratioPlot } from "memsight/box-plot";
import { count, plural } from "memsight/format";
import { createGrid } from "memsight/grid";
import { createPane } from "memsight/pane";
import { valueText } from "memsight/units";

const HELP = "Each row is a mode of a program, each point a run. The box goes from the first to the third quartile, the line in it is the median, the bar "
	+ "below it the median's 95 % interval (from 6 values on), and whiskers reach to the outermost values within 1.5 box lengths; rings beyond them are outliers. "
	+ "A cross is a run that failed: it is shown, and in no statistic.";
const OVERHEAD_HELP = "Each run against the natural run (without memsight) of the same program and block, so that a drift of the machine is in both: the median of "
	+ "these ratios with its 95 % interval. 1 means no cost.";
const FIRST = ["wall time", "user time", "max rss", "peak bytes"];

/** Values and statistics of the answer, by metric: [{ metric, unit, boxes }]. */
export function plotsOf(answer, program, runs) {
	const names = new Map(runs.map((run) => [run.id, `${run.program}.${run.mode}.${run.repetition}`]));
	const plots = new Map();
	const boxOf = (row) => {
		const plot = plots.get(row.metric) ?? { metric: row.metric, unit: row.unit, boxes: new Map() };
		plots.set(row.metric, plot);
		const name = program ? row.mode : `${row.program}.${row.mode}`;
		const box = plot.boxes.get(name) ?? { name, program: row.program, mode: row.mode, statistics: null, values: [] };
		plot.boxes.set(name, box);
		return box;
	};
	const isWanted = (row) => !program || row.program === program;
	for (const row of rowsOf(answer.statistics).filter(isWanted))
		boxOf(row).statistics = row;
	for (const row of rowsOf(answer.values).filter(isWanted)) {
		if (row.value !== null)
			boxOf(row).values.push({ name: names.get(row.run) ?? String(row.run), value: row.value, isGood: Boolean(row.is_good) });
	}
	return [...plots.values()].map((plot) => ({ ...plot, boxes: [...plot.boxes.values()] }));
}

function statisticsGrid() {
	const value = (key) => ({ key, title: key === "least" ? "Least" : key === "most" ? "Most" : key === "q1" ? "1st quartile" : key === "q3" ? "3rd quartile" : "Median",
		isNumber: true, cell: (row) => valueText(row[key], row.unit) });
	return createGrid({ caption: "The same as numbers, as `memsight report --stat` prints them", part: 100, columns: [
		{ key: "run", title: "Program and mode", order: (row) => `${row.program}.${row.mode}`, cell: (row) => `${row.program}.${row.mode}` },
		{ key: "metric", title: "Metric" },
		{ key: "n", title: "n", isNumber: true, help: "Runs that the statistics are of" },
		{ key: "n_failed", title: "Failed", isNumber: true, help: "Runs that failed or were cut off: in no statistic",
			cell: (row) => (row.n_failed ? h("span", { class: "alarm" }, `✕ ${count(row.n_failed)}`) : "0") },
		value("median"),
		{ key: "low", title: "95 % of the median", isNumber: true, cell: (row) => (row.low === null ? "-" : `${valueText(row.low, row.unit)} - ${valueText(row.high, row.unit)}`) },
		value("q1"), value("q3"), value("least"), value("most"),
	] });
}

export function create(root, app) {
	const pane = createPane(root, "Repetitions", HELP, () => load());
	const overhead = createPane(root, "Overhead against natural runs", OVERHEAD_HELP);
	const now = { answer: null, isAsked: false };
	const plots = h("div", { class: "plots" });
	const grid = statisticsGrid();
	pane.body.append(plots, h("details", { class: "as-table", id: "series-table" }, h("summary", {}, "Statistics as a table"), grid.element));
	new ResizeObserver(framed(() => now.answer && !root.closest("[hidden]") && draw())).observe(plots);

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
		const program = programs.includes(app.state["series.program"]) ? app.state["series.program"] : programs[0] ?? "";
		const all = plotsOf(answer, program, app.runs);
		if (all.length === 0) {
			pane.empty("This database holds no values of runs. `memsight run SERIES.ini` repeats programs in several modes and measures them.");
			overhead.empty("Nothing to compare.");
			return;
		}
		const wanted = app.state["series.metric"] ?? "";
		const shown = all.filter(({ metric }) => (wanted ? wanted === "all" || metric === wanted : FIRST.includes(metric)));
		pane.tools.replaceChildren(select("Program", programs.map((name) => [name, name]), program, (value) => app.set({ "series.program": value })),
			select("Metric", [["", "the usual ones"], ["all", "all"], ...all.map(({ metric, unit }) => [metric, `${metric} (${unit})`])], wanted,
				(value) => app.set({ "series.metric": value || null })));
		const width = Math.max(280, Math.min(plots.clientWidth, 860));
		plots.replaceChildren(...(shown.length ? shown : all).map(({ metric, unit, boxes }) => h("figure", { class: "plot", "data-metric": metric },
			h("figcaption", {}, metric, h("span", { class: "muted" }, ` ${unit === "ns" ? "(time)" : `(${unit})`}`)), boxPlot(boxes, unit, metric, columnWidth(plots, width)))));
		grid.show(rowsOf(answer.statistics).filter((row) => row.program === program));
		tell(all, program);
		drawOverhead(program);
	}

	function tell(all, program) {
		const runs = app.runs.filter((row) => row.program === program);
		const isOnce = all.every(({ boxes }) => boxes.every(({ statistics: s }) => !s || s.n < 2));
		const nFailed = runs.filter((row) => row.exit_status || !row.ended_cleanly).length;
		pane.foot.textContent = [`${plural(runs.length, "run")} of ${program}`, nFailed ? `${count(nFailed)} of them failed or were cut off (✕)` : "",
			isOnce ? "Each mode ran once: there is nothing to compare yet. `memsight run` repeats." : ""].filter(Boolean).join(" · ");
	}

	function drawOverhead(program) {
		const rows = rowsOf(now.answer.overhead).filter((row) => row.program === program);
		if (rows.length === 0) {
			overhead.empty("No natural runs (without memsight) of the same blocks to compare with. A series whose mode records nothing gives them: "
				+ "it has `dry = yes` (docs/series.md).");
			return;
		}
		overhead.ready();
		const metrics = [...new Set(rows.map(({ metric }) => metric))];
		const width = columnWidth(plots, Math.max(280, Math.min(plots.clientWidth, 860)));
		overhead.body.replaceChildren(h("div", { class: "plots" }, metrics.map((metric) => {
			const list = rows.filter((row) => row.metric === metric).map((row) => ({ ...row, name: `${row.mode} / ${row.base}` }));
			return h("figure", { class: "plot", "data-overhead": metric }, h("figcaption", {}, `${metric}, times that of the natural run`), ratioPlot(list, metric, width));
		})), ratioTable(rows));
		overhead.foot.textContent = "n is the number of pairs; failed runs are in none.";
	}

	return {
		update() {
			if (!now.isAsked)
				load();
			else if (now.answer)
				draw();
		},
	};
}

/* Two plots beside each other where there is room. */
function columnWidth(plots, width) {
	return plots.clientWidth >= 980 ? Math.floor((plots.clientWidth - 24) / 2) : width;
}

function ratioTable(rows) {
	const grid = createGrid({ caption: "Overhead as numbers", columns: [
		{ key: "mode", title: "Mode" }, { key: "base", title: "Against" }, { key: "metric", title: "Metric" },
		{ key: "n", title: "Pairs", isNumber: true },
		{ key: "ratio", title: "Ratio", isNumber: true, cell: (row) => row.ratio.toFixed(3) },
		{ key: "low", title: "95 %", isNumber: true, cell: (row) => (row.low === null ? "-" : `${row.low.toFixed(3)} - ${row.high.toFixed(3)}`) },
	] });
	grid.show(rows);
	return grid.element;
}
