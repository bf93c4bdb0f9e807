/**
 * Frames of call stacks; a click on a place shows its source text below it, where it can be read.
 */
import { h } from "memsight/dom";
import { fileName } from "memsight/format";

function lines({ first, lines: texts }, line) {
	const lineOf = (text, i) => {
		const isHere = first + i === line;
		return h("span", { class: isHere ? "line here" : "line",
			"aria-current": isHere ? "true" : null },
		h("span", { class: "number" }, String(first + i)),
		h("span", { class: "text" }, text), "\n");
	};
	const frame = { class: "source", tabindex: "0", "aria-label": `Source text, line ${line}` };
	return h("pre", frame, texts.map(lineOf));
}

async function unfold(app, holder, frame) {
	holder.replaceChildren("Loading …");
	const muted = (text) => h("span", { class: "muted" }, text);
	try {
		const filter = `${frame.file}:${frame.line}`;
		const answer = await app.ask("source", { run: app.runId, filter });
		const { error } = answer;
		holder.replaceChildren(error ? muted(error) : lines(answer, frame.line));
	} catch (error) {
		holder.replaceChildren(muted(error.message));
	}
}

/**
 * The place of a frame as a button that unfolds its source text, or as text where the line is not
 * known.
 */
export function placeButton(app, frame) {
	const { file, line, module } = frame;
	if (!file || !line) {
		const isTold = !module || frame.function?.startsWith(`${fileName(module)}+`);
		const text = isTold ? "" : `in ${fileName(module)}`;
		return h("span", { class: "muted", title: module ?? "" }, text);
	}
	const holder = h("div", { class: "source-holder", hidden: true });
	const onclick = () => {
		holder.hidden = !holder.hidden;
		button.setAttribute("aria-expanded", String(!holder.hidden));
		if (!holder.hidden && !holder.hasChildNodes())
			unfold(app, holder, frame);
	};
	const button = h("button", {
		type: "button", class: "place", "aria-expanded": "false", title: file, onclick,
	}, `${fileName(file)}:${line}`);
	return [button, holder];
}

/** @param {Object[]} stack  innermost first */
export function stackList(app, stack) {
	const item = (frame) => h("li", {},
		h("code", {}, frame.function || "?"), " ", placeButton(app, frame));
	return h("ol", { class: "stack" }, stack.map(item));
}
