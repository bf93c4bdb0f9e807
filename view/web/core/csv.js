/**
 * Tables as files: CSV with numbers as they are stored (bytes, ns, shares from 0 to 1), as
 * `memsight report --format csv` has them.
 */
import { isKnown } from "memsight/format";
import { runName } from "memsight/run-name";

/** As many rows as a request can ask for. */
export const MOST_ROWS = 100000;

/* RFC 4180; what a spreadsheet would take for a formula begins with a quote. */
function field(value) {
	if (!isKnown(value))
		return "";
	const text = typeof value === "number" ? String(value)
		: String(value).replace(/^[=+@-]/, "'$&");
	return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string[]} names @param {Array[]} rows  of values in the order of the names */
export function csvText(names, rows) {
	return [names, ...rows].map((row) => row.map(field).join(",") + "\r\n").join("");
}

/* "app.mst-leaks-0.20-0.50s.csv": of which run, and of which part of it. */
function fileName(app, what) {
	const run = app.runs.find(({ id }) => id === app.runId);
	const { from, to, isAll } = app.counted();
	const part = isAll ? "" : `-${app.format.interval(from, to).replace(" ", "")}`;
	return `${runName(app.runs, run)}-${what}${part}.csv`;
}

/**
 * What a grid's button does.
 *
 * @param {string} what  is saved, for the file's name
 * @param {() => Promise<[string[], Array[]]>|[string[], Array[]]} read  names and rows
 */
export function saver(app, what, read) {
	return async () => {
		const text = csvText(...await read());
		const link = document.createElement("a");
		link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
		link.download = fileName(app, what);
		link.click();
		setTimeout(() => URL.revokeObjectURL(link.href), 1000);
	};
}
