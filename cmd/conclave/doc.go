// The tool conclave starts a local cluster of processes, asks and operates any
// cluster, publishes and subscribes, measures (bench), shows what is lost when
// processes die (demo, chaos), compares elections (lab), and runs a command only
// while it leads (lead). `conclave help` lists its commands; with --json the tables of
// a cluster's state are printed as the HTTP API answers them.
//
// # Reading order
//
// main.go hears the signals; app.go is one call: the global flags, the groups of
// commands, where the token and the metas are found; errors.go turns an error into
// a line and an exit code; check.go refuses what cannot be before anything is
// started; output.go prints tables and JSON. Then, by what the commands are about:
//
//	the local cluster  up.go         up, down; the supervisor's own process for --detach
//	                   processes.go  ps, start, kill, logs, and db, the embedded database alone
//	                   drain.go      roll, and drain, which any cluster takes
//	any cluster        election.go   leader, elections, resign, election
//	                   cluster.go    slots, nodes, blacklist, switch
//	                   events.go     events, of all nodes, merged
//	the registry       registry.go   publish, subscribe, get
//	the demo           demo.go       one performance; demo_story.go, what it says of itself
//	                   demo_stage.go where: processes; demo_compose.go: containers
//	                   demo_scenes.go, demo_breaks.go  what is played everywhere
//	                   demo_outages.go, demo_database.go  what needs containers
//	                   demo_kills.go one breakage many times; demo_terms.go, a judge
//	chaos              chaos.go      what is played; chaos_play.go, where and what is kept
//	soak               soak.go       one run and its report; soak_local.go: processes;
//	                   soak_compose.go: containers
//	figures            bench.go      and the cluster that a call runs for itself
//	                   lab.go        lab_elections.go and lab_oversell.go
//	leading            lead.go       stands; lead_child.go, the command's life (lead_linux.go,
//	                                 lead_other.go: its leash)
//	hidden             health.go, secrets.go, clients.go, for containers without a shell
//
// # What is touched
//
//	up, down, start, kill, logs      the folder of --dir and its processes (internal/supervisor)
//	ps, roll, kill leader            the same, and the nodes' ports
//	any cluster, events              the nodes' ports; the folder tells where they are, or --meta
//	publish, subscribe, get          the sessions' ports, as any client of the SDK
//	demo, chaos, soak, bench         a cluster of their own under the temporary folder, on any
//	                                 free ports; --on compose: a project of containers.
//	                                 chaos --dir: the cluster that runs there
//	lab                              its candidates, and a database: its own or that of --db
//	lead                             its lock in a database of somebody else; no cluster
//	db                               the program devdb, its port and --file
//	secrets                          the folder that it is given
//
// # Exit codes
//
// Those of the processes (package internal/cli): 0 done, 1 failed, 2 wrong usage,
// 4 timed out; and 3, no leader. `lead --once` ends with the code of its command,
// `db` with that of devdb. An error is one line on standard error, and says what to
// do where that is known; an invariant that did not hold is a failure.
//
// # Signals
//
// The first SIGINT, SIGTERM or SIGHUP ends the call in order: `up` stops its
// cluster, `publish --hold` withdraws, `lead` hands over, and demo, chaos, soak, bench
// and lab take down whatever they have started. A second SIGINT or SIGTERM is heard by
// `up` and `lead`, and kills what still runs; the others finish what they do.
//
// # What is not guaranteed
//
//   - That an answer still holds when it is read: a leader is who a meta believed to
//     lead, a row of ps what a process said a moment ago.
//   - That a command which failed has done nothing. Forbidding, allowing, switches,
//     quit and join may be repeated; before a second `resign`, ask who leads.
//   - That two calls can share a project of containers: nothing keeps them apart. A
//     folder has one cluster, and a second `up` there is refused.
//   - That demo and chaos saw everything: they judge what clients, nodes' claims and
//     the metas' answers show. Figures are those of this machine at that moment.
//
// # When the tool itself is killed
//
//	up                    its processes live on, supervised by nobody; `down` stops them by
//	                      their pids, `start` and `kill` work meanwhile
//	up --detach           the supervisor goes on without it, once it was told what to run
//	down                  the supervisor goes on stopping; without one, `down` again
//	demo, chaos, soak,    their processes live on, in conclave-demo-*, conclave-chaos-*,
//	bench                 conclave-soak-* and conclave-bench-* of the temporary folder:
//	                      `down --dir` with the folder `cluster` in there stops them (bench:
//	                      fresh-*, too)
//	--on compose          the project runs on, broken as it is; the next call with its name
//	                      takes it down first
//	chaos --dir           what was killed or frozen there stays so: `start NAME`,
//	                      `kill NAME -CONT`
//	lab                   its candidates and its devdb end with their pipes; tables stay in --db
//	lead                  on Linux the command is killed, too, not what that has started:
//	                      its fenced writes are refused as soon as another leads
//	db                    devdb runs on
//	drain                 the node stays on the blacklist, a meta an observer: `blacklist
//	                      remove`, `election join`
//	roll                  at most one node is down: `start NAME`
//	publish               the values stay for --linger, or the sessions' client lease
package main
