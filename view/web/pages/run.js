/**
 * The page "Run": what was not recorded and what that means, what was sampled and how, the run
 * itself and its host, its processes and threads. Losses come first.
 */
import { h } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { bytes, count, duration, interval, plural } from "memsight/format";
import { createGrid } from "memsight/grid";
import { lossWords } from "memsight/loss-words";
import { createPane } from "memsight/pane";
import { totalRows } from "memsight/total-words";
import { valueText } from "memsight/units";

const LOSS_HELP = "Everything that was not recorded or cannot be used, with what it means for the numbers of the other pages. What is not listed here was not lost.";
const OF_ALL = "Of all sources, page faults among them";
const SOURCE_HELP = "Where samples came from. The period is in the source's unit: one sample for so many of them. A source that could not be opened stands here with the reason.";

/** How a run ended, in words. */
export function endText(run) {
	if (!run.ended_cleanly)
		return "⚠ cut off: the recording did not end by itself, everything up to its last commit is here";
	if (run.exit_status === null || run.exit_status === undefined)
		return "its exit status is not known";
	const signal = run.exit_status & 127;
	const status = run.exit_status >> 8;
	return signal ? `⚠ ended by signal ${signal}` : status ? `⚠ exit status ${status}` : "exit status 0";
}

function facts(pairs) {
	return h("dl", { class: "facts" }, pairs.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

function lossesGrid(app) {
	return createGrid({ caption: "Losses", sort: { key: "count", isDescending: true }, columns: [
		{ key: "count", title: "How many", isNumber: true, cell: (row) => h("strong", {}, count(row.count)) },
		{ key: "reason", title: "What", cell: (row) => h("div", {}, h("strong", {}, row.reason), h("div", { class: "muted" }, `reported by ${row.source}`)) },
		{ key: "meaning", title: "What it means", isFixed: true, cell: (row) => lossWords(row.source, row.reason).meaning || "The reason says all that is known." },
		{ key: "remedy", title: "What to do", isFixed: true, cell: (row) => lossWords(row.source, row.reason).remedy || "-" },
		{ key: "process", title: "Process", cell: (row) => processText(app, row.process) },
		{ key: "from_ns", title: "When", cell: (row) => (row.from_ns === null || row.from_ns === undefined ? "not known"
			: h("button", { type: "button", class: "link", title: "Select this time", onclick: () => app.set({ page: "memory", from: row.from_ns, to: row.to_ns }) },
				interval(row.from_ns, row.to_ns ?? row.from_ns))) },
	] });
}

function processText(app, id) {
	const process = app.processes.find((row) => row.id === id);
	return process ? `${process.pid} ${String(process.exe).split("/").pop()}` : "the whole run";
}

function sourceState(row) {
	if (!row.error)
		return row.n_samples > 0 || row.name === "tasks" ? "ran" : "ran, and gave no samples";
	return `${row.passed_over ? "passed over" : "⚠ not opened"}: ${row.remedy || `error ${row.error}`}`;
}

/* "every 1.00 ms", "each one", "1 of 1,000" */
function periodText({ period, unit }) {
	if (!period)
		return "-";
	return /^ns\b/.test(unit) ? `every ${duration(period)}` : period === 1 ? "each one" : `1 of ${count(period)}`;
}

function sourcesGrid() {
	return createGrid({ caption: "Sources of samples", columns: [
		{ key: "name", title: "Source" },
		{ key: "unit", title: "Unit" },
		{ key: "period", title: "Period", isNumber: true, cell: periodText },
		{ key: "n_samples", title: "Samples", isNumber: true, cell: (row) => count(row.n_samples) },
		{ key: "state", title: "State", order: sourceState, cell: (row) => h("span", { class: row.error && !row.passed_over ? "alarm" : null }, sourceState(row)) },
		{ key: "note", title: "Note", cell: (row) => row.note || "-" },
	] });
}

function processesGrid(app) {
	return createGrid({ caption: "Process images: each fork and each exec opens one", part: 30, columns: [
		{ key: "pid", title: "Pid", isNumber: true, cell: (row) => h("a", { href: app.link({ page: "memory", process: row.id, low: null, high: null }) }, String(row.pid)) },
		{ key: "command", title: "Command", cell: (row) => h("span", { class: "mono command" }, row.command || row.exe) },
		{ key: "traced", title: "Recorded", cell: (row) => (row.traced ? "yes" : `⚠ not traced: ${row.why_not || "reason not known"}`) },
		{ key: "start_ns", title: "From", isNumber: true, cell: (row) => duration(row.start_ns) },
		{ key: "end_ns", title: "To", isNumber: true, cell: (row) => (row.end_ns === null ? "end of the trace" : duration(row.end_ns)) },
		{ key: "n_blocks", title: "Blocks", isNumber: true, cell: (row) => count(row.n_blocks) },
		{ key: "n_samples", title: "Samples and faults", isNumber: true, help: OF_ALL, cell: (row) => count(row.n_samples) },
		{ key: "peak_bytes", title: "Peak", isNumber: true, help: "Of live bytes; known where one process was recorded", cell: (row) => valueText(row.peak_bytes, "bytes") },
	] });
}

/** When a thread ended: one that nobody ended went with its process. */
export function threadEnd(app, { end_ns: end, process_id: id }) {
	const last = end ?? app.processes.find((row) => row.id === id)?.end_ns ?? null;
	return last === null ? "end of the trace" : duration(last);
}

function threadsGrid(app) {
	return createGrid({ caption: "Threads", part: 30, sort: { key: "n_blocks", isDescending: true }, columns: [
		{ key: "tid", title: "Tid", isNumber: true },
		{ key: "name", title: "Name", cell: (row) => row.name || "-" },
		{ key: "process_id", title: "Process", cell: (row) => processText(app, row.process_id) },
		{ key: "start_ns", title: "From", isNumber: true, cell: (row) => duration(row.start_ns) },
		{ key: "end_ns", title: "To", isNumber: true, cell: (row) => threadEnd(app, row) },
		{ key: "n_blocks", title: "Blocks", isNumber: true, cell: (row) => count(row.n_blocks) },
		{ key: "n_samples", title: "Samples and faults", isNumber: true, help: OF_ALL, cell: (row) => count(row.n_samples) },
	] });
}

function runFacts(app) {
	const { run } = app.run;
	const row = app.runs.find(({ id }) => id === run.id);
	return [["Run", `${run.program}.${run.mode}.${run.repetition}`], ["Command", h("span", { class: "mono" }, run.command)], ["Began", new Date(run.start_unix_ns / 1e6).toISOString().replace("T", " ").replace(/\..*/, " UTC")],
		["Took", duration(run.duration_ns)], ["Ended", endText(run)],
		...(run.user_ns === null || run.user_ns === undefined ? [] : [["CPU time", `${duration(run.user_ns)} in the program, ${duration(run.system_ns)} in the kernel`]]),
		...(run.max_rss ? [["Most resident", bytes(run.max_rss)]] : []),
		...(run.clock_error_ns === undefined ? [] : [["Clocks agree within", duration(run.clock_error_ns)]]),
		...(row ? [["Recorded", `${plural(row.n_blocks, "block")}, ${plural(row.n_samples, "sample")} (page faults among them), ${row.n_lost ? `${count(row.n_lost)} lost` : "nothing lost"}`]] : [])];
}

export function create(root, app) {
	const losses = createPane(root, "Losses", LOSS_HELP);
	const sources = createPane(root, "Sources", SOURCE_HELP);
	const run = createPane(root, "The run");
	const processes = createPane(root, "Processes and threads");
	const grids = { losses: lossesGrid(app), sources: sourcesGrid(), processes: processesGrid(app), threads: threadsGrid(app) };
	losses.element.id = "losses";
	losses.body.append(grids.losses.element);
	sources.body.append(grids.sources.element);
	processes.body.append(grids.processes.element, grids.threads.element);
	let drawn = null;

	function drawLosses(rows) {
		const failed = rowsOf(app.run.sources).filter((row) => row.error && !row.passed_over);
		if (rows.length === 0) {
			losses.empty(failed.length === 0 ? "Nothing was lost: every event and sample that was due is in the numbers."
				: `Nothing was lost of what was recorded, but ${plural(failed.length, "source")} could not be opened, see below.`);
			return;
		}
		losses.ready();
		grids.losses.show(rows);
		losses.foot.textContent = `${count(rows.reduce((sum, { count: n }) => sum + n, 0))} in all, of different things: the sum shows only that something is missing.`;
	}

	function drawSources() {
		const rows = rowsOf(app.run.sources);
		if (rows.length === 0)
			sources.empty("No samples were asked for (--source none): blocks are known, accesses are not.");
		else {
			sources.ready();
			grids.sources.show(rows);
		}
	}

	function draw() {
		drawLosses(rowsOf(app.run.losses));
		drawSources();
		run.ready();
		processes.ready();
		run.body.replaceChildren(h("div", { class: "fact-columns" }, facts(runFacts(app)),
			h("details", { class: "fact-list", open: true }, h("summary", {}, "Totals"), facts(totalRows(app.run.totals ?? {}).map(({ text, value, help }) =>
				[help ? h("span", { title: help }, text) : text, value]))),
			h("details", { class: "fact-list" }, h("summary", {}, "Host and options"), facts(Object.entries(app.run.host ?? {}).map(([key, value]) => [key, h("span", { class: "mono" }, String(value))])))));
		grids.processes.show(app.processes);
		grids.threads.show(rowsOf(app.run.threads));
	}

	return {
		update() {
			if (drawn !== app.run)
				draw();
			drawn = app.run;
		},
	};
}
