/**
 * Colours that people with any colour vision tell apart: Okabe and Ito's for categories
 * (jfly.uni-koeln.de/color), viridis and cividis for amounts (van der Walt, Smith, Firing; Nunez,
 * Anderton, Renslow).
 */

const OKABE_ITO = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
const VIRIDIS = [
	"#440154", "#482878", "#3e4a89", "#31688e", "#26828e",
	"#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
];
const CIVIDIS = [
	"#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
	"#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
];

/** [red, green, blue] of "#rrggbb". */
export function rgb(colour) {
	const n = parseInt(colour.slice(1), 16);
	return [n >> 16, n >> 8 & 255, n & 255];
}

function hex(parts) {
	return "#" + parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
}

/** Between two colours: 0 the first, 1 the second. */
export function mix(a, b, part) {
	const [from, to] = [rgb(a), rgb(b)];
	return hex(from.map((value, i) => value + (to[i] - value) * part));
}

/** A colour of a scale at 0 to 1. */
function along(scale, part) {
	const at = Math.min(Math.max(part, 0), 1) * (scale.length - 1);
	const i = Math.min(Math.floor(at), scale.length - 2);
	return mix(scale[i], scale[i + 1], at - i);
}
export const viridis = (part) => along(VIRIDIS, part);
export const cividis = (part) => along(CIVIDIS, part);

export function isDark() {
	const chosen = document.documentElement.dataset.theme;
	return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Dark colours on dark ground and yellow on white would not be seen: move them away from it. */
function readable(colour, dark) {
	const [r, g, b] = rgb(colour);
	const light = (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
	if (dark)
		return light < 0.45 ? mix(colour, "#ffffff", 0.28) : colour;
	return light > 0.75 ? mix(colour, "#000000", 0.22) : colour;
}

/** The i-th category: seven colours, then the same ones lighter or darker. */
export function categorical(i, dark = isDark()) {
	const colour = readable(OKABE_ITO[i % OKABE_ITO.length], dark);
	const round = Math.floor(i / OKABE_ITO.length);
	const part = Math.min(0.3 * round, 0.6);
	return round === 0 ? colour : mix(colour, dark ? "#ffffff" : "#000000", part);
}

/** What --source pages knows of a cell, as the answer `picture` calls it, by rank. */
export const PAGE_COLOURS = [
	{ name: "written", colour: OKABE_ITO[1], text: "pages written" },
	{ name: "touched", colour: OKABE_ITO[6], text: "all pages of a mapping touched" },
	{ name: "untouched", colour: OKABE_ITO[4], text: "none of its resident pages touched" },
];

const DIRECTIONS = { read: 0, write: 5, "page fault": 3 };

const UNKNOWN = /^(unknown|not known|not told|none|others?|all others|)$/i;

function isUnknown(name, id) {
	return id === -1 || UNKNOWN.test(name.trim());
}

/**
 * Colours of the categories of a picture, in their order: reads blue and writes vermilion;
 * latencies along viridis; others by Okabe and Ito, each the colour that it got first; what is not
 * known grey.
 *
 * @param {Map<string, number>} given  which colour a category got, filled in
 */
export function categoryColours(by, names, ids, given) {
	const dark = isDark();
	const grey = dark ? "#9aa4ad" : "#6b7680";
	return names.map((name, i) => {
		if (by === "direction")
			return name in DIRECTIONS ? categorical(DIRECTIONS[name], dark) : grey;
		if (isUnknown(name, ids[i]))
			return grey;
		if (by === "latency") {
			const last = Math.max(names.length - 1, 1);
			return viridis(dark ? 0.25 + 0.75 * i / last : 0.9 * i / last);
		}
		const isAlike = (other) => other.startsWith(`${by} `);
		const key = `${by} ${ids[i]}`;
		if (!given.has(key))
			given.set(key, [...given.keys()].filter(isAlike).length);
		return categorical(given.get(key), dark);
	});
}

const SHADES = [null, ["#ffffff", 0.4], ["#000000", 0.3]];
const MODULE_COLOURS = SHADES.length * OKABE_ITO.length;
const modules = new Map(); // which colour a file got

function hashOf(text) {
	let hash = 5381;
	for (const letter of text)
		hash = (hash * 33 ^ letter.codePointAt(0)) >>> 0;
	return hash;
}

/**
 * The colour of a program's file or library: by its name, so that it is the same on each page, in
 * each run and each time. Where two would have one, the later one gets the next.
 */
export function moduleColour(name, dark) {
	if (!name)
		return dark ? "#9aa4ad" : "#6b7680";
	if (!modules.has(name)) {
		const taken = new Set(modules.values());
		let i = hashOf(name) % MODULE_COLOURS;
		for (let n = 0; taken.has(i) && n < MODULE_COLOURS; n++)
			i = (i + 1) % MODULE_COLOURS;
		modules.set(name, i);
	}
	const number = modules.get(name);
	const colour = readable(OKABE_ITO[number % OKABE_ITO.length], dark);
	const shade = SHADES[Math.floor(number / OKABE_ITO.length)];
	return shade ? mix(colour, ...shade) : colour;
}

/** The colours of the page as the style sheet has them now: ink, ground, line, faint, accent ... */
export function theme() {
	const style = getComputedStyle(document.documentElement);
	const names = [
		"ground", "surface", "ink", "muted", "line", "grid", "block", "block-edge",
		"accent", "alarm",
	];
	const keyOf = (name) => name.replace(/-(\w)/, (_, letter) => letter.toUpperCase());
	const valueOf = (name) => style.getPropertyValue("--" + name).trim();
	return {
		dark: isDark(),
		...Object.fromEntries(names.map((name) => [keyOf(name), valueOf(name)])),
	};
}
