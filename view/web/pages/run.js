/**
 * The page "Run": what was not recorded and what that means, what was sampled and how, the run
 * itself and its host, its processes and threads. Losses come first. Losses, totals, processes and
 * threads follow the selected time.
 */
import { h } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { bytes, count, duration, interval, isKnown, plural } from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { lossWords } from "memsight/loss-words";
import { createPane } from "memsight/pane";
import { runName } from "memsight/run-name";
import { totalRows } from "memsight/total-words";
import { valueText } from "memsight/units";

const LOSS_HELP = "Everything that was not recorded or cannot be used, with what it means for the "
	+ "numbers of the other pages. What is not listed here was not lost.";
const OF_ALL = "Of all sources, page faults among them";
const SOURCE_HELP = "Where samples came from. The period is in the source's unit: one sample for "
	+ "so many of them. A source that could not be opened stands here with the reason.";
const PEAK_HELP = "Of live bytes; known where one process was recorded";

const countColumn = (key, title, help) =>
	numberColumn(key, title, (row) => count(row[key]), { help });

/** How a run ended, in words. */
export function endText(run) {
	if (!run.ended_cleanly)
		return "⚠ cut off: the recording did not end by itself, "
			+ "everything up to its last commit is here";
	if (!isKnown(run.exit_status))
		return "its exit status is not known";
	const signal = run.exit_status & 127;
	const status = run.exit_status >> 8;
	if (signal)
		return `⚠ ended by signal ${signal}`;
	return status ? `⚠ exit status ${status}` : "exit status 0";
}

function facts(pairs) {
	const fact = ([key, value]) => [h("dt", {}, key), h("dd", {}, value)];
	return h("dl", { class: "facts" }, pairs.flatMap(fact));
}

function lossesGrid(app) {
	const words = (row) => lossWords(row.source, row.reason);
	const when = ({ from_ns: from, to_ns: to }) => {
		if (!isKnown(from))
			return "not known";
		const onclick = () => app.set({ page: "memory", from, to });
		const time = interval(from, to ?? from);
		return h("button", {
			type: "button", class: "link", title: "Select this time", onclick }, time);
	};
	const sort = { key: "count", isDescending: true };
	return createGrid({ caption: "Losses", sort, columns: [
		numberColumn("count", "How many", (row) => h("strong", {}, count(row.count))),
		{ key: "reason", title: "What", cell: (row) => h("div", {},
			h("strong", {}, row.reason),
			h("div", { class: "muted" }, `reported by ${row.source}`)) },
		{ key: "meaning", title: "What it means", isFixed: true,
			cell: (row) => words(row).meaning || "The reason says all that is known." },
		{ key: "remedy", title: "What to do", isFixed: true,
			cell: (row) => words(row).remedy || "-" },
		{ key: "process", title: "Process", cell: (row) => processText(app, row.process) },
		{ key: "from_ns", title: "When", cell: when },
	] });
}

function processText(app, id) {
	const process = app.processes.find((row) => row.id === id);
	return process ? `${process.pid} ${String(process.exe).split("/").pop()}` : "the whole run";
}

function sourceState(row) {
	const isUsual = row.n_samples > 0 || row.name === "tasks";
	if (!row.error)
		return isUsual ? "ran" : "ran, and gave no samples";
	const reason = row.remedy || `error ${row.error}`;
	return `${row.passed_over ? "passed over" : "⚠ not opened"}: ${reason}`;
}

/* "every 1.00 ms", "each one", "1 of 1,000" */
function periodText({ period, unit }) {
	if (!period)
		return "-";
	if (/^ns\b/.test(unit))
		return `every ${duration(period)}`;
	return period === 1 ? "each one" : `1 of ${count(period)}`;
}

