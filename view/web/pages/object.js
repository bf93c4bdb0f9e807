/**
 * The page of an object: a call site with all its blocks, or one block.
 */
import { createAxis } from "memsight/axis";
import { barColumns, barList } from "memsight/bars";
import { rowsOf } from "memsight/data";
import { h, table } from "memsight/dom";
import {
	address, bytes, count, duration, fileName, interval, isKnown, moment, objectName, plural,
	share,
} from "memsight/format";
import { createGrid, numberColumn } from "memsight/grid";
import { createHeat } from "memsight/heat";
import { categorical } from "memsight/palette";
import { createPane } from "memsight/pane";
import { oneLine } from "memsight/site-text";
import { sourceBox, stackList } from "memsight/source-text";

const HEAT_HELP = "Where in the block it was touched when: offsets upwards, time to the right. "
	+ "Of a site with many blocks, all are laid over each other. A diagonal is a sweep, "
	+ "a horizontal line a field that is used all the time, an empty part is memory that no "
	+ "sample saw in use.";

/**
 * What a share of time is of: "6,882 of n = 21,502 samples; source clock, unit ns of user CPU
 * time".
 */
function sourceText(app, answer) {
	const source = rowsOf(app.run.sources)
		.find(({ measures, n_samples: n }) => measures === "time" && n > 0);
	const ofPart = answer.share > 0 ? answer.n_samples / answer.share : null;
	const n = app.counted().isAll ? source?.n_samples : ofPart;
	const all = n ? `n = ${count(n)} samples` : "the samples";
	const unit = source ? `; source ${source.name}, unit ${source.unit}` : "";
	return `${count(answer.n_samples ?? 0)} of ${all}${unit}`;
}

function timeCard(app, answer) {
	if (!isKnown(answer.share) && !isKnown(answer.share_high))
		return ["time", "-", "no sample of CPU time"];
	const end = answer.share > 0 ? " ± 95 % interval" : ", end of the 95 % interval";
	return ["time", share(answer.share, answer.share_low, answer.share_high),
		`of CPU time${end}; ${sourceText(app, answer)}`];
}

/** What the row of objects says, as [name, value, small print]. */
function numbers(app, answer) {
	const { isAll } = app.counted();
	const life = isKnown(answer.mean_life_ns) ? duration(answer.mean_life_ns) : "-";
	const span = isAll ? "" : " in the selected time";
	const how = app.exactness();
	const when = isAll ? how : `${how}, of what was allocated in the selected time`;
	const { n_temporary: nTemporary, n_faults: nFaults, n_accesses: nAccesses } = answer;
	const temporary = nTemporary > 0 ? `${count(nTemporary)} of them temporary; ` : "";
	return [
		["blocks", count(answer.n_blocks ?? 0), temporary + when],
		["bytes", bytes(answer.bytes ?? 0), `asked for in all, ${when}`],
		["peak", bytes(answer.peak_bytes ?? 0), `live at once${span}, ${how}`],
		["not freed", bytes(answer.live_bytes ?? 0), `at the end, ${when}`],
		["mean life", life, "of a byte, until it was freed or the end"],
		timeCard(app, answer),
		nFaults > 0 && ["page faults", count(nFaults), "source faults, unit page faults"],
		nAccesses > 0
			&& ["accesses", count(nAccesses), "samples that have the exact address"],
		answer.latency
			&& ["latency", cyclesText(answer.latency), "mean of the sampled accesses"],
	].filter(Boolean);
}

function cards(rows) {
	const card = ([name, value, small]) => h("div", { class: "card" },
		h("dt", {}, name), h("dd", {}, value), h("dd", { class: "small" }, small));
	return h("dl", { class: "cards" }, rows.map(card));
}

function blockText({ id, size, address: start, allocated_ns: allocation, freed_ns: freed }) {
	const end = isKnown(freed) ? `freed at ${moment(freed)}` : "not freed";
	return `Block ${id}: ${bytes(size)} at ${address(start)}, `
		+ `allocated at ${moment(allocation)}, ${end}.`;
}

/**
 * What a bucket of `histogram` holds: from 2^power to below twice that; -1 is 0, -2 a block that
 * was not freed.
 */
