/**
 * The box beside the pointer: what is there.
 */
import { h } from "memsight/dom";
import { address, bytes, count, moment, place } from "memsight/format";

/** Rows of [name, value] become a list; what has no value is left out. */
function list(rows) {
	return h("dl", {}, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
		.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function innermost(stack) {
	return (stack ?? []).find((frame) => frame.function || frame.file) ?? null;
}

function sampleText(samples, wanted, threadName) {
	const rows = samples?.columns ?? {};
	const n = samples?.n ?? 0;
	if (n === 0)
		return null;
	const i = Math.max(0, wanted === null ? 0 : (rows.id ?? []).indexOf(wanted));
	const write = rows.is_write?.[i];
	const how = write === 1 ? "write" : write === 0 ? "read" : "touch";
	const extra = [rows.level?.[i], rows.latency?.[i] ? `${count(rows.latency[i])} cycles` : ""].filter(Boolean).join(", ");
	const where = place({ function: rows.function?.[i], file: rows.file?.[i], line: rows.line?.[i] });
	return { text: `${how} by ${where}${extra ? ` (${extra})` : ""}`, thread: rows.thread?.[i] ? threadName(rows.thread[i]) : null, source: rows.source?.[i],
		offset: rows.offset?.[i] };
}

/**
 * What is known about a place as rows.
 *
 * @param {{ time: number, step: number, address: number, band: string, n: number|null, category: string|null,
 *   sample: number|null }} here
 * @param {Object|null} answer  of `at`, null while it is not there
 * @param {(id: number) => string} threadName  of a thread.id
 */
export function tipRows(here, answer, threadName) {
	const rows = [["time", moment(here.time, here.step)], ["address", `${address(here.address)} in ${here.band}`]];
	if (here.n !== null)
		rows.push(["cell", here.n > 0 ? `${count(here.n)} touches, most: ${here.category}` : "no touches"]);
	if (!answer)
		return [...rows, ["object", here.name ?? "…"]];
	const sample = sampleText(answer.samples, here.sample, threadName);
	const isBlock = answer.owner === "heap" && answer.id !== null;
	const frame = innermost(answer.stack);
	return [...rows,
		["object", isBlock ? `block of ${bytes(answer.size ?? 0)}` : answer.owner === "heap" ? "heap, no block lives here" : [answer.owner, answer.kind].filter(Boolean).join(", ")],
		["site", frame ? place(frame) : null],
		["offset", !isBlock && answer.owner === "heap" || answer.offset === null || answer.offset === undefined ? null : `${count(answer.offset)} of ${count(answer.size)} bytes`],
		["lives", answer.birth_ns === null || answer.birth_ns === undefined ? null
			: `${moment(answer.birth_ns)} to ${answer.death_ns === null ? "the end" : moment(answer.death_ns)}`],
		["allocated by", answer.thread === null ? null : `thread ${threadName(answer.thread)}`],
		["nearest", sample?.text],
		["thread", sample?.thread], ["source", sample?.source]];
}

/** @returns {{ show(at, rows), hide(), isShown() }}  at: pixels of the parent */
export function createTip(parent) {
	const element = h("div", { class: "tip", hidden: true });
	parent.append(element);
	return {
		show(at, rows) {
			element.replaceChildren(list(rows));
			element.hidden = false;
			const width = element.offsetWidth;
			const height = element.offsetHeight;
			const left = at.x + 16 + width < parent.clientWidth ? at.x + 16 : Math.max(0, at.x - width - 16);
			const top = at.y + 16 + height < parent.clientHeight ? at.y + 16 : Math.max(0, at.y - height - 16);
			element.style.left = `${left}px`;
			element.style.top = `${top}px`;
		},
		hide() { element.hidden = true; },
		isShown: () => !element.hidden,
	};
}
