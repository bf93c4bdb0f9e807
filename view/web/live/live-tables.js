/**
 * The tables of a run that is being recorded: places that allocated, with the stack of the one that
 * was chosen, and threads. State: site, live.filter.
 */
import { debounced, h } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { count, duration, plural } from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { createPane } from "memsight/pane";
import { oneLine } from "memsight/site-text";
import { stackList } from "memsight/source-text";
import { changeText, valueText } from "memsight/units";

const HELP = "Places that allocated, by the program's own calls; several call stacks of one name "
	+ "are one row. Growth is over the last five seconds, allocations a second since the last "
	+ "look, \"Older\" are live bytes of blocks older than the recording's --old-after. ± is "
	+ "the 95 % interval, where only a part of the blocks is followed. Choose a row for its "
	+ "call stack.";

/** "1.20 MiB ±0.03", where it is an estimate. */
export function liveText(bytes, half) {
	const text = valueText(bytes, "bytes");
	return half >= 1 ? `${text} ±${valueText(half, "bytes")}` : text;
}

function siteColumns(choose, oldSeconds) {
	const name = (row) => {
		const [inner, ...callers] = row.name.split(" < ");
		const button = h("button", { type: "button", class: "link site-button",
			"data-key": `site-${row.site}`, onclick: () => choose(row) }, inner);
		const behind = callers.length ? ` < ${callers.join(" < ")}` : "";
		return oneLine(row.name, button, h("span", { class: "muted" }, behind));
	};
	return [
		{ key: "name", title: "Allocated at", cell: name, isWide: true },
		numberColumn("live_bytes", "Live", (row) => liveText(row.live_bytes, row.half)),
		numberColumn("growth", "Growth/s", (row) => (Math.abs(row.growth) < 1 ? "0 B"
			: changeText(row.growth, "bytes"))),
		numberColumn("rate", "Allocs/s", (row) => count(row.rate)),
		numberColumn("leaked_bytes", `Older than ${oldSeconds} s`,
			(row) => valueText(row.leaked_bytes, "bytes")),
		numberColumn("n_live", "Blocks", (row) => count(row.n_live)),
		numberColumn("age_ms", "Mean age", (row) => duration(row.age_ms * 1e6)),
		numberColumn("n_allocations", "Allocations", (row) => count(row.n_allocations)),
	];
}

/* The call stack of a site, below the table. */
function createStack(app) {
	const element = h("section", { class: "live-stack", "aria-label": "Call stack",
		hidden: true });
	let shown = null;

	async function show(site, name) {
		if (site === shown)
			return;
		shown = site;
		element.hidden = site === null;
		if (site === null)
			return;
		const close = h("button", { type: "button",
			onclick: () => app.set({ site: null }) }, "Close");
		const place = h("div", {}, "Loading …");
		element.replaceChildren(h("div", { class: "pane-head" },
			h("h3", {}, `Call stack of ${name.split(" < ")[0]}`),
			h("div", { class: "tools" }, close)), place);
		try {
			const { stack } = await app.ask("stack", { site }, element);
			place.replaceChildren(stackList(app, stack));
		} catch (error) {
			place.replaceChildren(error.message ?? "");
		}
	}
	return { element, show };
}

export function createSites(root, app) {
	const pane = createPane(root, "Where it was allocated", HELP);
	const stack = createStack(app);
	const setFilter = debounced(150, (filter) => app.set({ "live.filter": filter }, {
		replace: true }));
	const search = h("input", { type: "search", placeholder: "Filter by name",
		"aria-label": "Filter by name", value: app.state["live.filter"] ?? "",
		oninput: () => setFilter(search.value) });
	const choose = ({ site }) => app.set({ site: String(site) === app.state.site
		? null : site });
	let grid = null;
	let last = null;

	pane.tools.append(search);

	function draw() {
		const rows = rowsOf(last.sites);
		const wanted = (app.state["live.filter"] ?? "").toLowerCase();
		const kept = rows.filter(({ name }) => name.toLowerCase().includes(wanted));
		const chosen = rows.find(({ site }) => String(site) === app.state.site);
		grid.refresh(kept);
		for (const button of grid.element.querySelectorAll(".site-button"))
			button.setAttribute("aria-pressed",
				String(button.dataset.key === `site-${app.state.site}`));
		if (!app.state.site)
			stack.show(null);
		else if (chosen)
			stack.show(chosen.site, chosen.name);
		const { one_in: oneIn } = last.now;
		pane.foot.textContent = [
			rows.length < last.n_sites
				? `The first of ${plural(last.n_sites, "call stack")} by each `
					+ "column" : "",
			wanted ? `${count(kept.length)} of ${count(rows.length)} rows have this `
				+ "in their name" : "",
			oneIn > 1 ? `1 in ${count(oneIn)} new blocks is followed: live bytes are `
				+ "estimates, allocations are counted" : "",
		].filter(Boolean).join(" · ");
	}

	return {
		update() {
			if (last)
				draw();
		},
		show(event) {
			last = event;
			if (!grid) {
				grid = createGrid({ caption: "Places that allocated",
					isCaptionHidden: true, part: 20,
					columns: siteColumns(choose, event.now.old_s),
					sort: { key: "live_bytes", isDescending: true } });
				pane.body.append(grid.element, stack.element);
				pane.ready();
			}
			draw();
		},
	};
}

export function createThreads(root) {
	const pane = createPane(root, "Threads");
	const grid = createGrid({ caption: "Threads", isCaptionHidden: true, part: 10,
		sort: { key: "rate", isDescending: true }, columns: [
			{ key: "name", title: "Thread", isWide: true,
				cell: (row) => row.name || "(no name)" },
			numberColumn("tid", "Id", (row) => (row.tid ? String(row.tid) : "-")),
			numberColumn("pid", "Process", (row) => String(row.pid)),
			numberColumn("rate", "Allocs/s", (row) => count(row.rate)),
			numberColumn("n_allocations", "Allocations",
				(row) => count(row.n_allocations)),
			numberColumn("allocated_bytes", "Bytes",
				(row) => valueText(row.allocated_bytes, "bytes")),
			numberColumn("n_frees", "Frees", (row) => count(row.n_frees)),
		] });
	pane.body.append(grid.element);
	pane.ready();
	return {
		show(event) {
			const rows = rowsOf(event.threads);
			const all = plural(event.n_threads, "thread");
			grid.refresh(rows);
			pane.foot.textContent = rows.length < event.n_threads
				? `${count(rows.length)} of ${all}, whoever allocated most lately`
				: "";
		},
	};
}
