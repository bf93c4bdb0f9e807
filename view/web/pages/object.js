/**
 * The page of an object: a call site with all its blocks, or one block.
 */
import { createAxis } from "memsight/axis";
import { barColumns, barList } from "memsight/bars";
import { rowsOf } from "memsight/data";
import { h, table } from "memsight/dom";
import { address, bytes, count, duration, interval, moment, objectName, share } from "memsight/format";
import { createHeat } from "memsight/heat";
import { categorical } from "memsight/palette";
import { createPane } from "memsight/pane";
import { placeButton, stackList } from "memsight/source-text";

const HEAT_HELP = "Where in the block it was touched when: offsets upwards, time to the right. Of a site with many blocks, all are laid "
	+ "over each other. A diagonal is a sweep, a horizontal line a field that is used all the time, an empty part is memory that no "
	+ "sample saw in use.";

/**
 * What a share of time is of: "6,882 of n = 21,502 samples; source clock, unit ns of user CPU
 * time".
 */
function sourceText(app, answer) {
	const source = rowsOf(app.run.sources).find(({ measures, n_samples: n }) => measures === "time" && n > 0);
	const { isAll } = app.span();
	const n = answer.share > 0 ? answer.n_samples / answer.share : isAll ? source?.n_samples : null;
	return `${count(answer.n_samples ?? 0)} of ${n ? `n = ${count(n)} samples` : "the samples"}${
		source ? `; source ${source.name}, unit ${source.unit}` : ""}`;
}

/** What the row of objects says, as [name, value, small print]. */
function numbers(app, answer) {
	const life = answer.mean_life_ns;
	const span = app.span().isAll ? "" : " in the selected time";
	const when = app.span().isAll ? "exact" : "exact, of what was allocated in the selected time";
	return [
		["blocks", count(answer.n_blocks ?? 0), answer.n_temporary > 0 ? `${count(answer.n_temporary)} of them temporary; ${when}` : when],
		["bytes", bytes(answer.bytes ?? 0), `asked for in all, ${when}`],
		["peak", bytes(answer.peak_bytes ?? 0), `live at once${span}, exact`],
		["not freed", bytes(answer.live_bytes ?? 0), `at the end, ${when}`],
		["mean life", life === null || life === undefined ? "-" : duration(life), "of a byte, until it was freed or the end"],
		(answer.share ?? answer.share_high ?? null) === null ? ["time", "-", "no sample of CPU time"]
			: ["time", share(answer.share, answer.share_low, answer.share_high),
				`of CPU time${answer.share > 0 ? " ± 95 % interval" : ", end of the 95 % interval"}; ${sourceText(app, answer)}`],
		answer.n_faults > 0 ? ["page faults", count(answer.n_faults), "source faults, unit page faults"] : null,
		answer.n_accesses > 0 ? ["accesses", count(answer.n_accesses), "samples that have the exact address"] : null,
		answer.latency ? ["latency", `${count(answer.latency)} cycles`, "mean of the sampled accesses"] : null,
	].filter(Boolean);
}

function cards(rows) {
	return h("dl", { class: "cards" }, rows.map(([name, value, small]) => h("div", { class: "card" }, h("dt", {}, name),
		h("dd", {}, value), h("dd", { class: "small" }, small))));
}

function blockText(block) {
	const end = block.death_ns === null || block.death_ns === undefined ? "not freed" : `freed at ${moment(block.death_ns)}`;
	return `Block ${block.id}: ${bytes(block.size)} at ${address(block.address)}, allocated at ${moment(block.birth_ns)}, ${end}.`;
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
	return rows.length ? barList(caption, rows.map((row) => ({ label: log2Text(row[key], unit), value: row.n, text: count(row.n) }))) : "";
}

