/**
 * Numbers as people read them, in the words of common/human-number.c: the page and the terminal say
 * the same.
 */

/** 4,210,233 */
export function count(n) {
	return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/* toFixed() as printf() rounds: what lies exactly between two numbers goes to the even one. */
function fixed(value, decimals) {
	const last = value * 10 ** decimals;
	const isTie = Number.isInteger(value * 2 ** (decimals + 1)) && Math.abs(last % 1) === 0.5;
	const even = 2 * Math.round(last / 2);
	return (isTie ? even / 10 ** decimals : value).toFixed(decimals);
}

/* Three digits, as long as the number has that many. */
function decimalsOf(value) {
	return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

function scaled(value, base, limit, units) {
	let unit = 0;
	while (Math.abs(value) >= limit && unit < units.length - 1) {
		value /= base;
		unit++;
	}
	return `${fixed(value, unit === 0 ? 0 : decimalsOf(Math.abs(value)))} ${units[unit]}`;
}

/** 512 B, 4.10 KiB, 1.21 GiB */
export function bytes(n) {
	return scaled(n, 1024, 1023.5, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
}

/** 310 ns, 1.00 ms, 12.4 s, 3 min 20 s */
export function duration(ns) {
	if (ns / 1e9 >= 119.5)
		return `${Math.floor(ns / 6e10)} min ${Math.floor(ns / 1e9 + 0.5) % 60} s`;
	return scaled(ns, 1000, 999.5, ["ns", "us", "ms", "s"]);
}

/** A moment since the start of the run, exact enough to tell it from one `step` later. */
export function moment(ns, step = 0) {
	const isAbout = (least, whole) => step >= least || step === 0 && ns >= whole;
	const [unit, size] = isAbout(1e7, 1e9) ? ["s", 1e9] : isAbout(1e4, 1e6) ? ["ms", 1e6]
		: isAbout(10, -Infinity) ? ["us", 1e3] : ["ns", 1];
	const digits = Math.ceil(-Math.log10(step / size) - 1e-9);
	const decimals = step > 0 ? Math.max(0, Math.min(9, digits)) : 3;
	return `${(ns / size).toFixed(decimals)} ${unit}`;
}

/** 0.2-12.1 s */
export function interval(fromNs, toNs) {
	const span = (toNs - fromNs) / 1e9;
	const decimals = span >= 10 ? 1 : span >= 0.1 ? 2 : span >= 0.01 ? 3 : span >= 1e-5 ? 6 : 9;
	return `${fixed(fromNs / 1e9, decimals)}-${fixed(toNs / 1e9, decimals)} s`;
}

/** False for null and undefined: what the database does not know. */
export function isKnown(value) {
	return value !== null && value !== undefined;
}

/** 41.3 %; null or negative: - */
export function percent(share) {
	return !isKnown(share) || share < 0 ? "-" : `${fixed(100 * share, 1)} %`;
}

/**
 * Of a share that an interval makes no number to go by (format_share() of common/human-number.c).
 */
function isWide(value, low, high) {
	const half = Math.max(high - value, value - low);
	return half > 5e-4 && (half > value / 4 || value + half > 1 + 5e-4);
}

/** "2.4-10.8 %"; an end that is 0 or all says nothing: "≤0.5 %", "≥31.0 %". */
function shareRange(low, high) {
	const isFrom0 = low < 5e-4;
	const isToAll = high > 1 - 5e-4;
	if (isFrom0 !== isToAll)
		return isToAll ? `≥${fixed(100 * low, 1)} %` : `≤${fixed(100 * high, 1)} %`;
	return `${fixed(100 * Math.max(low, 0), 1)}-${fixed(100 * Math.min(high, 1), 1)} %`;
}

/**
 * 41.3 ±0.9 % of a share and the ends of its 95 % interval, of which one may be cut off at 0 or 1;
 * of what samples do not tell, or hardly: "2.4-10.8 %", "≤0.5 %".
 */
export function share(value, low, high) {
	if (!isKnown(low) || !isKnown(high))
		return percent(value);
	if (!isKnown(value) || isWide(value, low, high))
		return shareRange(low, high);
	const half = Math.max(high - value, value - low);
	return `${fixed(100 * value, 1)} ±${fixed(100 * half, 1)} %`;
}

/** "1600 ±1200" of a number and the ends of its interval; "400-2800", "≤2800" of a wide one. */
export function withInterval(value, low, high) {
	const text = (number) => number.toLocaleString("en", { maximumSignificantDigits: 6 });
	if (!isKnown(value) || isWide(value, low, high))
		return low === 0 ? `≤${text(high)}` : `${text(low)}-${text(high)}`;
	const half = Math.max(value - low, high - value);
	return `${text(value)} ±${text(Number(half.toPrecision(2)))}`;
}

/** "1.34 GiB ±2.1 %" of an estimate from picked blocks; both ends where its interval is wide. */
export function estimate(value, low, high, text) {
	const half = Math.max(value - low, high - value) / Math.max(value, 1);
	if (low === high)
		return text(value);
	return half > 0.25 ? `${text(low)}-${text(high)}`
		: `${text(value)} ±${Number((100 * half).toPrecision(2))} %`;
}

/** "Peak" of "peak". */
export function capital(text) {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

/** 0x7f3c00401000 */
export function address(n) {
	return "0x" + n.toString(16);
}

/** "function at file:line" of a place in the program; what is not known is left out. */
export function place({ function: name, file, line, module } = {}) {
	const text = name || (module ? `in ${fileName(module)}` : "");
	const at = file && `${fileName(file)}${line ? ":" + line : ""}`;
	return file ? `${text || "?"} at ${at}` : text || "unknown";
}

/** What an object of the answer `objects` is called: of a site the program's innermost call. */
export function objectName(row) {
	if (row.owner !== "heap")
		return row.name || row.owner || "unknown";
	return String(row.name || place(row)).split(" < ")[0];
}

/** The last part of a path. */
export function fileName(path) {
	return String(path).replace(/\/+$/, "").split("/").pop();
}

/** "1 block", "2 blocks" with the number as count() writes it. */
export function plural(n, one, many = one + "s") {
	return `${count(n)} ${n === 1 ? one : many}`;
}