function sourcesGrid() {
	const state = (row) => h("span", {
		class: row.error && !row.passed_over ? "alarm" : null }, sourceState(row));
	return createGrid({ caption: "Sources of samples", columns: [
		{ key: "name", title: "Source" },
		{ key: "unit", title: "Unit" },
		numberColumn("period", "Period", periodText),
		countColumn("n_samples", "Samples"),
		{ key: "state", title: "State", order: sourceState, cell: state },
		{ key: "note", title: "Note", cell: (row) => row.note || "-" },
	] });
}

function processesGrid(app) {
	const pid = (row) => h("a", {
		href: app.link({ page: "memory", process: row.id, low: null, high: null }) },
	String(row.pid));
	const caption = "Process images: each fork and each exec opens one";
	return createGrid({ caption, part: 30, columns: [
		numberColumn("pid", "Pid", pid),
		{ key: "command", title: "Command", cell: (row) => h("span", {
			class: "mono command" }, row.command || row.exe) },
		{ key: "traced", title: "Recorded", cell: (row) => (row.traced ? "yes"
			: `⚠ not traced: ${row.why_not || "reason not known"}`) },
		numberColumn("start_ns", "From", (row) => duration(row.start_ns)),
		numberColumn("end_ns", "To", (row) => endOf(row.end_ns)),
		countColumn("n_blocks", "Blocks"),
		countColumn("n_samples", "Samples and faults", OF_ALL),
		numberColumn("peak_bytes", "Peak", (row) => valueText(row.peak_bytes, "bytes"),
			{ help: PEAK_HELP }),
	] });
}

function endOf(ns) {
	return ns === null ? "end of the trace" : duration(ns);
}

/** When a thread ended: one that nobody ended went with its process. */
export function threadEnd(app, { end_ns: end, process_id: id }) {
	return endOf(end ?? app.processes.find((row) => row.id === id)?.end_ns ?? null);
}

function threadsGrid(app) {
	const sort = { key: "n_blocks", isDescending: true };
	return createGrid({ caption: "Threads", part: 30, sort, columns: [
		{ key: "tid", title: "Tid", isNumber: true },
		{ key: "name", title: "Name", cell: (row) => row.name || "-" },
		{ key: "process_id", title: "Process",
			cell: (row) => processText(app, row.process_id) },
		numberColumn("start_ns", "From", (row) => duration(row.start_ns)),
		numberColumn("end_ns", "To", (row) => threadEnd(app, row)),
		countColumn("n_blocks", "Blocks"),
		countColumn("n_samples", "Samples and faults", OF_ALL),
	] });
}

function mono(text) {
	return h("span", { class: "mono" }, text);
}

/* "2026-01-31 12:00:00 UTC" */
function dateText(ns) {
	return new Date(ns / 1e6).toISOString().replace("T", " ").replace(/\..*/, " UTC");
}

function cpuText(run) {
	return `${duration(run.user_ns)} in the program, ${duration(run.system_ns)} in the kernel`;
}

function recordedText({ n_blocks: nBlocks, n_samples: nSamples, n_lost: nLost }) {
	const lost = nLost ? `${count(nLost)} lost` : "nothing lost";
	return `${plural(nBlocks, "block")}, ${plural(nSamples, "sample")} `
		+ `(page faults among them), ${lost}`;
}
function runFacts(app) {
	const { run } = app.run;
	const row = app.runs.find(({ id }) => id === run.id);
	return [
		["Run", runName(app.runs, row ?? run)],
		["Program", `${run.program}.${run.mode}.${run.repetition}`],
		["Command", mono(run.command)],
		["Began", dateText(run.start_unix_ns)],
		["Took", duration(run.duration_ns)],
		["Ended", endText(run)],
		isKnown(run.user_ns) && ["CPU time", cpuText(run)],
		run.max_rss && ["Most resident", bytes(run.max_rss)],
		run.clock_error_ns !== undefined
			&& ["Clocks agree within", duration(run.clock_error_ns)],
		row && ["Recorded", recordedText(row)],
	].filter(Boolean);
}

