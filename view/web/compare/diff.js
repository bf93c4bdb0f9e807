/**
 * The page "Diff": two runs, what they took, what each call site has more or less, with the
 * interval of the change, as rows and as a flame graph coloured by change. State: diff.a, diff.b
 * (runs), diff.by, diff.filter, diff.at (the widest frame of the graph).
 */
import { debounced, h, select, table } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { changeOf, diffTree } from "memsight/diff-tree";
import { createFlameCanvas } from "memsight/flame-canvas";
import { frameName, treeOf } from "memsight/flame-layout";
import { METRICS } from "memsight/flame-metrics";
import { count, isKnown, plural } from "memsight/format";
import { saver } from "memsight/csv";
import { createGrid, numberColumn } from "memsight/grid";
import { mix } from "memsight/palette";
import { createPane } from "memsight/pane";
import { runName } from "memsight/run-name";
import { oneLine, siteName } from "memsight/site-text";
import { siteStack } from "memsight/source-text";
import { drawing, svgLine, svgRect } from "memsight/spark";
import { changeText, valueText } from "memsight/units";

const LIMIT = 2000;
const HELP = "Call sites of two runs, paired by the functions that lead to them: lines that moved "
	+ "and functions that were renamed, moved or extracted make no difference. The bar is the "
	+ "change, to the right more, to the left less, with its 95 % interval where it has one; "
	+ "\"may be 0\" means that the interval holds 0. Bytes and blocks of single runs are "
	+ "exact, unless a run picked some blocks only (--sample-bytes).";
const FLAME_HELP = "Each box is as wide as before and after together. Orange with + has grown, "
	+ "blue with − has shrunk, grey is as it was; the stronger, the larger the change is "
	+ "against the whole of the box.";
const ONE_RUN = "This database holds one run. Two are compared by memsight view BEFORE.mst "
	+ "AFTER.mst, or in a database of both (memsight analyze -o BOTH.db BEFORE.mst AFTER.mst).";
const KINDS = ["bytes", "blocks", "peak", "leaked", "time", "faults"];

/** Modes of programs that have repetitions: [name, number of runs]. */
function groupsOf(runs) {
	const groups = new Map();
	for (const run of runs) {
		const name = `${run.program}.${run.mode}`;
		groups.set(name, (groups.get(name) ?? 0) + 1);
	}
	return [...groups].filter(([, n]) => n > 1);
}

/** Two modes of the first program, where it has two that were repeated; else null. */
export function usualModes(runs) {
	const groups = groupsOf(runs.filter(({ program }) => program === runs[0].program));
	return groups.length > 1 ? groups.slice(0, 2).map(([name]) => name) : null;
}

/** "all repetitions" of a mode, and each run. */
function choicesOf(runs) {
	return [...groupsOf(runs).map(([name, n]) => [name, `${name}: all ${n} runs`]),
		...runs.map((run) => [String(run.id), `${run.id}: ${runName(runs, run)}`])];
}

/** Whether an interval tells the change from 0; exact ones always do. */
function isSure(row) {
	return !isKnown(row.low) || row.low > 0 || row.high < 0;
}

function changeBar(row, most) {
	const width = 120;
	const half = width / 2;
	const place = (value) => half + Math.max(-1, Math.min(1, value / most)) * (half - 3);
	const [from, to] = [place(0), place(row.change)];
	const whisker = isKnown(row.low)
		? [svgLine("whisker", [place(row.low), 8], [place(row.high), 8])] : [];
	const kind = `change-bar ${row.change > 0 ? "more" : "less"}`;
	return drawing({ class: kind, "aria-hidden": "true" }, width, 16,
		svgLine("change-zero", [half, 0], [half, 16]),
		svgRect(null, [Math.min(from, to), 3], Math.abs(to - from), 10), ...whisker);
}

function intervalText(row, unit) {
	if (!isKnown(row.low))
		return "exact";
	const ends = `${changeText(row.low, unit)} to ${changeText(row.high, unit)}`;
	return isSure(row) ? ends : `${ends} · may be 0`;
}

function ratioText({ change, before }) {
	if (!before)
		return "new";
	const sign = change > 0 ? "+" : change < 0 ? "\u2212" : "";
	return `${sign}${Math.abs(100 * change / before).toFixed(1)} %`;
}

/* "wall time 1.15 s 1.93 s +780 ms (67.2 %) -": what the runs took, as `memsight diff` has it. */
function tookTable(took, names) {
	const change = ({ before, after, unit }) =>
		`${changeText(after - before, unit)}${percentText(after - before, before)}`;
	const half = (row) => {
		if (!isKnown(row.half))
			return "-";
		const isChance = Math.abs(row.after - row.before) <= row.half;
		return `±${valueText(row.half, row.unit)}${isChance ? ", within chance" : ""}`;
	};
	return table("What the runs took; intervals need two runs on each side",
		["", ...names, "Change", "95 % interval"], took.map((row) => [row.name,
			valueText(row.before, row.unit), valueText(row.after, row.unit),
			change(row), half(row)]), [1, 2, 3, 4]);
}

