/**
 * Keeps the keyboard's focus when what had it is drawn anew, hidden or switched off: it goes to
 * what is called the same, else to what stands in the same place, else to the page. Without this it
 * falls to the document, and the next Tab begins at the top.
 */
const CAN_FOCUS = "a[href], button, select, input, summary, canvas[tabindex], [tabindex='0']";

function usable(element) {
	return element.isConnected && !element.disabled && element.getClientRects().length > 0;
}

function nameOf(element) {
	const { id, tagName, dataset } = element;
	const name = id || dataset.key || element.getAttribute("aria-label") || element.textContent;
	return [tagName, name].join(" ");
}

/** What had the focus, and its place in everything around it. */
function remember(element) {
	const around = [];
	for (let at = element.parentElement; at; at = at.parentElement)
		around.push({ at, place: [...at.querySelectorAll(CAN_FOCUS)].indexOf(element) });
	return { element, name: nameOf(element), around };
}

/** What the focus goes to; null: nothing around it is there yet. */
function successor({ element, name, around }) {
	if (usable(element))
		return element;
	for (const { at, place } of around) {
		const found = usable(at) ? [...at.querySelectorAll(CAN_FOCUS)].filter(usable) : [];
		const same = found.find((one) => nameOf(one) === name);
		if (same || found.length)
			return same ?? found[Math.min(Math.max(place, 0), found.length - 1)];
	}
	return null;
}

/**
 * @param {Element} main  has the focus where a page gave way to another
 * @param {() => boolean} isBusy  the page is still being drawn: what had the focus may come back
 */
export function keepFocus(main, isBusy) {
	let last = null;
	let waiting = 0;

	function restore() {
		waiting = 0;
		if (!last || document.activeElement !== document.body)
			return;
		const page = last.around.find(({ at }) => at.classList.contains("page"))?.at;
		if (page?.hidden)
			main.focus({ preventScroll: true });
		else if (!isBusy() || usable(last.element))
			successor(last)?.focus({ preventScroll: true });
	}

	document.addEventListener("focusin", (event) => { last = remember(event.target); });
	document.addEventListener("pointerdown", () => { last = null; }, true);
	const restoreSoon = () => {
		waiting ||= requestAnimationFrame(() => {
			waiting = requestAnimationFrame(restore);
		});
	};
	new MutationObserver(restoreSoon).observe(document.body, {
		childList: true, subtree: true, attributes: true,
		attributeFilter: ["hidden", "disabled", "data-state"] });
}
