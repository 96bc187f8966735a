// Conclave is the command-line tool. It starts a local cluster of processes,
// queries and operates any cluster, publishes and subscribes, measures (bench),
// injects faults and checks invariants (demo, chaos, soak), compares elections
// (lab), and runs a command only while it leads (lead). `conclave help` lists
// the commands. With the flag --json the tables of a cluster's state are printed
// as the HTTP API returns them.
//
// # Reading order
//
// main.go handles signals; app.go is one call: the global flags, the groups of
// commands, and where the token and the metas come from; errors.go turns an
// error into a line and an exit code; check.go refuses invalid flags before
// anything is started; output.go prints tables and JSON. Then, by group of
// commands:
//
//	the local cluster  up.go         up, down; the supervisor's own process for --detach
//	                   processes.go  ps, start, kill, logs, and db, the embedded database by itself
//	                   drain.go      roll, and drain, which works on any cluster
//	any cluster        election.go   leader, elections, resign, election
//	                   cluster.go    slots, nodes, blacklist, switch
//	                   events.go     events, of all nodes, merged
//	the registry       registry.go   publish, subscribe, get
//	the demo           demo.go       one run; demo_story.go, its output
//	                   demo_stage.go the cluster as processes; demo_compose.go: as containers
//	                   demo_scenes.go, demo_breaks.go  scenes for both
//	                   demo_outages.go, demo_database.go  scenes that need containers
//	                   demo_kills.go many kills of the leader; demo_terms.go, a checker
//	chaos              chaos.go      the scenario; chaos_play.go, its cluster and its logs
//	soak               soak.go       one run and its report; soak_local.go: processes;
//	                   soak_compose.go: containers
//	figures            bench.go      also the cluster that a call starts for itself
//	                   lab.go        lab_elections.go and lab_oversell.go
//	leading            lead.go       the election; lead_child.go, the command (lead_linux.go,
//	                                 lead_other.go: how it ends with the tool)
//	hidden             health.go, secrets.go, clients.go, for containers without a shell
//
// # What each command uses
//
//	up, down, start, kill, logs      the folder of --dir and its processes (internal/supervisor)
//	ps, roll, kill leader            the same, and the nodes' ports
//	any cluster, events              the nodes' ports; addresses from the folder or --meta
//	publish, subscribe, get          the sessions' ports, like any client of the SDK
//	demo, chaos, soak, bench         a new cluster in the temporary folder, on any
//	                                 free ports; --on compose: a project of containers.
//	                                 chaos --dir: the cluster that is running there
//	lab                              its candidates, and an embedded database or that of --db
//	lead                             a lock in any database; no cluster
//	db                               the program devdb, its port and --file
//	secrets                          the folder in its argument
//
// # Exit codes
//
// They are those of the processes (package internal/cli): 0 success, 1 failure,
// 2 invalid usage, 4 timeout; and 3, no leader. `lead --once` exits with the
// code of its command, `db` with that of devdb. An error is one line on
// standard error, with advice if possible. A violated invariant is a failure.
//
// # Signals
//
// The first SIGINT, SIGTERM or SIGHUP ends the call gracefully: `up` stops its
// cluster, `publish --hold` withdraws, `lead` hands over, and demo, chaos,
// soak, bench and lab stop everything that they have started. In `up` and
// `lead` a second SIGINT or SIGTERM kills the processes that are still running;
// other commands ignore it.
//
// # What is not guaranteed
//
//   - That an answer is still true when it is read: the leader is the one that a meta
//     knew, and a row of ps is what a process reported a moment ago.
//   - That a command that failed has changed nothing. blacklist, switch, quit and join
//     can be repeated; before a second `resign`, check with `leader`.
//   - That two calls can use one project of containers; nothing prevents it. A folder
//     has one cluster, and a second `up` there is refused.
//   - That demo and chaos find every fault: they check what clients, trace claims and
//     the metas' answers show. Figures depend on the machine and its load.
//
// # When the tool itself is killed
//
//	up                    its processes continue without a supervisor; `down` stops them by
//	                      their pids, `start` and `kill` work meanwhile
//	up --detach           the supervisor continues if it has received its configuration
//	down                  the supervisor continues the stop; if there is none, repeat `down`
//	demo, chaos, soak,    their processes continue, in conclave-demo-*, conclave-chaos-*,
//	bench                 conclave-soak-* and conclave-bench-* of the temporary folder:
//	                      `down --dir` with the folder `cluster` in it stops them (bench:
//	                      also fresh-*)
//	--on compose          the project continues with its faults; the next call with its name
//	                      removes it first
//	chaos --dir           processes that were killed or suspended stay so: `start NAME`,
//	                      `kill NAME -CONT`
//	lab                   its candidates and its devdb end with their pipes; tables stay in --db
//	lead                  on Linux the command is killed as well, but not its children:
//	                      their fenced writes are refused when another node leads
//	db                    devdb continues
//	drain                 the node stays on the blacklist, a meta stays an observer: `blacklist
//	                      remove`, `election join`
//	roll                  at most one node is down: `start NAME`
//	publish               the values stay for --linger, or the sessions' client lease
package main