function rowsGrid(app, now) {
	const unit = () => now.unit;
	const was = (row) => (row.was ? h("span", { class: "muted" }, ` (was ${row.was})`) : null);
	const place = (row) => oneLine(row.was ? `${row.name} (was ${row.was})` : row.name,
		siteName(app, row.site, row.name, row.run), was(row));
	const change = (row) => h("div", { class: "share-cell" },
		changeBar(row, now.most), h("span", {}, changeText(row.change, unit())));
	const sort = { key: "change", isDescending: true };
	const detail = (row) => siteStack(app, row.site, row.name, row.run);
	const names = ["name", "was", "function", "file", "line", "before", "after", "change",
		"low", "high"];
	const save = saver(app, "diff", () => [names,
		now.rows.map((row) => names.map((name) => row[name]))]);
	const caption = "Call sites that differ";
	return createGrid({ caption, sort, part: 50, detail, save, columns: [
		{ key: "place", title: "Allocated at", isWide: true,
			order: (row) => row.name, cell: place },
		numberColumn("change", "Change", change, {
			order: (row) => Math.abs(row.change),
			help: "Sorted by its size, whatever its sign" }),
		numberColumn("low", "95 % interval", (row) => intervalText(row, unit())),
		numberColumn("before", "Before", (row) => valueText(row.before, unit())),
		numberColumn("after", "After", (row) => valueText(row.after, unit())),
		numberColumn("ratio", "Of before", ratioText, {
			order: (row) => (row.before ? row.change / row.before : null) }),
	] });
}

