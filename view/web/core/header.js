/**
 * What stands above every page: run, process, tabs, losses, what is selected, light or dark.
 */
import { rowsOf } from "memsight/data";
import { h, select } from "memsight/dom";
import { count, duration, fileName, interval, plural } from "memsight/format";
import { isDark } from "memsight/palette";
import { runName } from "memsight/run-name";

/* Pages that show one process; all others count all of them. */
const OF_ONE_PROCESS = ["memory"];
const THEME_KEY = "memsight-theme";

function storedTheme() {
	try {
		return localStorage.getItem(THEME_KEY);
	} catch {
		return null; // no storage for pages from files, or it is switched off
	}
}

function setTheme(name) {
	document.documentElement.dataset.theme = name;
	try {
		localStorage.setItem(THEME_KEY, name);
	} catch {
		// as above: the choice then lasts as long as the page
	}
}

/** The button that switches between light and dark, as it was chosen last. */
export function createThemeButton(redraw) {
	const button = h("button", { type: "button", class: "theme", id: "theme-button",
		onclick() {
			setTheme(isDark() ? "light" : "dark");
			label();
			redraw();
		} });

	function label() {
		const other = isDark() ? "light" : "dark";
		button.textContent = isDark() ? "☀" : "☾";
		button.setAttribute("aria-label", `Switch to ${other} colours`);
		button.title = `Switch to ${other} colours`;
	}

	const stored = storedTheme();
	if (stored === "dark" || stored === "light")
		document.documentElement.dataset.theme = stored;
	label();
	return button;
}

function choiceOf(runs, row) {
	const lost = row.n_lost > 0 ? " - with losses" : "";
	return `${row.id}: ${runName(runs, row)} (${duration(row.duration_ns)})${lost}`;
}

function processName(row) {
	return `${row.pid} ${fileName(row.exe || row.command || "").slice(0, 40)}`;
}

/** Losses of the run in one button, or null when nothing was lost. */
function lossButton(app) {
	const losses = rowsOf(app.run?.losses).filter((row) => row.count > 0);
	if (losses.length === 0)
		return null;
	const sum = losses.reduce((total, row) => total + row.count, 0);
	const kinds = new Set(losses.map((row) => `${row.source} ${row.reason}`)).size;
	const lines = losses.map((row) => `${row.source}: ${count(row.count)} ${row.reason}`);
	return h("a", { class: "losses", id: "losses-button", href: app.link({ page: "run" }),
		title: lines.slice(0, 8).join("\n") },
	`⚠ Losses: ${count(sum)} of ${plural(kinds, "kind")}`);
}

/** What narrows the view, each with a button that takes it back. */
function selection(app) {
	const { from, to, isAll } = app.span();
	const { low, high, site, block } = app.state;
	const chips = [];
	const chip = (text, label, changes) => {
		const onclick = () => app.set(changes);
		const button = { type: "button", "aria-label": label, title: label, onclick };
		chips.push(h("span", { class: "chip" }, text, h("button", button, "✕")));
	};
	if (!isAll) {
		const text = `time ${interval(from, to)} of ${duration(app.duration)}`;
		chip(text, "Show the whole run", { from: null, to: null });
	}
	if (low || high)
		chip("part of the addresses", "Show all addresses", { low: null, high: null });
	if (block)
		chip(`block ${block}`, "Clear the block", { block: null });
	else if (site)
		chip(`site ${site}`, "Clear the site", { site: null });
	return chips;
}

/* What an exported file holds, as whoever wrote it told. */
function storedNotice(app) {
	const detail = h("span", { id: "stored-detail" });
	app.ask("stored").then(({ text }) => detail.append(text), () => {});
	return h("p", { class: "notice", id: "stored-notice" },
		"Exported file: where what is asked for is missing, the nearest is shown; ",
		h("code", {}, "memsight view"), " shows the database itself. ", detail);
}

/**
 * @returns {{ update(state, page) }}
 */
export function createHeader(root, app, pages, redraw) {
	const choosers = h("div", { class: "choosers" });
	const alarms = h("div", { class: "alarms" });
	const tabs = h("nav", { class: "tabs", "aria-label": "Pages" });
	const chips = h("div", { class: "chips" });
	/* An exported file holds one way of naming only. */
	const names = app.isStored ? "" : h("button", { type: "button", id: "names-button",
		title: "Whole call paths, with calls of libraries and of the C runtime",
		onclick: () => app.set({ full: app.state.full === "1" ? null : 1 }),
	}, "Show library frames");

	root.append(
		h("div", { class: "bar" },
			h("h1", { class: "brand" }, "memsight"), choosers, alarms, names,
			createThemeButton(redraw)),
		h("div", { class: "bar second" }, tabs, chips),
		app.isStored ? storedNotice(app) : "");

	function runChooser(state, page) {
		const options = app.runs.map((row) => [row.id, choiceOf(app.runs, row)]);
		return select("Run", options, app.runId, (run) => app.set({
			run, process: null, from: null, to: null, low: null, high: null,
			site: null, block: null, source: null,
			page: page.id === "object" ? "objects" : state.page }));
	}

	function processChooser() {
		const options = app.processes.map((row) => [row.id, processName(row)]);
		return select("Process", options, app.processId, (process) => app.set({
			process, low: null, high: null, block: null }));
	}

	function update(state, page) {
		const current = page.tab ?? page.id;
		const isOfOne = app.processes.length > 1 && OF_ONE_PROCESS.includes(page.id);
		choosers.replaceChildren(...[
			app.runs.length > 0 ? runChooser(state, page) : null,
			isOfOne ? processChooser() : null,
		].filter(Boolean));
		if (names)
			names.setAttribute("aria-pressed", String(state.full === "1"));
		alarms.replaceChildren(...[lossButton(app)].filter(Boolean));
		const tab = ({ id, title }) => h("a", {
			href: app.link({ page: id }),
			"aria-current": id === current ? "page" : null }, title);
		tabs.replaceChildren(...pages.filter(({ title }) => title).map(tab));
		chips.replaceChildren(...selection(app));
		const { program = "" } = app.runs.find((row) => row.id === app.runId) ?? {};
		document.title = `${program} - memsight`;
	}
	return { update };
}
