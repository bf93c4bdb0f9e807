/**
 * What each loss means for the one who reads the numbers, and what would avoid it. Reasons are
 * those of the table `loss`; one that is not listed is shown as it stands.
 */

/**
 * [pattern of "source: reason", what is missing in the numbers, what to do]. The first that fits.
 */
const WORDS = [
	[/pool full/,
		"Events of allocations did not fit into the buffer: blocks are missing in every "
			+ "count, and some frees look like leaks.",
		"Record with a larger --buffer-size, or fewer threads beside the recorder."],
	[/nested in a full chunk/,
		"Events inside of another hook (a mapping made by an allocator) found no room; "
			+ "blocks of the program are not concerned.",
		"Record with a larger --buffer-size."],
	[/thread or process ending/,
		"Events of a thread that was ending came too late to be recorded.",
		"None is needed for a handful; otherwise let threads end before the process."],
	[/^plug-in: /,
		"Values of this plug-in are missing from then on; all else is complete.",
		"Mend the plug-in, or leave it out of --load (docs/plugins.md)."],
	[/^own allocators: ends of blocks/,
		"Blocks of the program's own allocator whose begin it did not report: they are in "
			+ "no number.",
		"Call memsight_block() for each block that ends (docs/allocators.md)."],
	[/^own allocators: references to blocks/,
		"References to blocks whose begin was not seen: these blocks are in no number.",
		"Give the function that makes them as well (docs/allocators.md)."],
	[/^own allocators: blocks nested/,
		"Blocks of pools in blocks of pools in ... are in no number; what they lie in is.",
		"None: four levels are kept."],
	[/^own allocators: blocks left out/,
		"Where only some blocks of malloc are recorded, those of pools are in no number.",
		"Record without --sample-bytes."],
	[/^own allocators: blocks of too many pools/,
		"These blocks count as of no pool: a reset of their pool does not end them, and "
			+ "they may look like leaks.",
		"Use one handle for pools that live one after the other."],
	[/^own allocators: estimates of probes/,
		"A probe reported a sample of blocks that lie in blocks of malloc: these are all "
			+ "recorded, so nothing is missing.",
		"None: leave --usdt-from out."],
	[/stack cut short/,
		"These events count in full, but their call stack is known only in part: they "
			+ "stand below a frame that says why.",
		"Record without --stacks fp, or with a larger --stack-depth; generated "
			+ "code cannot be followed."],
	[/malloc of its own/,
		"The program has an allocator of its own: blocks that it does not take from the C "
			+ "library are not recorded.",
		"Build it with the C library's malloc, or name its blocks by memsight.h."],
	[/strict seccomp/,
		"A thread has forbidden itself all system calls and the time stamp counter: its "
			+ "events after that are missing, and blocks that it "
			+ "freed look like leaks.",
		"None: nothing that has a time can be recorded there."],
	[/behind a seccomp filter/,
		"Programs that were started by one that forbids system calls which recording "
			+ "needs: they ran unrecorded.",
		"Record the part of the program without its sandbox."],
	[/static programs without names/,
		"A statically linked program without symbols was not sampled: its memory is in the "
			+ "numbers, its time is not.",
		"Keep its symbols or a debug file, or use --source clock where perf is permitted."],
	[/filter forbids the return from signals/,
		"Sampling stopped: the program would be killed by a signal.",
		"Use --source clock where perf is permitted."],
	[/libraries of another namespace/,
		"Libraries that use a C library of their own (dlmopen, LD_AUDIT), or another "
			+ "allocator than the program: their blocks are in no number.",
		"Open them with dlopen, or without --heap and LD_PRELOAD of an allocator."],
	[/libraries loaded since the attach/,
		"What the first code of these libraries allocated, before the attach reached their "
			+ "tables, is in no number.",
		"None is needed for a handful; record the program from its start otherwise."],
	[/ms without touched pages/,
		"For so many milliseconds it is not known which pages were touched: --budget did "
			+ "not pay for an interval. Touches, working sets and proofs that "
			+ "something was never touched lack that time.",
		"A larger --budget, or none."],
	[/written pages not known/,
		"Which pages were written is not known; touched pages are not concerned.",
		"Linux 6.7, permission to use userfaultfd and a program that does not use it."],
	[/intervals of writes not divided by call site/,
		"In these intervals there were too many blocks to say whose the written pages "
			+ "were: --written lacks them; the program's whole is not concerned.",
		"Record fewer blocks (--min-size), or a shorter part."],
	[/windows missed: the recorder was late/,
		"Parts of the run that --windows asked for were over before the recorder, which "
			+ "got no CPU, could begin them.",
		"A CPU that is free, or longer windows."],
	[/blocks from before the attach are not all known/,
		"Blocks that were there before the attach could not all be read from the heap: "
			+ "frees of those have no block.",
		"Attach again, or record the program from its start."],
	[/no room in the chunk of the thread/,
		"Samples of the signal source were dropped: CPU time is missing where a thread "
			+ "allocated very much at once.",
		"Record with a larger --buffer-size."],
	[/threads without a timer/,
		"These threads were not sampled at all.",
		"Raise the limit of pending signals (ulimit -i)."],
	[/signal blocked by the program/,
		"CPU time passed while the program blocked our signal: no sample was taken in it.",
		"Use --source clock where perf is permitted."],
	[/the program uses the signal/,
		"Sampling stopped, because the program uses our signal itself.",
		"Use --source clock where perf is permitted."],
	[/ring overrun/,
		"Samples found the ring full: shares may lean towards what ran while it was not.",
		"Sample less often (--freq), or give the recorder a CPU of its own."],
	[/dropped by the hardware/,
		"The hardware dropped samples.",
		"Sample less often (--freq or --period)."],
	[/throttled/,
		"The kernel stopped the source until its next tick: no samples in that time.",
		"Sample less often, or raise kernel.perf_event_max_sample_rate."],
	[/AUX area full|AUX bytes with gaps|samples collided/,
		"The area that the hardware writes samples to was full or its samples "
			+ "collided: there are gaps.",
		"Sample less often (--period)."],
	[/ms switched off/,
		"A watched object was accessed so often that watching was switched off "
			+ "for this many milliseconds.",
		"Raise --watch-rate (0 lifts it), at the cost of the program's time."],
	[/others of the same name/,
		"Further objects of the watched name existed at the same time "
			+ "and were not watched.",
		"Watch by address, or one process only."],
	[/no packet|whose format is not known/,
		"What the hardware wrote could not be read as samples: these samples are missing.",
		"Analyse with a newer memsight; the trace keeps the bytes."],
	[/perf's own clock/,
		"These samples have times that cannot be set beside those of allocations: "
			+ "they are left out.",
		"Record with perf's -k CLOCK_MONOTONIC_RAW."],
	[/code that changed/,
		"Code was written where these samples ran (by a JIT compiler, for instance), and "
			+ "what ran then is not known: it differed between two looks at it, had "
			+ "not been looked at before, or is made again and again.",
		"Nothing is decoded from bytes that may not have run. Such time counts, but "
			+ "not for an object."],
	[/no code bytes/,
		"The code that these samples were taken in is not known, so what they accessed is "
			+ "not either. They count as time, not for an object.",
		"Record with perf permitted for all maps; generated code may be gone."],
	[/no 64-bit user registers/,
		"Samples without registers: what they accessed is not known.",
		"None for 32-bit code."],
	[/without memory access/,
		"Samples of instructions that access no memory: they belong to "
			+ "no object, by right.",
		"None is needed."],
	[/address 0|not known to the hardware/,
		"The access had the address 0: a read through null, or the hardware "
			+ "did not know it.",
		"None."],
	[/address in the kernel/,
		"The accessed address lies in the kernel: no object of the program.",
		"None is needed."],
	[/of an unknown process/,
		"Samples of a process that was never seen to start: they belong to no "
			+ "program of this run.",
		"Record from the start of the process."],
	[/frees not seen: address allocated again/,
		"A block began where another still lived: its free was not seen. The old block is "
			+ "taken to have ended then.",
		"Only many of them matter: see other losses of tracealloc."],
	[/lines that --sharing had no room for/,
		"Touches of cache lines that the table of shared lines had no room for.",
		"Look at a shorter time, or at one process."],
	[/fork reported too late/,
		"A forked child got a CPU so late that its parent's blocks of after the fork were "
			+ "taken for inherited ones, or its frees for those of "
			+ "blocks that nobody saw.",
		"Give the recorder and the program more CPUs, or fewer children at once."],
	[/no room on the disk/,
		"The disk had no room, or took less than came: of that time only what lived on "
			+ "is here. Blocks that began and ended in it are in no count, and "
			+ "its samples are missing.",
		"A larger or faster disk, a shorter --last, or record less."],
	[/--max-size is reached|file size limit|disk are free|could not be written/,
		"The trace was full: what came after is not recorded.",
		"Raise --max-size or free the disk, or record less."],
	[/recording stopped/,
		"Events came after the recording had stopped.",
		"None is needed when you stopped it."],
	[/cut off/,
		"The recording did not end by itself (killed, disk full): what came "
			+ "last may be missing.",
		"Let memsight record end; a killed one is readable up to its last commit."],
	[/not committed/,
		"Events at the very end of a recording that did not end: some beside "
			+ "them may be missing.",
		"As above."],
	[/damaged|unreadable|newer version|definition|ran backwards|implausible stamp/,
		"A part of the trace could not be read, or made no sense; what depends on "
			+ "it is left out.",
		"Check the disk; analyse with the memsight that recorded."],
	[/functions left as they were/,
		"Functions of record --function-include whose calls are not counted: their code is "
			+ "not as in the file, or may not be changed.",
		"record --functions-dry-run lists how each can be entered."],
	[/calls of functions from too many places/,
		"Calls of functions that were not counted: there are more pairs of caller and "
			+ "function than the table holds.",
		"Choose fewer functions."],
	[/calls on too many paths/,
		"There were more paths of callers than are kept: these calls count as if nothing "
			+ "had called them.",
		"Choose fewer functions."],
	[/limit of stored code/,
		"More code was executed than the trace stores: samples beyond are not attributed.",
		"Record a shorter part, or fewer processes."],
	[/limit of addresses read/,
		"Words that hot loops load addresses from were no longer stored: more accesses of "
			+ "these loops are unresolved.",
		"Record a shorter part."],
	[/without a push|not seen|nested too deep|unknown words|nobody knows/,
		"A call of memsight.h did not fit the ones before it; the region, pause or "
			+ "name is left out.",
		"Pair the calls in the program."],
	[/archive of symbols/,
		"The archive beside the trace cannot be read: functions may be "
			+ "named by address only.",
		"Record --archive again, or give --debug-dir."],
	[/^heap/,
		"The memory kind could not be had: the blocks lie in libc's heap.",
		"See `memsight avail`."],
];

/** @returns {{ meaning: string, remedy: string }} */
export function lossWords(source, reason) {
	const found = WORDS.find(([pattern]) => pattern.test(`${source}: ${reason}`));
	return { meaning: found?.[1] ?? "", remedy: found?.[2] ?? "" };
}
