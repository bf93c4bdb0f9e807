/**
 * Frames of call stacks; a click on a place shows its source text below it, where it can be read.
 */
import { h } from "memsight/dom";
import { fileName, plural } from "memsight/format";

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

/* Whoever started the server chose where it leads. */
function editorLink(href) {
	return href ? h("a", { class: "editor", href }, "Open in the editor") : "";
}

async function unfold(app, holder, frame) {
	holder.replaceChildren("Loading …");
	const muted = (text) => h("span", { class: "muted" }, text);
	try {
		const filter = `${frame.file}:${frame.line}`;
		const answer = await app.ask("source", { run: app.runId, filter });
		holder.replaceChildren(editorLink(answer.editor), lines(answer, frame.line));
	} catch (error) {
		holder.replaceChildren(muted(error.message));
	}
}

/** The source text around the line of a frame, or why there is none. */
export function sourceBox(app, frame) {
	const holder = h("div", { class: "source-holder" });
	if (frame.file && frame.line)
		unfold(app, holder, frame);
	else
		holder.append(h("span", { class: "muted" }, "Its line is not known."));
	return holder;
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

/* Calls that follow each other and are alike: [is it folded, calls]. */
function runsOf(stack) {
	const runs = [];
	for (const frame of stack) {
		const isFolded = frame.is_folded === 1;
		if (runs.length === 0 || runs.at(-1)[0] !== isFolded)
			runs.push([isFolded, []]);
		runs.at(-1)[1].push(frame);
	}
	return runs;
}

/**
 * Calls as a list, those of libraries behind a line that opens them, unless whole paths are wanted.
 *
 * @param {Object[]} stack  innermost first
 */
export function stackList(app, stack) {
	const item = (frame) => h("li", {},
		h("code", {}, frame.function || "?"), " ", placeButton(app, frame));
	const isWhole = app.names().full || stack.every((frame) => frame.is_folded === 1);
	const part = ([isFolded, frames]) => (isFolded && !isWhole
		? h("li", { class: "folded" }, h("details", {},
			h("summary", {}, plural(frames.length, "library frame")),
			h("ul", { class: "stack" }, frames.map(item))))
		: frames.map(item));
	return h("ol", { class: "stack" }, runsOf(stack).map(part));
}

/**
 * The call path of a site of a run, once it is there; what an exported file lacks is told by the
 * name.
 */
export function siteStack(app, site, name, run = app.runId) {
	const holder = h("div", { class: "site-stack" }, "Loading …");
	const calls = () => h("ol", { class: "stack" }, String(name).split(" < ")
		.map((call) => h("li", {}, h("code", {}, call))));
	app.ask("stack", { run, site }).then(
		({ stack }) => holder.replaceChildren(stackList(app, stack)),
		() => holder.replaceChildren(calls()));
	return holder;
}
