/**
 * The page's frame: header, tabs, what is selected, and the table of the pages.
 *
 * A page is made of panels, each a module with `create(root, app) -> { update(state) }`. create()
 * is called once, when the page is first shown; update() whenever the page is shown, the state
 * changes or the theme does, and only while the page is visible. app.run is there by then.
 *
 * @typedef {Object} App
 * @property {(name: string, parameters?: Object, slot?: any) => Promise<any>} ask
 *   see memsight/data
 * @property {(name: string, parameters: Object) => boolean} holds
 *   false: an exported file without such an answer
 * @property {(name: string, parameters: Object) => Object[]} parts
 *   finer answers of an exported file
 * @property {boolean} isStored    an exported file: only what was stored can be shown
 * @property {{ run: number, text: string, from: ?number, to: ?number }|null} about  what an
 *   exported file says that it holds
 * @property {Object} state        what is shown (memsight/state)
 * @property {(changes: Object, how?: { replace?: boolean }) => void} set
 * @property {(changes: Object) => string} link
 *   the address of the page with these changes, for <a href>
 * @property {Object} format       memsight/format
 * @property {() => Object} theme  colours as they are now (memsight/palette)
 * @property {Object[]} runs       rows of the answer `runs`
 * @property {Object} run          the answer `run`; .run is the row
 * @property {number} runId
 * @property {number|null} processId   the one chosen, or the one with most in it
 * @property {Object[]} processes  rows of them
 * @property {number} duration     of the run, ns
 * @property {() => { from: number, to: number, isAll: boolean }} span   the selected time, ns
 * @property {() => { from: number, to: number, isAll: boolean }} counted  the time that lists, call
 *   trees and objects are of: the selected one, of an exported file the one that it holds
 * @property {() => Object} part   the same as parameters of a request; none of the whole run
 * @property {() => string} partText  the same in words, and why it is not the selected time
 * @property {() => string} exactness   how numbers of blocks and bytes are known: "exact", or
 *   from how many picked blocks they are estimated (--sample-bytes)
 * @property {(text: string) => void} say   tells a screen reader
 * @property {() => Object} names  what asks for call paths as they are wanted: with calls of
 *   libraries ({ full: 1 }) or without
 * @property {(report: string) => ?string} pageOf  the page that shows a report
 */
import { createData, Outdated, rowsOf } from "memsight/data";
import { h } from "memsight/dom";
import { keepFocus } from "memsight/focus";
import * as format from "memsight/format";
import { createHeader } from "memsight/header";
import { theme } from "memsight/palette";
import { runNames } from "memsight/run-name";
import { changed, createState, numberOf, printState } from "memsight/state";

const list = (kind, title, help) => ({ module: "report", kind, title, help });
/** A list of what few programs have: not shown where it has no rows. */
const rareList = (...of) => ({ ...list(...of), isRare: true });

const LEAKS_HELP = "Call stacks with blocks that were not freed, as memsight report --leaks has "
	+ "them. What libraries keep until the end by design is left out.";
const HOT_HELP = "Call stacks whose memory gets more CPU time for its bytes and life than the "
	+ "heap on average: what belongs into fast memory. Only those are listed for which "
	+ "the samples can say so.";
const COLD_HELP = "Call stacks whose memory gets less CPU time for its bytes and life than the "
	+ "heap on average, most memory for nothing first.";
const UNUSED_HELP = "Call stacks whose blocks nobody was seen to access though the samples would "
	+ "have shown it, or whose pages the kernel never gave.";
const SHARING_HELP = "Cache lines that two threads use in turn, at least one of them writing. "
	+ "\"Different bytes\" is false sharing: the threads share nothing but the line. "
	+ "Open a row to see which bytes each thread touched.";
const PEAK_HELP = "Who held the live bytes at the moment when the run had most of them.";
const RESIDENT_HELP = "What resident memory is made of, at the moment with most of it: blocks, "
	+ "what the allocator keeps, files, mappings, stacks and memsight itself.";
const REGIONS_HELP = "Parts of the run that the program named by memsight.h, by what they lie in.";
const FUNCTIONS_HELP = "Functions whose calls were recorded (--function-include), the one with "
	+ "most time of its own first.";
const POOLS_HELP = "Pools of allocators of the program's own (--alloc-function, --allocators, "
	+ "memsight_block), most bytes first.";
