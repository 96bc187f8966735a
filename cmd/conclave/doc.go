// Conclave is the command-line tool. It starts a local cluster of processes, or inside one,
// queries and operates any cluster, publishes and subscribes, measures (bench),
// injects faults and checks invariants (demo, chaos, soak), compares elections
// (lab), and runs a command only while it leads (lead). `conclave help` lists
// the commands. With the flag --json the tables of a cluster's state are printed
// as the HTTP API returns them, and an error is a document on standard error.
//
// # Files, in reading order
//
// What a file uses is declared in it or below it; internal/archtest counts the
// exceptions.
//
//   - main.go: signals and the exit code
//   - root.go: one call; the commands in their groups
//   - help.go: the global flags, where they apply, and the examples of each help
//   - up.go: up and down; the supervisor's own process for --detach
//   - dev.go: a cluster inside this process
//   - processes.go: ps, start, kill, logs
//   - drain.go: roll and drain
//   - election.go: leader, and election list, resign, observe, join
//   - election_watch.go: election watch, of any lock in any database
//   - cluster.go: slots, nodes, blacklist, protection, switch, config
//   - events.go: the events of all nodes, merged
//   - console.go: console, and the cluster of `up --console`
//   - console_compose.go: the console of a cluster in containers
//   - playground.go: a file server for the playground
//   - services.go: services, describe and clients: what all sessions have
//   - containers.go: what containers call (health, secrets), and certs
//   - registry.go: publish, subscribe, get
//   - soak.go: a long run, its cluster and its report
//   - chaos.go: the scenarios: their list, their language, their check, and run
//   - chaos_runs.go: several runs, and what a run prints at its end
//   - demo.go: one run of the demo, which is a scenario too
//   - chaos_play.go: one run: the scenario, its cluster and its logs, as also for demo and soak
//   - compose.go: a cluster in containers, for soak, chaos and demo
//   - bench.go: the figures and the growth curves, on clusters of their own
//   - lab_elections.go: the comparison of elections
//   - lab_oversell.go: the comparison of locks
//   - lab_database.go: the database of both
//   - migrate.go: migrate
//   - roles.go: the programs of a cluster as commands
//   - lead.go: the election for `lead`, and its command
//   - lead_linux.go: how the command ends with the tool
//   - lead_other.go: the same where the kernel cannot help
//   - manner.go: what operators' commands share: a query, an action, --force and --dry-run
//   - check.go: arguments and flags that are refused before anything is started
//   - complete.go: what a shell completes, and flags that take one of a few words
//   - output.go: tables, JSON, progress, units
//   - errors.go: an error as a line or a document, and its exit code
//   - app.go: what a call knows: the metas, the nodes, the token, how they are asked
//
// # Exit codes
//
// They are those of the processes (package internal/cli): 0 success, 1 failure,
// 2 invalid usage, 4 timeout; and 3, no leader. A name that this cluster does not
// have is a failure; a name that is wrong on every cluster, as of a scenario or a
// type of events, is invalid usage. `lead --once` exits with the code of its command,
// `meta`, `data`, `session`, `devdb` and `db` with those of the programs. A call that is ended because the reader of its output has
// ended (`conclave demo | head`) exits with 141. An error is one line on standard error, with advice if possible. A
// violated invariant is a failure.
//
// # Signals
//
// The first SIGINT, SIGTERM or SIGHUP ends the call gracefully: `up` stops its
// cluster, `publish --hold` withdraws, `lead` hands over, and demo, chaos,
// soak, bench and lab stop everything that they have started. So does the end of
// the program that reads the output through a pipe, as in `conclave demo | head`. In `up` and
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
//	dev                   the cluster ends with it
//	up --detach           the supervisor continues if it has received its configuration
//	up --console          as up: its processes continue, but the proxies between them end with
//	                      it, so no node reaches another one: `down`
//	down                  the supervisor continues the stop; if there is none, repeat `down`
//	demo, chaos, soak,    their processes continue, in conclave-demo-*, conclave-chaos-*,
//	bench                 conclave-soak-* and conclave-bench-* of the temporary folder:
//	                      `down --dir` with the folder `cluster` in it stops them (bench:
//	                      also another-* and point-*)
//	--on compose          the project continues with its faults; the next call with its name
//	                      removes it first
//	chaos --dir           processes that were killed or suspended stay so: `start NAME`,
//	                      `kill NAME -CONT`
//	lab                   its candidates end with their pipes, its database with it; tables stay
//	                      in --db
//	lead                  on Linux the command is killed as well, but not its children:
//	                      their fenced writes are refused when another node leads
//	drain                 the node stays on the blacklist, a meta stays an observer: `blacklist
//	                      remove`, `election join`
//	roll                  at most one node is down: `start NAME`
//	publish               the values stay for --linger, or the sessions' client lease
package main