/** CPU time by offset where a source charged it, and exact accesses and page faults. */
function offsetColumns(app, answer) {
	const rows = rowsOf(answer.offsets);
	const size = answer.heat?.size ?? answer.block?.size ?? 0;
	const dark = app.theme().dark;
	const ends = { low: "0", high: `+${bytes(size)}` };
	const step = rows.length > 1 ? rows[1].offset - rows[0].offset : size || 1;
	const where = (offset) => `+${bytes(offset)} to +${bytes(offset + step)}`;
	const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
	return [
		sum("time_ns") > 0 ? barColumns(`CPU time by offset: ${duration(sum("time_ns"))} charged, in ${bytes(size)}`, rows.map((row) => ({
			first: row.time_ns, second: 0, title: `${where(row.offset)}: ${duration(row.time_ns)}` })), ends, [categorical(2, dark), ""]) : null,
		sum("n") > 0 ? barColumns(`Exact accesses and page faults by offset: ${count(sum("n"))}${
			sum("n_writes") > 0 ? "; the coloured upper part are writes, below are reads and what is not known" : ""}`,
			rows.map(({ offset, n, n_writes: writes }) => ({ first: n - writes, second: writes,
				title: `${where(offset)}: ${count(n)}, ${count(writes)} of them writes` })),
			ends, [app.theme().blockEdge, categorical(5, dark)]) : null,
	];
}

function timeText(ns) {
	return ns > 0 ? duration(ns) : "-";
}

function threadTable(rows) {
	return table("Readers and writers by thread: CPU time charged to them here; exact accesses and page faults, counted",
		["thread", "CPU time", "reading", "writing", "reads", "writes", "not known"], rows.map((row) => [String(row.name || row.thread),
			timeText(row.time_ns), timeText(row.time_read_ns), timeText(row.time_write_ns), count(row.n_reads), count(row.n_writes),
			count(row.n_unknown)]), [1, 2, 3, 4, 5, 6]);
}

function levelTable(rows) {
	return table("Levels that the accesses were answered from", ["level", "accesses", "mean latency"], rows.map((row) => [row.level || "not known",
		count(row.n), row.latency === null || row.latency === undefined ? "-" : `${count(row.latency)} cycles`]), [1, 2]);
}

function instructionTable(app, rows) {
	const kinds = { 0: "read", 1: "write" };
	return table("Instructions that touch it", ["function", "place", "as", "CPU time", "counted"], rows.map((row) => [
		h("code", {}, row.function || "?"), placeButton(app, row), kinds[row.is_write] ?? "not known", timeText(row.time_ns), count(row.n)]), [3, 4]);
}

function blockTable(app, rows, total) {
	return table(`Blocks${total > rows.length ? `: ${count(rows.length)} of ${count(total)}` : ""}`,
		["block", "address", "size", "allocated", "freed", "life", "counted"], rows.map((row) => [
			h("a", { href: app.link({ block: row.id }) }, String(row.id)), h("code", {}, address(row.address)), bytes(row.size),
			moment(row.birth_ns), row.death_ns === null ? "not freed" : moment(row.death_ns),
			row.death_ns === null ? "-" : duration(row.death_ns - row.birth_ns), count(row.n_samples)]), [2, 3, 4, 5, 6]);
}

/** The state of the memory page that shows a block from edge to edge. */
async function zoomTo(app, block) {
	const axis = createAxis(rowsOf(await app.ask("bands", { run: app.runId, process: app.processId })));
	const y = axis.placeOf(block.address);
	const to = block.death_ns ?? app.duration;
	const room = Math.max((to - block.birth_ns) * 0.05, 500);
	app.set({ page: "memory", block: block.id, from: Math.round(Math.max(0, block.birth_ns - room)),
		to: Math.round(Math.min(app.duration, to + room)), low: y === null ? null : Math.max(0, y - block.size),
		high: y === null ? null : Math.min(axis.height, y + 2 * block.size) });
}

/** Links to the objects before and after, as [text, changes of the state]. */
async function neighbours(app, answer) {
	const { block, site } = app.state;
	if (block) {
		const whole = site ? await app.ask("object", { run: app.runId, site, ...spanOf(app) }) : answer;
		return around(rowsOf(whole.blocks).map(({ id }) => id), Number(block)).map((id) => (id === null ? null : { block: id }));
	}
	const all = await app.ask("objects", { run: app.runId, sort: "share", descending: 1, limit: 500, ...spanOf(app) });
	const sites = rowsOf(all.rows).map((row) => row.site).filter((id) => id !== null);
	return around(sites, Number(site)).map((id) => (id === null ? null : { site: id }));
}

function around(ids, id) {
	const i = ids.indexOf(id);
	return i < 0 ? [null, null] : [ids[i - 1] ?? null, ids[i + 1] ?? null];
}

function spanOf(app) {
	const { from, to, isAll } = app.span();
	return isAll ? {} : { from, to };
}