function nothingLost(nFailed) {
	if (nFailed === 0)
		return "Nothing was lost: every event and sample that was due is in the numbers.";
	return `Nothing was lost of what was recorded, but ${plural(nFailed, "source")} `
		+ "could not be opened, see below.";
}

/** Facts behind a line that opens them. */
function factList(title, pairs, open = false) {
	return h("details", { class: "fact-list", open }, h("summary", {}, title), facts(pairs));
}

export function create(root, app) {
	const losses = createPane(root, "Losses", LOSS_HELP);
	const sources = createPane(root, "Sources", SOURCE_HELP);
	const run = createPane(root, "The run", "", () => load());
	const processes = createPane(root, "Processes and threads");
	const grids = {
		losses: lossesGrid(app), sources: sourcesGrid(),
		processes: processesGrid(app), threads: threadsGrid(app),
	};
	losses.element.id = "losses";
	losses.body.append(grids.losses.element);
	sources.body.append(grids.sources.element);
	processes.body.append(grids.processes.element, grids.threads.element);
	const now = { asked: "" };

	/* Those of the selected time, and those of which nobody knows when. */
	function lossesIn(answer) {
		const { from, to } = app.counted();
		const isIn = ({ from_ns: first, to_ns: last }) => !isKnown(first)
			|| first < to && (last ?? first) >= from;
		return rowsOf(answer.losses).filter(isIn);
	}

	function drawLosses(answer) {
		const rows = lossesIn(answer);
		const nElsewhere = answer.losses.n - rows.length;
		const isFailed = (row) => row.error && !row.passed_over;
		const nFailed = rowsOf(app.run.sources).filter(isFailed).length;
		if (rows.length === 0) {
			losses.empty(nElsewhere === 0 ? nothingLost(nFailed)
				: `Nothing was lost in the ${app.partText()}; `
				+ `${plural(nElsewhere, "loss", "losses")} of other times.`);
			losses.foot.textContent = "";
			return;
		}
		losses.ready();
		grids.losses.show(rows);
		const sum = rows.reduce((total, row) => total + row.count, 0);
		losses.foot.textContent = `${count(sum)} in all, of different things: `
			+ "the sum shows only that something is missing."
			+ (nElsewhere ? ` ${plural(nElsewhere, "loss", "losses")} of other times `
			+ "are not listed." : "");
	}

	function drawSources(answer) {
		const rows = rowsOf(answer.sources);
		if (rows.length === 0)
			sources.empty("No samples were asked for (--source none): "
				+ "blocks are known, accesses are not.");
		else {
			sources.ready();
			grids.sources.show(rows);
		}
	}

	function draw(answer) {
		const time = app.counted().isAll ? "" : `, ${app.partText()}`;
		drawLosses(answer);
		drawSources(answer);
		processes.ready();
		const total = ({ text, value, help }) => [
			help ? h("span", { title: help }, text) : text, value];
		const host = Object.entries(app.run.host ?? {})
			.map(([key, value]) => [key, mono(String(value))]);
		run.body.replaceChildren(h("div", { class: "fact-columns" },
			facts(runFacts(app)),
			factList(`Totals${time}`, totalRows(answer.totals ?? {}).map(total), true),
			factList("Host and options", host)));
		grids.processes.show(rowsOf(answer.processes));
		grids.threads.show(rowsOf(answer.threads));
		const part = app.counted().isAll ? ""
			: `Blocks, samples and faults are those of the ${app.partText()}.`;
		sources.foot.textContent = part;
		processes.foot.textContent = part;
	}

	function load() {
		const part = app.part();
		now.asked = key();
		run.show("from" in part ? app.ask("run", { run: app.runId, ...part }, run)
			: app.run, draw);
	}

	const key = () => JSON.stringify([app.runId, app.counted()]);
	return {
		update() {
			if (now.asked !== key())
				load();
		},
	};
}
