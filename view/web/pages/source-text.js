/**
 * Frames of call stacks; a click on a place shows its source text below it, where it can be read.
 */
import { h } from "memsight/dom";
import { fileName } from "memsight/format";

function lines({ first, lines: texts }, line) {
	return h("pre", { class: "source", tabindex: "0", "aria-label": `Source text, line ${line}` }, texts.map((text, i) => h("span", {
		class: first + i === line ? "line here" : "line", "aria-current": first + i === line ? "true" : null },
	h("span", { class: "number" }, String(first + i)), h("span", { class: "text" }, text), "\n")));
}

async function unfold(app, holder, frame) {
	holder.replaceChildren("Loading …");
	try {
		const answer = await app.ask("source", { run: app.runId, filter: `${frame.file}:${frame.line}` });
		holder.replaceChildren(answer.error ? h("span", { class: "muted" }, answer.error) : lines(answer, frame.line));
	} catch (error) {
		holder.replaceChildren(h("span", { class: "muted" }, error.message));
	}
}

/**
 * The place of a frame as a button that unfolds its source text, or as text where the line is not
 * known.
 */
export function placeButton(app, frame) {
	if (!frame.file || !frame.line) {
		const isTold = !frame.module || frame.function?.startsWith(`${fileName(frame.module)}+`);
		return h("span", { class: "muted", title: frame.module ?? "" }, isTold ? "" : `in ${fileName(frame.module)}`);
	}
	const holder = h("div", { class: "source-holder", hidden: true });
	const button = h("button", { type: "button", class: "place", "aria-expanded": "false", title: frame.file, onclick() {
		holder.hidden = !holder.hidden;
		button.setAttribute("aria-expanded", String(!holder.hidden));
		if (!holder.hidden && !holder.hasChildNodes())
			unfold(app, holder, frame);
	} }, `${fileName(frame.file)}:${frame.line}`);
	return [button, holder];
}

/** @param {Object[]} stack  innermost first */
export function stackList(app, stack) {
	return h("ol", { class: "stack" }, stack.map((frame) => h("li", {}, h("code", {}, frame.function || "?"), " ",
		placeButton(app, frame))));
}