export function create(root, app) {
	const retry = () => {
		shownOf = "";
		update(app.state);
	};
	const head = createPane(root, "Object", "", retry);
	const title = head.element.querySelector("h2");
	const heatPane = createPane(root, "Offset × time", HEAT_HELP);
	const shapes = createPane(root, "Sizes, lives and offsets");
	const users = createPane(root, "Who touches it");
	const blocks = createPane(root, "Blocks");
	const others = [heatPane, shapes, users, blocks];
	let shownOf = "";
	let heat = null;

	function drawHead(answer, state) {
		const name = objectName(answer);
		title.textContent = name;
		document.title = `${name} - memsight`;
		const { block } = answer;
		head.tools.replaceChildren(
			state.block && (answer.site ?? state.site) ? h("a", { class: "button", href: app.link({ block: null, site: answer.site ?? state.site }) }, "All blocks of this site") : "",
			h("button", { type: "button", id: "show-in-picture", onclick: () => (block ? zoomTo(app, block) : app.set({ page: "memory" })) },
				"Show in time × address"));
		head.body.replaceChildren(...[block ? h("p", { class: "what" }, blockText(block)) : null, cards(numbers(app, answer)),
			answer.stack?.length ? h("div", {}, h("h3", {}, "Allocated at"), stackList(app, answer.stack)) : h("p", { class: "muted" },
				"No call stack was recorded for it.")].filter(Boolean));
	}

	async function drawNeighbours(answer) {
		const links = h("span", { class: "neighbours" });
		head.tools.append(links);
		try {
			const [before, after] = await neighbours(app, answer);
			links.replaceChildren(...[["‹ Previous", before], ["Next ›", after]].map(([text, changes]) => (changes
				? h("a", { class: "button", href: app.link(changes) }, text) : h("span", { class: "button off", "aria-disabled": "true" }, text))));
		} catch {
			links.remove(); // an exported file may not hold the list
		}
	}

	function drawHeat(answer) {
		const { heat: given } = answer;
		const span = given && given.to > given.from ? { from: given.from, to: given.to } : app.span();
		heat = given?.width > 0 && given.size > 0 ? createHeat(given, span, app.theme) : null;
		if (!heat || heat.sum === 0) {
			heat = null;
			return heatPane.empty(`No sample saw it being touched between ${interval(span.from, span.to)}. That does not mean that nobody `
				+ "touched it: sources take samples.");
		}
		heatPane.ready();
		heatPane.body.replaceChildren(heat.element);
		heat.draw();
	}

	function drawShapes(answer) {
		const sizes = rowsOf(answer.sizes);
		const lives = rowsOf(answer.lives);
		const parts = [...offsetColumns(app, answer), logList("Blocks by size", sizes, "size_log2", bytes),
			logList("Blocks by life", lives, "life_log2", duration)].filter(Boolean);
		if (parts.length === 0)
			return shapes.empty("No block and no touch to count.");
		shapes.ready();
		shapes.body.replaceChildren(h("div", { class: "columns-of" }, parts));
	}

	function drawUsers(answer) {
		const threads = rowsOf(answer.threads);
		const levels = rowsOf(answer.levels);
		const instructions = rowsOf(answer.instructions);
		users.foot.textContent = app.run.has_levels ? "" : "Levels and latencies: no source of this run has them (they need PEBS, IBS or SPE).";
		const parts = [threads.length ? threadTable(threads) : "", levels.length ? levelTable(levels) : "",
			instructions.length ? instructionTable(app, instructions) : ""].filter(Boolean);
		if (threads.length + levels.length + instructions.length === 0)
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

	async function update(state) {
		const wanted = { run: app.runId, site: state.block ? null : state.site, block: state.block, ...spanOf(app) };
		const key = JSON.stringify([wanted, app.theme().dark]);
		if (!state.site && !state.block) {
			others.forEach((pane) => { pane.element.hidden = true; });
			return head.empty("No object is chosen: click one in the picture or in the table of objects.");
		}
		if (key === shownOf)
			return heat?.draw();
		others.forEach((pane) => { pane.element.hidden = true; });
		await head.show(app.ask("object", wanted, head), (answer) => {
			shownOf = key;
			others.forEach((pane) => { pane.element.hidden = false; });
			drawHead(answer, state);
			drawNeighbours(answer);
			drawHeat(answer);
			drawShapes(answer);
			drawUsers(answer);
			drawBlocks(answer);
			head.element.dataset.object = state.block ? `block ${state.block}` : `site ${state.site}`;
		});
	}
	return { update };
}
