/**
 * The only place that the page gets its data from: the server (GET api/NAME?...), or the answers
 * that an exported file holds. schemas/view.def says what can be asked and what is answered.
 */

/** A request was taken back because a newer one of the same slot came. Not to be shown. */
export class Outdated extends Error {}

/** An error with a line that a person can act on. */
export class Refused extends Error {
	constructor(message, status) {
		super(message);
		this.status = status;
	}
}

/** What tells answers apart; all other parameters say how much of it, and the nearest serves. */
const IDENTITY = [
	"run", "process", "source", "site", "block", "by", "inverse", "a", "b", "address", "filter",
	"kind",
];

/** "NAME?a=1&b=2", parameters sorted by name, those without a value left out. */
export function requestText(name, parameters = {}) {
	const pairs = Object.entries(parameters)
		.filter(([, value]) => value !== null && value !== undefined && value !== "")
		.map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
		.sort();
	return pairs.length ? `${name}?${pairs.join("&")}` : name;
}

function parseRequest(text) {
	const [name, query = ""] = text.split("?");
	return { name, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * How far a stored span lies from the one asked for: 0 the same, then how much wider, then how much
 * is missing.
 */
function spanDistance(asked, stored, low, high) {
	const all = 2 ** 53;
	const a = [Number(asked[low] ?? 0), Number(asked[high] ?? all)];
	const b = [Number(stored[low] ?? 0), Number(stored[high] ?? all)];
	const width = Math.max(a[1] - a[0], 1);
	const missing = Math.max(0, b[0] - a[0]) + Math.max(0, a[1] - b[1]);
	return missing > 0 ? 1e6 * (1 + missing / width) : Math.log((b[1] - b[0] || 1) / width);
}

function isSame(asked, stored, keys = IDENTITY) {
	return keys.every((key) => String(asked[key] ?? "") === String(stored[key] ?? ""));
}

function distance(asked, stored) {
	if (!isSame(asked, stored))
		return Infinity;
	const cells = (Number(stored.width) || 1) * (Number(stored.height) || 1);
	const finer = Math.log(cells) / 1000;
	const inTime = spanDistance(asked, stored, "from", "to");
	const inAddress = spanDistance(asked, stored, "low", "high");
	return inTime + inAddress - finer;
}

/** The stored request that serves best, or null. */
function nearest(requests, wanted) {
	const { name, parameters } = parseRequest(wanted);
	let best = null;
	let least = Infinity;
	for (const stored of requests) {
		const isOther = stored.name !== name;
		const far = isOther ? Infinity : distance(parameters, stored.parameters);
		if (far < least) {
			least = far;
			best = stored;
		}
	}
	return best;
}

function fromStored({ answers, requests }, wanted) {
	if (wanted in answers)
		return answers[wanted];
	const found = nearest(requests, wanted);
	if (found === null)
		throw new Refused("This file does not hold that: "
			+ "open the database with memsight view to see it.", 404);
	return { ...answers[found.text], stored: found.parameters };
}

const MOST_PARTS = 12;

function overlaps(asked, stored, low, high) {
	return Number(stored[low]) < Number(asked[high])
		&& Number(stored[high]) > Number(asked[low]);
}

/**
 * Stored pictures of parts that lie in a rectangle, all of one size: the smallest one of which a
 * few are enough.
 */
function findParts({ answers, requests }, name, asked) {
	const bySize = new Map();
	for (const one of requests) {
		const { parameters } = one;
		if (one.name !== name || !isSame(asked, parameters)
			|| !overlaps(asked, parameters, "from", "to")
			|| !overlaps(asked, parameters, "low", "high"))
			continue;
		const size = Math.round(Math.log2(parameters.to - parameters.from) * 4);
		bySize.set(size, [...bySize.get(size) ?? [], one]);
	}
	const sizes = [...bySize.keys()].filter((size) => bySize.get(size).length <= MOST_PARTS)
		.sort((a, b) => a - b);
	return sizes.length ? bySize.get(sizes[0]).map(({ text }) => answers[text]) : [];
}

/** The answers that the page holds, or null when there is a server to ask. */
function readStored() {
	const element = document.getElementById("memsight-answers");
	if (!element)
		return null;
	const answers = JSON.parse(element.textContent);
	const requests = Object.keys(answers).map((text) => ({ text, ...parseRequest(text) }));
	return { answers, requests };
}

async function fromServer(request, signal) {
	let response;
	try {
		const how = { signal, cache: "no-store", credentials: "omit" };
		response = await fetch("api/" + request, how);
	} catch (error) {
		if (error.name === "AbortError")
			throw new Outdated();
		throw new Refused("The server does not answer. Is memsight view still running? "
			+ "Start it again and reload this page with the address that it prints.",
		0);
	}
	const answer = await response.json().catch(() => ({}));
	const { ok, status } = response;
	if (!ok)
		throw new Refused(answer.error ?? `The server answered with status ${status}.`,
			status);
	return answer;
}

/**
 * @returns {{ ask: (name: string, parameters?: Object, slot?: any) => Promise<any>,
 *   isStored: boolean, holds: (name: string, parameters: Object) => boolean,
 *   parts: (name: string, parameters: Object) => Object[],
 *   about: { run: number, text: string }|null }}
 *   ask: the answer, or throws Refused; with a slot, the request before it in the same slot is
 *   given up and throws Outdated. Answers of an exported file that are not exactly what was asked
 *   for have .stored, the parameters that they were made with. holds: whether an answer with these
 *   parameters can be had at all. parts: answers of an exported file that together cover a
 *   rectangle finer than one does; none when there is a server.
 *   about: what an exported file says that it holds.
 */
export function createData() {
	const stored = readStored();
	const slots = new Map();

	async function ask(name, parameters = {}, slot = null) {
		const request = requestText(name, parameters);
		const control = new AbortController();
		if (slot !== null) {
			slots.get(slot)?.abort();
			slots.set(slot, control);
		}
		const answer = stored
			? await Promise.resolve().then(() => fromStored(stored, request))
			: await fromServer(request, control.signal);
		if (control.signal.aborted)
			throw new Outdated();
		return answer;
	}
	function holds(name, parameters) {
		const keys = Object.keys(parameters);
		return !stored || stored.requests.some((one) => one.name === name
			&& isSame(parameters, one.parameters, keys));
	}
	const parts = (name, parameters) => (stored ? findParts(stored, name, parameters) : []);
	const about = stored?.answers.stored ?? null;
	return { ask, holds, parts, isStored: stored !== null, about };
}

/** Rows of columns: [{ id: 1, name: "a" }, ...]. */
export function rowsOf(table) {
	const names = Object.keys(table?.columns ?? {});
	return Array.from({ length: table?.n ?? 0 }, (_, i) =>
		Object.fromEntries(names.map((name) => [name, table.columns[name][i]])));
}

/* Runs of an exported file: see view/json.h. */
function unpackRuns(packed) {
	let n = 0;
	for (let i = 0; i < packed.length; i += packed[i] < 128 ? packed[i] + 2 : 2)
		n += packed[i] < 128 ? packed[i] + 1 : packed[i] - 126;
	const bytes = new Uint8Array(n);
	for (let i = 0, at = 0; i < packed.length;) {
		const control = packed[i++];
		if (control < 128) {
			bytes.set(packed.subarray(i, i + control + 1), at);
			at += control + 1;
			i += control + 1;
		} else {
			bytes.fill(packed[i++], at, at + control - 126);
			at += control - 126;
		}
	}
	return bytes;
}

function isRuns(text) {
	return text?.[0] === "!";
}

function bytesOf(text) {
	const raw = atob(isRuns(text) ? text.slice(1) : text ?? "");
	const bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++)
		bytes[i] = raw.charCodeAt(i);
	return isRuns(text) ? unpackRuns(bytes) : bytes;
}

/** Packed u8: as they are. */
export const unpack8 = bytesOf;

/** Packed u16: little-endian; of runs all low bytes come first. */
export function unpack16(text) {
	const bytes = bytesOf(text);
	const numbers = new Uint16Array(bytes.length >> 1);
	const [step, high] = isRuns(text) ? [1, numbers.length] : [2, 1];
	for (let i = 0; i < numbers.length; i++)
		numbers[i] = bytes[step * i] | bytes[step * i + high] << 8;
	return numbers;
}
