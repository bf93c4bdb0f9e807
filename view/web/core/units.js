/**
 * Values with their unit, and the interval of a share, in the words of the reports.
 */
import { bytes, count, duration, isKnown, percent, share } from "memsight/format";

const WRITERS = { bytes, ns: duration, "/s": perSecond };

/** "12.3 /s", "4.56 k/s", "7.89 M/s" */
function perSecond(value) {
	const names = ["", "k", "M", "G", "T"];
	let name = 0;
	while (Math.abs(value) >= 999.5 && name < names.length - 1) {
		value /= 1000;
		name++;
	}
	return `${Number(value.toPrecision(3))} ${names[name]}/s`;
}

/** 3 digits of a number that need not be whole: 1,234  12.3  0.0123 */
export function number(value) {
	if (Number.isInteger(value) || Math.abs(value) >= 1000)
		return count(value);
	return value === 0 ? "0" : String(Number(value.toPrecision(3)));
}

/** "1.21 GiB", "310 ns", "4,210 page faults"; null: "-". */
export function valueText(value, unit) {
	if (value === null || value === undefined || Number.isNaN(value))
		return "-";
	return WRITERS[unit] ? WRITERS[unit](value) : `${number(value)} ${unit ?? ""}`.trim();
}

/** The same with a sign, for changes: "+1.21 GiB", "−310 ns". */
export function changeText(value, unit) {
	if (value === 0)
		return valueText(0, unit);
	return (value > 0 ? "+" : "\u2212") + valueText(Math.abs(value), unit);
}

/**
 * Half the width of the 95 % interval of a share of n samples, as format_half_width() of
 * common/human-number.c has it for samples that lie in a frame or do not: with two samples of each
 * kind added (Agresti and Coull, 1998).
 */
export function halfWidth(share, n) {
	if (!(n > 0))
		return 1;
	const mean = (share * n + 2) / (n + 4);
	return 1.96 * Math.sqrt(mean * (1 - mean) / (n + 4));
}

/** "41.3 ±0.9 %" of samples, "30.1-60.4 %" of few, "41.3 %" of what is counted (n null). */
export function shareText(part, n = null) {
	const half = halfWidth(part, n);
	return isKnown(n) ? share(part, part - half, part + half) : percent(part);
}

/**
 * Where a share lies, as report --flat has it: [low, high] of a sum of sites of which some are
 * known by their ends only, null where the sum is known. `sum` has what the answer "flame" tells of
 * a node's ends, or is null.
 */
export function rangeOf(sum, clockNs, n) {
	if (!sum?.n_unknown)
		return null;
	const told = sum.n_sites > 1 ? sum.told / clockNs - halfWidth(sum.n_told / n, n) : 0;
	return [Math.max(0, sum.low / clockNs, told), Math.min(1, sum.high / clockNs)];
}

/** A moment as reports write it: "1.420 s". */
export function seconds(ns) {
	return `${(ns / 1e9).toFixed(3)} s`;
}

/** A moment to some thousandth of `span`, as people type it: "1.42 s". */
export function shortMoment(ns, span) {
	const decimals = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(span / 1e9))));
	return `${Number((ns / 1e9).toFixed(decimals))} s`;
}

/** "1.5 ms", "0.2", "200us" as ns; a bare number is seconds. NaN: not a time. */
export function parseDuration(text) {
	const units = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10 };
	const found = /^\s*(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|min)?\s*$/.exec(text);
	return found ? Math.round(Number(found[1]) * units[found[2] ?? "s"]) : NaN;
}

/**
 * The steps of an axis that people count in, around `wanted` of them: 0, 20, 40 ...; of bytes in
 * powers of two.
 */
export function niceSteps(low, high, wanted, unit = "") {
	const raw = (high - low) / Math.max(wanted, 1);
	if (!(raw > 0))
		return [low];
	const power = 10 ** Math.floor(Math.log10(raw));
	const step = unit === "bytes" ? Math.max(1, 2 ** Math.ceil(Math.log2(raw)))
		: [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
	const first = Math.ceil(low / step - 1e-9);
	const last = Math.floor(high / step + 1e-9);
	return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

/** Texts of such steps; where three digits do not tell them apart, all digits. */
export function stepTexts(steps, unit) {
	const texts = steps.map((step) => valueText(step, unit));
	if (new Set(texts).size === texts.length)
		return texts;
	const exact = (step) => Number(step.toPrecision(12))
		.toLocaleString("en", { maximumFractionDigits: 9 });
	return steps.map((step) => `${exact(step)} ${unit === "bytes" ? "B" : unit}`.trim());
}
