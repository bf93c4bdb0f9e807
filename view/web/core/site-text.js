/**
 * Texts in which sites are named, as the answer "report" has them: each name becomes a link to the
 * page of its site.
 */
import { h } from "memsight/dom";

const LINKED = /\x1e(\d+)\x1f([^\x1e]*)\x1e/;

/** The text alone. */
export function plainText(text) {
	return String(text ?? "").replace(new RegExp(LINKED, "g"), "$2");
}

/** The id of the first site that a text names; null: none. */
export function siteOf(text) {
	return LINKED.exec(text)?.[1] ?? null;
}

/**
 * "f a.c:1 › map::insert < main a.c:2": the program's call in the link, its callers behind it. run:
 * of which the site is, where it is not the one that is shown.
 */
export function siteName(app, site, name, run = app.state.run) {
	const [inner, ...callers] = String(name).split(" < ");
	const href = site ? app.link({ page: "object", site, run, block: null }) : null;
	return [
		href ? h("a", { href, class: "object-link" }, inner) : h("span", {}, inner),
		callers.length ? h("span", { class: "muted" }, ` < ${callers.join(" < ")}`) : null,
	];
}

/** Nodes of a text. */
export function siteText(app, text) {
	const parts = String(text ?? "").split(LINKED);
	const nodes = [];
	for (let i = 0; i < parts.length; i += 3)
		nodes.push(parts[i], ...(i + 2 < parts.length
			? siteName(app, parts[i + 1], parts[i + 2]) : []));
	return nodes;
}

/** On one line as far as there is room, and in whole where the pointer rests. */
export function oneLine(text, ...nodes) {
	return h("div", { class: "one-line", title: text }, nodes);
}
