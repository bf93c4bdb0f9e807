/**
 * The page "Objects": call sites of the heap, and variables, mappings and stacks that were touched,
 * as a table that the database sorts and filters. State: objects.sort, objects.up=1 (ascending),
 * objects.filter, objects.offset, and the selected time.
 */
import { debounced, h, select } from "memsight/dom";
import { rowsOf } from "memsight/data";
import { capital, count, fileName, isKnown, share } from "memsight/format";
import { MOST_ROWS, saver } from "memsight/csv";
import { createGrid, numberColumn, sorted } from "memsight/grid";
import { createPane } from "memsight/pane";
import { oneLine, siteName } from "memsight/site-text";
import { siteStack } from "memsight/source-text";
import { shareBar, spark } from "memsight/spark";
import { valueText } from "memsight/units";

const PAGE_ROWS = 50;
const NO_SAMPLE = "No sample of CPU time fell on it: its share is not known to be 0, "
	+ "but lies below this with 95 % confidence";
const HELP = "One row for each call stack that allocated (a site), and for each variable, mapping "
	+ "and stack that samples or faults touched. Bytes and blocks are counted, or "
	+ "estimated where a run picked some blocks only (--sample-bytes). The "
	+ "share is that of the samples of CPU time that fell into accesses to it, with its 95 % "
	+ "interval; what was not sampled is not proof of no access. The curve shows its live "
	+ "bytes over the whole run.";
const SHARE_HELP = "Of the samples of CPU time, with the 95 % interval, or from where to where "
	+ "it lies if they do not give a number; bars are as long as the largest one shown allows";
const PEAK_HELP = "The most of its bytes that were live at once; of variables and mappings "
	+ "their size";

/* Columns of bytes and of counts, named by their key. */
const bytesColumn = (key, title, help) =>
	numberColumn(key, title, (row) => valueText(row[key], "bytes"), { help });
const countColumn = (key, title, help) =>
	numberColumn(key, title, (row) => (isKnown(row[key]) ? count(row[key]) : "-"), { help });

/* "f a.c:1 < g a.c:2 < …" of a site; of others what they are and where. */
function nameCell(row, app) {
	if (row.site)
		return oneLine(row.name, siteName(app, row.site, row.name));
	const name = row.name || `${row.owner}, not known which`;
	const isSection = row.owner === "global" && name.startsWith("["); // no variable's name
	const kind = isSection ? "section" : row.name ? row.owner : "";
	const where = [kind, row.file ? `in ${fileName(row.file)}` : ""].filter(Boolean).join(" ");
	return oneLine(`${name}, ${where}`, h("span", {}, name), " ",
		h("span", { class: "muted" }, where));
}

function shareCell(row, most) {
	if (!isKnown(row.share) && !isKnown(row.share_high))
		return "-";
	return h("div", { class: "share-cell" }, shareBar(row, most),
		h("span", { title: row.share === 0 ? NO_SAMPLE : null },
			share(row.share, row.share_low, row.share_high)));
}

function samplesText({ n_samples: n }) {
	return n === null ? "-" : n.toLocaleString("en", { maximumFractionDigits: 1 });
}

function columnsOf(app, now) {
	const sparkPart = () => {
		const { from, to, isAll } = app.span();
		return isAll ? null : { from: from / app.duration, to: to / app.duration };
	};
	return [
		{ key: "name", title: "Object", cell: (row) => nameCell(row, app), isWide: true,
			help: "Where it was allocated, or what it is called" },
		numberColumn("share", "Share of time", (row) => shareCell(row, now.most),
			{ help: SHARE_HELP }),
		bytesColumn("peak_bytes", "Peak", PEAK_HELP),
		{ key: "spark", title: "Live bytes over time", isFixed: true,
			cell: (row) => spark(row.spark, sparkPart()) },
		bytesColumn("bytes", "Bytes", "Asked for in all"),
		countColumn("n_blocks", "Blocks"),
		bytesColumn("live_bytes", "Not freed", "Bytes that were live at the end"),
		...[
			countColumn("n_temporary", "Temporary",
				"Blocks that the next event of the same thread freed"),
			numberColumn("mean_life_ns", "Mean life",
				(row) => valueText(row.mean_life_ns, "ns")),
			numberColumn("n_samples", "Samples", samplesText,
				{ help: "Of CPU time, shares added up" }),
			countColumn("n_faults", "Page faults"),
			countColumn("n_accesses", "Accesses",
				"Sampled, of sources that sample accesses"),
			numberColumn("latency", "Latency",
				(row) => valueText(row.latency, "cycles"),
				{ help: "Mean of its sampled accesses, cycles" }),
		].map((column) => ({ ...column, isRest: true })),
	];
}