export function create(root, app) {
	const pane = createPane(root, "Difference of two runs", HELP, () => load(app.state));
	const flame = createPane(root, "Where it changed", FLAME_HELP);
	const now = { answer: null, asked: "", most: 1, tree: null, sides: null };
	const grid = rowsGrid(app, now);
	const took = h("div", { class: "took" });
	const summary = h("p", { class: "diff-summary" });
	const search = debounced(200, () =>
		app.set({ "diff.filter": field.value || null }, { replace: true }));
	const field = h("input", {
		type: "search", id: "diff-filter", placeholder: "function, file",
		"aria-label": "Filter call sites", oninput: search });
	const canvas = createFlameCanvas({
		theme: app.theme, tell, onChoose() {},
		onZoom: (node) => app.set({ "diff.at": node || null }),
		colour(node) {
			const change = changeOf(now.sides.before[node], now.sides.after[node]);
			const grey = app.theme().dark ? "#5a656e" : "#c9cfd4";
			const strength = Math.min(1, Math.sqrt(Math.abs(change)));
			return mix(grey, change > 0 ? "#e0701a" : "#2f7fc1", strength);
		},
	});
	pane.body.append(took, summary, grid.element);
	flame.body.append(canvas.element);

	function tell(node) {
		const [before, after] = [now.sides.before[node], now.sides.after[node]];
		const change = after - before;
		const text = (value) => valueText(value, now.unit);
		return [
			node === 0 ? "all of it" : frameName(now.tree.frame[node]),
			`before ${text(before)}, after ${text(after)}`,
			changeText(change, now.unit) + (percentText(change, before) || ", new"),
		].join("\n");
	}

	/*
	 * Two modes of a program that was repeated, else the first two runs that have something; of
	 * an exported file the two that it holds.
	 */
	function usualPair() {
		const recorded = app.runs.filter((run) => run.n_blocks + run.n_samples > 0);
		const modes = app.isStored ? null : usualModes(recorded);
		if (modes)
			return modes;
		const numbers = app.isStored ? app.runs.map(({ id }) => id) : [];
		const pairs = numbers.flatMap((a) => numbers.map((b) => [a, b]));
		const held = pairs.find(([a, b]) => a !== b && app.holds("diff", { a, b }));
		return held ?? [0, 1].map((i) => recorded[i]?.id ?? app.runs[i]?.id ?? "");
	}

	/* The two that are chosen, else those. */
	function sidesOf(state) {
		const choices = choicesOf(app.runs);
		const isKept = (name) => choices.some(([key]) => key === name);
		const [a, b] = [state["diff.a"], state["diff.b"]];
		const [first, second] = usualPair();
		const side = (wanted, usual) => (isKept(wanted) ? wanted : String(usual));
		return { choices, a: side(a, first), b: side(b, second) };
	}

	function showChoices({ choices, a, b }, by) {
		const set = (changes) => app.set({ ...changes, "diff.at": null });
		const kinds = METRICS.filter(({ id }) => KINDS.includes(id));
		const swap = {
			type: "button", "aria-label": "Swap before and after", title: "Swap",
			onclick: () => set({ "diff.a": b, "diff.b": a }) };
		pane.tools.replaceChildren(
			select("Before", choices, a, (value) => set({ "diff.a": value })),
			h("button", swap, "⇄"),
			select("After", choices, b, (value) => set({ "diff.b": value })),
			select("By", kinds.map(({ id, title }) => [id, title]), by,
				(value) => set({ "diff.by": value })),
			h("label", { class: "choice" }, h("span", {}, "Filter"), field));
	}

	function requestOf(state, { a, b }) {
		const by = KINDS.includes(state["diff.by"]) ? state["diff.by"] : "bytes";
		return { a, b, by, limit: LIMIT, ...app.names() };
	}

	function load(state) {
		const sides = sidesOf(state);
		const request = requestOf(state, sides);
		const { by } = request;
		now.asked = JSON.stringify(request);
		if (app.runs.length < 2) {
			pane.empty(ONE_RUN);
			flame.empty("");
			flame.element.hidden = true;
			return;
		}
		showChoices(sides, by);
		flame.empty("");
		pane.show(app.ask("diff", request, pane), (answer) => {
			now.answer = answer;
			now.unit = METRICS.find(({ id }) => id === by).unit;
			now.rows = rowsOf(answer.rows);
			now.sides = diffTree(now.rows, now.unit);
			now.tree = treeOf(now.sides);
			draw(app.state);
		});
	}

	/* A run that was asked for by its number; a mode is called so already. */
	function nameOf(side) {
		const run = app.runs.find(({ id }) => String(id) === side);
		return run ? runName(app.runs, run) : side;
	}

	function draw(state) {
		const { answer } = now;
		const wanted = (state["diff.filter"] ?? "").toLowerCase();
		const holds = (step) => step.toLowerCase().includes(wanted);
		const changed = now.rows.filter((row) => row.change !== 0);
		const rows = changed.filter((row) => !wanted
			|| [row.name, ...row.path].some(holds));
		const ends = changed.flatMap(({ change, low, high }) => [
			change, low ?? 0, high ?? 0]);
		now.most = Math.max(...ends.map(Math.abs), 1e-300);
		if (document.activeElement !== field)
			field.value = state["diff.filter"] ?? "";
		grid.element.hidden = changed.length === 0;
		grid.show(rows);
		const told = rowsOf(answer.took);
		took.hidden = told.length === 0;
		took.replaceChildren(tookTable(told, [answer.before, answer.after].map(nameOf)));
		summary.textContent = summaryOf(answer, changed, { unit: now.unit, nameOf });
		pane.foot.textContent = footText(rows.length, changed.length);
		if (now.sides.total === 0)
			flame.empty("Both runs have nothing of that.");
		else if (changed.length === 0)
			flame.empty("Nothing: every call site has as much as before.");
		else
			drawFlame(state);
	}

	function footText(n, nChanged) {
		const [nHere, nAll] = [now.rows.length, now.answer.n_all];
		if (nChanged === 0)
			return "";
		const shown = `${count(n)} of ${plural(nChanged, "call site")} that differ`;
		return nHere < nAll ? `${shown} · the ${count(nHere)} biggest changes of `
			+ `${count(nAll)} sites are here` : shown;
	}
	function drawFlame(state) {
		const at = Number(state["diff.at"] ?? 0);
		flame.ready();
		const zoom = Number.isInteger(at) && at > 0 && at < now.tree.n ? at : 0;
		canvas.show({ tree: now.tree, zoom, matches: null });
		const n = now.rows.length;
		const isWhole = n >= (now.answer.n_all ?? 0);
		flame.foot.textContent = [
			state["diff.at"] ? "Escape, or a click on a box above, goes back out"
				: "A click makes a box as wide as the picture",
			isWhole ? "all call sites"
				: `the ${count(n)} sites with the biggest changes, not all`,
		].join(" · ");
	}

	return {
		update(state) {
			pane.ofWholeRuns(app);
			const request = requestOf(state, sidesOf(state));
			if (now.asked !== JSON.stringify(request))
				load(state);
			else if (now.answer && pane.element.dataset.state === "ready")
				draw(state);
		},
	};
}

/* " (+12.3 %)" of what was before, if there was something. */
function percentText(change, before) {
	return before > 0 ? ` (${ratioText({ change, before })})` : "";
}

function summaryOf(answer, changed, { unit, nameOf }) {
	const { total_before: before, total_after: after } = answer;
	if (before === undefined)
		return `${nameOf(answer.before)} against ${nameOf(answer.after)}`;
	const side = (name, n, total) => {
		const mean = n > 1 ? ` (mean of ${n} runs)` : "";
		return `${nameOf(name)}${mean}: ${valueText(total, unit)}`;
	};
	const first = side(answer.before, answer.n_before, before);
	const second = side(answer.after, answer.n_after, after);
	const change = changeText(after - before, unit) + percentText(after - before, before);
	const nSure = changed.filter(isSure).length;
	const sites = changed.length === 0 ? "No call site differs."
		: `${count(nSure)} of ${plural(changed.length, "change")} are surely not 0.`;
	return `${first} → ${second}, ${change}. ${sites}`;
}
