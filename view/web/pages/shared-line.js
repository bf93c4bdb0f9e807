/**
 * Who touched which bytes of a cache line: what the page "Sharing" shows of a row.
 */
import { createAxis } from "memsight/axis";
import { rowsOf } from "memsight/data";
import { h } from "memsight/dom";
import { count, plural } from "memsight/format";

const LINE = 64;
const STEP = 8; // bytes of a cell

/* Points of the picture in the line, by thread and by cell. */
function countPoints({ points }, low) {
	const threads = new Map();
	for (const { y, thread, is_write: isWrite } of rowsOf(points)) {
		const none = Array.from({ length: LINE / STEP }, () => [0, 0]);
		const cells = threads.get(thread) ?? none;
		cells[Math.floor((y - low) / STEP)][isWrite === 1 ? 1 : 0]++;
		threads.set(thread, cells);
	}
	return threads;
}

function cellText([reads, writes]) {
	const words = [writes ? plural(writes, "write") : "",
		reads ? plural(reads, "other touch", "other touches") : ""];
	return words.filter(Boolean).join(", ");
}

function tableOf(app, threads) {
	const names = new Map(rowsOf(app.run.threads).map(({ id, tid, name }) => [id, name
		? `${name} (${tid})` : `thread ${tid}`]));
	const ends = Array.from({ length: LINE / STEP }, (_, i) => i * STEP);
	const cell = (one) => h("td", { class: one[0] + one[1] ? "touched" : null,
		title: cellText(one) }, one[0] + one[1] ? cellText(one) : "");
	const row = ([thread, cells]) => h("tr", {},
		h("th", { scope: "row" }, names.get(thread) ?? `thread ${thread}`),
		cells.map(cell));
	return h("table", { class: "line-table" },
		h("caption", {}, "Sampled touches of the line, by its bytes and by thread"),
		h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Thread"),
			ends.map((at) => h("th", { scope: "col" },
				`+${at} to +${at + STEP - 1}`)))),
		h("tbody", {}, [...threads].map(row)));
}

async function load(app, address, process, holder) {
	const asked = { run: app.runId, process };
	const axis = createAxis(rowsOf(await app.ask("bands", asked)));
	const low = axis.placeOf(address);
	if (low === null)
		throw new Error("The picture does not reach to this line.");
	const { from, to } = app.span();
	const picture = await app.ask("picture", { ...asked, by: "thread", from, to, low,
		high: low + LINE, width: 1, height: 1 });
	const threads = countPoints(picture, low);
	const more = `${count(picture.n_samples)} touches are too many to show one by one.`;
	holder.replaceChildren(threads.size ? tableOf(app, threads)
		: h("p", { class: "muted" }, picture.n_samples ? more
			: "No touch of it is in the selected time."));
}

/** @param {string[]} names  of the columns of --sharing @param {Array} values  of a row */
export function lineDetail(app, names, values) {
	const of = (name) => values[names.indexOf(name)];
	const holder = h("div", { class: "line-detail" }, "Loading …");
	const thread = rowsOf(app.run.threads).find(({ tid }) => tid === of("thread"));
	load(app, Number(of("line")), thread?.process_id ?? app.processId, holder).catch((error) =>
		holder.replaceChildren(h("p", { class: "muted" }, error.message)));
	return holder;
}