const OF_ALLOCATIONS = [
	"spark", "bytes", "n_blocks", "live_bytes", "n_temporary", "mean_life_ns",
];

/* Columns that say something about this run. */
function columnsFor(app, now) {
	const { totals, has_latency: hasLatency, sources } = app.run;
	const sampled = rowsOf(sources).filter((source) => source.n_samples > 0);
	const measured = sampled.map(({ measures }) => measures);
	const hasAccesses = measured.includes("access") || measured.includes("watch");
	const absent = new Set([
		...(hasAccesses ? [] : ["n_accesses"]),
		...(hasLatency ? [] : ["latency"]),
		...(measured.includes("time") ? [] : ["share", "n_samples"]),
		...(measured.includes("fault") ? [] : ["n_faults"]),
		...(totals?.allocations > 0 ? [] : OF_ALLOCATIONS),
	]);
	return columnsOf(app, now).filter(({ key }) => !absent.has(key));
}

/*
 * An exported file holds the first rows by each column: what is left of them, in the order that is
 * wanted.
 */
function ofStored(rows, columns, { filter, sort, descending }) {
	const wanted = filter.toLowerCase();
	const holds = (text) => String(text ?? "").toLowerCase().includes(wanted);
	const isFound = (row) => !wanted || [row.name, row.function, row.file].some(holds);
	const found = rows.filter(isFound);
	const column = columns.find(({ key }) => key === sort) ?? { key: sort };
	return sorted(found, column, descending === 1);
}

