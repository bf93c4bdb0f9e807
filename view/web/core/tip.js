/**
 * The box beside the pointer: what is there.
 */
import { h } from "memsight/dom";
import { address, bytes, count, isKnown, moment, place } from "memsight/format";

/** Rows of [name, value] become a list; what has no value is left out. */
function list(rows) {
	const isSaid = ([, value]) => isKnown(value) && value !== "";
	return h("dl", {}, rows.filter(isSaid)
		.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function innermost(stack) {
	const isNamed = (frame) => frame.function || frame.file;
	const frames = (stack ?? []).filter(isNamed);
	return frames.find((frame) => frame.is_folded !== 1) ?? frames[0] ?? null;
}

function sampleText(samples, wanted, threadName) {
	const rows = samples?.columns ?? {};
	const n = samples?.n ?? 0;
	if (n === 0)
		return null;
	const i = Math.max(0, wanted === null ? 0 : (rows.id ?? []).indexOf(wanted));
	const of = (key) => rows[key]?.[i];
	const how = { 0: "read", 1: "write" }[of("is_write")] ?? "touch";
	const latency = of("latency") ? `${count(of("latency"))} cycles` : "";
	const extra = [of("level"), latency].filter(Boolean).join(", ");
	const where = place({ function: of("function"), file: of("file"), line: of("line") });
	return {
		text: `${how} by ${where}${extra ? ` (${extra})` : ""}`,
		thread: of("thread") ? threadName(of("thread")) : null,
		source: of("source"), offset: of("offset"),
	};
}

function objectText(answer) {
	if (answer.owner !== "heap")
		return [answer.owner, answer.kind].filter(Boolean).join(", ");
	if (answer.id === null)
		return "heap, no block lives here";
	return `block of ${bytes(answer.size ?? 0)}`;
}

function offsetText({ owner, id, offset, size }) {
	const isBetween = owner === "heap" && id === null;
	return isBetween || !isKnown(offset) ? null : `${count(offset)} of ${count(size)} bytes`;
}

function lifeText({ allocated_ns: allocation, freed_ns: freed }) {
	if (!isKnown(allocation))
		return null;
	return `${moment(allocation)} to ${freed === null ? "the end" : moment(freed)}`;
}
/**
 * What is known about a place as rows.
 *
 * @param {{ time: number, step: number, address: number, band: string, n: number|null,
 *   category: string|null, sample: number|null }} here
 * @param {Object|null} answer  of `at`, null while it is not there
 * @param {(id: number) => string} threadName  of a thread.id
 */
export function tipRows(here, answer, threadName) {
	const rows = [
		["time", moment(here.time, here.step)],
		["address", `${address(here.address)} in ${here.band}`],
	];
	if (here.n !== null) {
		const touches = `${count(here.n)} touches, most: ${here.category}`;
		rows.push(["cell", here.n > 0 ? touches : "no touches"]);
	}
	if (!answer)
		return [...rows, ["object", here.name ?? "…"]];
	const sample = sampleText(answer.samples, here.sample, threadName);
	const frame = innermost(answer.stack);
	const { thread } = answer;
	return [...rows,
		["object", objectText(answer)],
		["site", frame ? place(frame) : null],
		["offset", offsetText(answer)],
		["lives", lifeText(answer)],
		["allocated by", thread === null ? null : `thread ${threadName(thread)}`],
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
			const beside = (at, size, room) =>
				(at + 16 + size < room ? at + 16 : Math.max(0, at - size - 16));
			const left = beside(at.x, width, parent.clientWidth);
			const top = beside(at.y, height, parent.clientHeight);
			element.style.left = `${left}px`;
			element.style.top = `${top}px`;
		},
		hide() { element.hidden = true; },
		isShown: () => !element.hidden,
	};
}
