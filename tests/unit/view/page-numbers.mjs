/*
 * Prints numbers as the page has them, for numbers.py: `node page-numbers.mjs FOLDER`, where the
 * page's format.mjs and axis.mjs lie. Lines of stdin are those of print-numbers.c.
 */
import { readFileSync } from "node:fs";

const [, , folder] = process.argv;
const format = await import(`${folder}/format.mjs`);
const axis = await import(`${folder}/axis.mjs`);
const PIXELS = 90; // of a moment on the page's axis

const known = (text) => text === "nan" ? null : Number(text);
const lines = readFileSync(0, "utf8").trim().split("\n").map((line) => {
	const [kind, ...words] = line.split(" ");
	const values = words.map(known);
	if (kind === "ticks") {
		const [from, to, n] = values;
		return axis.timeTicks(from, to, PIXELS * n).map(({ at }) => at).join(" ");
	}
	return format[kind](...values);
});
process.stdout.write(lines.join("\n") + "\n");