export function log2Text(power, unit) {
	if (power === -2)
		return "not freed";
	return power === -1 ? unit(0) : `${unit(2 ** power)} to ${unit(2 ** (power + 1))}`;
}

function logList(caption, rows, key, unit) {
	const bar = (row) => ({
		label: log2Text(row[key], unit), value: row.n, text: count(row.n) });
	return rows.length ? barList(caption, rows.map(bar)) : "";
}

const WRITES_HELP = "; the coloured upper part are writes, below are reads and what is not known";

function timeColumn(row, where) {
	return { first: row.time_ns, second: 0, title: `${where}: ${duration(row.time_ns)}` };
}

function accessColumn({ n, n_writes: writes }, where) {
	return { first: n - writes, second: writes,
		title: `${where}: ${count(n)}, ${count(writes)} of them writes` };
}

/** CPU time by offset where a source charged it, and exact accesses and page faults. */
function offsetColumns(app, answer) {
	const rows = rowsOf(answer.offsets);
	const size = answer.heat?.size ?? answer.block?.size ?? 0;
	const { dark, blockEdge } = app.theme();
	const ends = { low: "0", high: `+${bytes(size)}` };
	const step = rows.length > 1 ? rows[1].offset - rows[0].offset : size || 1;
	const where = ({ offset }) => `+${bytes(offset)} to +${bytes(offset + step)}`;
	const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
	const columns = (caption, column, colours) =>
		barColumns(caption, rows.map((row) => column(row, where(row))), ends, colours);
	const [time, n] = [sum("time_ns"), sum("n")];
	const charged = `${duration(time)} charged, in ${bytes(size)}`;
	const nFaults = sum("n_faults");
	const counted = `${count(n)}${sum("n_writes") > 0 ? WRITES_HELP : ""}`;
	const faultColumn = (row, at) => ({ first: row.n_faults, second: 0,
		title: `${at}: ${count(row.n_faults)}` });
	return [
		time > 0 ? columns(`CPU time by offset: ${charged}`,
			timeColumn, [categorical(2, dark), ""]) : null,
		n > 0 ? columns(`Exact accesses by offset: ${counted}`,
			accessColumn, [blockEdge, categorical(5, dark)]) : null,
		nFaults > 0 ? columns(`Page faults by offset: ${count(nFaults)}`,
			faultColumn, [categorical(3, dark), ""]) : null,
	];
}

function timeText(ns) {
	return ns > 0 ? duration(ns) : "-";
}

function cyclesText(latency) {
	return `${count(latency)} cycles`;
}

function threadTable(rows) {
	return table("Readers and writers by thread: CPU time charged to them here; "
		+ "exact accesses and page faults, counted",
	["Thread", "CPU time", "Reading", "Writing", "Reads", "Writes", "Not known",
		"Page faults"],
	rows.map((row) => [
		String(row.name || row.thread),
		timeText(row.time_ns), timeText(row.time_read_ns), timeText(row.time_write_ns),
		count(row.n_reads), count(row.n_writes), count(row.n_unknown),
		count(row.n_faults),
	]), [1, 2, 3, 4, 5, 6, 7]);
}

function levelTable(rows) {
	return table("Levels that the accesses were answered from",
		["Level", "Accesses", "Mean latency"],
		rows.map(({ level, n, latency }) => [
			level || "not known", count(n),
			isKnown(latency) ? cyclesText(latency) : "-",
		]), [1, 2]);
}

/* A row opens for its source text. */
function instructionTable(app, rows) {
	const kinds = { 0: "read", 1: "write" };
	const grid = createGrid({
		caption: "Instructions that touch it", part: 20, columns: [
			{ key: "function", title: "Function", isWide: true, cell: (row) =>
				oneLine(row.function || "?", h("code", {}, row.function || "?")) },
			{ key: "file", title: "Place", cell: ({ file, line }) => (file
				? `${fileName(file)}${line ? `:${line}` : ""}` : "-") },
			{ key: "is_write", title: "As",
				cell: (row) => kinds[row.is_write] ?? "not known" },
			numberColumn("time_ns", "CPU time", (row) => timeText(row.time_ns)),
			numberColumn("n", "Counted", (row) => count(row.n)),
		],
		detail: (row) => sourceBox(app, row),
	});
	grid.show(rows);
	return grid.element;
}