export function create(root, app) {
	const pane = createPane(root, "Objects", HELP, () => load(app.state));
	const now = { asked: "", n: 0, grid: null, runId: 0, most: 1 };
	const place = h("div");
	const search = debounced(250, () => app.set({
		"objects.filter": field.value || null, "objects.offset": null,
	}, { replace: true }));
	const field = h("input", {
		type: "search", id: "objects-filter", placeholder: "function, file, name",
		"aria-label": "Filter objects", oninput: search });
	const pager = h("nav", { class: "pager", "aria-label": "Rows" });
	const order = h("div", { class: "tools-row" });
	pane.tools.append(order, h("label", { class: "choice" }, h("span", {}, "Filter"), field));
	pane.body.append(place, pager);

	const sortOf = (state) => ({
		key: state["objects.sort"] ?? defaultSort(app),
		isDescending: state["objects.up"] !== "1",
	});
	const sortBy = ({ key, isDescending }) => app.set({
		"objects.sort": key, "objects.up": isDescending ? null : 1,
		"objects.offset": null,
	});

	function gridFor() {
		if (now.runId !== app.runId) {
			now.runId = app.runId;
			now.grid = createGrid({ caption: "Objects", isCaptionHidden: true,
				columns: columnsFor(app, now), part: PAGE_ROWS, onSort: sortBy,
				save: saver(app, "objects", allRows),
				detail: (row) => detailOf(row) });
			place.replaceChildren(now.grid.element);
		}
		return now.grid;
	}

	/* Not only those of the page. */
	async function allRows() {
		const all = { ...requestOf(app.state), limit: MOST_ROWS, offset: 0 };
		const { rows } = await app.ask("objects",
			app.isStored ? { ...all, filter: "", descending: 1 } : all);
		const names = Object.keys(rows.columns).filter((name) => name !== "spark");
		return [names, rowsOf(rows).map((row) => names.map((name) => row[name]))];
	}

	function detailOf(row) {
		const rest = columnsFor(app, now).filter(({ isRest }) => isRest);
		return h("div", { class: "row-detail" },
			row.site ? siteStack(app, row.site, row.name) : "",
			h("dl", { class: "facts" }, rest.map((column) => [
				h("dt", {}, column.title), h("dd", {}, column.cell(row))])));
	}

	/* Some columns are shown on wide screens only. */
	function showOrder() {
		const columns = columnsFor(app, now).filter(({ isFixed }) => !isFixed);
		const picker = select("Sorted by", columns.map(({ key, title }) => [key, title]),
			sortOf(app.state).key,
			(key) => sortBy({ key, isDescending: key !== "name" }));
		order.replaceChildren(picker);
	}

	function requestOf(state) {
		const sort = sortOf(state);
		return { run: app.runId, sort: sort.key, descending: sort.isDescending ? 1 : 0,
			filter: state["objects.filter"] ?? "", limit: PAGE_ROWS,
			offset: Number(state["objects.offset"] ?? 0), ...app.names(),
			...app.part() };
	}

	function load(state) {
		const request = requestOf(state);
		now.asked = JSON.stringify([request, app.span()]);
		const held = { ...request, filter: "", descending: 1, offset: 0 };
		const asked = app.isStored ? held : request;
		pane.show(app.ask("objects", asked, pane), (answer) => draw(answer, request));
	}

	function emptyText({ filter }) {
		const part = app.counted().isAll ? "" : "in the selected time";
		if (filter)
			return `Nothing is called "${filter}" ${part}. `
				+ "Clear the filter to see all.";
		const where = part || "in this run: the page \"Run\" shows what was recorded";
		return `No object was allocated or touched ${where}.`;
	}

	function draw(answer, request) {
		const all = rowsOf(answer.rows);
		const rows = app.isStored ? ofStored(all, columnsFor(app, now), request) : all;
		if (rows.length === 0) {
			pane.empty(emptyText(request));
			return;
		}
		now.most = Math.max(...rows.map((row) => row.share_high ?? row.share ?? 0), 0.001);
		gridFor().show(rows, { key: request.sort, isDescending: request.descending === 1 });
		showPager(answer.n_all, app.isStored ? 0 : request.offset, rows.length);
		pane.foot.textContent = [
			partText(), sampleText(), storedText(answer.n_all, all.length),
		].filter(Boolean).join(" · ");
	}

	function partText() {
		const text = app.partText();
		return app.counted().isAll ? capital(text)
			: `Blocks that were made and samples that were taken in the ${text}`;
	}

	function storedText(nAll, n) {
		if (!app.isStored || n >= nAll)
			return "";
		return `of ${count(nAll)} objects the file holds the first ${count(n)} `
			+ "by each column";
	}

	function sampleText() {
		const sources = rowsOf(app.run.sources)
			.filter(({ measures, n_samples: n }) => n > 0 && measures === "time");
		return sources.map(({ name, n_samples: n, unit }) =>
			`${name}: ${count(n)} samples of ${unit} in the run`).join(", ");
	}

	function showPager(nAll, offset, n) {
		const step = (text, to, isThere) => h("button", {
			type: "button", disabled: !isThere,
			onclick: () => app.set({ "objects.offset": to > 0 ? to : null }) }, text);
		const rows = `${count(offset + 1)}-${count(offset + n)} of ${count(nAll)}`;
		pager.replaceChildren(step("◀ Before", offset - PAGE_ROWS, offset > 0),
			h("span", { class: "pager-text" }, rows),
			step("After ▶", offset + PAGE_ROWS, offset + n < nAll && !app.isStored));
	}

	return {
		update(state) {
			showOrder();
			if (document.activeElement !== field)
				field.value = state["objects.filter"] ?? "";
			if (now.asked !== JSON.stringify([requestOf(state), app.span()]))
				load(state);
		},
	};
}

/* By time where it was sampled, else by what was live, or touched. */
function defaultSort(app) {
	const hasTime = rowsOf(app.run.sources)
		.some(({ measures, n_samples: n }) => n > 0 && measures === "time");
	return hasTime ? "share" : app.run.totals?.allocations > 0 ? "peak_bytes" : "n_accesses";
}
