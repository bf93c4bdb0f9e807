/**
 * What stands above every page: run, process, tabs, losses, what is selected, light or dark.
 */
import { rowsOf } from "memsight/data";
import { h, select } from "memsight/dom";
import { count, duration, fileName, interval, plural } from "memsight/format";
import { isDark } from "memsight/palette";

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

function runName(row) {
	const lost = row.n_lost > 0 ? " - with losses" : "";
	return `${row.id}: ${row.program}${row.mode ? "." + row.mode : ""}.${row.repetition} (${duration(row.duration_ns)})${lost}`;
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
	return h("a", { class: "losses", id: "losses-button", href: app.link({ page: "run" }),
		title: losses.slice(0, 8).map((row) => `${row.source}: ${count(row.count)} ${row.reason}`).join("\n") },
	`⚠ Losses: ${count(sum)} of ${plural(kinds, "kind")}`);
}

/** What narrows the view, each with a button that takes it back. */
function selection(app) {
	const { from, to, isAll } = app.span();
	const { low, high, site, block } = app.state;
	const chips = [];
	const chip = (text, label, changes) => chips.push(h("span", { class: "chip" }, text, h("button", { type: "button",
		"aria-label": label, title: label, onclick: () => app.set(changes) }, "✕")));
	if (!isAll)
		chip(`time ${interval(from, to)} of ${duration(app.duration)}`, "Show the whole run", { from: null, to: null });
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
	return h("p", { class: "notice", id: "stored-notice" }, "Exported file: where what is asked for is missing, the nearest is shown; ",
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
	const themeButton = h("button", { type: "button", class: "theme", id: "theme-button", onclick() {
		setTheme(isDark() ? "light" : "dark");
		label();
		redraw();
	} });

	function label() {
		const other = isDark() ? "light" : "dark";
		themeButton.textContent = isDark() ? "☀" : "☾";
		themeButton.setAttribute("aria-label", `Switch to ${other} colours`);
		themeButton.title = `Switch to ${other} colours`;
	}

	const stored = storedTheme();
	if (stored === "dark" || stored === "light")
		document.documentElement.dataset.theme = stored;
	label();
	root.append(
		h("div", { class: "bar" }, h("span", { class: "brand" }, "memsight"), choosers, alarms, themeButton),
		h("div", { class: "bar second" }, tabs, chips),
		app.isStored ? storedNotice(app) : "");

	function update(state, page) {
		const current = page.tab ?? page.id;
		choosers.replaceChildren(...[
			app.runs.length > 0 ? select("Run", app.runs.map((row) => [row.id, runName(row)]), app.runId, (run) =>
				app.set({ run, process: null, from: null, to: null, low: null, high: null, site: null, block: null,
					source: null, page: page.id === "object" ? "objects" : state.page })) : null,
			app.processes.length > 1 && OF_ONE_PROCESS.includes(page.id) ? select("Process", app.processes.map((row) => [row.id, processName(row)]),
				app.processId, (process) => app.set({ process, low: null, high: null, block: null })) : null,
		].filter(Boolean));
		alarms.replaceChildren(...[lossButton(app)].filter(Boolean));
		tabs.replaceChildren(...pages.filter(({ title }) => title).map(({ id, title }) => h("a", { href: app.link({ page: id }),
			"aria-current": id === current ? "page" : null }, title)));
		chips.replaceChildren(...selection(app));
		document.title = `${app.runs.find((row) => row.id === app.runId)?.program ?? ""} - memsight`;
	}
	return { update };
}
