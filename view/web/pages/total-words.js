/**
 * Totals of a run in words, in the order in which they are read: the table `total` of the database
 * (docs/database.md).
 */
import { valueText } from "memsight/units";

/** [name, words, unit, what it counts, true: is told where it is 0, too] */
const WORDS = [
	["allocations", "Blocks allocated", "", "All calls that made a block", true],
	["frees", "Blocks freed", "", "", true],
	["reallocations", "Reallocations", "", "Counted as an allocation and a free as well", true],
	["bytes", "Bytes asked for", "bytes", "Of all blocks, added up", true],
	["peak_bytes", "Most live at once", "bytes",
		"Bytes of blocks, of all processes together", true],
	["peak_ns", "… that was at", "ns", "Since the run began"],
	["live_blocks", "Blocks not freed", "", "When the run ended", true],
	["live_bytes", "Bytes not freed", "bytes", "When the run ended", true],
	["temporary", "Temporary blocks", "", "The next event of the same thread freed them", true],
	["mappings", "Mappings made", "", "By mmap and its family"],
	["mapped_bytes", "Bytes mapped", "bytes", "Of all of them, added up"],
	["samples", "Samples, without page faults", "", "Of all sources", true],
	["faults", "Page faults", "", "That the source faults saw"],
	["heap_accesses", "Accesses to the heap at exact addresses", "",
		"By which the clocks of samples and allocations are checked"],
	["accesses_before_allocation", "… before the block was there", "",
		"Where the clocks fit, next to none"],
	["accesses_after_free", "… after the block was freed", "",
		"Where the clocks fit, next to none"],
	["missed_frees", "Frees that were not seen", "",
		"An address was allocated again whose block had not been freed"],
	["early_frees", "Frees stamped early", "",
		"Some ns before the allocation of the block that they end, as another thread saw "
			+ "it: put right"],
	["mismatched_frees", "Frees by another family", "", "As free() of what new made"],
	["before_trace_frees", "Frees of blocks from before the trace", "",
		"Nobody saw them being made"],
	["unrecorded_frees", "Frees of blocks without a record", "",
		"Below --min-size, from before the trace, or made while recording was withheld"],
	["inherited_frees", "Frees of a parent's blocks", "",
		"A forked child freed its copy; the block counts once, as the parent's"],
	["blocks_below_minimum", "Blocks below --min-size", "", "Counted, and not recorded"],
	["names_without_size", "Named objects without a size", "", "By memsight.h"],
	["events", "Events of allocations recorded", "",
		"Calls and notes of the program, of all kinds", true],
	["marks", "Marks", "", "By memsight.h"],
	["pauses", "Pauses of a process", "", "The program asked for them by memsight.h"],
	["paused_ns", "… in all", "ns", "Added up over processes"],
	["thread_pauses", "Pauses of a thread", "", "The program asked for them by memsight.h"],
	["thread_paused_ns", "… in all", "ns", "Added up over threads"],
	["collect_intervals", "Times when not all was collected", "",
		"The program chose so by memsight.h"],
	["regions_without_row", "Regions that are only counted", "",
		"Beyond what is kept row by row"],
	["withheld_without_row", "Pauses that are only counted", "",
		"Beyond what is kept row by row"],
];
const KNOWN = new Map(WORDS.map(([name, text, unit, help, isAlways]) => [
	name, { text, unit, help, isAlways: Boolean(isAlways) },
]));

/** A name from a newer database: as it stands, its unit by its end. */
function unknown(name) {
	const unit = name.endsWith("_ns") ? "ns" : /bytes$/.test(name) ? "bytes" : "";
	return { text: name.replaceAll("_", " "), unit, help: "", isAlways: true };
}

export const isKnownTotal = (name) => KNOWN.has(name);

/**
 * @param {Object<string, number>} totals
 * @returns {{ text: string, value: string, help: string }[]}  without those that are 0 as a rule
 */
export function totalRows(totals) {
	const unknowns = Object.keys(totals).filter((name) => !KNOWN.has(name));
	return [...KNOWN.keys(), ...unknowns].filter((name) => name in totals)
		.map((name) => ({ ...KNOWN.get(name) ?? unknown(name), value: totals[name] }))
		.filter(({ value, isAlways }) => isAlways || value > 0)
		.map(({ text, unit, help, value }) => ({
			text, help, value: valueText(value, unit) }));
}
