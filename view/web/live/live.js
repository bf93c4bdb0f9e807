/**
 * The page of a run that is being recorded (memsight view --live): grows by server-sent events, and
 * gives way to the usual page when the run's trace has been analysed.
 */
import { createData, rowsOf } from "memsight/data";
import { h } from "memsight/dom";
import { keepFocus } from "memsight/focus";
import { count, duration, fileName, percent } from "memsight/format";
import { createThemeButton } from "memsight/header";
import { createCurves } from "memsight/live-curves";
import { listen } from "memsight/live-feed";
import { createSites, createThreads, liveText } from "memsight/live-tables";
import { theme } from "memsight/palette";
import { createPane } from "memsight/pane";
import { changed, createState, numberOf, printState } from "memsight/state";
import { changeText, valueText } from "memsight/units";

const WORDS = {
	recording: "Recording", paused: "Paused: allocations are not recorded",
	silent: "The recorder has not looked for some seconds: it is stopped, or has no CPU",
	stopped: "Recording has stopped early; the page changes when the program ends",
	ended: "The run has ended; its trace is being analysed",
	shown: "The run has ended", failed: "The run has ended",
};
const NO_SERVER = "The server does not answer: is memsight view still running?";
const IS_UNDER_WAY = ["recording", "paused", "stopped"];

const main = document.getElementById("main");
const data = createData();
const state = createState(() => update());
const app = {
	ask: data.ask, theme, set: state.set, duration: 0, since: 0, runId: 0,
	get state() { return state.get(); },
	link: (changes) => "#" + printState(changed(state.get(), changes)),
	names: () => ({}),
	span() {
		const from = numberOf(state.get().from, 0);
		const to = numberOf(state.get().to, app.duration);
		const isAll = !state.get().from && !state.get().to;
		return isAll || from >= to ? { from: 0, to: app.duration, isAll: true }
			: { from, to, isAll };
	},
};

const said = h("p", { class: "live-said", role: "status" });
const stateText = h("span", { class: "live-state", role: "status" });
const program = h("span", { class: "live-program" });
const cards = h("dl", { class: "cards" });
const snapshots = h("ul", { class: "live-snapshots" });
let last = null; // event
let isHeld = false;

/* ---- Orders ---- */

async function order(kind, filter = "") {
	const query = new URLSearchParams(filter ? { kind, filter } : { kind });
	try {
		const answer = await fetch(`api/control?${query}`, { method: "POST",
			cache: "no-store", credentials: "omit" });
		const { text, error } = await answer.json();
		said.textContent = text ?? error;
	} catch {
		said.textContent = NO_SERVER;
	}
}

const button = (id, text, title, onclick) => h("button", { type: "button", id, title, onclick },
	text);
const pause = button("pause-button", "Pause", "No allocations are recorded until it is resumed",
	() => order(last?.state === "paused" ? "resume" : "pause"));
const snapshot = button("snapshot-button", "Snapshot",
	"A complete trace up to now, beside the recording's, while it goes on", () => {
		said.textContent = "Writing a snapshot …";
		order("snapshot");
	});
const markName = h("input", { type: "text", size: 12, maxlength: 60, placeholder: "name of a mark",
	"aria-label": "Name of a mark" });
const mark = h("form", { class: "time-form", onsubmit(event) {
	event.preventDefault();
	if (markName.value.trim())
		order("mark", markName.value.trim());
	markName.value = "";
} }, markName, h("button", { type: "submit", id: "mark-button" }, "Mark"));
const hold = button("hold-button", "Hold", "The page stands still; recording goes on", () => {
	isHeld = !isHeld;
	hold.setAttribute("aria-pressed", String(isHeld));
	if (!isHeld && last)
		show(last);
});
hold.setAttribute("aria-pressed", "false");

/* ---- Panes ---- */

document.getElementById("header").append(h("div", { class: "bar" },
	h("h1", { class: "brand" }, "memsight"), program, stateText,
	h("div", { class: "choosers" }), pause, snapshot, mark, hold,
	createThemeButton(() => update())));

