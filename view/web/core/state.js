/**
 * What is shown, kept in the URL's fragment: a link shows the same view, back and forward work.
 * Keys are short words (page, run, process, from, to, low, high, by, source, site, block; a page's
 * own begin with its name and a dot), values are text. A key that is absent means its default.
 *
 * @typedef {Object<string, string>} State
 */

/** @param {string} fragment @returns {State} */
export function parseState(fragment) {
	return Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, "")));
}

/** @param {State} state @returns {string} the fragment without '#', keys sorted */
export function printState(state) {
	const keys = Object.keys(state).filter((key) => state[key] !== "").sort();
	const text = new URLSearchParams(keys.map((key) => [key, state[key]])).toString();
	return text.replaceAll("%3A", ":").replaceAll("%2C", ",");
}

/** @param {State} state @param {Object} changes null or "" takes a key away */
export function changed(state, changes) {
	const next = { ...state };
	for (const [key, value] of Object.entries(changes)) {
		if (value === null || value === undefined || value === "")
			delete next[key];
		else
			next[key] = String(value);
	}
	return next;
}

/** A number of the state, or what stands for it where there is none. */
export function numberOf(text, otherwise = null) {
	const value = text === undefined || text === "" ? NaN : Number(text);
	return Number.isFinite(value) ? value : otherwise;
}

/**
 * The state that lies in the URL. onChange(state) is called after each change, whoever made it.
 *
 * @returns {{ get: () => State,
 *   set: (changes: Object, how?: { replace?: boolean, isQuiet?: boolean }) => void }}
 *   isQuiet: onChange is not called
 */
export function createState(onChange) {
	let state = parseState(location.hash);

	function take(next) {
		state = next;
		onChange(state);
	}

	addEventListener("popstate", () => {
		const next = parseState(location.hash);
		if (printState(next) !== printState(state))
			take(next);
	});
	return {
		get: () => state,
		set(changes, { replace = false, isQuiet = false } = {}) {
			const next = changed(state, changes);
			const text = printState(next);
			if (text === printState(state))
				return;
			history[replace ? "replaceState" : "pushState"](null, "", "#" + text);
			if (isQuiet)
				state = next;
			else
				take(next);
		},
	};
}