function blockTable(app, rows, total) {
	const all = plural(total, "block");
	const caption = total > rows.length ? `${count(rows.length)} of ${all}` : all;
	const cells = ({ id, address: start, size, n_samples: n,
		allocated_ns: allocation, freed_ns: freed }) => [
		h("a", { href: app.link({ block: id }) }, String(id)),
		h("code", {}, address(start)), bytes(size), moment(allocation),
		freed === null ? "not freed" : moment(freed),
		freed === null ? "-" : duration(freed - allocation), count(n),
	];
	return table(caption,
		["Block", "Address", "Size", "Allocated", "Freed", "Life", "Counted"],
		rows.map(cells), [2, 3, 4, 5, 6]);
}

/** The state of the memory page that shows a block from edge to edge. */
async function zoomTo(app, block) {
	const asked = { run: app.runId, process: app.processId };
	const axis = createAxis(rowsOf(await app.ask("bands", asked)));
	const y = axis.placeOf(block.address);
	const to = block.freed_ns ?? app.duration;
	const room = Math.max((to - block.allocated_ns) * 0.05, 500);
	app.set({ page: "memory", block: block.id,
		from: Math.round(Math.max(0, block.allocated_ns - room)),
		to: Math.round(Math.min(app.duration, to + room)),
		low: y === null ? null : Math.max(0, y - block.size),
		high: y === null ? null : Math.min(axis.height, y + 2 * block.size) });
}

/** Links to the objects before and after, as [text, changes of the state]. */
async function neighbours(app, answer) {
	const { block, site } = app.state;
	const asked = { run: app.runId, ...app.part() };
	const change = (name) => (id) => (id === null ? null : { [name]: id });
	if (block) {
		const whole = site ? await app.ask("object", { ...asked, site }) : answer;
		const ids = rowsOf(whole.blocks).map(({ id }) => id);
		return around(ids, Number(block)).map(change("block"));
	}
	const order = { sort: "share", descending: 1, limit: 500 };
	const all = await app.ask("objects", { ...asked, ...order });
	const sites = rowsOf(all.rows).map((row) => row.site).filter((id) => id !== null);
	return around(sites, Number(site)).map(change("site"));
}

function around(ids, id) {
	const i = ids.indexOf(id);
	return i < 0 ? [null, null] : [ids[i - 1] ?? null, ids[i + 1] ?? null];
}

