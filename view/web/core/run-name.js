/**
 * What runs are called: by view --label, else by the files of their traces, where those tell them
 * apart; runs of a series by program, mode and repetition.
 */

const ofSeries = ({ program, mode, repetition }) => `${program}.${mode}.${repetition}`;

/** "before", "app.mst", "sq.old.1" @param {Object[]} runs  of the answer `runs` */
export function runName(runs, run) {
	const { label, trace, mode } = run;
	const isAlone = runs.filter((other) => other.trace === trace).length === 1;
	return label || (mode === "default" && isAlone && trace ? trace : ofSeries(run));
}

/** Every name that a run is found by. */
export function runNames(run) {
	return [String(run.id), ofSeries(run), run.label].filter(Boolean);
}