const OWN_TIME_HELP = "What memsight took of the time in regions and functions: times above are "
	+ "without it.";
const PLUGINS_HELP = "What components of plug-ins counted in functions and regions (--load).";

/**
 * One line per page. A panel is a module, imported as memsight/NAME, or a list of
 * memsight/report. A page without a title has no tab; `next` are the reports that it shows.
 */
const PAGES = [
	{ id: "findings", title: "Findings", panels: ["findings", "timeline"],
		next: ["findings", "summary", "timeline"] },
	{ id: "memory", title: "Memory", panels: ["scene", "timeline"], next: ["heatmap"] },
	{ id: "flame", title: "Flame graph", panels: ["overview", "flame"],
		next: ["flat", "hierarchical"] },
	{ id: "objects", title: "Objects", panels: ["overview", "objects"],
		next: ["objects", "sites", "temporary", "histogram"] },
	{ id: "object", title: "", panels: ["object"], tab: "objects" },
	{ id: "peak", title: "Peak", panels: ["overview", list("peak", "Live at the peak",
		PEAK_HELP)], next: ["peak"] },
	{ id: "leaks", title: "Leaks", panels: ["overview", list("leaks", "Not freed",
		LEAKS_HELP)], next: ["leaks"] },
	{ id: "use", title: "Hot and cold", panels: ["overview", list("hot", "Hot", HOT_HELP),
		list("cold", "Cold", COLD_HELP), list("unused", "Unused", UNUSED_HELP)],
	next: ["hot", "cold", "unused"] },
	{ id: "sharing", title: "Sharing", panels: ["overview", list("sharing",
		"Cache lines that threads share", SHARING_HELP)], next: ["sharing"] },
	{ id: "resident", title: "Resident", panels: ["overview", list("resident",
		"Resident memory", RESIDENT_HELP)], next: ["resident", "mappings"] },
	{ id: "regions", title: "Regions", panels: ["overview", list("regions", "Regions",
		REGIONS_HELP), rareList("functions", "Functions", FUNCTIONS_HELP),
	rareList("pools", "Pools", POOLS_HELP), rareList("plugins", "Plug-ins", PLUGINS_HELP),
	rareList("own_time", "Taken out", OWN_TIME_HELP)],
	next: ["regions", "functions", "pools", "plugins", "overhead"] },
	{ id: "series", title: "Series", panels: ["series"] },
	{ id: "diff", title: "Diff", panels: ["diff"] },
	{ id: "run", title: "Run", panels: ["overview", "run"] },
];

const main = document.getElementById("main");
const shown = new Map(); // page id -> { root, panels }

const data = createData();
const state = createState(() => refresh());
const app = {
	ask: data.ask,
	holds: data.holds,
	parts: data.parts,
	isStored: data.isStored,
	about: data.about,
	get state() { return state.get(); },
	set: state.set,
	link: (changes) => "#" + printState(changed(state.get(), changes)),
	format, theme,
	runs: [], run: null, runId: 0, processId: null, processes: [], duration: 0,
	span() {
		const from = Math.max(0, numberOf(state.get().from, 0));
		const to = Math.min(app.duration, numberOf(state.get().to, app.duration));
		return from < to ? { from, to, isAll: from === 0 && to === app.duration }
			: { from: 0, to: app.duration, isAll: true };
	},
	counted() {
		const { run, from, to } = data.about ?? {};
		if (!data.isStored)
			return app.span();
		return run === app.runId && format.isKnown(from) ? { from, to, isAll: false }
			: { from: 0, to: app.duration, isAll: true };
	},
	part() {
		const { from, to, isAll } = app.counted();
		return isAll ? {} : { from: Math.round(from), to: Math.round(to) };
	},
	partText() {
		const { from, to, isAll } = app.counted();
		const text = isAll ? "whole run" : `selected time ${format.interval(from, to)}`;
		const span = app.span();
		return span.from === from && span.to === to ? text : `${text}: an exported file `
			+ `cannot count ${isAll ? "a" : "another"} part of the time anew`;
	},
	exactness() {
		const n = app.run.totals?.picked_blocks;
		return n ? `estimated from ${format.plural(n, "picked block")}` : "exact";
	},
	say(text) { live.textContent = text; },
	names: () => (state.get().full === "1" ? { full: 1 } : {}),
	pageOf: (report) => PAGES.find(({ next }) => next?.includes(report))?.id ?? null,
};