export function create(root, app) {
	const retry = () => {
		shownOf = "";
		update(app.state);
	};
	const head = createPane(root, "Object", "", retry);
	const title = head.element.querySelector("h2");
	const heatPane = createPane(root, "Offset × time", HEAT_HELP, retry);
	const shapes = createPane(root, "Sizes, lives and offsets", "", retry);
	const users = createPane(root, "Who touches it", "", retry);
	const blocks = createPane(root, "Blocks", "", retry);
	const others = [heatPane, shapes, users, blocks];
	let shownOf = "";
	let heat = null;

	function drawHead(answer, state) {
		const name = objectName(answer);
		title.textContent = name;
		document.title = `${name} - memsight`;
		const { block } = answer;
		const site = answer.site ?? state.site;
		const show = () => (block ? zoomTo(app, block) : app.set({ page: "memory" }));
		head.tools.replaceChildren(
			state.block && site ? h("a", {
				class: "button", href: app.link({ block: null, site }) },
			"All blocks of this site") : "",
			h("button", { type: "button", id: "show-in-picture", onclick: show },
				"Show in time × address"));
		head.body.replaceChildren(...[
			block ? h("p", { class: "what" }, blockText(block)) : null,
			cards(numbers(app, answer)),
			answer.stack?.length
				? h("div", {}, h("h3", {}, "Allocated at"),
					stackList(app, answer.stack))
				: h("p", { class: "muted" }, "No call stack was recorded for it."),
		].filter(Boolean));
	}

	async function drawNeighbours(answer) {
		const links = h("span", { class: "neighbours" });
		const off = { class: "button off", "aria-disabled": "true" };
		const link = (text, changes) => (changes
			? h("a", { class: "button", href: app.link(changes) }, text)
			: h("span", off, text));
		head.tools.append(links);
		try {
			const [before, after] = await neighbours(app, answer);
			links.replaceChildren(link("‹ Previous", before), link("Next ›", after));
		} catch {
			links.remove(); // an exported file may not hold the list
		}
	}

	function drawHeat(answer) {
		const { heat: given } = answer;
		const isPart = given && given.to > given.from;
		const span = isPart ? { from: given.from, to: given.to } : app.counted();
		const isThere = given?.width > 0 && given.size > 0;
		heat = isThere ? createHeat(given, span, app.theme) : null;
		if (!heat || heat.sum === 0) {
			heat = null;
			return heatPane.empty("No sample saw it being touched between "
				+ `${interval(span.from, span.to)}. That does not mean that nobody `
				+ "touched it: sources take samples.");
		}
		heatPane.ready();
		heatPane.body.replaceChildren(heat.element);
		heat.draw();
	}

	function drawShapes(answer) {
		const sizes = rowsOf(answer.sizes);
		const lives = rowsOf(answer.lives);
		const parts = [
			...offsetColumns(app, answer),
			logList("Blocks by size", sizes, "size_log2", bytes),
			logList("Blocks by life", lives, "life_log2", duration),
		].filter(Boolean);
		if (parts.length === 0)
			return shapes.empty("No block and no touch to count.");
		shapes.ready();
		shapes.body.replaceChildren(h("div", { class: "columns-of" }, parts));
	}

	function drawUsers(answer) {
		const threads = rowsOf(answer.threads);
		const levels = rowsOf(answer.levels);
		const instructions = rowsOf(answer.instructions);
		users.foot.textContent = app.run.has_levels ? "" : "Levels and latencies: "
			+ "no source of this run has them (they need PEBS, IBS or SPE).";
		const parts = [
			threads.length ? threadTable(threads) : "",
			levels.length ? levelTable(levels) : "",
			instructions.length ? instructionTable(app, instructions) : "",
		].filter(Boolean);
		if (parts.length === 0)
			return users.empty("No sample saw who touches it.");
		users.ready();
		users.body.replaceChildren(h("div", { class: "columns-of wide" }, parts));
	}

	function drawBlocks(answer) {
		const rows = rowsOf(answer.blocks);
		if (rows.length === 0)
			return blocks.empty("No block of it is in the selected time.");
		blocks.ready();
		blocks.body.replaceChildren(blockTable(app, rows, answer.n_blocks ?? rows.length));
	}

	function hideOthers(isHidden) {
		others.forEach((pane) => { pane.element.hidden = isHidden; });
	}

	async function update(state) {
		const { block } = state;
		const site = block ? null : state.site;
		const wanted = { run: app.runId, site, block, ...app.names(), ...app.part() };
		const key = JSON.stringify([wanted, app.theme().dark]);
		if (!site && !block) {
			hideOthers(true);
			return head.empty("No object is chosen: "
				+ "click one in the picture or in the table of objects.");
		}
		if (key === shownOf)
			return heat?.draw();
		shownOf = key;
		others.forEach((pane) => pane.busy("Counting …"));
		hideOthers(app.isStored);
		delete head.element.dataset.object;
		if (!app.isStored)
			await head.show(app.ask("object", { ...wanted, limit: 0 }, head),
				(answer) => drawHead(answer, state));
		if (shownOf !== key)
			return;
		if (!app.isStored && head.element.dataset.state === "fault")
			hideOthers(true);
		else
			await drawRest(wanted, key, state);
	}

	/* What must be counted from rows takes longer. */
	async function drawRest(wanted, key, state) {
		const whole = app.ask("object", wanted, heatPane);
		const show = (pane, draw) => pane.show(whole, (answer) => {
			hideOthers(false);
			draw(answer);
		}, "Counting …");
		await Promise.all([
			app.isStored ? head.show(whole, (answer) => drawHead(answer, state)) : null,
			show(heatPane, drawHeat), show(shapes, drawShapes),
			show(users, drawUsers), show(blocks, drawBlocks),
		]);
		const answer = await whole.catch(() => null);
		if (!answer || shownOf !== key)
			return;
		drawNeighbours(answer);
		const { block, site } = state;
		head.element.dataset.object = block ? `block ${block}` : `site ${site}`;
	}
	return { update };
}
