/**
 * Elements without markup in strings: what a program is called never becomes HTML.
 */

/**
 * h("button", { class: "small", onclick: f, "aria-label": "x" }, "text", node, [nodes], null)
 *
 * Attributes with a function are listeners (onclick), true and false set and leave out, null leaves
 * out.
 */
export function h(name, attributes = {}, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(attributes ?? {})) {
		if (typeof value === "function")
			element.addEventListener(key.slice(2), value);
		else if (value === true)
			element.setAttribute(key, "");
		else if (value !== false && value !== null && value !== undefined)
			element.setAttribute(key, value);
	}
	const isThere = (child) => child !== null && child !== undefined && child !== false;
	element.append(...children.flat(Infinity).filter(isThere));
	return element;
}

/**
 * A labelled select. options: [[value, text], ...].
 */
export function select(label, options, value, onPick) {
	const option = ([key, text]) => h("option", {
		value: key, selected: String(key) === String(value) }, text);
	const element = h("select", { onchange: () => onPick(element.value), "aria-label": label },
		options.map(option));
	return h("label", { class: "choice" }, h("span", {}, label), element);
}

/** What is wider than the page scrolls by itself, and can be reached by keys. */
export function scrolled(label, ...content) {
	const frame = { class: "scroll", tabindex: "0", role: "region", "aria-label": label };
	return h("div", frame, ...content);
}

/** A table of rows of texts or nodes; `numeric` are the columns that stand to the right. */
export function table(caption, heads, rows, numeric = []) {
	const kind = (i) => ({ class: numeric.includes(i) ? "number" : null });
	const head = (text, i) => h("th", { scope: "col", ...kind(i) }, text);
	const line = (row) => h("tr", {}, row.map((cell, i) => h("td", kind(i), cell)));
	return scrolled(caption, h("table", {},
		h("caption", {}, caption),
		h("thead", {}, h("tr", {}, heads.map(head))),
		h("tbody", {}, rows.map(line))));
}

/** Calls that come in quick succession become one, `ms` after the last. */
export function debounced(ms, call) {
	let timer = 0;
	const later = (...given) => {
		clearTimeout(timer);
		timer = setTimeout(() => {
			timer = 0;
			call(...given);
		}, ms);
	};
	later.isWaiting = () => timer !== 0;
	later.cancel = () => {
		clearTimeout(timer);
		timer = 0;
	};
	return later;
}

/** At most one call per drawn frame. */
export function framed(call) {
	let pending = 0;
	return () => {
		pending ||= requestAnimationFrame(() => {
			pending = 0;
			call();
		});
	};
}
