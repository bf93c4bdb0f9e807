/**
 * The page "Objects": call sites of the heap, and variables, mappings and stacks that were touched,
 * as a table that the database sorts and filters. State: objects.sort, objects.up=1 (ascending),
 * objects.filter, objects.offset, and the selected time.
 */
import { debounced, h } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { count, fileName, place, share } from "memsight/format";
import { createGrid, sorted } from "memsight/grid";
import { createPane } from "memsight/pane";
import { shareBar, spark } from "memsight/spark";
import { valueText } from "memsight/units";

const PAGE_ROWS = 50;
const NO_SAMPLE = "No sample of CPU time fell on it: its share is not known to be 0, but lies below this with 95 % confidence";
const HELP = "One row for each call stack that allocated (a site), and for each variable, mapping and stack that samples or faults touched. Bytes and "
	+ "blocks are counted exactly. The share is that of the samples of CPU time that fell into accesses to it, with its 95 % interval; what was not "
	+ "sampled is not proof of no access. The curve shows its live bytes over the whole run.";

const bytesCell = (key) => (row) => valueText(row[key], "bytes");
const countCell = (key) => (row) => (row[key] === null || row[key] === undefined ? "-" : count(row[key]));

/* "f a.c:1 < g a.c:2 < ...": what allocated, and below it who called that. */
function nameCell(row, app) {
	const [inner, ...callers] = String(row.name || (row.function || row.file ? place(row) : `${row.owner}, not known which`)).split(" < ");
	const link = row.site ? h("a", { href: app.link({ page: "object", site: row.site, block: null }), class: "object-link" }, inner) : h("span", {}, inner);
	const where = row.function ? place(row) : row.file ? `in ${fileName(row.file)}` : "";
	const more = callers.length ? `< ${callers.join(" < ")}` : where === inner ? "" : where;
	const kind = row.owner === "global" && inner.startsWith("[") ? "section" : row.owner; // no variable of that name
	return h("div", { class: "object-name" }, link, h("span", { class: "muted" }, [kind, more].filter(Boolean).join(" · ")));
}

function columnsOf(app, now) {
	const sparkPart = () => {
		const { from, to, isAll } = app.span();
		return isAll ? null : { from: from / app.duration, to: to / app.duration };
	};
	return [
		{ key: "name", title: "Object", help: "Where it was allocated, or what it is called", cell: (row) => nameCell(row, app) },
		{ key: "share", title: "Share of time", isNumber: true, help: "Of the samples of CPU time, with the 95 % interval, or from where to where it lies if they do not give a number; bars are as long as the largest one shown allows",
			cell: (row) => ((row.share ?? row.share_high ?? null) === null ? "-" : h("div", { class: "share-cell" },
				shareBar(row, now.most), h("span", { title: row.share === 0 ? NO_SAMPLE : null },
					share(row.share, row.share_low, row.share_high)))) },
		{ key: "peak_bytes", title: "Peak", isNumber: true, help: "The most of its bytes that were live at once; of variables and mappings their size", cell: bytesCell("peak_bytes") },
		{ key: "spark", title: "Live bytes over time", isFixed: true, cell: (row) => spark(row.spark, sparkPart()) },
		{ key: "bytes", title: "Bytes", isNumber: true, help: "Asked for in all", cell: bytesCell("bytes") },
		{ key: "n_blocks", title: "Blocks", isNumber: true, cell: countCell("n_blocks") },
		{ key: "live_bytes", title: "Not freed", isNumber: true, help: "Bytes that were live at the end", cell: bytesCell("live_bytes") },
		{ key: "n_temporary", title: "Temporary", isNumber: true, help: "Blocks that the next event of the same thread freed", cell: countCell("n_temporary") },
		{ key: "mean_life_ns", title: "Mean life", isNumber: true, cell: (row) => valueText(row.mean_life_ns, "ns") },
		{ key: "n_samples", title: "Samples", isNumber: true, help: "Of CPU time, shares added up", cell: (row) => (row.n_samples === null ? "-"
			: row.n_samples.toLocaleString("en", { maximumFractionDigits: 1 })) },
		{ key: "n_faults", title: "Page faults", isNumber: true, cell: countCell("n_faults") },
		{ key: "n_accesses", title: "Accesses", isNumber: true, help: "Sampled, of sources that sample accesses", cell: countCell("n_accesses") },
		{ key: "latency", title: "Latency", isNumber: true, help: "Mean of its sampled accesses, cycles", cell: (row) => valueText(row.latency, "cycles") },
	];
}

/* Columns that say something about this run. */
function columnsFor(app, now) {
	const { totals, has_latency: hasLatency, sources } = app.run;
	const measured = rowsOf(sources).filter((source) => source.n_samples > 0).map(({ measures }) => measures);
	const hasAccesses = measured.includes("access") || measured.includes("watch");
	const absent = new Set([...(hasAccesses ? [] : ["n_accesses"]), ...(hasLatency ? [] : ["latency"]),
		...(measured.includes("time") ? [] : ["share", "n_samples"]), ...(measured.includes("fault") ? [] : ["n_faults"]),
		...(totals?.allocations > 0 ? [] : ["spark", "bytes", "n_blocks", "live_bytes", "n_temporary", "mean_life_ns"])]);
	return columnsOf(app, now).filter(({ key }) => !absent.has(key));
}