function createNow(root) {
	const pane = createPane(root, "Now");
	pane.body.append(cards, said, snapshots);
	pane.ready();
}

const root = h("div", { class: "page page-live" });
main.replaceChildren(root);
createNow(root);
const curves = createCurves(root, app);
const sites = createSites(root, app);
const threads = createThreads(root);

function card(name, value, more = "", isAlarm = false) {
	return h("div", { class: isAlarm ? "card alarm" : "card" },
		h("dt", {}, name), h("dd", {}, value),
		more ? h("dd", { class: "small" }, more) : null);
}

function showNow({ now }) {
	const lost = now.n_lost + now.n_left_out;
	const isAll = now.n_left_out === 0;
	const leaked = now.live_bytes > 0 ? now.leaked_bytes / now.live_bytes : null;
	cards.replaceChildren(
		card("Time", duration(now.time_ns)),
		card("Live", liveText(now.live_bytes, now.half),
			`${count(now.n_live)} blocks, ${changeText(now.growth, "bytes")}/s`),
		card("RSS", valueText(now.rss_bytes, "bytes"),
			`of ${count(now.n_processes)} process${now.n_processes === 1 ? "" : "es"}`),
		card("Allocations", valueText(now.rate, "/s"),
			`${count(now.n_allocations)}, ${valueText(now.bytes_rate, "bytes")}/s`),
		card(`Older than ${now.old_s} s`, valueText(now.leaked_bytes, "bytes"),
			leaked === null ? "" : `${percent(leaked)} of live`),
		...(lost > 0 ? [card("Lost", count(lost), isAll
			? "events: sums are too high or too low"
			: "events, and blocks that there was no memory to follow", true)] : []));
}

const SNAPSHOT_WORDS = { analysing: "is being analysed", failed: "cannot be shown" };

function showSnapshots(event) {
	const rows = rowsOf(event.snapshots);
	const text = JSON.stringify(rows);
	if (snapshots.dataset.shown === text)
		return; // a link that has the focus keeps it
	snapshots.dataset.shown = text;
	snapshots.replaceChildren(...rows.map(({ part, path, state: how }) => h("li", {},
		how === "shown"
			? h("a", { href: `${part}/`, target: "_blank", rel: "noopener" },
				`Snapshot ${fileName(path)}`)
			: `Snapshot ${fileName(path)} ${SNAPSHOT_WORDS[how]}`,
		" ", h("span", { class: "muted" }, path))));
}

/* ---- Events ---- */

function showState(event) {
	const text = event.message || WORDS[event.state];
	if (stateText.textContent !== text)
		stateText.textContent = text;
	stateText.dataset.state = event.state;
	program.textContent = `${event.program} (${event.pid})`;
	program.title = event.trace;
	document.title = `${event.program} - memsight live`;
	const isPaused = event.state === "paused";
	pause.textContent = isPaused ? "Resume" : "Pause";
	const isOver = !IS_UNDER_WAY.includes(event.state);
	for (const element of [pause, snapshot, ...mark.elements])
		element.disabled = isOver;
}

function show(event) {
	app.duration = event.now.time_ns;
	app.since = event.now.since_ns;
	showNow(event);
	sites.show(event);
	threads.show(event);
	curves.update();
}

function update() {
	if (!last)
		return;
	curves.update();
	sites.update();
}

const link = listen((event) => {
	if (event.state === "shown") {
		link.close();
		/* This page's state is not that one's. */
		history.replaceState(null, "", location.pathname);
		location.reload();
		return;
	}
	last = event;
	showState(event);
	showSnapshots(event);
	const [row] = rowsOf(event.point);
	if (row && !isHeld)
		curves.add(row);
	if (!isHeld)
		show(event);
	document.documentElement.dataset.ready = "live";
}, (isThere) => {
	if (!isThere && last?.state !== "failed")
		stateText.textContent = NO_SERVER;
	else if (last)
		showState(last);
});

keepFocus(main, () => false);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update());
document.getElementById("skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
