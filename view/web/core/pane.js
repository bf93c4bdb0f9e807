/**
 * A panel: a heading, a place for controls, a body that is loading, empty, faulty or there, and a
 * line below it.
 */
import { Outdated } from "memsight/data";
import { h } from "memsight/dom";

let nextId = 1;

/**
 * @param {Element} root  where the panel is put
 * @param {string} title  of its heading
 * @param {string} [help] what is shown and how it is read, behind a button "?"
 * @returns {{ element, tools, body, foot, busy, empty, fault, ready, show, ofWholeRuns }}
 *   show(promise, draw, text): busy, with that text, until the promise is there, then draw(answer)
 *   into the body; what throws becomes the fault state with a button to try again; outdated
 *   requests are left alone.
 *   ofWholeRuns(app): says so where a part of the time is selected, which nothing here follows.
 */
export function createPane(root, title, help = "", retry = null) {
	const id = `pane-${nextId++}`;
	const tools = h("div", { class: "tools" });
	const body = h("div", { class: "pane-body" });
	const foot = h("div", { class: "foot" });
	const state = h("div", { class: "pane-state", role: "status" });
	const explain = help ? h("details", { class: "help" },
		h("summary", { "aria-label": `How to read: ${title}` }, "?"),
		h("p", {}, help)) : null;
	const whole = h("p", { class: "whole-runs", hidden: true },
		"Of whole runs: what is here does not follow the selected time.");
	const element = h("section", { class: "pane", "aria-labelledby": id },
		h("div", { class: "pane-head" }, h("h2", { id }, title), explain, tools),
		whole, state, body, foot);

	function turn(kind, ...content) {
		element.dataset.state = kind;
		element.setAttribute("aria-busy", kind === "busy" ? "true" : "false");
		state.className = `pane-state ${kind}`;
		state.replaceChildren(...content);
	}

	const pane = {
		element, tools, body, foot,
		busy: (text = "Loading …") => turn("busy", text),
		empty: (text) => turn("empty", text),
		ready: () => turn("ready"),
		ofWholeRuns: (app) => { whole.hidden = app.span().isAll; },
		fault(error) {
			const again = h("button", { type: "button", onclick: retry }, "Try again");
			const text = error.message ?? String(error);
			turn("fault", h("span", { role: "alert" }, text), " ", retry ? again : "");
		},
		async show(promise, draw, text) {
			pane.busy(text);
			try {
				const answer = await promise;
				pane.ready();
				await draw(answer);
			} catch (error) {
				if (error instanceof Outdated)
					return;
				pane.fault(error);
				if (!("status" in error))
					console.error(error);
			}
		},
	};
	root.append(element);
	return pane;
}