const live = h("div", { class: "unseen", "aria-live": "polite" });
const header = createHeader(document.getElementById("header"), app, PAGES, refresh);

/** A whole page of one sentence: what is wrong and what to do. */
function fatal(error) {
	const again = () => location.reload();
	main.replaceChildren(h("div", { class: "pane-state fault whole", role: "alert" },
		h("p", {}, error.message ?? String(error)),
		h("button", { type: "button", onclick: again }, "Reload")));
}

async function loadPanel(root, panel) {
	const { module: name, kind } = panel.module ? panel : { module: panel, kind: panel };
	const place = h("div", { class: `panel panel-${kind}` });
	root.append(place);
	try {
		const module = await import(`memsight/${name}`);
		return module.create(place, app, panel);
	} catch (error) {
		console.error(error);
		place.append(h("p", { class: "pane-state fault", role: "alert" },
			`This panel (${kind}) cannot be shown: ${error.message}`));
		return { update() {} };
	}
}

async function openPage(page) {
	let entry = shown.get(page.id);
	if (!entry) {
		const root = h("div", { class: `page page-${page.id}` });
		entry = { root, panels: null };
		shown.set(page.id, entry);
		main.append(root);
		entry.panels = Promise.all(page.panels.map((panel) => loadPanel(root, panel)));
	}
	for (const [id, { root }] of shown)
		root.hidden = id !== page.id;
	return entry.panels;
}

function pickRun(wanted) {
	const name = wanted ?? String(app.about?.run ?? "");
	return app.runs.find((row) => runNames(row).includes(name))
		?? app.runs.find((row) => row.n_samples + row.n_blocks > 0) ?? app.runs[0];
}

/** The process that was chosen, or the one with most blocks and samples. */
function pickProcess(wanted) {
	const chosen = app.processes.find((row) => String(row.id) === wanted);
	const sizeOf = (row) => row.n_blocks + row.n_samples;
	const most = (best, row) => (sizeOf(row) > sizeOf(best) ? row : best);
	return chosen?.id ?? (app.processes.length ? app.processes.reduce(most).id : null);
}

async function takeRun(row) {
	const answer = await app.ask("run", { run: row.id }, "run");
	app.run = answer;
	app.runId = row.id;
	app.duration = row.duration_ns;
	const processes = rowsOf(answer.processes);
	const held = processes.filter(({ id }) => app.holds("bands", { run: row.id, process: id }));
	app.processes = held.length ? held : processes;
}

let drawing = 0;

async function refresh() {
	const mine = ++drawing;
	try {
		const row = pickRun(app.state.run);
		if (!row)
			throw new Error("This database has no run. Record one: "
				+ "memsight record -- PROGRAM, then memsight analyze.");
		if (!app.run || app.runId !== row.id)
			await takeRun(row);
		app.processId = pickProcess(app.state.process);
		const page = PAGES.find(({ id }) => id === app.state.page) ?? PAGES[0];
		header.update(app.state, page);
		const panels = await openPage(page);
		if (mine !== drawing)
			return;
		for (const panel of panels)
			panel.update(app.state);
		document.documentElement.dataset.ready = page.id;
	} catch (error) {
		if (!(error instanceof Outdated))
			fatal(error);
	}
}

const BUSY = ".page:not([hidden]) .pane[data-state=busy]";

/* A file of a part of the run begins with that. */
function selectStored() {
	const { from, to } = data.about ?? {};
	if (format.isKnown(from) && !app.state.from && !app.state.to)
		state.set({ from, to }, { replace: true, isQuiet: true });
}

async function start() {
	document.body.append(live);
	keepFocus(main, () => main.querySelector(BUSY) !== null);
	document.getElementById("skip").addEventListener("click", (event) => {
		event.preventDefault(); // its fragment would take the place of the state
		main.focus();
	});
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
	try {
		const runs = rowsOf(await app.ask("runs"));
		app.runs = runs.filter((row) => app.holds("run", { run: row.id }));
		main.replaceChildren();
		selectStored();
		await refresh();
	} catch (error) {
		fatal(error);
	}
}

start();