/*
 * An exported file holds the first rows by each column: what is left of them, in the order that is
 * wanted.
 */
function ofStored(rows, columns, { filter, sort, descending }) {
	const wanted = filter.toLowerCase();
	const found = rows.filter((row) => !wanted || [row.name, row.function, row.file].some((text) => String(text ?? "").toLowerCase().includes(wanted)));
	return sorted(found, columns.find(({ key }) => key === sort) ?? { key: sort }, descending === 1);
}

export function create(root, app) {
	const pane = createPane(root, "Objects", HELP, () => load(app.state));
	const now = { asked: "", n: 0, grid: null, runId: 0, most: 1 };
	const place = h("div");
	const field = h("input", { type: "search", id: "objects-filter", placeholder: "function, file, name", "aria-label": "Filter objects",
		oninput: debounced(250, () => app.set({ "objects.filter": field.value || null, "objects.offset": null }, { replace: true })) });
	const pager = h("nav", { class: "pager", "aria-label": "Rows" });
	pane.tools.append(h("label", { class: "choice" }, h("span", {}, "Filter"), field));
	pane.body.append(place, pager);

	const sortOf = (state) => ({ key: state["objects.sort"] ?? defaultSort(app), isDescending: state["objects.up"] !== "1" });

	function gridFor() {
		if (now.runId !== app.runId) {
			now.runId = app.runId;
			now.grid = createGrid({ caption: "Objects", isCaptionHidden: true, columns: columnsFor(app, now), part: PAGE_ROWS,
				onSort: ({ key, isDescending }) => app.set({ "objects.sort": key, "objects.up": isDescending ? null : 1, "objects.offset": null }) });
			place.replaceChildren(now.grid.element);
		}
		return now.grid;
	}

	function requestOf(state) {
		const { from, to, isAll } = app.span();
		const sort = sortOf(state);
		return { run: app.runId, sort: sort.key, descending: sort.isDescending ? 1 : 0, filter: state["objects.filter"] ?? "",
			limit: PAGE_ROWS, offset: Number(state["objects.offset"] ?? 0), ...(isAll ? {} : { from: Math.round(from), to: Math.round(to) }) };
	}

	function load(state) {
		const request = requestOf(state);
		now.asked = JSON.stringify(request);
		const held = { ...request, filter: "", descending: 1, offset: 0 };
		pane.show(app.ask("objects", app.isStored ? held : request, pane), (answer) => draw(answer, request));
	}

	function draw(answer, request) {
		const all = rowsOf(answer.rows);
		const rows = app.isStored ? ofStored(all, columnsFor(app, now), request) : all;
		const { from, to, isAll } = app.span();
		if (rows.length === 0) {
			pane.empty(request.filter ? `Nothing is called "${request.filter}" ${isAll ? "" : "in the selected time"}. Clear the filter to see all.`
				: `No object was allocated or touched ${isAll ? "in this run: the page \"Run\" shows what was recorded" : "in the selected time"}.`);
			return;
		}
		now.most = Math.max(...rows.map((row) => row.share_high ?? row.share ?? 0), 0.001);
		gridFor().show(rows, { key: request.sort, isDescending: request.descending === 1 });
		showPager(answer.n_all, app.isStored ? 0 : request.offset, rows.length);
		const part = app.isStored ? "Whole run: an exported file cannot count a part of the time anew"
			: `Blocks that were made and samples that were taken in ${app.format.interval(from, to)}`;
		pane.foot.textContent = [isAll ? "Whole run" : part, sampleText(), app.isStored && all.length < answer.n_all
			? `of ${count(answer.n_all)} objects the file holds the first ${count(all.length)} by each column` : ""].filter(Boolean).join(" · ");
	}

	function sampleText() {
		const sources = rowsOf(app.run.sources).filter(({ measures, n_samples: n }) => n > 0 && measures === "time");
		return sources.map(({ name, n_samples: n, unit }) => `${name}: ${count(n)} samples of ${unit} in the run`).join(", ");
	}

	function showPager(nAll, offset, n) {
		const step = (text, to, isThere) => h("button", { type: "button", disabled: !isThere,
			onclick: () => app.set({ "objects.offset": to > 0 ? to : null }) }, text);
		pager.replaceChildren(step("◀ Before", offset - PAGE_ROWS, offset > 0),
			h("span", { class: "pager-text" }, `${count(offset + 1)}-${count(offset + n)} of ${count(nAll)}`),
			step("After ▶", offset + PAGE_ROWS, offset + n < nAll && !app.isStored));
	}

	return {
		update(state) {
			if (document.activeElement !== field)
				field.value = state["objects.filter"] ?? "";
			if (now.asked !== JSON.stringify(requestOf(state)))
				load(state);
		},
	};
}

/* By time where it was sampled, else by what was live, or touched. */
function defaultSort(app) {
	const hasTime = rowsOf(app.run.sources).some(({ measures, n_samples: n }) => n > 0 && measures === "time");
	return hasTime ? "share" : app.run.totals?.allocations > 0 ? "peak_bytes" : "n_accesses";
}
