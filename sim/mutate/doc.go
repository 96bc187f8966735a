// Command mutate takes the guards of the cluster's code out, one at a time, and
// lets the simulator look for what then goes wrong: a guard that nobody misses is
// either not needed, or not tested. It prints for each guard the story or the
// storm, with its seed, and the judge that caught it; for a guard that another one
// covers, both are taken out together.
//
//	go run ./sim/mutate [-only WORDS] [-search | -storms] [-seeds N] [-markdown]
//
// Each guard names the plays that are known to catch it: they are tried first, and
// unless -search is given, only they. With -storms only storms are played, in two
// processes, and the first one that finds something is reported: within how many
// storms the guard's absence is found without a story of its own. Nothing is changed on disk: the go command
// compiles with an overlay.
package main
